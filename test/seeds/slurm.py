"""Slurm as a user meets it, on the nodes of a lab."""

import os

from lab.slurm import job_end
from multinode.job import wait_for


class Slurm:
    """Commands are given on ctl, in `directory`."""

    def __init__(self, cluster, directory):
        self.cluster, self.directory = cluster, directory
        directory.mkdir()

    def variables(self, python=None):
        """Of a shell in which muster is installed."""
        places = [os.path.dirname(self.cluster.muster_program), *([python.bin_dir] if python else []), os.environ["PATH"]]
        return {"PATH": ":".join(places)}

    def run(self, *command, python=None, env=None, within=90):
        """Runs it to its end; the Job."""
        job = self.cluster.exec("ctl", command, env={**self.variables(python), **(env or {})}, cwd=self.directory)
        job.end(within)
        return job

    def submit(self, script, *options, within=90, **run_options):
        """A batch job to its end; its exit code."""
        submitted = self.run("sbatch", "--parsable", *options, script, **run_options)
        assert submitted.process.returncode == 0, submitted.said()
        ended = lambda: job_end(self.cluster.directory, submitted.out.strip())  # noqa: E731
        return wait_for(lambda: f"the end of {script}\n{self.output()}", ended, within).code

    def sbatch(self, script, *options, **submit_options):
        """A batch job that succeeds; all that was written."""
        code = self.submit(script, *options, **submit_options)
        text = self.output()
        assert code == 0, f"exit code {code}\n{text}"
        return text

    def output(self):
        return "".join(path.read_text() for path in sorted(self.directory.glob("*.out")))

    def end(self):
        self.cluster.jobs.clear()
        self.cluster.assert_nothing_left()
