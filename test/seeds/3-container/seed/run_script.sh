function get_master_address(){
    NODE_LIST=`scontrol show hostnames $SLURM_JOB_NODELIST`
    MASTER_HOST=`echo $NODE_LIST | awk '{print $1}'`
    MASTER_ADDR=`cat /etc/hosts | grep $MASTER_HOST | awk '{print $1}'`
}

get_master_address
echo MASTER_ADDR:$MASTER_ADDR

NODE_LIST=`scontrol show hostnames $SLURM_JOB_NODELIST`
node_array=($NODE_LIST)
length=${#node_array[@]}
hostnode=`hostname -s`

for (( index = 0; index < length ; index++ )); do
    node=${node_array[$index]}
    if [ $node == $hostnode ]; then
        NODE_RANK=$index
    fi
done 

if [ -d "$CONTAINER_CACHE_DIR" ] ; then 
    echo "container exist";
else
    enroot create -n $CONTAINER_NAME $CONTAINER_IMAGE ;
fi

# ...

enroot start --root --rw \
            --mount $HOME:/workspace/mnt \
            $CONTAINER_NAME \
            bash -c "torchrun.sh \$NODE_RANK $MASTER_ADDR"
