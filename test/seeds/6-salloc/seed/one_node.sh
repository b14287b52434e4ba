# Resource request. Tweak as needed for your custom script.
salloc -N1 --cpus-per-task=16 --mem=32GB --gpus=v100:2 --time=1:00:00
srun -N1 --cpus-per-task=16 --mem=32GB --gpus=v100:2 --time=1:00:00 --pty bash
# wait for interactive job shell...

cd <project_dir>
module load anaconda3
source activate PytorchDDPExample

# type the command "hostname" into your terminal
# copy paste the output in place of $HOSTNAME below
time torchrun \
    --nnodes=1 \
    --nproc_per_node=2 \
    --rdzv_id=12345 \
    --rdzv_backend=c10d \
    --rdzv_endpoint=$HOSTNAME:3000 \
    train.py --ddp --epochs 5

# terminate the job
exit
