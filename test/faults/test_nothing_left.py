"""Nothing outlives a job: whoever is killed, and whatever relatives its workers have, none of them is left."""

import os
import pathlib
import random
import select
import signal
import subprocess
import time

import pytest

from harness import END_WITHIN_S, carriers, children_of, stat_of, wait_gone, wait_none

pytestmark = pytest.mark.multiprocess

WORKER = pathlib.Path(__file__).parent / "workers/family.py"
ALL = "child,deaf,stopped,daemon,forgetful"


class Process:
    """One process, whatever becomes of its number."""

    def __init__(self, pid, role):
        self.pid, self.role, self.fd = pid, role, os.pidfd_open(pid)

    def ended(self, timeout=0):
        return bool(select.select([self.fd], [], [], max(0, timeout))[0])

    def __repr__(self):
        return f"{self.role} (pid {self.pid})"


class Job:
    def __init__(self, muster, family_file, workers):
        self.muster = muster
        ready = 0
        while ready < workers:
            line = muster.stdout.readline()
            assert line, f"muster ended: {muster.stderr.read()}"
            ready += "ready" in line
        lines = (line.split() for line in family_file.read_text().splitlines())
        self.family = [Process(int(pid), role) for pid, role in lines]

    def agent(self):
        (agent,) = children_of(self.muster.pid)
        return agent

    def relatives(self, rank):
        return [p for p in self.family if p.role.startswith(f"rank{rank}-")]

    def worker(self, rank):
        (worker,) = [p for p in self.family if p.role == f"rank{rank}-worker"]
        return worker


def left_of(processes):
    """Those that still run a second later."""
    return wait_none(lambda: [p for p in processes if not p.ended()])


@pytest.fixture
def start_family(start_muster, tmp_path, job_marker):
    """start_family(roles, how, *options) -> Job of two workers, all of whose relatives run."""
    jobs = []
    family_file = tmp_path / "family"
    temporary = tmp_path / "tmp"
    temporary.mkdir()

    def start(roles, how="stays", options=(), workers=2):
        family_file.write_text("")
        muster = start_muster(
            ["run", "--nproc-per-node", workers, "--label", "none", *options, WORKER, roles, how],
            env={"FAMILY": str(family_file), "TMPDIR": str(temporary)},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        jobs.append(Job(muster, family_file, workers))
        return jobs[-1]

    shm_before = set(os.listdir("/dev/shm"))
    yield start
    assert wait_gone(job_marker) == {}
    left = [p for job in jobs for p in job.family if not p.ended()]
    for process in left:
        signal.pidfd_send_signal(process.fd, signal.SIGKILL)
    for job in jobs:
        for process in job.family:
            os.close(process.fd)
    assert not left
    assert list(temporary.iterdir()) == []
    assert not [name for name in set(os.listdir("/dev/shm")) - shm_before if "muster" in name]


@pytest.mark.parametrize("victim", ["muster", "agent"])
def test_sigkill(start_family, victim, job_marker):
    job = start_family(ALL)
    os.kill(job.agent() if victim == "agent" else job.muster.pid, signal.SIGKILL)
    assert job.muster.wait(END_WITHIN_S) == (125 if victim == "agent" else -signal.SIGKILL)
    assert left_of(job.family) == []
    assert wait_gone(job_marker) == {}


@pytest.mark.parametrize("victim", ["muster", "agent"])
def test_sigkill_of_a_suspended_job(start_family, victim, job_marker):
    job = start_family("child,daemon")
    agent = job.agent()
    job.muster.send_signal(signal.SIGTSTP)
    deadline = time.monotonic() + END_WITHIN_S
    while stat_of(job.muster.pid)[0] != "T":
        assert time.monotonic() < deadline, "the job was not suspended"
        time.sleep(0.01)
    os.kill(agent if victim == "agent" else job.muster.pid, signal.SIGKILL)
    if victim == "agent":
        job.muster.send_signal(signal.SIGCONT)  # what the shell's fg does; a stopped warden cannot act
    assert job.muster.wait(END_WITHIN_S) == (125 if victim == "agent" else -signal.SIGKILL)
    assert left_of(job.family) == []
    assert wait_gone(job_marker) == {}


def test_sigterm_to_workers_that_ignore_it(start_family):
    job = start_family(ALL, "deaf", ["--shutdown-timeout", "1"])
    job.muster.send_signal(signal.SIGTERM)
    assert job.muster.wait(END_WITHIN_S) == 128 + signal.SIGTERM
    assert left_of(job.family) == []


@pytest.mark.parametrize("name", ["SIGTERM", "SIGKILL"])
def test_a_stopped_worker(start_family, name):
    job = start_family("child")
    os.kill(job.worker(0).pid, signal.SIGSTOP)
    job.muster.send_signal(signal.Signals[name])
    assert job.muster.wait(END_WITHIN_S) == (143 if name == "SIGTERM" else -signal.SIGKILL)
    assert left_of(job.family) == []


@pytest.mark.parametrize("code", [0, 3])
def test_a_worker_that_ends(start_family, tmp_path, code):
    """With 0 its own relatives go and the others stay; with a failure all go."""
    job = start_family("child,deaf,stopped,daemon", f"first-exits-{code}", ["--shutdown-timeout", "60"])
    (tmp_path / "family.go").touch()
    assert job.worker(0).ended(END_WITHIN_S)
    assert left_of(job.relatives(0)) == []
    if code == 0:
        assert [p for p in job.relatives(1) if p.ended()] == []
        job.muster.send_signal(signal.SIGTERM)
    assert job.muster.wait(END_WITHIN_S) == (code or 128 + signal.SIGTERM)
    assert left_of(job.family) == []


def test_a_worker_that_ends_while_others_are_being_started(start_muster, tmp_path):
    """Its daemon goes, though no other worker ends after it."""
    daemon = tmp_path / "daemon"
    script = (
        f"if [ $RANK = 0 ]; then setsid sleep 1000 & echo $! >{daemon}; exit 0; fi;"
        "[ $RANK != 39 ] || echo last; exec sleep 1000"
    )
    job = start_muster(["run", "--nproc-per-node", "40", "--no-python", "/bin/sh", "-c", script],
                       env={"TMPDIR": str(tmp_path)}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert "last" in job.stdout.readline()
    deadline = time.monotonic() + END_WITHIN_S
    while not (daemon.exists() and daemon.read_text()):
        assert time.monotonic() < deadline, "rank 0 has not run"
        time.sleep(0.01)
    left = f"/proc/{daemon.read_text().strip()}"
    assert not wait_none(lambda: os.path.exists(left))
    job.send_signal(signal.SIGTERM)
    assert job.wait(END_WITHIN_S) == 128 + signal.SIGTERM


# Rank 0 leaves a daemon; the others exit as they are told.
LEAVES_ONE = "if [ $RANK = 0 ]; then setsid sleep 1000 </dev/null >/dev/null 2>&1 & echo $! >$DAEMON; exit 0; fi; "


def run_leaving_one(run_muster, tmp_path, command, others="exit 0"):
    daemon = tmp_path / "daemon"
    done = run_muster([*command, "--nproc-per-node", 2, "--no-python", "/bin/sh", "-c", LEAVES_ONE + others],
                      env={"TMPDIR": str(tmp_path), "DAEMON": str(daemon)})
    return done, int(daemon.read_text())


# While another worker still runs, and when it is the last.
@pytest.mark.parametrize("others", ["exit 0", "while [ -e /proc/$(cat $DAEMON || echo self) ]; do sleep 0.01; done"])
def test_what_a_worker_left_running_is_named(run_muster, tmp_path, others):
    done, daemon = run_leaving_one(run_muster, tmp_path, ["run"], others)
    assert done.returncode == 0, done.stderr
    said = f"muster: warning: ended 1 process that rank 0 left running: sleep (pid {daemon}); --keep-children"
    assert said in done.stderr
    assert not os.path.exists(f"/proc/{daemon}")


# Leaves a process, as Python's resource tracker is one, that ends when the worker has closed a pipe to it.
LEAVES_A_TRACKER = """
import os
read, write = os.pipe()
ready, is_ready = os.pipe()
if os.fork() == 0:
    os.close(write)
    os.setsid()
    os.write(is_ready, b"!")
    os.read(read, 1)
    os._exit(0)
os.read(ready, 1)
os._exit(0)
"""


def test_what_ends_soon_by_itself_is_not_named(run_muster, tmp_path):
    script = tmp_path / "worker.py"
    script.write_text(LEAVES_A_TRACKER)
    done = run_muster(["run", "--nproc-per-node", 1, script], env={"TMPDIR": str(tmp_path)})
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("command", [["run", "--keep-children"], ["torchrun"]])
def test_children_that_are_kept_outlive_the_job(run_muster, tmp_path, command):
    done, daemon = run_leaving_one(run_muster, tmp_path, command)
    assert done.returncode == 0, done.stderr
    kept = Process(daemon, "daemon")
    try:
        assert not kept.ended(), done.stderr
        assert "left running" not in done.stderr
    finally:
        signal.pidfd_send_signal(kept.fd, signal.SIGKILL)
        os.close(kept.fd)


@pytest.mark.parametrize("nodes", [[], ["--local-nodes", "2"]])
def test_children_are_not_kept_in_a_round_that_fails(run_muster, tmp_path, nodes):
    """Of one node the other rank fails; of two nodes the other one, when this one's workers have all exited."""
    waits = "while [ ! -s $DAEMON ] || [ ! -e /proc/$(cat $DAEMON) ]; do sleep 0.01; done; exit 3"
    size = ["--nproc-per-node", 1 if nodes else 2]
    daemon = tmp_path / "daemon"
    done = run_muster(["run", "--keep-children", *nodes, *size, "--no-python", "/bin/sh", "-c", LEAVES_ONE + waits],
                      env={"TMPDIR": str(tmp_path), "DAEMON": str(daemon)})
    assert done.returncode == 3, done.stderr
    assert not os.path.exists(f"/proc/{daemon.read_text().strip()}")


def test_the_worker_alone_is_killed(start_family):
    """Its relatives go at once, though another worker takes a minute to stop."""
    job = start_family("child,deaf,daemon", "deaf", ["--shutdown-timeout", "60"])
    os.kill(job.worker(0).pid, signal.SIGKILL)
    assert left_of(job.relatives(0)) == []
    assert not job.worker(1).ended()
    job.muster.kill()
    assert left_of(job.family) == []


def test_a_round_starts_after_the_end_of_the_last(start_muster, tmp_path):
    """The second round finds nobody of the first, not even a daemon without its environment."""
    log = tmp_path / "log"
    script = (
        "if [ $TORCHELASTIC_RESTART_COUNT = 0 ]; then"
        "  setsid env -i sh -c 'echo $$$$ >>\"$0\"; exec sleep 1000' $LOG & "
        "  while [ ! -s $LOG ]; do sleep 0.01; done; exit 1;"
        "fi;"
        "for pid in $(cat $LOG); do ! kill -0 $pid 2>/dev/null || exit 9; done; exit 0"
    )
    job = start_muster(["run", "--max-restarts", "1", "--no-python", "/bin/sh", "-c", script],
                       env={"LOG": str(log), "TMPDIR": str(tmp_path)}, stderr=subprocess.PIPE, text=True)
    _, err = job.communicate(timeout=30)
    assert job.returncode == 0, err
    assert log.read_text().strip()


@pytest.mark.parametrize("name", ["SIGTERM", "SIGKILL"])
def test_a_worker_that_forks_all_the_time(start_muster, tmp_path, job_marker, name):
    """Each process starts its successor in a session of its own and ends: any list of them is old when it is read."""
    chain = tmp_path / "chain"
    chain.write_text("echo; setsid sh $0 & exit\n")
    job = start_muster(["run", "--no-python", "/bin/sh", "-c", f"for i in 1 2 3; do sh {chain} & done; wait; sleep 1000"],
                       env={"TMPDIR": str(tmp_path)}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    for _ in range(50):
        assert job.stdout.readline()
    job.send_signal(signal.Signals[name])
    job.wait(END_WITHIN_S)
    assert wait_gone(job_marker) == {}


def test_sigkill_at_any_moment_of_the_start(start_muster, tmp_path, job_marker):
    """The races between fork, exec and the watching of each other."""
    moments = random.Random(5)
    for turn in range(30):
        job = start_muster(["run", "--nproc-per-node", "4", "--no-python", "/bin/sh", "-c", "setsid sleep 1000 & sleep 1000"],
                           env={"TMPDIR": str(tmp_path)}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(moments.uniform(0, 0.03))  # no event to wait for: any moment will do
        victim = job.pid if turn % 2 else next(iter(children_of(job.pid)), job.pid)
        os.kill(victim, signal.SIGKILL)
        job.wait(END_WITHIN_S)
        assert wait_gone(job_marker) == {}, f"turn {turn}"
        assert carriers(job_marker) == []
