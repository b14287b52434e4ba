#!/bin/bash
#SBATCH --nodes=2
#SBATCH --gpus-per-node=v100:2
#SBATCH --cpus-per-task=16
#SBATCH --mem=32GB
#SBATCH --time=1:00:00

muster run --modules anaconda3 --conda PytorchDDPExample train.py --ddp --epochs 5
