#!/bin/bash

muster run --hosts n1,n2 --nproc-per-node 4 multinode_torchrun.py
