# Resource request. Tweak as needed for your custom script.
salloc --cpus-per-task=16 --mem=32GB --gpus=v100:1 --time=1:00:00
srun --cpus-per-task=16 --mem=32GB --gpus=v100:1 --time=1:00:00 --pty bash
# wait for interactive job shell...

cd <project_dir>
module load anaconda3
source activate PytorchDDPExample
time python train.py --epochs 5

# terminate the job
exit
