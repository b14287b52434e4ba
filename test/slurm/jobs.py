"""Jobs of a lab's Slurm: batch scripts, salloc, srun, all submitted on ctl."""

import itertools
import os

WITHIN_S = 60


class Ended:
    """What became of a job."""

    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    def __repr__(self):
        return f"exit code {self.code}\n--- stdout\n{self.out}\n--- stderr\n{self.err}"

    @property
    def lines(self):
        return sorted(self.out.split("\n")[:-1])


class Slurm:
    """A cluster whose nodes are Slurm's; `cluster` is as test/multinode/harness.py has it."""

    def __init__(self, cluster):
        self.cluster, self._numbers = cluster, itertools.count(1)
        self.muster = cluster.muster_program

    def start(self, *argv, **exec_options):
        """A command on ctl, not waited for."""
        return self.cluster.exec("ctl", argv, **exec_options)

    def run(self, *argv, within=WITHIN_S, **exec_options):
        job = self.start(*argv, **exec_options)
        code = job.end(within)
        return Ended(code, job.out, job.err)

    def file(self, name, text, mode=0o755):
        """A file that all nodes see."""
        path = self.cluster.shared / name
        path.write_text(text)
        os.chmod(path, mode)
        return path

    def batch(self, script, *options, within=WITHIN_S, **exec_options):
        """A batch script, to its end: its exit code, and what it wrote."""
        number = next(self._numbers)
        text = script if script.startswith("#!") else f"#!/bin/bash\n{script}\n"
        path = self.file(f"batch{number}.sh", text)
        out, err = self.cluster.shared / f"batch{number}.out", self.cluster.shared / f"batch{number}.err"
        ended = self.run("sbatch", "-W", "-o", out, "-e", err, *options, path, within=within, **exec_options)
        assert "Submitted batch job" in ended.out, ended
        return Ended(ended.code, read(out), read(err))


def read(path):
    return path.read_text(errors="replace") if path.exists() else ""
