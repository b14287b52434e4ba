"""The connection that brings a node's output to the launcher, and no other, stops working."""

import re

import pytest

from .harness import ports_of
from .job import wait_for
from .launch import start

# The long line tells the connection for output from the one for control.
LONG = 100_000
SCRIPT = f"head -c {LONG} /dev/zero | tr '\\0' x; echo; echo ready $RANK; " \
         "until [ -e $GO ]; do sleep 0.05; done; echo last words of $RANK"


def bytes_sent(cluster, name):
    """{local port: bytes} of the node's TCP connections."""
    listing = cluster.exec(name, ["ss", "-tinHO"])
    assert listing.end() == 0, listing.said()
    found = {}
    for line in listing.out.splitlines():
        sent = re.search(r"\bbytes_sent:(\d+)", line)
        found[int(line.split()[3].rpartition(":")[2])] = int(sent[1]) if sent else 0
    return found


def drop(cluster, name, match):
    """The node drops what it would send to the launcher and `match`es."""
    rules = "add table inet hole; add chain inet hole out { type filter hook output priority 0; }; " \
            f"add rule inet hole out tcp {match} drop"
    assert cluster.exec(name, ["nft", rules]).end() == 0


@pytest.fixture
def job(lab):
    """A job of two nodes that waits for job.go, and the ports of n2's agent (control, output) and warden (heartbeats)."""
    cluster = lab(2)
    go = cluster.shared / "go"
    run = start(cluster, "fan-out", ["--no-python", "/bin/sh", "-c", SCRIPT], options=["--lease", "2"],
                env={"GO": str(go)})
    for rank in (0, 1):
        run.expect(f"ready {rank}")
    warden, agent = cluster.warden_and_agent("n2")
    wait_for("the connections of n2", lambda: len(ports_of(agent)) == 2 and len(ports_of(warden)) == 1)
    sent = bytes_sent(cluster, "n2")
    run.control, run.output = sorted(ports_of(agent), key=lambda port: sent[port])
    assert sent[run.control] < LONG <= sent[run.output], sent
    (run.heartbeats,) = ports_of(warden)
    run.go = go
    return run


def test_a_stuck_connection_is_made_anew(job):
    drop(job.cluster, "n2", f"sport {job.output}")
    job.go.touch()
    assert job.end() == 0, job.said()
    for rank in (0, 1):
        assert f"last words of {rank}" in job.head.out
    assert "missing" not in job.head.err


@pytest.mark.slow
def test_what_never_arrives_is_said(job):
    """Neither that connection nor another one for output."""
    drop(job.cluster, "n2", f"sport != {{ 22, {job.control}, {job.heartbeats} }}")
    job.go.touch()
    assert job.end() == 0, job.said()
    assert "last words of 1" not in job.head.out
    assert "n2: the end of its output is missing: " in job.head.err
    assert "n1: the end" not in job.head.err
