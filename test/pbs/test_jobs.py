"""muster run in a PBS job: one line in its script."""

import os
import re
import signal

import pytest

from multinode.harness import BEAT
from multinode.job import wait_for


def script(*lines):
    return "\n".join(["#!/bin/bash", "cd $PBS_O_WORKDIR", *map(str, lines)]) + "\n"


def hosts(lives):
    return [life.host for life in sorted(lives, key=lambda life: life.rank)]


@pytest.fixture
def muster_path(muster):
    return os.path.dirname(muster)


@pytest.mark.parametrize("nodes", [2, 3])
def test_one_line(pbs, beats, muster_path, nodes):
    p = pbs(nodes, path=[muster_path])
    # A chunk comes back to the first host, and each has two MPI processes: neither is a worker.
    names = p.cluster.names
    job = p.qsub(script(f"muster run {BEAT} {beats.directory}"), lines=[*names, *names, "n1"])
    assert hosts(beats.wait_round(0, nodes)) == names
    beats.tell("all", "exit 0")
    assert job.end() == 0, job.said()
    p.cluster.assert_nothing_left()


def test_what_workers_see(pbs, muster_path):
    """The script's environment everywhere, and of the node what is the node's own."""
    p = pbs(2, path=[muster_path])
    show = 'env | sed "s/^/$MUSTER_HOST: /"'
    job = p.qsub(script("export MINE=yes PATH=$PATH:/mine", f"muster run --no-python /bin/sh -c '{show}'"))
    assert job.end() == 0, job.said()
    seen = {host: dict(re.findall(rf"{host}: (\w+)=(.*)$", job.out, re.M)) for host in p.cluster.names}
    for host, number in (("n1", "0"), ("n2", "1")):
        assert seen[host]["MINE"] == "yes" and seen[host]["PATH"].endswith(":/mine"), job.said()
        assert seen[host]["USER"] == p.user and seen[host]["PWD"] == str(p.cluster.shared)
        assert seen[host]["PBS_JOBID"] == job.id and seen[host]["PBS_NODENUM"] == number
        assert seen[host]["PBS_NODEFILE"].startswith(p.nodefiles) and seen[host]["TMPDIR"].startswith(p.temporary)


def test_devices_that_were_chosen_for_a_command(pbs, muster_path):
    """PBS sets its own on every node; it tells them in no other variable."""
    p = pbs(2, path=[muster_path])
    run = "muster run --label none --nproc-per-node 1 --no-python /bin/sh -c 'echo $MUSTER_HOST $CUDA_VISIBLE_DEVICES'"
    job = p.qsub(script(run, f"CUDA_VISIBLE_DEVICES=3 {run}"), given=["CUDA_VISIBLE_DEVICES=0"])
    assert job.end() == 0, job.said()
    assert sorted(job.out.splitlines()) == ["n1 0", "n1 3", "n2 0", "n2 3"], job.said()
    assert "CUDA_VISIBLE_DEVICES=3 is not PBS's: every node uses these devices" in job.err, job.said()


def test_the_exit_code_is_the_workers(pbs, beats, muster_path):
    p = pbs(2, path=[muster_path])
    job = p.qsub(script(f"muster run {BEAT} {beats.directory}"))
    beats.wait_round(0, 2)
    beats.tell(1, "exit 7")
    assert job.end() == 7, job.said()
    assert "n2" in job.err, job.said()


def test_where(pbs, muster_path):
    job = pbs(2, path=[muster_path]).qsub(script("muster where"), lines=["n1", "n1", "n2"])
    assert job.end() == 0, job.said()
    assert f"batch script of PBS job {job.id} (train) on 2 nodes" in job.out, job.said()
    assert "PBS_NODEFILE" in job.out and "pbs_tmrsh" in job.out
    assert re.search(r"^time left: (59 min \d+ s|1 h 0 min)$", job.out, re.M), job.said()  # from qstat -f


# --- The end ----------------------------------------------------------------------------------------------------------


def test_qdel_of_a_script(pbs, beats, muster_path):
    """The login shell dies at once, and the launcher is killed before it can ask anybody for anything."""
    p = pbs(2, path=[muster_path])
    job = p.qsub(script(f"muster run {BEAT} {beats.directory}"))
    beats.wait_round(0, 2)
    p.cluster.has_killed = True  # by MOM
    job.qdel()
    # PBS signals one process after the other: the login shell may hear of the script's death first, and end by itself.
    assert job.end() in (256 + signal.SIGTERM, 128 + signal.SIGTERM), job.said()
    p.cluster.assert_nothing_left()


TRAP = "trap 'echo $MUSTER_HOST saves; exit 0' TERM; echo $MUSTER_HOST works; while :; do sleep 0.1; done"


@pytest.mark.parametrize("how", ["qdel", "walltime"])
def test_a_command_has_time_to_stop(pbs, muster, how):
    """Without a shell around it muster has the time that PBS leaves, and hands the signal to every node."""
    p = pbs(2)
    command = [muster, "run", "--no-python", "/bin/sh", "-c", TRAP]
    job = p.qsub(command=command, walltime=3 if how == "walltime" else 3600)
    job.expect("n1 works")
    job.expect("n2 works")
    if how == "qdel":
        job.qdel()
    assert job.end() == (-29 if how == "walltime" else 128 + signal.SIGTERM), job.said()
    assert "n1 saves" in job.out and "n2 saves" in job.out, job.said()
    p.cluster.assert_nothing_left()


def test_qsig_reaches_the_workers_of_every_node(pbs, muster):
    """PBS signals the processes of the first node only. Who catches it goes on."""
    p = pbs(2)
    end = p.cluster.shared / "end"
    trap = f"trap 'echo $MUSTER_HOST saves' USR1; echo $MUSTER_HOST works; until test -e {end}; do sleep 0.1; done"
    path = f"PATH={p.bin}:{os.environ['PATH']}"
    job = p.qsub(command=["/usr/bin/env", path, muster, "run", "--no-python", "/bin/sh", "-c", trap])
    job.expect("n1 works")
    job.expect("n2 works")
    job.qsig(signal.SIGUSR1)
    job.expect("n1 saves")
    job.expect("n2 saves")
    end.touch()
    assert job.end() == 0, job.said()
    p.cluster.assert_nothing_left()


def test_workers_that_do_not_stop_are_killed(pbs, beats, muster):
    p = pbs(2)
    command = [muster, "run", "--no-python", "/bin/sh", "-c", f"trap '' TERM; exec python3 {BEAT} {beats.directory}"]
    job = p.qsub(command=command, kill_delay=2)
    beats.wait_round(0, 2)
    p.cluster.has_killed = p.cluster.has_killed_all = True  # by MOM
    job.qdel()
    assert job.end() == 256 + signal.SIGKILL, job.said()
    p.cluster.assert_nothing_left()


# --- What is not there ------------------------------------------------------------------------------------------------


def test_a_node_that_is_gone_when_muster_starts(pbs, beats, muster_path):
    p = pbs(2, path=[muster_path])
    job = p.qsub(script("until test -e go; do sleep 0.05; done", f"muster run --join-timeout 6 {BEAT} {beats.directory}"))
    p.cluster.power_off("n2")
    (p.cluster.shared / "go").touch()
    assert job.end() == 125, job.said()
    assert re.search(r"no word of n2\n  missing  n2: starting through pbs_tmrsh", job.err), job.said()
    assert not beats.lives()


def test_a_node_that_is_lost(pbs, beats, muster_path):
    p = pbs(3, path=[muster_path])
    job = p.qsub(script(f"muster run --nnodes 2:3 --lease 2 {BEAT} {beats.directory}"))
    beats.wait_round(0, 3)
    p.cluster.power_off("n3")
    assert hosts(beats.wait_round(1, 2)) == ["n1", "n2"]
    beats.tell("all", "exit 0")
    assert job.end() == 0, job.said()


def test_muster_is_not_on_a_node(pbs, beats, muster_path):
    p = pbs(2, path=[muster_path])
    p.cluster.replace_program("n2")
    job = p.qsub(script(f"muster run {BEAT} {beats.directory}"))
    assert job.end() == 125, job.said()
    assert re.search(r"n2: PBS cannot execute \S+muster there; it must be under the same path on every node", job.err)


def test_the_program_is_not_on_a_node(pbs, muster_path):
    """What the agent found wrong is told by the launcher, not only in the job's error file."""
    p = pbs(2, path=[muster_path])
    job = p.qsub(script("cp /bin/true /tmp/train", "muster run --report report.json --no-python /tmp/train; echo code $?"))
    job.end()
    assert "code 127\n" in job.out, job.said()
    assert re.search(r"n2: .*/tmp/train", job.err), job.said()
    assert '"not-found"' in (p.cluster.shared / "report.json").read_text()
    p.cluster.root("n1").joinpath("tmp/train").unlink()


@pytest.mark.parametrize("nodefile", ["/nowhere", ""])
def test_no_nodefile(pbs, muster_path, nodefile):
    job = pbs(2, path=[muster_path]).qsub(script(f"PBS_NODEFILE={nodefile} muster run true; echo code $?"))
    assert job.end() == 0
    assert job.out == "code 2\n", job.said()
    assert job.err.count("\n") == 1 and "this is a PBS job, but " in job.err and "--hosts" in job.err, job.said()


def test_a_task_is_no_place_to_start(pbs, muster, muster_path):
    job = pbs(2, path=[muster_path]).qsub(script(f"pbs_tmrsh n2 {muster} run true; echo code $?"))
    assert job.end() == 0
    assert job.out == "code 2\n", job.said()
    assert "a task on node 1 of PBS job" in job.err and "start muster in the job's script" in job.err, job.said()


def test_a_launcher_that_is_killed_takes_the_set_up_along(pbs, muster_path):
    """The script goes on, so that PBS ends nothing."""
    p = pbs(2, path=[muster_path])
    up = p.cluster.shared / "up"
    up.touch()
    job = p.qsub(
        script(
            f"muster run --prologue 'setsid sleep 1000 & uname -n >> {up}; sleep 1000' true &",
            "echo launcher $!; wait; exec sleep 2000",
        )
    )
    wait_for("the set-up of both nodes", lambda: sorted(up.read_text().split()) == ["n1", "n2"])
    p.cluster.has_killed = True
    launcher = job.expect(r"launcher (\d+)").group(1)
    assert p.cluster.exec("n1", ["kill", "-KILL", launcher]).end() == 0

    def left():
        words = [words for name in p.cluster.names for words in p.cluster.processes(name).values()]
        return [w for w in words if re.search("muster|sleep 1000", w)]

    wait_for(lambda: f"the end of {left()}", lambda: not left())
    job.qdel()
    job.end()


# --- Other ways to the nodes ------------------------------------------------------------------------------------------


def test_without_pbs_tmrsh_through_ssh_and_pbs_attach(pbs, beats, muster_path):
    """As one job of an array, whose name is a pattern to a shell. PBS knows the agents, and ends them."""
    p = pbs(2, path=[muster_path], commands=["pbs_attach", "qstat"])
    job = p.qsub(script(f"muster run --lease 60 {BEAT} {beats.directory}"), identity="7[3].ctl")
    assert hosts(beats.wait_round(0, 2)) == ["n1", "n2"]
    p.cluster.has_killed = p.cluster.has_killed_all = True  # by MOM
    p.cluster.partition(["n1"], ["n2"])  # the agent cannot hear of the launcher's end, nor is its lease over
    job.kill_on("n2")
    wait_for("the end of the agent", lambda: not p.cluster.workers("n2"))
    p.cluster.unpartition()
    job.qdel()
    job.end()
    p.cluster.assert_nothing_left()


def test_with_neither_over_plain_ssh(pbs, beats, muster_path):
    p = pbs(2, path=[muster_path], commands=["qstat"])
    job = p.qsub(script(f"muster run {BEAT} {beats.directory}"))
    beats.wait_round(0, 2)
    beats.tell("all", "exit 0")
    assert job.end() == 0, job.said()
    assert len(re.findall("neither pbs_tmrsh nor pbs_attach", job.err)) == 1, job.said()


def test_chunks_packed_on_one_host(pbs, beats, muster_path):
    p = pbs(1, path=[muster_path])
    job = p.qsub(script(f"muster run --nproc-per-node 2 {BEAT} {beats.directory}"), lines=["n1", "n1"])
    beats.wait_round(0, 2)
    beats.tell("all", "exit 0")
    assert job.end() == 0, job.said()
