"""Processes die: workers, agents, wardens, coordinators, all of a node at once."""

import signal

import pytest

from .harness import BEAT
from .job import SOON_S, wait_for
from .launch import WAYS, start, start_on, state_of

WORKERS_A_NODE = 2
# A death is noticed at once. The lease is longer than any wait below: if it has to expire first, the test fails.
OPTIONS = ["--nproc-per-node", WORKERS_A_NODE, "--lease", 2 * SOON_S]


def begin(cluster, beats, way="fan-out", options=(), nnodes=None):
    options = [*OPTIONS, *options]
    run = start(cluster, way, [BEAT, beats.directory], nnodes=nnodes, options=options)
    beats.wait_round(0, WORKERS_A_NODE * len(cluster.names))
    return run


def finish(run, beats):
    beats.tell("all", "exit 0")
    assert run.end(SOON_S) == 0, run.said()
    beats.assert_one_round_at_a_time()


@pytest.mark.parametrize("way", WAYS)
def test_a_failed_worker_is_one_restart_for_all(lab, beats, way):
    cluster = lab(2)
    run = begin(cluster, beats, way, ["--max-restarts", 2])
    beats.tell(3, "kill SIGKILL")
    assert {life.restarts for life in beats.wait_round(1, 4)} == {1}
    beats.tell(0, "exit 3")
    assert {life.restarts for life in beats.wait_round(2, 4)} == {2}
    finish(run, beats)
    assert {life.round for life in beats.lives()} == {0, 1, 2}


@pytest.mark.parametrize("way", WAYS)
def test_the_report_names_the_root_cause_of_the_whole_job(lab, beats, way):
    cluster = lab(2)
    run = begin(cluster, beats, way)
    host = {life.rank: life.host for life in beats.round(0)}
    beats.tell(0, "mourn Connection reset by peer")  # on the other node
    run.jobs["ctl" if way == "fan-out" else host[0]].expect("rank 0 would mourn")
    beats.tell(2, "raise something is rotten")
    assert run.end() == 1, run.said()
    report = run.report()
    cause = report["root_cause"]
    assert (report["kind"], report["exit_code"], report["restarts"]) == ("worker-failed", 1, 0)
    assert (cause["rank"], cause["host"], cause["blame"]) == (2, host[2], "root-cause")
    assert "something is rotten" in cause["exception"]
    assert [(w["rank"], w["host"]) for w in report["workers"]] == sorted(host.items())
    assert [w["blame"] for w in report["workers"]] == ["peer", "stopped", "root-cause", "stopped"], report
    last_words = {rank: report["workers"][rank]["stderr_tail"][-1] for rank in (0, 2)}
    assert last_words == {0: "ConnectionResetError: Connection reset by peer", 2: "RuntimeError: something is rotten"}
    for job in run.jobs.values():
        assert "something is rotten" in job.err, "every node's console has the report"
    assert {life.round for life in beats.lives()} == {0}


def test_the_budget_of_restarts_is_the_jobs(lab, beats):
    cluster = lab(2)
    run = begin(cluster, beats, options=["--max-restarts", 1])
    beats.tell(0, "exit 3")
    beats.wait_round(1, 4)
    beats.tell(3, "exit 4")
    assert run.end() == 4, run.said()
    assert run.report()["restarts"] == 1
    assert {life.round for life in beats.lives()} == {0, 1}


def test_a_signal_ends_the_job_on_every_node(lab, beats):
    cluster = lab(2)
    run = begin(cluster, beats)
    run.head.send(signal.SIGTERM)
    assert run.end(SOON_S) == 143, run.said()
    assert run.report()["kind"] == "signalled"


@pytest.mark.parametrize("way", ["static", "c10d"])
@pytest.mark.parametrize("name", ["n1", "n2"])
def test_a_signal_to_one_of_them_ends_the_job(lab, beats, way, name):
    cluster = lab(2)
    run = begin(cluster, beats, way)
    run.jobs[name].send(signal.SIGTERM)
    assert run.end(SOON_S) == 143, run.said()
    for job in run.jobs.values():
        assert f"was stopped: {name}'s muster received SIGTERM\n" in job.err, run.said()
    assert run.report()["message"] == f"{name}'s muster received SIGTERM"


@pytest.mark.parametrize("victim", ["everything", "agent", "warden"])
def test_a_lost_node_is_started_again_and_costs_no_restart(lab, beats, victim):
    cluster = lab(2)
    run = begin(cluster, beats)
    kill(cluster, "n2", victim)
    lives = beats.wait_round(1, 4)
    assert {life.restarts for life in lives} == {0}
    assert {life.host for life in lives} == {"n1", "n2"}
    run.expect(r"n2.*(lost|gone|closed)")
    finish(run, beats)


# Of the muster on a node, when its processes were killed: the warden outlives its agent, and says that it failed.
EXIT_CODE = {"everything": 137, "agent": 125, "warden": 137}


def kill(cluster, name, victim):
    warden, agent = cluster.warden_and_agent(name)
    if victim == "everything":
        cluster.kill_all(name)
    else:
        cluster.kill(agent if victim == "agent" else warden)


@pytest.mark.parametrize("victim", ["everything", "agent", "warden"])
@pytest.mark.parametrize("way", ["static", "c10d"])
def test_a_node_whose_muster_was_killed_can_be_started_again(lab, beats, way, victim):
    cluster = lab(2)
    run = begin(cluster, beats, way)
    kill(cluster, "n2", victim)
    assert run.jobs["n2"].end(SOON_S) == EXIT_CODE[victim], run.said()
    run.jobs["n2"] = start_on(cluster, way, "n2", [BEAT, beats.directory], options=OPTIONS)
    assert {life.restarts for life in beats.wait_round(1, 4)} == {0}
    finish(run, beats)


def test_a_job_shrinks_to_the_nodes_that_are_left(lab, beats):
    cluster = lab(2)
    run = begin(cluster, beats, "c10d", nnodes="1:2")
    cluster.kill_all("n2")
    lives = beats.wait_round(1, 2)
    assert {life.host for life in lives} == {"n1"} and {life.restarts for life in lives} == {0}
    del run.jobs["n2"]
    finish(run, beats)


def test_the_launcher_killed(lab, beats):
    """Nobody tells the agents: they notice, end their workers and themselves."""
    cluster = lab(2)
    run = begin(cluster, beats)
    run.head.kill()
    assert run.end(SOON_S) == 137, run.said()
    cluster.assert_nothing_left()
    assert {life.round for life in beats.lives()} == {0}


@pytest.mark.parametrize("way", ["static", "c10d"])
@pytest.mark.parametrize("victim", ["everything", "agent"])
def test_the_coordinators_node_killed(lab, beats, way, victim):
    cluster = lab(2)
    run = begin(cluster, beats, way)
    kill(cluster, "n1", victim)
    assert run.jobs["n2"].end(SOON_S) == 125, run.said()
    assert "lost the coordinator" in run.jobs["n2"].err, run.said()
    assert run.jobs["n1"].end(SOON_S) == EXIT_CODE[victim], run.said()
    cluster.assert_nothing_left()
    assert {life.round for life in beats.lives()} == {0}


def test_a_node_that_dies_after_it_was_done(lab, beats):
    """No barrier at the end waits for it."""
    cluster = lab(2)
    run = begin(cluster, beats)
    for rank in (2, 3):
        beats.tell(rank, "exit 0")
    wait_for("the coordinator to know", lambda: state_of(cluster, "ctl", "n2") == "done")
    cluster.kill_all("n2")
    wait_for("the coordinator to know", lambda: state_of(cluster, "ctl", "n2") != "done")
    finish(run, beats)
    assert {life.round for life in beats.lives()} == {0}


def test_a_crash_loop_ends(lab):
    cluster = lab(2)
    fails = ["--no-python", "/bin/sh", "-c", 'test $RANK = 0 || exit 7; sleep 100']
    run = start(cluster, "fan-out", fails, options=["--max-restarts", 20])
    assert run.end() == 7, run.said()
    report = run.report()
    assert (report["kind"], report["restarts"]) == ("crash-loop", 2), run.said()
