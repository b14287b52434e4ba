#!/bin/bash
#SBATCH --nodes=2
#SBATCH --gres=gpu:2
#SBATCH --cpus-per-task=8
#SBATCH --time=12:00:00
#SBATCH --output=%x-%j.out

muster run --prologue setup_env.sh --record records my_huggingface_trainer.py
