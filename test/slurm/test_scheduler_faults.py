"""What a scheduler does to a job: signals, suspension, limits, nodes and daemons that die, refusals."""

import pathlib
import re
import time

import pytest

from lab import node as lab_node
from multinode.harness import BEAT
from multinode.job import wait_for

SIGUSR1_EXIT = 138
KILL_WAIT_S = 5  # of the lab


def start(lab, beats, *options, run="", script="exec {muster} run {run} {beat}", count=2):
    """A batch job whose workers beat; exec, so that the batch step's signals reach muster."""
    lines = script.format(muster=lab.muster, run=run, beat=f"{BEAT} {beats.directory}")
    batch = lab.submit(lines, f"-N{count}", *options)
    beats.wait_round(0, count)
    return batch


def go_on(beats, count=2):
    """Every rank of the first round beats from now on."""
    now = time.monotonic()
    for rank in range(count):
        beats.wait_beat(0, rank, now)


def test_slurmctld_is_killed_and_comes_back(slurm, beats):
    lab = slurm(2, gpus=0)
    batch = start(lab, beats)
    its = lab.cluster.lab.node("ctl")
    saved = lab.cluster.directory / "ctld/job_state"
    wait_for("slurmctld to save what runs where", lambda: saved.exists() and b"n[1-2]" in saved.read_bytes())
    its.daemons["slurmctld"].kill()
    wait_for("the end of slurmctld", lambda: not its.daemons["slurmctld"].alive)
    go_on(beats)
    lab_node.start_daemon(lab.cluster.lab, its, "slurmctld")
    wait_for("slurmctld", lambda: lab.run("scontrol", "ping").code == 0)
    go_on(beats)
    beats.tell("all", "exit 0")
    ended = batch.end()
    assert (ended.code, ended.state) == (0, "COMPLETED"), ended
    assert {life.round for life in beats.lives()} == {0}


def test_a_node_that_is_set_down_is_done_without(slurm, beats):
    lab = slurm(3, gpus=0)
    batch = start(lab, beats, "--no-kill", run="--nnodes 2:3 --max-restarts 0", count=3)
    lab.cluster.has_killed_all = True  # slurmd does, of this job on that node
    down = lab.run("scontrol", "update", "nodename=n3", "state=down", "reason=test")
    assert down.code == 0, down
    lives = beats.wait_rounds_with(2, after=0)
    assert {life.host for life in lives} == {"n1", "n2"}
    beats.tell("all", "exit 0")
    ended = batch.end()
    assert ended.code == 0, ended
    assert "n3" in ended.err, ended
    beats.assert_one_round_at_a_time()


def test_a_node_that_loses_power_is_done_without(slurm, beats):
    lab = slurm(3, gpus=0)
    batch = start(lab, beats, "--no-kill", run="--nnodes 2:3 --lease 3", count=3)
    lab.cluster.power_off("n3")
    beats.wait_rounds_with(2, after=0)
    beats.tell("all", "exit 0")
    ended = batch.end()
    assert ended.code == 0, ended
    beats.assert_one_round_at_a_time()


def test_an_allocation_of_which_a_node_is_gone(slurm, beats):
    lab = slurm(2, gpus=0)
    script = (
        "scontrol update nodename=n2 state=down reason=test\n"
        f"{lab.muster} run --join-timeout 20 {BEAT} {beats.directory}\n"
    )
    ended = lab.batch(script, "-N2", "--no-kill")
    assert ended.code == 125, ended
    assert "n2: srun: the node is" in ended.err, ended
    assert not beats.lives()


def test_a_muster_of_a_step_that_is_killed_is_not_waited_for(slurm, beats):
    """srun starts no task again. It may drop what the last task wrote just before its end: each writes to a file."""
    lab = slurm(2, gpus=0)
    errors = f"{beats.directory}/errors"
    batch = start(lab, beats, script="srun bash -c 'exec {muster} run {run} {beat} 2>" + errors + ".$SLURMD_NODENAME'")
    lab.cluster.kill_all("n2", "muster run")
    ended = batch.end()
    said = pathlib.Path(f"{errors}.n1").read_text()
    assert "1 of 2 nodes, and no other will be started; n2 is lost: " in said, (said, ended)
    lab.cluster.wait_no_worker("n1")


def test_srun_is_refused(slurm, beats):
    """By a limit that no further attempt can pass."""
    lab = slurm(2, gpus=0, conf=["MaxStepCount=1"])
    ended = lab.batch(f"srun true\n{lab.muster} run --join-timeout 30 {BEAT} {beats.directory}", "-N2")
    assert ended.code == 125, ended
    assert "srun: " in ended.err and "n1" in ended.err, ended
    assert not beats.lives()


def test_scancel(slurm, beats):
    lab = slurm(2, gpus=0, conf=["KillWait=30"])  # time for the report on a busy machine
    batch = start(lab, beats)
    batch.control("scancel")
    assert batch.end().state == "CANCELLED"
    for name in lab.cluster.names:
        lab.cluster.wait_no_worker(name)
    batch.wait_err(f" was stopped: Slurm cancelled job {batch.id} (SIGTERM)\n")


def test_a_script_that_ends_before_its_step(slurm, beats):
    """Slurm ends the step as if the job had been cancelled, and muster does not say that it was."""
    lab = slurm(2, gpus=0, conf=["KillWait=30"])
    said, go = (pathlib.Path(beats.directory, name) for name in ("errors", "go"))
    batch = start(
        lab, beats, script="srun bash -c 'exec {muster} run {run} {beat} 2>" + f"{said}.$SLURMD_NODENAME' &\n"
        f"until [ -e {go} ]; do sleep 0.1; done"
    )
    go.touch()
    why = f" was stopped: Slurm is ending job {batch.id}, which was cancelled or whose script has ended (SIGTERM)\n"
    first = pathlib.Path(f"{said}.n1")
    wait_for(lambda: f"{why!r} in {first.read_text()}", lambda: why in first.read_text())
    assert batch.end().state == "COMPLETED"
    for name in lab.cluster.names:
        lab.cluster.wait_no_worker(name)


def test_sigterm_that_is_not_slurms(slurm, beats):
    """The job goes on for Slurm: nothing was cancelled."""
    lab = slurm(2, gpus=0)
    batch = start(lab, beats)
    batch.control("scancel", "-b", "-s", "TERM")
    batch.wait_err(" was stopped: muster received SIGTERM\n")
    batch.control("scancel")
    batch.end()


@pytest.mark.parametrize("how", [[], ["-b"], ["-f"]], ids=["steps", "batch", "both"])
def test_scancel_with_a_signal(slurm, beats, how):
    """Workers get it, whichever way it comes; those that do not catch it die of it, and that is the job's end."""
    lab = slurm(2, gpus=0)
    batch = start(lab, beats)
    batch.control("scancel", *how, "-s", "USR1")
    ended = batch.end()
    assert ended.code == SIGUSR1_EXIT, ended
    assert "muster received SIGUSR1 and passed it on; rank" in ended.err, ended


@pytest.mark.slow
def test_suspend_and_resume(slurm, beats):
    lab = slurm(2, gpus=0)
    lease_s = 6  # Slurm stops and continues one node after the other: on a busy machine, seconds apart
    batch = start(lab, beats, run=f"--lease {lease_s}")
    batch.control("scontrol", "suspend")

    def still():
        before = [life.last for life in beats.lives()]
        time.sleep(0.3)  # six beats
        return before == [life.last for life in beats.lives()]

    wait_for("all workers to stand still", still)
    time.sleep(lease_s + 2)  # longer than the lease: it is the matter of this test
    batch.control("scontrol", "resume")
    go_on(beats)
    beats.tell("all", "exit 0")
    ended = batch.end()
    assert ended.code == 0, ended
    assert {life.round for life in beats.lives()} == {0}


@pytest.mark.slow
@pytest.mark.long
def test_the_time_limit(slurm, beats):
    """Slurm looks every 30 s; it sends SIGTERM, and SIGKILL after KillWait."""
    lab = slurm(2, gpus=0)
    batch = start(lab, beats, "--time=1")
    assert batch.end(150).state == "TIMEOUT"
    batch.wait_err("SIGTERM")


def test_the_launcher_is_killed(slurm, beats):
    lab = slurm(3, gpus=0)
    batch = start(lab, beats, count=3, script="{muster} run {run} {beat}")
    launcher = [pid for pid, words in lab.cluster.processes("n1").items() if " run " in words and "muster" in words.split()[0]]
    assert len(launcher) == 1, lab.cluster.processes("n1")
    lab.cluster.kill(launcher[0])
    lab.cluster.has_killed_all = True  # Slurm does, once the script has ended
    for name in lab.cluster.names:
        lab.cluster.wait_no_worker(name)
    assert batch.end().code == 137


def kill_the_launcher(lab, pid, words):
    """While its batch script goes on, so that Slurm ends nothing; nothing is left whose command line has the words."""
    lab.cluster.has_killed = True
    assert lab.cluster.exec("n1", ["kill", "-KILL", pid.read_text().strip()]).end() == 0

    def left():
        found = [line for name in lab.cluster.names for line in lab.cluster.processes(name).values()]
        return [line for line in found if re.search(words, line)]

    wait_for(lambda: f"the end of {left()}", lambda: not left())


def test_the_launcher_is_killed_before_anybody_has_joined(slurm, beats, tmp_path):
    """srun goes with it, and what srun has started: here what Slurm runs before an agent, and never ends."""
    held = tmp_path / "held"
    held.touch()
    prolog = tmp_path / "prolog.sh"
    prolog.write_text(f"#!/bin/sh\ntest $SLURM_STEP_ID || exit 0\necho $SLURMD_NODENAME >> {held}; exec sleep 1000\n")
    prolog.chmod(0o755)
    lab = slurm(2, gpus=0, conf=[f"TaskProlog={prolog}"])
    pid = lab.file("pid", "")
    batch = lab.submit(f"{lab.muster} run {BEAT} {beats.directory} & echo $! > {pid}; wait; exec sleep 2000", "-N2")
    wait_for("a task on both nodes", lambda: sorted(held.read_text().split()) == ["n1", "n2"])
    kill_the_launcher(lab, pid, "muster|srun|sleep 1000")
    assert not beats.lives()
    batch.control("scancel")
    batch.end()


def test_a_launcher_that_is_killed_takes_the_set_up_along(slurm):
    lab = slurm(2, gpus=0)
    up, pid = lab.file("up", ""), lab.file("pid", "")
    prologue = lab.file("prologue.sh", f"setsid sleep 1000 & echo $SLURMD_NODENAME >> {up}; sleep 1000\n")
    batch = lab.submit(f"{lab.muster} run --prologue {prologue} true & echo $! > {pid}; wait; exec sleep 2000", "-N2")
    wait_for("the set-up of both nodes", lambda: sorted(up.read_text().split()) == ["n1", "n2"])
    kill_the_launcher(lab, pid, "muster|prologue|sleep 1000")
    batch.control("scancel")
    batch.end()
