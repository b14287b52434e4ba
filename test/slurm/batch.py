"""A batch job that is watched while it runs."""

from multinode.job import SOON_S, wait_for

from .jobs import Ended, read


class Batch:
    """`script`: its lines. What it writes is in `out` and `err`."""

    def __init__(self, slurm, script, *options, name="watched", **exec_options):
        self.slurm = slurm
        self._out, self._err = (slurm.cluster.shared / f"{name}.{end}" for end in ("out", "err"))
        path = slurm.file(f"{name}.sh", f"#!/bin/bash\n{script}\n")
        self.front = slurm.start("sbatch", "-W", "-o", self._out, "-e", self._err, *options, path, **exec_options)
        self.id = self.front.expect(r"Submitted batch job (\d+)").group(1)

    @property
    def out(self):
        return read(self._out)

    @property
    def err(self):
        return read(self._err)

    def end(self, within=60):
        return Ended(self.front.end(within), self.out, self.err)

    def state(self):
        shown = self.slurm.run("scontrol", "show", "job", self.id)
        return next((w.partition("=")[2] for w in shown.out.split() if w.startswith("JobState=")), "")

    def wait_err(self, text, within=SOON_S):
        return wait_for(lambda: f"{text!r} in {self.err}", lambda: text in self.err, within)

    def control(self, *words):
        """scontrol, scancel … of this job."""
        done = self.slurm.run(*words, self.id)
        assert done.code == 0, done
