torchrun --nnodes=2 --nproc_per_node=4 --node_rank=0 --master_addr=10.88.0.11 --master_port=12355 multinode_torchrun.py
