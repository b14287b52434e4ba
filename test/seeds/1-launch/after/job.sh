#!/bin/bash
#SBATCH --nodes=2
#SBATCH --gres=gpu:4
#SBATCH --cpus-per-task=6
#SBATCH --time=00:20:00
#SBATCH --output=%x-%j.out

muster run --conda pytorch-1.7.1 main.py --batch_size 128 --learning_rate 5e-5
