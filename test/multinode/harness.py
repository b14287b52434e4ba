"""A lab as the tests on several nodes use it: programs in nodes, faults, and what is left in the end."""

import contextlib
import fcntl
import os
import pathlib
import pwd
import re
import shutil
import signal
import subprocess
import tempfile

from harness import GONE_WITHIN_S, ROOT, clean_env, command_line, debian_python_dir, wait_none
from lab import capture, lifecycle, network
from lab import node as lab_node
from lab.kernel import LabError, processes_of
from lab.state import Lab, Options

from .job import SOON_S, Job, wait_for

CLUSTER = ROOT / "test/lab/cluster"
WORKERS = ROOT / "test/multinode/workers"
BEAT = WORKERS / "beat.py"
PREFIX = "muster-lab-"
HOME = pwd.getpwuid(os.getuid()).pw_dir
# For what has to notice by itself that a job is over: the nodes of a job that a test left running and ended with SIGKILL,
# and what Slurm ends: it calls a job over before its processes are gone.
NOTICED_WITHIN_S = 5.0


def why_no_nodes():
    """Why this machine cannot make nodes; None if it can."""
    if os.geteuid() != 0:
        return "needs root to make nodes"
    for program in ("ip", "nft", "nsenter", "ssh", "sshd"):
        if not shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin:/sbin"):
            return f"no {program}: make setup could not install it"
    flags = ["--net", "--uts", "--ipc", "--mount", "--pid", "--fork", "--mount-proc"]
    tried = subprocess.run(["unshare", *flags, "ip", "link", "set", "lo", "up"], capture_output=True, text=True)
    return f"no namespaces permitted here: {tried.stderr.strip()}" if tried.returncode else None


def remove_stale_labs():
    """Those of test runs that were killed. One run at a time: several may begin at this moment."""
    temporary = pathlib.Path(tempfile.gettempdir())
    lock = os.open(temporary, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for directory in temporary.glob(PREFIX + "*"):
            owner = directory.name[len(PREFIX) :].partition("-")[0]
            if owner.isdigit() and not os.path.exists(f"/proc/{owner}"):
                take_down(directory)
    finally:
        os.close(lock)


def take_down(directory):
    try:
        lab = Lab.load(directory)
    except LabError:
        lab = None  # it never came up
    if lab:
        lifecycle.down(lab)
    shutil.rmtree(directory, ignore_errors=True)


class Cluster:
    """A lab of nodes n1 … nN (`names`) beside ctl; `options` as lab.state.Options has them.

    Every node has a /tmp of its own, and a home directory for ssh sessions to start in; $HOME and `shared` are those of
    all nodes.
    """

    def __init__(self, muster, shared, count, **options):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))
        os.chmod(self.directory, 0o755)
        self.muster_program, self.shared = muster, pathlib.Path(shared)
        python = pathlib.Path(os.environ.get("MUSTER_VENV") or ROOT / ".venv", "bin/python")
        interpreter = python.resolve().parent.parent  # of the virtual environment; may lie in the home directory
        places = (ROOT, python.parent.parent, interpreter, debian_python_dir(), shared, os.path.dirname(muster))
        share = sorted({os.path.abspath(place) for place in places if os.path.isdir(place)})
        # What stays the machine's in the nodes' /tmp.
        self._shared_names = {pathlib.Path(d).parts[2] for d in (self.directory, *share) if str(d).startswith("/tmp/")}
        self.uid = os.getuid()  # whose the jobs are
        self.jobs = []
        self._daemons = set()
        self.has_killed = self.has_killed_all = False  # something of muster, or all of it on a node, with SIGKILL
        try:
            private = ["/tmp", HOME, *options.pop("private", [])]
            options = Options(**{"slurm": False, **options}, private=private, share=share)
            self.lab = lifecycle.up(self.directory, count, options)
        except BaseException:
            take_down(self.directory)
            raise
        self.names = self.lab.workers()

    def close(self):
        for job in self.jobs:
            job.abandon()
        take_down(self.directory)

    @property
    def home(self):
        return self.directory / "home"

    def address(self, name, interface=0):
        return self.lab.node(name).addresses[interface]

    # --- programs ---------------------------------------------------------------------------------------------------

    def exec(self, name, argv, python=None, env=None, **popen):
        """A Job: the command in the node, its signals and exit code as if it ran here."""
        ours = {"HOME": self.home, "TORCHINDUCTOR_CACHE_DIR": self.shared / "inductor"}  # PyTorch makes it; not in /tmp
        process = subprocess.Popen(
            ["/usr/bin/python3", "-I", str(CLUSTER), "exec", name, "--", *map(str, argv)],
            env=clean_env(python, **{**ours, **(env or {}), "CLUSTER_DIR": self.directory}),
            stdin=popen.pop("stdin", subprocess.DEVNULL),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            **popen,
        )
        job = Job(self, process)
        self.jobs.append(job)
        return job

    def muster(self, name, args, **exec_options):
        return self.exec(name, [self.muster_program, *args], **exec_options)

    def keep(self, job):
        """It is a daemon of its node from now on."""
        self._daemons.add(job.pid)

    def processes(self, name):
        """{pid: command line} of what runs in the node besides its own daemons; pids as seen from here."""
        its = self.lab.node(name)
        if not its.up:
            return {}
        own = {its.pid, *(p.pid for p in its.daemons.values()), *self._daemons}
        found = {}
        for pid, state in processes_of(its.pid).items():
            if pid not in own and state != "Z":
                words = command_line(pid)
                # slurmctld's other half; workers of a data base
                if not words.endswith(": slurmscriptd") and not words.startswith("postgres: "):
                    found[pid] = words
        return found

    def workers(self, name):
        """Pids of the beat.py in the node."""
        return [pid for pid, words in self.processes(name).items() if re.match(r"\S*python\S* .*beat\.py", words)]

    def wait_no_worker(self, name, within=SOON_S):
        wait_for(lambda: f"the end of {self.processes(name)} on {name}", lambda: not self.workers(name), within)

    def warden_and_agent(self, name):
        """Pids of the two processes of muster on a node that has one job; the agent is the warden's child."""
        parents = {}
        for pid in self.processes(name):
            try:
                fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                if pathlib.Path(f"/proc/{pid}/comm").read_text().startswith("muster"):
                    parents[pid] = int(fields[1])
            except OSError:
                pass  # gone meanwhile
        pairs = [(parent, pid) for pid, parent in parents.items() if parent in parents]
        assert len(pairs) == 1, f"processes of muster and their parents on {name}: {parents}"
        return pairs[0]

    def root(self, name):
        """The node's file system, as seen from here."""
        return pathlib.Path(f"/proc/{self.lab.node(name).pid}/root")

    # --- what is left -----------------------------------------------------------------------------------------------

    def left(self):
        """{node: processes and files that should not be there}; files of a node that is off are gone with it."""
        found = {}
        for name, its in self.lab.nodes.items():
            things = [f"{pid} {words}" for pid, words in self.processes(name).items()]
            if its.up:
                files = [path for folder in ("dev/shm", "tmp") for path in self.root(name).joinpath(folder).iterdir()]
                things += [f"/{path.parent.name}/{path.name}" for path in files if not self._may_stay(path)]
            if things:
                found[name] = things
        return found

    def _may_stay(self, path):
        """What is shared with the machine, and the user's own directory for the sockets of `muster status`.

        It must be empty, but nobody can remove the socket of a muster that was killed; nor a directory for temporary
        files when agent and warden were killed at once.
        """
        if path.name == f"muster-{self.uid}":
            return self.has_killed or not any(path.iterdir())
        if path.name.startswith("PostgreSQL."):  # of a scheduler's data base
            return True
        return path.name in self._shared_names or (self.has_killed_all and path.name.startswith("muster_"))

    def assert_nothing_left(self, within=None):
        """No process, no file in /dev/shm, none in /tmp, on any node."""
        left = wait_none(self.left, within or (NOTICED_WITHIN_S if self.lab.options.slurm else GONE_WITHIN_S))
        assert not left, f"left behind: {left}"

    # --- faults -----------------------------------------------------------------------------------------------------

    def cut(self, name, interface=None):
        network.set_cable(self.lab, self.lab.node(name), "down", interface)

    def heal(self, name, interface=None):
        network.set_cable(self.lab, self.lab.node(name), "up", interface)

    def partition(self, *groups):
        network.partition(self.lab, groups)

    def unpartition(self):
        network.unpartition(self.lab)

    def loss(self, name, percent):
        network.loss(self.lab.node(name), percent)

    def freeze(self, *names):
        for name in names:
            lab_node.freeze(self.lab.node(name))

    def thaw(self, *names):
        for name in names:
            lab_node.thaw(self.lab.node(name))

    def power_off(self, name, quietly=True):
        lab_node.power_off(self.lab, self.lab.node(name), quietly)

    def boot(self, name):
        lifecycle.boot(self.lab, self.lab.node(name))

    def replace(self, name, path, source):
        """What a path is on this node alone: another file or directory."""
        lab_node.replace(self.lab.node(name), str(path), str(source))

    def replace_program(self, name, program=None):
        """What muster is on this node, at the path where all have it; None: nothing is there."""
        if program:
            return lab_node.replace(self.lab.node(name), self.muster_program, program)
        self.small_disk(name, os.path.dirname(self.muster_program), "4k")

    def small_disk(self, name, directory, size):
        lab_node.small_disk(self.lab.node(name), directory, size)

    def kill_all(self, name, pattern=""):
        """SIGKILL to all that runs in the node and whose command line matches, at one moment as near as can be."""
        self.has_killed_all = True
        doomed = set()
        while more := {pid for pid, words in self.processes(name).items() if re.search(pattern, words)} - doomed:
            for pid in more:  # one that is stopped has no time to react to the death of another
                _kill(pid, signal.SIGSTOP)
            doomed |= more
        for pid in doomed:
            self.kill(pid)
        return doomed

    def kill(self, pid):
        self.has_killed = True
        _kill(pid, signal.SIGKILL)

    def firewall(self, name, ports):
        """New TCP connections from outside reach these ports only ("22, 30000-30100")."""
        network.firewall(self.lab.node(name), ports)

    # --- names --------------------------------------------------------------------------------------------------------

    def add_name(self, name, host, address):
        """To the node's /etc/hosts."""
        with open(self.lab.path("nodes", name, "hosts"), "a") as hosts:
            hosts.write(f"{address} {host}\n")

    def set_resolver(self, name, address=None):
        """The node's one name server from now on; None: there is none."""
        with open(self.lab.path("nodes", name, "resolv.conf"), "w") as conf:
            conf.write(f"nameserver {address}\n" if address else "# nobody to ask\n")

    # --- the wire ---------------------------------------------------------------------------------------------------

    def capture(self, path):
        """Writes what goes over the switch to a pcap file until the with-block ends; capture.search() looks into it."""
        return Capture(self.directory, path)


def ports_of(pid):
    """Local ports of the process's TCP connections."""
    inodes = set()
    for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            inodes.add(os.readlink(fd))
    found = []
    for table in ("tcp", "tcp6"):
        for line in pathlib.Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            _, local, _, state, *_, inode = line.split()[:10]
            if state == "01" and f"socket:[{inode}]" in inodes:
                found.append(int(local.rpartition(":")[2], 16))
    return found


def _kill(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


class Capture:
    def __init__(self, directory, path):
        self._directory, self.path = directory, path

    def __enter__(self):
        command = ["/usr/bin/python3", "-I", str(CLUSTER), "capture", str(self.path)]
        env = {**os.environ, "CLUSTER_DIR": str(self._directory)}
        self._process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self._process.stdout.readline() == "capturing\n"
        return self

    def __exit__(self, *error):
        self._process.terminate()
        _, said = self._process.communicate(timeout=30)
        assert self._process.returncode == 0 or error[0], said

    def search(self, needle):
        return capture.search(self.path, needle)
