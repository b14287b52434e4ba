# Resource request. Tweak as needed for your custom script.
salloc -N2 --cpus-per-task=16 --mem=32GB --gpus=v100:4 --time=1:00:00
# wait for interactive job shell...

cd ~/project

# use the following in place of $HOSTNAME: node(NODE_NUM).palmetto.clemson.edu
# Must replace (NODE_NUM) with the node number of an allocated node from salloc
time srun -N2 --cpus-per-task=16 --mem=32GB --gpus=v100:4 bash helper.sh $HOSTNAME ./ 2 2 5

# terminate the job
exit
