"""Jobs of a real OpenPBS, with the interface of pbs.py: the stand-ins are held against it where one is installed.

MUSTER_OPENPBS=USER says whose the jobs are: not root, whose processes MOM ignores, but somebody who may log
in and has a home.
"""

import os
import pathlib
import pwd
import re
import shutil
import signal
import subprocess
from types import SimpleNamespace

from multinode.job import wait_for

from .pbs import COMMANDS, PbsJob

SCRIPT = pathlib.Path(__file__).with_name("openpbs")
BIN = pathlib.Path("/opt/pbs/bin")
OWN = "/var/spool/pbs"  # of each node
PRIVATE = [OWN, "/var/tmp"]


def user():
    """None: the tests shall use the stand-ins."""
    return os.environ.get("MUSTER_OPENPBS")


class OpenPbs:
    """Its daemons on every node of a cluster that was made with `private=PRIVATE`, its server on ctl."""

    nodefiles, temporary, bin = OWN, "/var/tmp", BIN

    def __init__(self, cluster, commands=COMMANDS, path=()):
        self.cluster, self.user = cluster, user()
        self.directory = cluster.shared / "pbs"
        self.directory.mkdir()
        cluster.uid = pwd.getpwnam(self.user).pw_uid
        for name in ("ctl", *cluster.names):
            hosts = pathlib.Path(cluster.lab.path("nodes", name, "hosts"))
            # Short names first.
            hosts.write_text(re.sub(r"(\S+)\.lab (\S+)$", r"\2 \1.lab", hosts.read_text(), flags=re.M))
            cluster.replace(name, pwd.getpwnam(self.user).pw_dir, cluster.home)
        self._run("up")
        self._hide(set(COMMANDS) - set(commands))
        self._make_home([str(self.bin), *map(str, path), os.environ["PATH"]])
        self._open()
        for name in ("ctl", *cluster.names):
            for pid in cluster.processes(name):
                cluster.keep(SimpleNamespace(pid=pid))

    def _make_home(self, path):
        home = self.cluster.home
        (home / ".bash_profile").write_text(f"export PATH={':'.join(path)}\n")
        (home / ".ssh").mkdir()
        shutil.copy(self.cluster.directory / "ssh/id_ed25519", home / ".ssh/key")
        (home / ".ssh/config").write_text(f"User {self.user}\nIdentityFile {home}/.ssh/key\n")
        for place in (home, *home.rglob("*")):
            shutil.chown(place, self.user)

    def _open(self):
        """What the tests and the jobs share belongs to root."""
        for place in self.cluster.shared.parents:
            if len(place.parts) > 2:
                place.chmod(place.stat().st_mode | 0o011)
        for place in (self.cluster.shared, *self.cluster.shared.rglob("*")):
            if not place.is_symlink():
                place.chmod(place.stat().st_mode | (0o777 if place.is_dir() else 0o666))

    def _run(self, *words):
        env = {**os.environ, "CLUSTER_DIR": str(self.cluster.directory)}
        ran = subprocess.run(
            [SCRIPT, *map(str, words)], env=env, cwd=self.cluster.shared, capture_output=True, text=True, timeout=120
        )
        assert ran.returncode == 0, f"{words}: {ran.returncode}\n{ran.stdout}{ran.stderr}"
        return ran.stdout

    def command(self, name, *words):
        as_user = ["setpriv", f"--reuid={self.user}", f"--regid={self.user}", "--init-groups"]
        return self._run("run", "ctl", *as_user, self.bin / name, *words)

    def _hide(self, commands):
        copy = self.cluster.shared / "pbs-bin"
        shutil.copytree(self.bin, copy, symlinks=True)
        for name in commands:
            (copy / name).unlink()
        for name in self.cluster.names if commands else ():
            self.cluster.replace(name, self.bin, copy)

    def qsub(self, script=None, command=None, lines=None, name="train", walltime=3600, kill_delay=20, identity=None, given=()):
        chunks = "+".join(f"1:ncpus=1:host={host}" for host in lines or self.cluster.names)
        words = ["-N", name, "-l", f"select={chunks}", "-l", f"walltime={int(walltime)}", "-f", "-k", "doe"]
        words += ["-o", f"{self.directory}/", "-e", f"{self.directory}/"]
        words += ["-C", "#NOT-PBS"]  # what a script asks for is of another site
        if given:
            words += ["-v", ",".join(given)]
        self._open()
        self._run("run", "ctl", self.bin / "qmgr", "-c", f"set queue workq kill_delay = {kill_delay}")
        if identity:  # the third of an array, whose others have nothing to do
            words += ["-J", "3-4"]
            script = script.replace("\n", '\n[ "$PBS_ARRAY_INDEX" = 3 ] || exit 0\n', 1)
        if command:
            words += ["--", *command]
        else:
            file = self.cluster.shared / f"{name}.pbs"
            file.write_text(script)
            words.append(file)
        made = self.command("qsub", *words).strip().replace("[]", "[3]")
        job = OpenPbsJob(self, {"id": made}, (lines or self.cluster.names)[0])
        wait_for(lambda: f"the start of {job.shown()}", lambda: re.search(r"substate = (42|9\d)", job.shown()))
        return job


class OpenPbsJob(PbsJob):
    def shown(self):
        return self.pbs.command("qstat", "-x", "-f", self.id)

    def end(self, within=120):
        """It looks for walltimes that are over every half a minute at best."""
        over = r"job_state = [FX]"  # X: one of an array
        wait_for(lambda: f"the end of {self.shown()}\n{self.said()}", lambda: re.search(over, self.shown()), within)
        return int(re.search(r"Exit_status = (-?\d+)", self.shown()).group(1))

    def qdel(self):
        self.pbs.command("qdel", self.id)

    def kill_on(self, name):
        """Servers and daemons talk through ctl, whichever other nodes are cut off."""
        self.qdel()
        self.qdel = lambda: None

    def qsig(self, number):
        self.pbs.command("qsig", "-s", signal.Signals(number).name, self.id)

    def suspend(self):
        self._manage("suspend", "S")

    def resume(self):
        """Its scheduler does, when it next looks at its jobs."""
        self._manage("resume", "R")

    def _manage(self, what, state):
        """Only a manager may: root."""
        self.pbs._run("run", "ctl", self.pbs.bin / "qsig", "-s", what, self.id)
        self.pbs._run("run", "ctl", self.pbs.bin / "qmgr", "-c", "set server scheduling = true")
        wait_for(lambda: f"{what} of {self.shown()}", lambda: f"job_state = {state}" in self.shown())
