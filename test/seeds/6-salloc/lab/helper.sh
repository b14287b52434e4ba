#!/bin/bash
# As the text describes it (hostname of the primary node, directory, nodes, GPUs a node, epochs); the file itself is not shown.
module load anaconda3
source activate PytorchDDPExample
cd $2
torchrun \
    --nnodes=$3 \
    --nproc_per_node=$4 \
    --rdzv_id=12345 \
    --rdzv_backend=c10d \
    --rdzv_endpoint=$1:3000 \
    train.py --ddp --epochs $5
