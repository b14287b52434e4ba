"""What the lab needs of the kernel beyond Python's os: mounts, namespaces, processes told from their successors."""

import ctypes
import os
import signal
import struct
import sys
import time
from typing import NamedTuple

MS_BIND, MS_MOVE, MS_REC, MS_PRIVATE = 4096, 8192, 16384, 1 << 18
PR_SET_PDEATHSIG = 1
# By the names in /proc/<pid>/ns. The PID namespace comes first: entering it needs the /proc that still shows `pid`.
_CLONE = {"pid": 0x20000000, "ipc": 0x8000000, "uts": 0x4000000, "net": 0x40000000, "mnt": 0x20000}
ALL = tuple(_CLONE)

_libc = ctypes.CDLL(None, use_errno=True)


class LabError(Exception):
    """Says in a sentence what the lab could not do."""


def _check(result, what):
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def mount(source, target, kind=None, flags=0, data=None):
    words = [None if word is None else os.fsencode(word) for word in (source, target, kind, data)]
    _check(_libc.mount(*words[:3], ctypes.c_ulong(flags), words[3]), f"mount {source} on {target}")


def set_host_name(name):
    _check(_libc.sethostname(name.encode(), len(name)), "sethostname")


def die_with_parent():
    _check(_libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL), "prctl")


class Process(NamedTuple):
    """A process that can be told from a later one with the same pid."""

    pid: int
    started: int

    @staticmethod
    def of(pid):
        started = start_time(pid)
        if started is None:
            raise LabError(f"process {pid} is gone")
        return Process(pid, started)

    @property
    def alive(self):
        return start_time(self.pid) == self.started

    def kill(self, number=signal.SIGKILL):
        """Whether it was there to be killed."""
        if self.alive:
            os.kill(self.pid, number)
            return True
        return False


def start_time(pid):
    """In clock ticks since boot; None when there is no such process, or only a zombie."""
    try:
        with open(f"/proc/{pid}/stat") as f:
            fields = f.read().rpartition(")")[2].split()
        return None if fields[0] == "Z" else int(fields[19])
    except (OSError, IndexError):
        return None


def processes_of(pid):
    """{pid: state} of all that share a PID namespace with `pid`, as seen from here."""
    namespace = os.readlink(f"/proc/{pid}/ns/pid")
    found = {}
    for entry in os.listdir("/proc"):
        try:
            if entry.isdigit() and os.readlink(f"/proc/{entry}/ns/pid") == namespace:
                with open(f"/proc/{entry}/stat") as f:
                    found[int(entry)] = f.read().rpartition(")")[2].split()[0]
        except OSError:
            pass  # gone meanwhile
    return found


def wait_until(what, is_so, seconds):
    """Asks every few milliseconds; for what the kernel sends no event about."""
    deadline = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > deadline:
            raise LabError(f"timed out after {seconds} s waiting for {what}")
        time.sleep(0.005)


def wait_gone(processes, seconds=10):
    wait_until("processes to end", lambda: not any(p.alive for p in processes), seconds)


def enter(pid, kinds=ALL):
    """Moves this process into namespaces of `pid`; into its PID namespace only the children that follow."""
    opened = [(kind, os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY)) for kind in _CLONE if kind in kinds]
    for kind, fd in opened:
        _check(_libc.setns(fd, _CLONE[kind]), f"setns {kind}")
        os.close(fd)


def exit_code(status):
    """Of a waited-for child, as a shell gives it."""
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def forked(function):
    """Runs function() in a child. Returns the child's pid; the child's exit code is what the function returns."""
    sys.stdout.flush()
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        code = int(function() or 0)
    except BaseException as e:  # whatever it is must not unwind into the parent's code
        sys.stderr.write(f"lab: {type(e).__name__}: {e}\n")
        sys.stderr.flush()
    os._exit(code)


def inside(pid, function, kinds=("net", "mnt")):
    """function() in a child that is in namespaces of `pid`; returns its exit code."""

    def run():
        enter(pid, kinds)
        if "pid" not in kinds:
            return function()
        return exit_code(os.waitpid(forked(function), 0)[1])

    return exit_code(os.waitpid(forked(run), 0)[1])


def become(argv, env=None, log="/dev/null"):
    """Turns this process into a daemon's program."""
    os.chdir("/")
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for fd, source in ((0, os.open("/dev/null", os.O_RDONLY)), (1, out), (2, out)):
        os.dup2(source, fd)
    os.closerange(3, 1024)
    os.execvpe(argv[0], argv, os.environ if env is None else env)


def _read_pid(fd):
    data = os.read(fd, 4)  # written at once: a pipe hands it over whole
    os.close(fd)
    return struct.unpack("i", data)[0] if len(data) == 4 else None


def hold(name, setup, kinds=ALL):
    """New namespaces, prepared by setup(). Returns their PID 1, which only sleeps; they last until it is killed."""
    told, tell = os.pipe()

    def make():
        os.setsid()
        flags = 0
        for kind in kinds:
            flags |= _CLONE[kind]
        _check(_libc.unshare(flags), "unshare")
        is_ready, ready = os.pipe()

        def first():
            os.close(is_ready)
            setup()
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # then the kernel reaps the orphans that come to PID 1
            os.write(ready, b"!")
            become(["/usr/bin/sleep", "infinity"], {"LAB_NODE": name})

        child = forked(first)
        os.close(ready)
        if os.read(is_ready, 1):
            os.write(tell, struct.pack("i", child))
        return 0

    maker = forked(make)
    os.close(tell)
    pid = _read_pid(told)
    os.waitpid(maker, 0)
    if pid is None:
        raise LabError(f"could not make the namespaces of {name}")
    return Process.of(pid)


def spawn(node_pid, argv, env, log):
    """A daemon in all namespaces of `node_pid`, a child of its PID 1. Returns it as seen from here."""
    told, tell = os.pipe()
    has_child, made_child = os.pipe()
    may_end, let_end = os.pipe()

    def parent():
        os.setsid()
        forked(lambda: become(argv, env, log))
        os.write(made_child, b"!")
        os.read(may_end, 1)

    def front():
        """Pids read in the node mean nothing out here: this tells the parent's, which is then asked for its child."""
        enter(node_pid)
        os.close(let_end)
        child = forked(parent)
        os.write(tell, struct.pack("i", child))
        os.close(made_child)
        os.waitpid(child, 0)

    child = forked(front)
    for fd in (tell, made_child, may_end):
        os.close(fd)
    pid = _read_pid(told)
    kids = []
    if pid is not None and os.read(has_child, 1):
        with open(f"/proc/{pid}/task/{pid}/children") as f:
            kids = f.read().split()
    os.close(has_child)
    os.close(let_end)
    os.waitpid(child, 0)
    if not kids:
        raise LabError(f"{argv[0]} did not start: see {log}")
    return Process.of(int(kids[0]))
