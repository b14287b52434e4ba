"""What the whole-program tests share beyond fixtures: clean environments, marked jobs, and a look at /proc."""

import atexit
import contextlib
import functools
import os
import pathlib
import re
import signal
import socket
import subprocess
import tempfile
import time
import uuid

ROOT = pathlib.Path(__file__).resolve().parent.parent
MARKER = "MUSTER_TEST_JOB"
GONE_WITHIN_S = 1.0  # after a job's end was seen: nothing outlives it
LOOK_S = 0.02
END_WITHIN_S = 30  # for the end itself, which a busy machine may delay; a hang fails

# What a launcher or a scheduler around the tests would have set: each would change what muster does.
_FOREIGN = re.compile(
    r"PET_|TORCH|MUSTER_|SLURM_|PBS_|OMPI_|PMI|NCCL_|CUDA_VISIBLE|ROCR_|HIP_|ZE_AFFINITY|"
    r"(GROUP_|LOCAL_|ROLE_)?(RANK|WORLD_SIZE)$|ROLE_NAME$|MASTER_|OMP_NUM_THREADS$|PYTHON_EXEC$|LOGLEVEL$"
)


@functools.lru_cache(maxsize=None)
def debian_python_dir():
    """A directory whose `python` is Debian's, which by itself has only `python3`; earlier ones on PATH are not asked."""
    directory = tempfile.TemporaryDirectory(prefix="muster-test-python-")
    atexit.register(directory.cleanup)
    for name in ("python", "python3"):
        os.symlink("/usr/bin/python3", f"{directory.name}/{name}")
    return directory.name


def clean_env(python=None, **extra):
    """The environment for a launcher under test: ours without what would steer it, `python` (or Debian's) first on PATH.

    RES_OPTIONS bounds the reverse look-ups of PyTorch's store client. A value of None removes a variable.
    """
    env = {k: v for k, v in os.environ.items() if not _FOREIGN.match(k)}
    env["RES_OPTIONS"] = "timeout:1 attempts:2"
    env.setdefault("SHELL", "/bin/bash")  # salloc starts it; a CI machine may have none
    env["PATH"] = f"{python.bin_dir if python else debian_python_dir()}:{env['PATH']}"
    for name, value in extra.items():
        env.pop(name, None)
        if value is not None:
            env[name] = str(value)
    return env


def carriers(marker):
    """Pids of the living processes whose environment has the marker; those that run no more are left out."""
    needle = f"{MARKER}={marker}".encode()
    found = []
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            with open(f"/proc/{entry.name}/environ", "rb") as f:
                if needle in f.read().split(b"\0") and not is_doomed(entry.name):
                    found.append(int(entry.name))
        except OSError:
            pass  # gone meanwhile, or not ours
    return found


def is_doomed(pid):
    """Whether it has ended, or SIGKILL waits for it: the kernel ends it, and no instruction of its program runs again."""
    with open(f"/proc/{pid}/status") as f:
        fields = dict(line.split(":", 1) for line in f if ":" in line)
    pending = int(fields["SigPnd"], 16) | int(fields["ShdPnd"], 16)
    return fields["State"].split()[0] in "ZX" or bool(pending & 1 << signal.SIGKILL - 1)


def wait_none(find, within=GONE_WITHIN_S):
    """Looks until find() finds nothing; returns what it finds in the end.

    Looks are counted, as many as an idle machine takes in that time: where processors are scarce a look takes longer, and
    so does the end of what it looks for.
    """
    for _ in range(round(within / LOOK_S)):
        if not (found := find()):
            return found
        time.sleep(LOOK_S)
    return find()


def wait_gone(marker, within=GONE_WITHIN_S):
    """Waits until no process carries the marker; returns those that still do at the end, with their command lines."""
    return {pid: command_line(pid) for pid in wait_none(lambda: carriers(marker), within)}


def command_line(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            return f.read().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


def kill_carriers(marker):
    while left := carriers(marker):
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.01)


@contextlib.contextmanager
def launched(command, python=None, env=None, **popen):
    """A launcher, ours or a peer's, in a session of its own with text pipes; `marker` is what its job carries.

    In the end it is killed with whatever it left behind: a peer promises nothing.
    """
    marker = uuid.uuid4().hex
    process = subprocess.Popen(
        [str(word) for word in command],
        env=clean_env(python, **{**(env or {}), MARKER: marker}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
        **popen,
    )
    process.marker = marker
    try:
        yield process
    finally:
        process.kill()
        kill_carriers(marker)


def shell(script):
    """Options that make a shell script the program."""
    return ["--no-python", "/bin/sh", "-c", script]


def free_port():
    with socket.socket() as s:
        s.bind(("", 0))
        return s.getsockname()[1]


def stat_of(pid):
    """State, parent and the further fields of /proc/<pid>/stat behind the name."""
    with open(f"/proc/{pid}/stat") as f:
        return f.read().rpartition(")")[2].split()


def children_of(pid):
    found = []
    for entry in os.listdir("/proc"):
        try:
            if entry.isdigit() and int(stat_of(entry)[1]) == pid:
                found.append(int(entry))
        except OSError:
            pass  # gone meanwhile
    return found
