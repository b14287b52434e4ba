"""Cables are cut, nodes lose their power, packets get lost, networks split, whole nodes stand still."""

import re
import time

import pytest

from .harness import BEAT
from .job import SOON_S, wait_for
from .launch import start

LEASE_S = 2


def begin(cluster, beats, way="fan-out", nnodes="1:2", lease=LEASE_S, options=()):
    options = ["--lease", lease, *options] if lease else options
    run = start(cluster, way, [BEAT, beats.directory], nnodes=nnodes, options=options)
    beats.wait_round(0, len(cluster.names))
    return run


def finish(run, beats, slack=0):
    beats.tell("all", "exit 0")
    assert run.head.end() == 0, run.said()
    beats.assert_one_round_at_a_time(slack)


def wait_all_beat(beats, of_round, count, after):
    """Until each rank has beaten in that round later than `after`."""
    for rank in range(count):
        beats.wait_beat(of_round, rank, after, within=max(0, after - time.monotonic()) + SOON_S)


def test_power_off(lab, beats):
    cluster = lab(2)
    run = begin(cluster, beats)
    cluster.power_off("n2")
    lives = beats.wait_round(1, 1)
    assert [(life.host, life.restarts) for life in lives] == [("n1", 0)]
    run.expect(r"n2 is lost: no word for")
    finish(run, beats)


def test_a_cable_cut_and_healed_within_the_lease(lab, beats):
    cluster = lab(2)
    run = begin(cluster, beats, lease=5)
    cluster.cut("n2")
    cut = time.monotonic()
    wait_for("two missed beats", lambda: time.monotonic() > cut + 1.5)
    cluster.heal("n2")
    wait_all_beat(beats, 0, 2, cut + 6)  # more than a lease later
    finish(run, beats)
    assert {life.round for life in beats.lives()} == {0}


@pytest.mark.parametrize("way", ["fan-out", "c10d"])
def test_a_cable_cut_for_longer_than_the_lease(lab, beats, way):
    """The node ends its own workers before the others go on without it."""
    cluster = lab(2)
    run = begin(cluster, beats, way)
    cluster.cut("n2")
    lives = beats.wait_round(1, 1)
    assert [(life.host, life.restarts) for life in lives] == [("n1", 0)]
    assert not cluster.workers("n2"), "it was not fenced"
    cluster.heal("n2")
    if way == "fan-out":  # the launcher starts another agent there
        beats.wait_round(2, 2)
    else:
        assert run.jobs["n2"].end() == 125
        assert "no word from the coordinator" in run.jobs["n2"].err, run.said()
    finish(run, beats)


@pytest.mark.slow
def test_the_head_is_cut_off(lab, beats):
    """All nodes lose their coordinator: each ends its workers, and all say so."""
    cluster = lab(2)
    run = begin(cluster, beats, "static", nnodes=2, options=["--join-timeout", 10])
    cluster.partition(["n1"], ["n2"])
    run.expect(r"n2 is lost: no word for")
    for name in cluster.names:
        cluster.wait_no_worker(name)
    assert run.end() == 125, run.said()
    assert "no word from the coordinator" in run.jobs["n2"].err, run.said()
    assert re.search(r"failed: 1 of 2 nodes after .*n2 is lost: no word for", run.jobs["n1"].err), run.said()
    assert run.report()["kind"] == "node-lost"
    cluster.unpartition()
    assert {life.round for life in beats.lives()} == {0}


def test_the_launcher_is_cut_off(lab, beats):
    cluster = lab(2)
    run = begin(cluster, beats, nnodes=2, options=["--join-timeout", 2])
    cluster.cut("ctl")
    for name in cluster.names:
        cluster.wait_no_worker(name)
    assert run.end() == 125, run.said()
    report = run.report()
    assert report["kind"] == "node-lost" and "n1" in str(report) and "n2" in str(report)
    cluster.heal("ctl")
    assert {life.round for life in beats.lives()} == {0}


def test_a_frozen_node(lab, beats):
    cluster = lab(2)
    run = begin(cluster, beats)
    cluster.freeze("n2")
    lives = beats.wait_round(1, 1)
    assert [(life.host, life.restarts) for life in lives] == [("n1", 0)]
    cluster.thaw("n2")
    beats.wait_round(2, 2)  # the launcher starts another agent there
    # What was thawed takes a breath before its warden ends it; nobody can prevent that.
    finish(run, beats, slack=1)


@pytest.mark.parametrize("way", ["fan-out", "static"])
def test_everything_frozen_goes_on(lab, beats, way):
    """A whole job that is suspended for much longer than the lease continues where it was."""
    cluster = lab(2)
    run = begin(cluster, beats, way, nnodes=2)
    everything = list(cluster.lab.nodes)
    cluster.freeze(*everything)
    frozen = time.monotonic()
    wait_for("three leases", lambda: time.monotonic() > frozen + 3 * LEASE_S)
    cluster.thaw(*everything)
    wait_all_beat(beats, 0, 2, time.monotonic() + LEASE_S)
    finish(run, beats)
    assert {life.round for life in beats.lives()} == {0}
    assert min(life.longest_pause for life in beats.lives()) > 2 * LEASE_S


@pytest.mark.slow
def test_a_fifth_of_all_packets_lost_for_a_minute(lab, beats):
    """At the default lease nobody is fenced."""
    cluster = lab(2)
    run = begin(cluster, beats, lease=None)
    began = time.monotonic()
    cluster.loss("n2", 20)
    wait_all_beat(beats, 0, 2, began + 60)
    cluster.loss("n2", 0)
    finish(run, beats)
    assert {life.round for life in beats.lives()} == {0}
