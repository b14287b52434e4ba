"""The control connection, its liveness and its end; a launcher that stands still; agents that do not answer."""

import os
import pathlib
import re
import signal
import time

import pytest
from lab import network

from .harness import BEAT, ports_of
from .job import wait_for
from .launch import start, start_on

LEASE_S = 2


def begin(cluster, beats, nnodes="1:2", lease=LEASE_S, options=()):
    options = ["--lease", lease, *options]
    run = start(cluster, "fan-out", [BEAT, beats.directory], nnodes=nnodes, options=options)
    beats.wait_round(0, len(cluster.names))
    return run


def finish(run, beats):
    beats.tell("all", "exit 0")
    assert run.end() == 0, run.said()
    beats.assert_one_round_at_a_time()


def black_hole_agent(cluster, name):
    """Nothing passes on the agent's connections any more; its warden's heartbeats do."""
    _, agent = cluster.warden_and_agent(name)
    ports = ports_of(agent)
    assert ports
    network.drop_ports(cluster.lab.node(name), ports)


# --- a connection that ends while its node runs on -------------------------------------------------------------------


def fail_on(beats, host):
    """A worker fails there, and the other nodes are told to stop."""
    beats.tell(next(life.rank for life in beats.round(0) if life.host == host), "exit 3")


def test_a_reset_by_a_firewall_is_no_proof_that_a_node_has_stopped(lab, beats):
    """The coordinator's connections are reset; the node, which hears nothing, runs until its lease ends."""
    cluster = lab(2)
    run = begin(cluster, beats, lease=4, options=["--max-restarts", 1])
    network.reset_towards(cluster.lab.node("ctl"), cluster.address("n2"))
    fail_on(beats, "n1")
    assert [life.host for life in beats.wait_round(1, 1)] == ["n1"]
    network.reset_towards(cluster.lab.node("ctl"), None)
    finish(run, beats)


def test_another_machine_that_takes_a_nodes_address(lab, beats):
    """It answers for the node with resets, and then the node is there again."""
    cluster = lab(3)
    cluster.names = ["n1", "n2"]
    run = begin(cluster, beats, lease=4, options=["--max-restarts", 1])
    ctl, node, thief = (cluster.lab.node(name) for name in ("ctl", "n2", "n3"))
    network.firewall(thief, "1")  # no ssh: it is not one of the job
    network.take_address(cluster.lab, thief, node, ctl)
    fail_on(beats, "n1")
    assert [life.host for life in beats.wait_round(1, 1)] == ["n1"]
    network.return_address(thief, node, ctl)
    beats.wait_rounds_with(2, after=1)
    finish(run, beats)


@pytest.mark.parametrize("way", ["fan-out", "static"])
def test_a_node_that_boots_again_within_its_lease_comes_back(lab, beats, way):
    """Its launcher, or its user, starts it again; its earlier life is still a member then, and nobody has closed it."""
    cluster = lab(2)
    options = ["--lease", 8]
    run = start(cluster, way, [BEAT, beats.directory], nnodes=2, options=options)
    beats.wait_round(0, 2)
    cluster.power_off("n2")
    cluster.boot("n2")
    if way == "static":
        run.jobs["n2"] = start_on(cluster, way, "n2", [BEAT, beats.directory], nnodes=2, options=options)
    lives = beats.wait_round(1, 2, within=60)
    assert {life.host for life in lives} == {"n1", "n2"} and {life.restarts for life in lives} == {0}
    finish(run, beats)


# --- a control connection on which nothing passes --------------------------------------------------------------------


@pytest.mark.parametrize("failing", [0, 1])
def test_a_failure_while_a_control_connection_is_black_holed(lab, beats, failing):
    """On the other node, which cannot be restarted then, or on this one, which cannot tell."""
    cluster = lab(2)
    run = begin(cluster, beats, nnodes=2, options=["--max-restarts", 1])
    host = {life.rank: life.host for life in beats.round(0)}
    black_hole_agent(cluster, host[1])
    beats.tell(failing, "exit 3")
    beats.wait_round(1, 2)
    finish(run, beats)


def test_a_black_holed_control_connection_keeps_no_job_from_being_stopped(lab, beats):
    cluster = lab(2)
    run = begin(cluster, beats, nnodes=2)
    black_hole_agent(cluster, "n2")
    run.head.send(signal.SIGTERM)
    assert run.end() == 143, run.said()
    beats.assert_one_round_at_a_time()


def test_success_while_a_control_connection_is_black_holed(lab, beats):
    """The node cannot tell that its workers have succeeded: it is lost, and another round ends the job."""
    cluster = lab(2)
    run = begin(cluster, beats, nnodes=2)
    black_hole_agent(cluster, "n2")
    finish(run, beats)
    assert max(life.round for life in beats.lives()) == 1, run.said()


def test_a_black_hole_that_ends_before_the_lease_does(lab, beats):
    """Nothing is lost: what was written meanwhile arrives, and the round goes on."""
    cluster = lab(2)
    run = begin(cluster, beats, nnodes=2, lease=30)
    rank = next(life.rank for life in beats.round(0) if life.host == "n2")
    black_hole_agent(cluster, "n2")
    beats.tell(rank, "print written meanwhile")
    wait_for("the worker to do it", lambda: not (beats.directory / f"do.{rank}").exists())
    beats.wait_beat(0, rank, time.monotonic())
    assert "written meanwhile" not in run.head.out
    network.drop_ports(cluster.lab.node("n2"), [])
    run.expect("written meanwhile")
    finish(run, beats)
    assert {life.round for life in beats.lives()} == {0}, run.said()


def test_connections_that_are_idle_stay_known_to_a_firewall(lab, beats):
    """It forgets those that are idle for 4 s; a lease of 60 s has its first Ping long after."""
    cluster = lab(2)
    for name in cluster.names:
        network.forget_idle(cluster.lab.node(name), 4)
    run = begin(cluster, beats, nnodes=2, lease=60, options=["--max-restarts", 1])
    began = time.monotonic()
    wait_for("idle connections", lambda: time.monotonic() > began + 6)
    beats.tell(1, "exit 3")
    assert {life.restarts for life in beats.wait_round(1, 2)} == {1}
    for name in cluster.names:
        network.forget_idle(cluster.lab.node(name), 0)
    finish(run, beats)
    assert not re.search("is lost", run.said())


# --- who stands still ------------------------------------------------------------------------------------------------


def test_a_launcher_that_stands_still_again_and_again_loses_no_host(lab, beats):
    cluster = lab(2)
    run = begin(cluster, beats, nnodes=2)
    for number in range(3):
        os.kill(run.head.pid, signal.SIGSTOP)
        for name in cluster.names:
            cluster.wait_no_worker(name)  # the lease has ended
        os.kill(run.head.pid, signal.SIGCONT)
        beats.wait_rounds_with(2, after=number)
    finish(run, beats)
    assert "this process stood still" in run.head.err


def wait_taken(pid, number):
    """Until the process has taken the signal: a second one that comes before would be lost."""

    def pending():
        words = dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines())
        return (int(words["SigPnd"], 16) | int(words["ShdPnd"], 16)) >> (number - 1) & 1

    wait_for(f"process {pid} to take signal {number}", lambda: not pending())


@pytest.mark.parametrize("way, signals", [("fan-out", "INT INT"), ("c10d", "INT INT"), ("fan-out", "TERM INT INT")])
def test_a_second_interrupt_ends_a_job_with_a_stopped_agent(lab, beats, way, signals):
    """Long before any lease does; nothing is left on the node. A signal before the two changes nothing."""
    cluster = lab(2)
    options = ["--lease", 120]
    run = start(cluster, way, [BEAT, beats.directory], nnodes=2, options=options)
    beats.wait_round(0, 2)
    _, agent = cluster.warden_and_agent("n2")
    os.kill(agent, signal.SIGSTOP)
    first, *others, last = (signal.Signals[f"SIG{name}"] for name in signals.split())
    os.kill(run.head.pid, first)
    run.expect(f"{first.name}: stopping")
    for number in others:
        os.kill(run.head.pid, number)
        wait_taken(run.head.pid, number)
    os.kill(run.head.pid, last)
    assert run.head.end(30) == 128 + first, run.said()
    cluster.wait_no_worker("n2")
