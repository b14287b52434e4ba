"""Folders of tests that have something in common; for conftest.py and tools/test."""

NEED_NODES = ("multinode", "pbs", "seeds", "slurm")  # real ones
USE_PODMAN = ("containers",)  # whose locks some of the seeds' jobs take too
