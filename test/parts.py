"""Folders of tests that have something in common; for conftest.py and tools/test."""

NEED_NODES = ("multinode", "pbs", "seeds", "slurm")  # real ones

# What tools/test runs side by side, beside all other folders. The nodes of one test share no name, network, process or
# /tmp with those of another. Containers and some of the seeds take podman's locks: they stay together.
BESIDE = {"nodes": ("multinode",), "schedulers": ("containers", "pbs", "seeds", "slurm")}
