#!/bin/bash
#SBATCH --nodes=2
#SBATCH --gpus-per-node=4
#SBATCH --output=%x-%j.out

muster run --container ~/nvidia+pytorch+24.06-py3.tar --container-runtime charliecloud --container-name my-torch \
  --container-root --container-writable --mount ~:/workspace/mnt --container-workdir /workspace/mnt train.py -np 4 -n 2
