"""What the tests on several nodes share: a lab with its faults, the programs in it, and what workers wrote down."""

import collections
import dataclasses
import os
import pathlib
import pwd
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time

from harness import ROOT, clean_env, command_line, debian_python_dir
from lab import capture, lifecycle, network
from lab import node as lab_node
from lab.kernel import LabError, processes_of
from lab.state import Lab, Options

CLUSTER = ROOT / "test/lab/cluster"
WORKERS = ROOT / "test/multinode/workers"
BEAT = WORKERS / "beat.py"
PREFIX = "muster-lab-"
HOME = pwd.getpwuid(os.getuid()).pw_dir
# How long a test waits for what should come within a second or two: a busy machine gets more, a hang fails.
SOON_S = 30
GONE_WITHIN_S = 5.0


def wait_for(what, function, within=SOON_S):
    """Asks until the answer is true, and returns it; `what` is for the message. What it asks for has no event of its own."""
    deadline = time.monotonic() + within
    while not (answer := function()):
        assert time.monotonic() < deadline, f"waited {within} s for {what() if callable(what) else what}"
        time.sleep(0.01)
    return answer


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
    """Those of test runs that were killed."""
    for directory in pathlib.Path(tempfile.gettempdir()).glob(PREFIX + "*"):
        owner = directory.name[len(PREFIX) :].partition("-")[0]
        if owner.isdigit() and not os.path.exists(f"/proc/{owner}"):
            take_down(directory)


def take_down(directory):
    try:
        lifecycle.down(Lab.load(directory))
    except LabError:
        pass  # it never came up
    shutil.rmtree(directory, ignore_errors=True)


class Job:
    """A program in a node: its output as it comes, and its end."""

    def __init__(self, cluster, process):
        self.cluster, self.process = cluster, process
        self.out, self.err = "", ""
        self._changed = threading.Condition()
        self._readers = [threading.Thread(target=self._read, args=(n,), daemon=True) for n in ("out", "err")]
        for reader in self._readers:
            reader.start()

    def _read(self, name):
        stream = getattr(self.process, f"std{name}")
        while data := os.read(stream.fileno(), 65536):
            with self._changed:
                setattr(self, name, getattr(self, name) + data.decode(errors="replace"))
                self._changed.notify_all()
        with self._changed:
            setattr(self, f"{name}_closed", True)
            self._changed.notify_all()

    def expect(self, pattern, within=SOON_S, stream=None):
        """Waits for a match in what it said on `stream` ("out", "err"; either by default); returns the match."""
        names = [stream] if stream else ["out", "err"]

        def found():
            matches = [re.search(pattern, getattr(self, name), re.M) for name in names]
            return next(filter(None, matches), None)

        with self._changed:
            over = lambda: all(getattr(self, f"{name}_closed", False) for name in names)  # noqa: E731
            self._changed.wait_for(lambda: found() or over(), within)
            match = found()
        assert match, f"no {pattern!r} within {within} s.\n{self.said()}"
        return match

    def end(self, within=60):
        """Waits for its end; returns the exit code as a shell gives it."""
        try:
            self.process.wait(within)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still runs after {within} s.\n{self.said()}") from None
        for reader in self._readers:
            reader.join(10)  # whoever still holds a pipe open is found by the look for what is left
        return self.process.returncode

    def send(self, number):
        self.process.send_signal(number)

    @property
    def running(self):
        return self.process.poll() is None

    def said(self):
        return f"--- stdout\n{self.out}\n--- stderr\n{self.err}"

    @property
    def pid(self):
        """Of the program itself, as seen from outside its node, once it has started; None when it is over.

        `process` is only the way into the node. To kill that would leave a zombie for the machine's PID 1 to reap.
        """
        front = self.process.pid

        def child():
            with open(f"/proc/{front}/task/{front}/children") as f:
                return f.read().split()

        pids = wait_for("the program to start", lambda: not self.running or child())
        return int(pids[0]) if pids is not True else None

    def kill(self):
        if pid := self.pid:
            self.cluster.kill(pid)

    def abandon(self):
        try:
            self.kill()
            self.process.wait(10)
        finally:
            self.process.kill()
        for reader in self._readers:
            reader.join(1)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream:
                stream.close()


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
        self.jobs = []
        self.has_killed = self.has_killed_all = False  # something of muster, or all of it on a node, with SIGKILL
        try:
            options = Options(slurm=False, private=["/tmp", HOME], share=share, **options)
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

    def processes(self, name):
        """{pid: command line} of what runs in the node besides its own daemons; pids as seen from here."""
        its = self.lab.node(name)
        if not its.up:
            return {}
        own = {its.pid, *(p.pid for p in its.daemons.values())}
        found = {}
        for pid, state in processes_of(its.pid).items():
            if pid not in own and state != "Z":
                found[pid] = command_line(pid)
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
        if path.name == f"muster-{os.getuid()}":
            return self.has_killed or not any(path.iterdir())
        return path.name in self._shared_names or (self.has_killed_all and path.name.startswith("muster_"))

    def assert_nothing_left(self, within=GONE_WITHIN_S):
        """No process, no file in /dev/shm, none in /tmp, on any node."""
        deadline = time.monotonic() + within
        while (left := self.left()) and time.monotonic() < deadline:
            time.sleep(0.02)
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

    # --- the wire ---------------------------------------------------------------------------------------------------

    def capture(self, path):
        """Writes what goes over the switch to a pcap file until the with-block ends; capture.search() looks into it."""
        return Capture(self.directory, path)


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


# --- beats ----------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Life:
    """One worker's, from its first beat to its last."""

    round: int
    rank: int
    world: int
    restarts: int
    local_rank: int
    host: str
    pid: int  # as the node counts
    first: float
    last: float
    longest_pause: float
    after_pause: float  # from the first beat behind it to the last

    def end(self, slack):
        """When it last ran. A node that stood still may wake up with workers of a round that is over; they are given
        `slack` to be ended."""
        woke_up = slack > 0 and self.longest_pause > 1 and self.after_pause <= slack
        return self.last - self.after_pause - self.longest_pause if woke_up else self.last


class Beats:
    """What workers/beat.py has written into a directory, and what it is told."""

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        self.directory.mkdir(exist_ok=True)

    def tell(self, rank, what):
        """A rank, or "all"."""
        new = self.directory / "do.new"
        new.write_text(what)
        new.rename(self.directory / f"do.{rank}")

    def lives(self):
        found = []
        for path in self.directory.glob("*.beat"):
            lines = [line.split() for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]
            if lines:
                times = [float(line[-1]) for line in lines]
                pause, woke = max(((b - a, b) for a, b in zip(times, times[1:])), default=(0.0, times[-1]))
                *numbers, host, pid, _ = lines[0]
                times = (times[0], times[-1], pause, times[-1] - woke)
                found.append(Life(*map(int, numbers), host, int(pid), *times))
        return sorted(found, key=lambda life: (life.round, life.rank, life.first))

    def round(self, number):
        return [life for life in self.lives() if life.round == number]

    def wait_round(self, number, world, within=SOON_S):
        """Until all ranks of a round beat; returns their lives."""

        def all_there():
            lives = [life for life in self.round(number) if life.world == world]
            return lives if {life.rank for life in lives} == set(range(world)) else None

        return wait_for(lambda: f"round {number} with {world} ranks; there are {self.lives()}", all_there, within)

    def wait_rounds_with(self, world, after=-1, within=SOON_S):
        """Until a round later than `after` runs with that many ranks; returns its lives."""

        def complete():
            numbers = {life.round for life in self.lives() if life.world == world and life.round > after}
            for number in sorted(numbers, reverse=True):
                lives = self.round(number)
                if {life.rank for life in lives} == set(range(world)):
                    return lives
            return None

        return wait_for(lambda: f"a round with {world} ranks; there are {self.lives()}", complete, within)

    def wait_beat(self, of_round, rank, after, within=SOON_S):
        """Until that rank has beaten at a time later than `after` (time.monotonic())."""

        def beaten():
            return any(life.rank == rank and life.last > after for life in self.round(of_round))

        wait_for(f"a beat of rank {rank} in round {of_round}", beaten, within)

    def assert_one_round_at_a_time(self, slack=0.0):
        """No rank twice in a round, and no worker of a round alive when one of a later round was."""
        lives = self.lives()
        ranks = collections.Counter((life.round, life.rank) for life in lives)
        assert max(ranks.values(), default=1) == 1, f"a rank ran twice in a round: {ranks}"
        for earlier in lives:
            for later in lives:
                overlap = earlier.end(slack) - later.first
                assert later.round <= earlier.round or overlap <= slack, f"two rounds at once: {earlier} {later}"
