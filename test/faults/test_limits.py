"""Files that block, and limits of the system that muster meets itself: what is said, the exit code, and what is left."""

import contextlib
import ctypes
import os
import pathlib
import pwd
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import uuid

import pytest

from harness import shell, wait_none

pytestmark = pytest.mark.multiprocess

NODES = pytest.mark.parametrize("nodes", [[], ["--local-nodes", 2]], ids=["one", "two"])
CGROUPS = pathlib.Path("/sys/fs/cgroup")
TIMEOUT = 60
TOO_FEW = "the limit of processes and threads is reached: raise ulimit -u, or pids.max of the cgroup"


def poll(condition, within):
    """Whether the condition became true in time. What it asks for has no event of its own."""
    deadline = time.monotonic() + within
    while not (answer := condition()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return answer


def read_until(stream, wanted, count=1):
    """Reads lines until what was read has `wanted` that often; returns it."""
    said = b""
    while said.count(wanted) < count:
        line = stream.readline()
        assert line, said.decode()
        said += line
    return said


@pytest.fixture
def fifo(tmp_path):
    path = tmp_path / "fifo"
    os.mkfifo(path)
    return path


@pytest.fixture
def unread_fifo(fifo):
    """Its reader is there and never reads."""
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    yield fifo
    os.close(reader)


@NODES
def test_an_error_file_that_is_a_fifo(run_muster, nodes):
    done = run_muster(["run", *nodes, *shell("mkfifo $TORCHELASTIC_ERROR_FILE; exit 7")], timeout=TIMEOUT)
    assert done.returncode == 7, done.stderr
    assert "is not a regular file" in done.stderr


@NODES
def test_a_report_that_nothing_reads(run_muster, fifo, nodes):
    done = run_muster(["run", *nodes, "--report", fifo, *shell("exit 7")], timeout=TIMEOUT)
    assert done.returncode == 7, done.stderr
    assert f"the report is lost: cannot write {fifo}" in done.stderr


@NODES
def test_events_that_nothing_reads(run_muster, fifo, nodes):
    done = run_muster(["run", *nodes, "--events", fifo, *shell("exit 7")], timeout=TIMEOUT)
    assert done.returncode == 2, done.stderr
    assert f"--events {fifo} cannot be written: it is a FIFO without a reader; start its reader first" in done.stderr


@NODES
def test_events_whose_reader_stopped(run_muster, unread_fifo, nodes):
    """One event is larger than the pipe: it has the message of the error file."""
    script = """printf '{"message": "%200000d"}' 7 > $TORCHELASTIC_ERROR_FILE; exit 7"""
    done = run_muster(["run", *nodes, "--events", unread_fifo, *shell(script)], timeout=TIMEOUT)
    assert done.returncode == 7, done.stderr
    assert f"--events {unread_fifo}: " in done.stderr and "dropped: its reader is too slow" in done.stderr


def small_files():
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))


@NODES
def test_a_limit_of_file_sizes_is_a_full_disk(run_muster, tmp_path, nodes):
    flood = "i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i + 1)); done"
    with open(tmp_path / "out", "w") as out:
        done = run_muster(["run", *nodes, "--log-dir", tmp_path / "logs", *shell(flood)], stdout=out, timeout=TIMEOUT,
                          preexec_fn=small_files)
    assert done.returncode == 0, done.stderr
    assert "lines of stdout are being lost: File too large" in done.stderr
    assert "lines dropped: " in done.stderr and "is full (File too large)" in done.stderr


def test_workers_meet_that_limit_as_ever(run_muster, tmp_path):
    script = f"exec head -c 8192 /dev/zero > {tmp_path / 'large'}"
    done = run_muster(["run", *shell(script)], timeout=TIMEOUT, preexec_fn=small_files)
    assert done.returncode == 128 + 25, done.stderr
    assert "SIGXFSZ" in done.stderr


@contextlib.contextmanager
def process_limit(count):
    """A function for preexec_fn: the process and all below it are `count` at most. The cgroup is of version 1 or 2."""
    base = CGROUPS / "pids" if (CGROUPS / "pids").is_dir() else CGROUPS
    group = base / f"muster-test-{uuid.uuid4().hex}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"cannot make a cgroup that limits processes: {error.strerror}")
    try:
        if not (group / "pids.max").exists():
            pytest.skip(f"cannot make a cgroup that limits processes: {base} has no pids controller for us")
        (group / "pids.max").write_text(str(count))
        yield lambda: (group / "cgroup.procs").write_text(str(os.getpid()))
        assert not wait_none((group / "cgroup.procs").read_text), "something is left"
    finally:
        group.rmdir()


@pytest.mark.limits
@pytest.mark.root
@pytest.mark.parametrize("count", [1, 2, 3, 4, 6, 8])
def test_too_few_processes(run_muster, count):
    """A job of two nodes needs ten: the launcher and its thread, two wardens, two agents, four workers."""
    command = ["run", "--local-nodes", 2, "--nproc-per-node", 2, "--no-python", "/bin/sleep", 60]
    with process_limit(count) as limited:
        done = run_muster(command, preexec_fn=limited, timeout=TIMEOUT)
    assert done.returncode == 125, done.stderr
    assert TOO_FEW in done.stderr


SHORT = ["run", "--local-nodes", 2, "--nproc-per-node", 2, "--no-python", "true"]


@pytest.mark.limits
@pytest.mark.root
def test_every_limit_of_a_cgroup(run_muster):
    """Whichever process or thread cannot be made: the job succeeds, or names the limit."""
    for count in range(1, 41):
        with process_limit(count) as limited:
            done = run_muster(SHORT, preexec_fn=limited, timeout=TIMEOUT)
        assert done.returncode == 0 or (done.returncode == 125 and TOO_FEW in done.stderr), (count, done)
        assert done.returncode != 0 or count > 1
    assert done.returncode == 0, done.stderr


@pytest.fixture
def public_directory(muster):
    """For every user, with a copy of the program."""
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o777)
        shutil.copy(muster, directory)
        yield pathlib.Path(directory)


@pytest.mark.limits
def test_every_limit_of_a_user(run_muster, muster, public_directory):
    """The same with `ulimit -u`. It does not hold for root, and it counts whatever else the user runs."""
    nobody = pwd.getpwnam("nobody")

    def limit(count):
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(nobody.pw_gid)
            os.setuid(nobody.pw_uid)
        resource.setrlimit(resource.RLIMIT_NPROC, (count, count))

    program = public_directory / os.path.basename(muster)
    for count in range(1, 21):
        done = run_muster(SHORT, program=program, preexec_fn=lambda: limit(count), timeout=TIMEOUT, cwd=public_directory,
                          env={"TMPDIR": public_directory})
        assert done.returncode == 0 or (done.returncode == 125 and TOO_FEW in done.stderr), (count, done)
        assert done.returncode != 0 or count > 1
    assert [path.name for path in public_directory.iterdir()] == [program.name], "something is left"


@pytest.fixture
def disk(tmp_path):
    """A file system that stops to respond with `fsfreeze --freeze`."""
    image, mount = tmp_path / "image", tmp_path / "disk"
    mount.mkdir()
    with open(image, "wb") as file:
        file.truncate(32 << 20)
    for command in (["mkfs.ext4", "-q", image], ["mount", "-o", "loop", image, mount]):
        try:
            subprocess.run(command, check=True, capture_output=True, text=True)
        except (OSError, subprocess.CalledProcessError) as error:
            pytest.skip(f"cannot mount a file system of its own: {getattr(error, 'stderr', error)}")
    yield mount
    subprocess.run(["fsfreeze", "--unfreeze", mount], capture_output=True)
    # A process that has just ended may still hold it.
    assert poll(lambda: subprocess.run(["umount", mount], capture_output=True).returncode == 0, 10), "cannot unmount"


# More than fits into memory: lines are dropped.
FLOOD = """
import os, sys, time
print("begin", flush=True)
while not os.path.exists(sys.argv[1]): time.sleep(0.02)
for _ in range(80): os.write(1, (b"x" * 99 + b"\\n") * 1000)
time.sleep(3)
for _ in range(80): os.write(1, (b"x" * 99 + b"\\n") * 1000)
os.write(1, b"end\\n")
"""


@NODES
def test_log_files_on_a_file_system_that_does_not_respond(start_muster, tmp_path, disk, nodes):
    """The job ends as without them, and no agent is taken for one that hangs."""
    process = start_muster(
        ["run", *nodes, *(["--lease", 6] if nodes else []), "--log-dir", disk, "--label", "none", "--no-python",
         sys.executable, "-c", FLOOD, tmp_path / "go"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    workers = 2 if nodes else 1
    read_until(process.stdout, b"begin\n", workers)
    subprocess.run(["fsfreeze", "--freeze", disk], check=True)
    (tmp_path / "go").touch()
    ends = 0
    while ends < workers:
        line = process.stdout.readline()
        assert line, "stdout ended early"
        ends += line == b"end\n"
    said = read_until(process.stderr, b"log files are not complete: ", workers)
    subprocess.run(["fsfreeze", "--unfreeze", disk], check=True)  # a process that waits for its disk cannot end
    out, err = process.communicate(timeout=TIMEOUT)
    said += err
    assert process.returncode == 0, said.decode()
    assert b"lines are being dropped: " in said and b"is on a file system that does not respond" in said
    assert b"lost" not in said


@NODES
def test_a_stdout_on_a_file_system_that_does_not_respond(start_muster, tmp_path, disk, nodes):
    """Worker and job end as without it, and stderr names the file. What the file is given later is complete."""
    script = "echo begin >&2; while ! [ -e $1 ]; do sleep 0.02; done; echo written; echo end >&2"
    with open(disk / "out", "wb") as out:
        process = start_muster(
            ["run", *nodes, *(["--lease", 6] if nodes else []), "--label", "none", "--events", disk / "events",
             "--no-python", "/bin/sh", "-c", script, "sh", tmp_path / "go"],
            stdout=out, stderr=subprocess.PIPE)
    workers = 2 if nodes else 1
    read_until(process.stderr, b"begin\n", workers)
    subprocess.run(["fsfreeze", "--freeze", disk], check=True)
    (tmp_path / "go").touch()
    read_until(process.stderr, b"end\n", workers)
    said = read_until(process.stderr, b"muster: warning: stdout: the last ")
    assert b"are lost: %s is on a file system that does not respond" % os.fsencode(disk / "out") in said
    read_until(process.stderr, b"muster: warning: --events %s: the last " % os.fsencode(disk / "events"))
    subprocess.run(["fsfreeze", "--unfreeze", disk], check=True)
    assert process.wait(TIMEOUT) == 0, process.stderr.read().decode()


def test_a_round_and_a_report_on_a_file_system_that_does_not_respond(start_muster, tmp_path, disk):
    """The next round runs without log files, and the end does not wait for the report."""
    script = "echo begin $TORCHELASTIC_RESTART_COUNT; while ! [ -e $1 ]; do sleep 0.02; done; exit 7"
    process = start_muster(
        ["run", "--max-restarts", 1, "--log-dir", disk, "--report", disk / "report.json", "--label", "none", "--no-python",
         "/bin/sh", "-c", script, "sh", tmp_path / "go"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout.readline() == b"begin 0\n"
    subprocess.run(["fsfreeze", "--freeze", disk], check=True)
    (tmp_path / "go").touch()
    assert process.stdout.readline() == b"begin 1\n"
    said = read_until(process.stderr, b"the report is lost")
    subprocess.run(["fsfreeze", "--unfreeze", disk], check=True)
    assert process.wait(TIMEOUT) == 7, said.decode()
    assert b"no log files from now on: " in said and said.count(b"is on a file system that does not respond") >= 2


@contextlib.contextmanager
def hung(directory):
    """A file system that answers nothing lies over the directory: a FUSE without a daemon."""
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        device = os.open("/dev/fuse", os.O_RDWR)
    except OSError as error:
        pytest.skip(f"cannot mount a file system of its own: {error}")
    options = f"fd={device},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()}"
    if libc.mount(b"hung", os.fsencode(directory), b"fuse", 0, options.encode()) != 0:
        os.close(device)
        pytest.skip(f"cannot mount a file system of its own: {os.strerror(ctypes.get_errno())}")
    try:
        yield
    finally:
        os.close(device)  # every call that waits for it fails now
        subprocess.run(["umount", "--lazy", directory], check=True)


@pytest.mark.slow
@pytest.mark.root
@NODES
def test_a_log_directory_that_never_responds_is_refused(run_muster, tmp_path, nodes):
    with hung(tmp_path):
        done = run_muster(["run", *nodes, "--log-dir", tmp_path, "--no-python", "true"], timeout=TIMEOUT)
    assert done.returncode == 125, done.stderr
    assert f"cannot use the log directory {tmp_path}: its file system does not respond" in done.stderr


@pytest.mark.root
@pytest.mark.parametrize("nodes", [[], ["--local-nodes", 2, "--lease", 2]], ids=["one", "two"])
def test_error_files_on_a_file_system_that_does_not_respond(start_muster, tmp_path, nodes):
    """The job goes on, even if the lease is as short as the time for error files, and has its worker's exit code."""
    script = "echo begin $TORCHELASTIC_RESTART_COUNT; while ! [ -e $1 ]; do sleep 0.02; done; exit 7"
    process = start_muster(
        ["run", *nodes, "--max-restarts", 1, "--log-dir", tmp_path / "logs", "--label", "none", "--no-python", "/bin/sh",
         "-c", script, "sh", tmp_path / "go"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    read_until(process.stdout, b"begin 0\n", 2 if nodes else 1)
    with hung(tmp_path / "logs"):
        (tmp_path / "go").touch()
        out, said = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 7, said.decode()
    assert b"begin 1\n" in out, said.decode()
    assert b"cannot be read: its file system does not respond" in said, said.decode()
    assert b" is lost" not in said, said.decode()
