"""Jobs of a PBS that is none: the stand-ins of stand_ins/ on the nodes of a lab."""

import itertools
import json
import os
import pathlib
import re
import signal

from multinode.job import SOON_S, wait_for

STAND_INS = pathlib.Path(__file__).parent / "stand_ins"
COMMANDS = ("pbs_tmrsh", "pbs_attach", "qstat")


class Pbs:
    """A daemon on every node of the cluster. `commands`: those that are installed, and on the PATH of scripts."""

    nodefiles = temporary = "/run/pbs"
    user = "root"

    def __init__(self, cluster, commands=COMMANDS, path=()):
        self.cluster = cluster
        self._hide_real_ones()
        self.directory = cluster.shared / "pbs"
        self.directory.mkdir()
        self.bin = cluster.shared / "pbs-bin"
        self.bin.mkdir()
        (self.bin / "state").symlink_to(self.directory)
        for name in commands:
            (self.bin / name).symlink_to(STAND_INS / "bin" / name)
        # Of a login shell; tasks never see it.
        words = [str(self.bin), *map(str, path), os.environ["PATH"]]
        (cluster.home / ".bash_profile").write_text(f"export PATH={':'.join(words)}\n")
        self._numbers = itertools.count(1)
        self.moms = {name: self._start(name) for name in cluster.names}
        for mom in self.moms.values():
            mom.expect("mom is up")

    def _hide_real_ones(self):
        """muster looks there for the commands of PBS, too."""
        nothing = self.cluster.shared / "no-pbs"
        nothing.mkdir()
        for path, source in (("/etc/pbs.conf", "/dev/null"), ("/opt/pbs", nothing)):
            for name in self.cluster.names if os.path.exists(path) else ():
                self.cluster.replace(name, path, source)

    def _start(self, name):
        mom = self.cluster.exec(name, [STAND_INS / "mom", name, self.directory, self.cluster.home], cwd="/")
        self.cluster.keep(mom)
        return mom

    def ask(self, host, **request):
        tell = self.cluster.exec("ctl", [STAND_INS / "tell", host, json.dumps(request)])
        assert tell.end() == 0, tell.said()
        return json.loads(tell.out)

    def qsub(self, script=None, command=None, lines=None, name="train", walltime=3600, kill_delay=20, identity=None, given=()):
        """A running PbsJob: a script, or `qsub -- command`; `lines` of its nodefile, each node once by default.

        `given`: NAME=VALUE that PBS sets in every process that it starts, as its hooks and `qsub -v` do.
        """
        number = next(self._numbers)
        variables = {"PBS_O_HOME": str(self.cluster.home), "PBS_O_HOST": "ctl", "PBS_O_WORKDIR": str(self.cluster.shared)}
        variables |= dict(word.split("=", 1) for word in given)
        facts = {
            "id": identity or f"{number}.ctl",
            "name": name,
            "lines": list(lines or self.cluster.names),
            "script": script,
            "command": command and [str(word) for word in command],
            "variables": variables,
            "cookie": f"{number:032X}",
            "walltime": walltime,
            "walltime_kill_delay": kill_delay / 2,  # as 10 s and 20 s
            "kill_delay": kill_delay,
        }
        first = facts["lines"][0]
        self.ask(first, do="run", facts=facts)
        return PbsJob(self, facts, first)


class PbsJob:
    def __init__(self, pbs, facts, first):
        self.pbs, self.id, self.first = pbs, facts["id"], first

    def _text(self, suffix):
        try:
            return (self.pbs.directory / f"{self.id}.{suffix}").read_text(errors="replace")
        except FileNotFoundError:
            return ""

    @property
    def out(self):
        return self._text("OU")

    @property
    def err(self):
        return self._text("ER")

    def said(self):
        return f"--- {self.id}.OU\n{self.out}\n--- {self.id}.ER\n{self.err}"

    def expect(self, pattern, within=SOON_S):
        return wait_for(
            lambda: f"{pattern!r}\n{self.said()}", lambda: re.search(pattern, f"{self.out}\n{self.err}", re.M), within
        )

    def end(self, within=60):
        """What PBS calls its Exit_status: the script's code, or 256 + signal."""
        wait_for(lambda: f"the end of {self.id}\n{self.said()}", lambda: self._text("exit"), within)
        return int(self._text("exit"))

    def qdel(self):
        self.pbs.ask(self.first, do="qdel", id=self.id)

    def kill_on(self, name):
        """What is the job's on one node."""
        self.pbs.ask(name, do="kill_job", id=self.id)

    def qsig(self, number):
        self.pbs.ask(self.first, do="signal", id=self.id, number=int(number))

    def suspend(self):
        self.pbs.ask(self.first, do="suspend", id=self.id, number=int(signal.SIGSTOP))

    def resume(self):
        self.pbs.ask(self.first, do="suspend", id=self.id, number=int(signal.SIGCONT))
