#!/bin/bash
torchrun --standalone \
         --nnodes $NNODES \
         --nproc_per_node $NPROC_PER_NODE \
         --node_rank $NODE_RANK \
         --master_addr $MASTER_ADDR \
         --master_port $MASTER_PORT \
         train.py -np $NPROC_PER_NODE \
                  -n $NNODES
