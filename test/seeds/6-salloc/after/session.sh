salloc -N2 --cpus-per-task=16 --mem=32GB --gpus-per-node=v100:2 --time=1:00:00
cd ~/project
muster run --modules anaconda3 --conda PytorchDDPExample train.py --ddp --epochs 5
exit
