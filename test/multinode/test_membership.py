"""Who is in: nodes that come late, nodes too many, nodes that come and go."""

import pytest

from .harness import BEAT
from .job import wait_for
from .launch import PORT, start, start_on, state_of


def begin(cluster, beats, names, nnodes, options=()):
    options = ["--rdzv-conf", "last_call_timeout=1", "--lease", 3, *options]
    return start(cluster, "c10d", [BEAT, beats.directory], nnodes=nnodes, names=names, options=options), options


def wait_joined(cluster, name):
    wait_for(f"{name} to join", lambda: state_of(cluster, "n1", name))


def finish(run, beats):
    beats.tell("all", "exit 0")
    assert run.end() == 0, run.said()
    beats.assert_one_round_at_a_time()


def test_a_late_node_joins_at_once(lab, beats):
    cluster = lab(2)
    run, options = begin(cluster, beats, ["n1"], "1:2")
    beats.wait_round(0, 1)
    run.jobs["n2"] = start_on(cluster, "c10d", "n2", [BEAT, beats.directory], nnodes="1:2", options=options)
    lives = beats.wait_round(1, 2)
    assert [(life.host, life.restarts) for life in lives] == [("n1", 0), ("n2", 0)], "a node keeps its rank"
    finish(run, beats)


def test_a_late_node_joins_at_a_restart(lab, beats):
    cluster = lab(2)
    run, options = begin(cluster, beats, ["n1"], "1:2", ["--grow", "restart", "--max-restarts", 1])
    beats.wait_round(0, 1)
    run.jobs["n2"] = start_on(cluster, "c10d", "n2", [BEAT, beats.directory], nnodes="1:2", options=options)
    wait_joined(cluster, "n2")
    assert {life.round for life in beats.lives()} == {0}
    beats.tell(0, "exit 1")
    lives = beats.wait_round(1, 2)
    assert {life.restarts for life in lives} == {1}
    finish(run, beats)


def test_a_node_too_many_is_a_spare_and_steps_in(lab, beats):
    cluster = lab(3)
    run, options = begin(cluster, beats, ["n1", "n2"], "2:2")
    rank = {life.host: life.rank for life in beats.wait_round(0, 2)}
    spare = start_on(cluster, "c10d", "n3", [BEAT, beats.directory], nnodes="2:2", options=options)
    wait_joined(cluster, "n3")
    assert {life.round for life in beats.lives()} == {0}
    cluster.kill_all("n2")
    lives = beats.wait_round(1, 2)
    assert {(life.host, life.rank, life.restarts) for life in lives} == {("n1", rank["n1"], 0), ("n3", rank["n2"], 0)}
    run.jobs["n2"].end()
    run.jobs["n2"] = spare
    finish(run, beats)


def test_a_spare_of_one_node_needs_a_launcher(lab, beats):
    """With a muster a node the job would end with the one that a spare is for: it is refused, and told the way out."""
    cluster = lab(2)
    args = [BEAT, beats.directory]
    refused = start_on(cluster, "c10d", "n2", args, nnodes="1:1")
    assert refused.end() == 2, refused.said()
    assert "is not this machine; " in refused.err and "for one node and a spare give --hosts" in refused.err

    run = start(cluster, "fan-out", args, nnodes=1, options=["--nproc-per-node", 1])
    assert [life.host for life in beats.wait_round(0, 1)] == ["n1"], "the first of the list, whichever joins first"
    wait_for("n2 to join", lambda: state_of(cluster, "ctl", "n2") == "spare")
    cluster.kill_all("n1")
    assert [(life.host, life.rank, life.restarts) for life in beats.wait_round(1, 1)] == [("n2", 0, 0)]
    finish(run, beats)


@pytest.mark.parametrize("code", [0, 5])
def test_a_spare_that_was_never_needed_ends_with_0(lab, beats, code):
    cluster = lab(3)
    run, options = begin(cluster, beats, ["n1", "n2"], "2:2")
    beats.wait_round(0, 2)
    spare = start_on(cluster, "c10d", "n3", [BEAT, beats.directory], nnodes="2:2", options=options)
    wait_joined(cluster, "n3")
    beats.tell("all", f"exit {code}")
    assert run.end() == code, run.said()
    assert spare.end() == 0, spare.said()
    assert {life.round for life in beats.lives()} == {0}


@pytest.mark.parametrize("code", [0, 5])
def test_a_node_too_many_that_is_not_declared_as_a_spare_fails(lab, beats, code):
    """Another job's node perhaps, with the same port and id: it has run nothing, and says so."""
    cluster = lab(3)
    run, options = begin(cluster, beats, ["n1", "n2"], "2")
    beats.wait_round(0, 2)
    third = start_on(cluster, "c10d", "n3", [BEAT, beats.directory], nnodes="2", options=options)
    wait_joined(cluster, "n3")
    beats.tell("all", f"exit {code}")
    assert run.end() == code, run.said()
    assert third.end() == 125, third.said()
    where = f"{cluster.address('n1')}:{PORT}"
    assert f"muster: error: this node ran no worker: the job at {where} already had its 2 nodes; give " in third.err
    assert {life.round for life in beats.lives()} == {0}


def test_a_node_joins_during_a_restart(lab, beats):
    cluster = lab(3)
    run, options = begin(cluster, beats, ["n1", "n2"], "2:3", ["--max-restarts", 1])
    host = {life.rank: life.host for life in beats.wait_round(0, 2)}
    beats.tell(0, "ignore SIGTERM")
    run.jobs[host[0]].expect("rank 0 ignores SIGTERM")
    beats.tell(1, "exit 1")
    wait_for("the round to stop", lambda: state_of(cluster, "n1", host[0]) == "stopping")
    run.jobs["n3"] = start_on(cluster, "c10d", "n3", [BEAT, beats.directory], nnodes="2:3", options=options)
    wait_joined(cluster, "n3")
    assert state_of(cluster, "n1", host[0]) == "stopping", run.said()
    beats.tell(0, "exit 0")
    assert {life.restarts for life in beats.wait_round(1, 3)} == {1}, "the failure is one, whoever joins"
    finish(run, beats)
    assert {life.round for life in beats.lives()} == {0, 1}


def test_a_host_lost_twice_is_not_readmitted(lab, beats):
    cluster = lab(2)
    run = start(cluster, "fan-out", [BEAT, beats.directory], nnodes="1:2", options=["--lease", 3])
    beats.wait_round(0, 2)
    cluster.kill_all("n2")
    number = max(life.round for life in beats.wait_rounds_with(2, after=0))
    cluster.kill_all("n2")
    lives = beats.wait_rounds_with(1, after=number)
    assert {life.host for life in lives} == {"n1"}
    run.expect("n2 was lost 2 times .* not taken again")
    finish(run, beats)


@pytest.mark.parametrize("way", ["static"])
def test_different_sizes_on_the_command_lines_are_refused(lab, beats, way):
    cluster = lab(2)
    first = start_on(cluster, way, "n1", [BEAT, beats.directory], nnodes=3)
    first.expect("of 3")
    second = start_on(cluster, way, "n2", [BEAT, beats.directory], nnodes=2)
    assert second.end() == 125, second.said()
    assert "--nnodes 2, this job has --nnodes 3" in second.err, second.said()
