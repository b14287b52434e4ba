#!/bin/bash
#SBATCH --nodes=3
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-gpu=4
#SBATCH --mem=16G

muster run training_script.py
