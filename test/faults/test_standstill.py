"""SIGSTOP of one of muster's two processes: the workers stand still with it, and the job can be continued and ended."""

import os
import signal
import subprocess
import time

import pytest

from harness import children_of, shell, stat_of

pytestmark = pytest.mark.multiprocess

SOON_S = 20


class Job:
    """Two workers."""

    def __init__(self, start_muster, *options):
        self.muster = start_muster(
            ["run", *(options or ["--nproc-per-node", "2"]), "--label", "none", *shell("echo $(exec sh -c 'echo $PPID'); exec sleep 1000")],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        self.workers = [int(self.muster.stdout.readline()) for _ in range(2)]
        self.agent = children_of(self.muster.pid)[0]

    def wait_states(self, *stopped):
        """Until each worker is stopped, or runs, as given."""
        deadline = time.monotonic() + SOON_S
        while (states := tuple(stat_of(pid)[0] == "T" for pid in self.workers)) != stopped:
            assert time.monotonic() < deadline, f"stopped: {states}"
            time.sleep(0.01)


@pytest.fixture
def job(start_muster):
    return Job(start_muster)


@pytest.mark.parametrize("which", ["warden", "agent"])
def test_the_workers_stop_and_go_on_with(job, which):
    pid = job.muster.pid if which == "warden" else job.agent
    os.kill(pid, signal.SIGSTOP)
    job.wait_states(True, True)
    os.kill(pid, signal.SIGCONT)
    job.wait_states(False, False)
    job.muster.send_signal(signal.SIGTERM)
    assert job.muster.wait(SOON_S) == 143


@pytest.mark.parametrize("which", ["warden", "agent"])
def test_a_worker_that_others_have_stopped_stays_stopped(job, which):
    os.kill(job.workers[0], signal.SIGSTOP)
    job.wait_states(True, False)
    pid = job.muster.pid if which == "warden" else job.agent
    os.kill(pid, signal.SIGSTOP)
    job.wait_states(True, True)
    os.kill(pid, signal.SIGCONT)
    job.wait_states(True, False)


def test_a_job_whose_agent_is_stopped_can_be_ended(job):
    os.kill(job.agent, signal.SIGSTOP)
    job.wait_states(True, True)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGINT):
        job.muster.send_signal(number)
    assert job.muster.wait(SOON_S) in (130, 143)  # of signals that wait the kernel delivers the lowest one first
    assert "is stopped; everything of the job on this node was ended" in job.muster.stderr.read()


def test_the_nodes_of_a_launcher_stop_and_go_on_with_it(start_muster):
    """However long: as in a job of PBS that is suspended. Its nodes here have sessions of their own."""
    job = Job(start_muster, "--local-nodes", "2", "--lease", "4")
    os.kill(job.muster.pid, signal.SIGSTOP)
    job.wait_states(True, True)
    time.sleep(6)  # longer than a lease; there is no event
    job.wait_states(True, True)
    os.kill(job.muster.pid, signal.SIGCONT)
    job.wait_states(False, False)
    job.muster.send_signal(signal.SIGTERM)
    assert job.muster.wait(SOON_S) == 143
    assert "lost" not in job.muster.stderr.read()
