"""A node that cannot be heard runs no worker beside the next round, whichever of its processes stands still or does not die."""

import contextlib
import ctypes
import os
import signal
import threading
import time

import pytest

from .harness import BEAT
from .job import SOON_S, wait_for
from .launch import start

LEASE_S = 2
PTRACE_SEIZE, PTRACE_O_TRACEEXIT = 0x4206, 0x40


def begin(cluster, beats, nnodes="1:2", lease=LEASE_S):
    run = start(cluster, "fan-out", [BEAT, beats.directory], nnodes=nnodes, options=["--lease", lease])
    beats.wait_round(0, len(cluster.names))
    return run


def finish(run, beats, slack=0):
    beats.tell("all", "exit 0")
    assert run.head.end() == 0, run.said()
    beats.assert_one_round_at_a_time(slack)


def stop(*pids):
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)


def resume(*pids):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):  # fenced meanwhile
            os.kill(pid, signal.SIGCONT)


def pass_time(seconds):
    """For a fault that lasts, or a rule about time: there is no event to wait for."""
    end = time.monotonic() + seconds
    wait_for(f"{seconds} s to pass", lambda: time.monotonic() >= end, within=seconds + SOON_S)


def runs_on_alone(beats, seconds=1.5):
    """Round 1 has started on n1 and has run for a while beside whatever n2 still runs."""
    lives = beats.wait_round(1, 1)
    assert [life.host for life in lives] == ["n1"]
    beats.wait_beat(1, 0, lives[0].first + seconds)
    beats.assert_one_round_at_a_time()


@contextlib.contextmanager
def undying(pid):
    """SIGKILL does not end the process, as in an uninterruptible sleep, until the with-block ends: a tracer holds it in its exit."""
    attached, over, failed = threading.Event(), threading.Event(), []

    def trace():  # a tracer is a thread
        libc = ctypes.CDLL(None, use_errno=True)
        libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
        if libc.ptrace(PTRACE_SEIZE, pid, None, PTRACE_O_TRACEEXIT) != 0:
            failed.append(os.strerror(ctypes.get_errno()))
        attached.set()
        over.wait()

    tracer = threading.Thread(target=trace)
    tracer.start()
    attached.wait()
    try:
        assert not failed, f"ptrace: {failed}"
        yield
    finally:
        over.set()
        tracer.join()


def test_an_agent_that_does_not_die_on_a_node_that_is_cut_off(lab, beats):
    """The warden kills the workers itself, and does not wait for the agent's end."""
    cluster = lab(2)
    run = begin(cluster, beats)
    warden, agent = cluster.warden_and_agent("n2")
    with undying(agent):
        cluster.cut("n2")
        runs_on_alone(beats)
        assert not cluster.workers("n2")
        wait_for("the end of the warden", lambda: warden not in cluster.processes("n2"))
        assert agent in cluster.processes("n2"), "the agent was to live on"
    cluster.heal("n2")
    beats.wait_rounds_with(2, after=1)
    finish(run, beats)


def test_an_agent_that_hangs_and_does_not_die(lab, beats):
    """Its warden misses its pulse. The launcher starts another agent on the node while the first one still hangs."""
    cluster = lab(2)
    run = begin(cluster, beats)
    _, agent = cluster.warden_and_agent("n2")
    with undying(agent):
        stop(agent)  # it is in the hands of its tracer, which does not let it go on
        beats.wait_rounds_with(2, after=0)
        assert agent in cluster.processes("n2"), "the agent was to live on"
        beats.assert_one_round_at_a_time()
    finish(run, beats)


def test_a_warden_that_stands_still_on_a_node_that_is_cut_off(lab, beats):
    """The agent holds the lease too."""
    cluster = lab(2)
    run = begin(cluster, beats)
    warden, _ = cluster.warden_and_agent("n2")
    stop(warden)
    cluster.cut("n2")
    runs_on_alone(beats)
    resume(warden)
    cluster.heal("n2")
    beats.wait_rounds_with(2, after=1)
    finish(run, beats)


def test_a_pause_does_not_lengthen_a_lease(lab, beats):
    """A warden that wakes before the end of its lease has what is left of it, and no more."""
    cluster, lease = lab(2), 3
    run = begin(cluster, beats, lease=lease)
    warden, _ = cluster.warden_and_agent("n2")
    stop(warden)
    cluster.cut("n2")
    pass_time(lease - 0.7)
    resume(warden)
    runs_on_alone(beats)
    cluster.heal("n2")
    beats.wait_rounds_with(2, after=1)
    finish(run, beats)


def test_a_node_that_stood_still_wakes_up_beside_the_next_round(lab, beats):
    """All of it gets SIGCONT, one process after the other; its workers are stopped again at once."""
    cluster = lab(2)
    run = begin(cluster, beats)
    cluster.freeze("n2")
    cluster.cut("n2")  # its warden asks, and gets no answer
    runs_on_alone(beats)
    thawed = time.monotonic()
    cluster.thaw("n2")
    beats.wait_beat(1, 0, thawed + LEASE_S + 0.5)
    cluster.heal("n2")
    beats.wait_rounds_with(2, after=1)
    finish(run, beats, slack=1)  # a worker may get SIGCONT before its warden does


def test_a_warden_locks_its_memory(lab, beats):
    """A node that swaps must not keep it from its lease."""
    cluster = lab(2)
    run = begin(cluster, beats)
    for name in cluster.names:
        warden, _ = cluster.warden_and_agent(name)
        with open(f"/proc/{warden}/status") as status:
            locked = [line for line in status if line.startswith("VmLck:")]
        assert int(locked[0].split()[1]) > 0, (name, locked)
    finish(run, beats)


@pytest.mark.slow
def test_a_scheduler_that_stops_sessions_suspends_the_job(lab, beats):
    """PBS stops the launcher and the wardens; agents and workers have sessions of their own, and stop with them."""
    cluster = lab(2)
    lease = 2 * LEASE_S
    run = begin(cluster, beats, nnodes=2, lease=lease)
    stopped = [run.head.pid, *(cluster.warden_and_agent(name)[0] for name in cluster.names)]
    stop(*stopped)
    for name in cluster.names:
        wait_for(f"the workers of {name} to stop", lambda: all(state_of(pid) == "T" for pid in cluster.workers(name)))
    pass_time(1.5 * lease)
    resume(*stopped)
    for rank in (0, 1):
        beats.wait_beat(0, rank, time.monotonic() + lease, within=SOON_S + lease)
    finish(run, beats)
    assert {life.round for life in beats.lives()} == {0}
    assert min(life.longest_pause for life in beats.lives()) > lease


def state_of(pid):
    with open(f"/proc/{pid}/stat") as f:
        return f.read().rpartition(")")[2].split()[0]
