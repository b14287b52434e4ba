"""Jobs of a lab's Slurm: batch scripts, salloc, srun, all submitted on ctl."""

import itertools
import os
import re

from lab.slurm import job_end
from multinode.job import SOON_S, wait_for

WITHIN_S = 60


class Ended:
    """What became of a job; `state` is what Slurm calls it, of a batch job."""

    def __init__(self, code, out, err, state=""):
        self.code, self.out, self.err, self.state = code, out, err, state

    def __repr__(self):
        return f"exit code {self.code} {self.state}\n--- stdout\n{self.out}\n--- stderr\n{self.err}"

    @property
    def complaints(self):
        """What was said on stderr, but for whom a job waits, which a busy machine makes it say."""
        waits = r"^muster: (\d+ of \d+ nodes? · .*|waiting for .*, which has the job's token)\n"
        return re.sub(waits, "", self.err, flags=re.M)

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

    def submit(self, script, *options, **exec_options):
        """A batch job of these lines, watched while it runs."""
        name = f"batch{next(self._numbers)}"
        return Batch(self, name, [*options, self.file(f"{name}.sh", f"#!/bin/bash\n{script}\n")], **exec_options)

    def submit_file(self, path, *arguments, **exec_options):
        """The same of a file as it is."""
        return Batch(self, f"batch{next(self._numbers)}", [path, *arguments], **exec_options)

    def batch(self, script, *options, within=WITHIN_S, **exec_options):
        """The same, to its end."""
        return self.submit(script, *options, **exec_options).end(within)


class Batch:
    """What it writes is in `out` and `err`."""

    def __init__(self, slurm, name, words, **exec_options):
        self.slurm = slurm
        self._out, self._err = (slurm.cluster.shared / f"{name}.{end}" for end in ("out", "err"))
        submitted = slurm.run("sbatch", "--parsable", "-o", self._out, "-e", self._err, *words, **exec_options)
        assert submitted.code == 0, submitted
        self.id = submitted.out.strip()

    @property
    def out(self):
        return read(self._out)

    @property
    def err(self):
        return read(self._err)

    def end(self, within=WITHIN_S):
        """One that was cancelled has ended when Slurm says so, and may go on writing until it is killed."""
        ended = lambda: job_end(self.slurm.cluster.directory, self.id)  # noqa: E731
        state, code = wait_for(lambda: f"the end of the job\n{self.out}\n{self.err}", ended, within)
        return Ended(code, self.out, self.err, state)

    def wait_err(self, text, within=SOON_S):
        return wait_for(lambda: f"{text!r} in {self.err}", lambda: text in self.err, within)

    def control(self, *words):
        """scontrol, scancel … of this job."""
        done = self.slurm.run(*words, self.id)
        assert done.code == 0, done


def read(path):
    return path.read_text(errors="replace") if path.exists() else ""
