NNODES=<total number of nodes>
NPROC_PER_NODE=<number of GPUs per node>
WORLD_SIZE=$((NPROC_PER_NODE * NNODES))

CONTAINER_IMAGE="$HOME/nvidia+pytorch+24.06-py3.sqsh"
MY_UID=`id -u`
CONTAINER_NAME="my-torch"
CONTAINER_CACHE_DIR="/enroot/$MY_UID/data/$CONTAINER_NAME"
