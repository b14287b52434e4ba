"""The coordinator's name: one that appears after the nodes have started, never, or for which no resolver answers."""

import re
import signal

import pytest

from .harness import BEAT
from .launch import PORT

NAME = "master"  # of n1, in no node's hosts file
WAYS = ["static", "c10d"]


def start_by_name(cluster, way, name, args, options=(), **exec_options):
    """The muster of one node, told to meet the other one at NAME."""
    if way == "static":
        how = ["--node-rank", cluster.names.index(name), "--master-addr", NAME, "--master-port", PORT]
    else:
        how = ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"{NAME}:{PORT}", "--rdzv-id", "job"]
    return cluster.muster(name, ["run", "--nnodes", 2, *how, *options, *args], **exec_options)


@pytest.mark.parametrize("way", WAYS)
def test_a_name_that_appears_later(lab, beats, way):
    """As in a cloud, where a pod has a name only when it runs."""
    cluster = lab(2)
    second = start_by_name(cluster, way, "n2", [BEAT, beats.directory])
    second.expect(rf"^muster: waiting for the coordinator \(cannot resolve '{NAME}': .*\)$")
    cluster.add_name("n1", NAME, cluster.address("n1"))
    first = start_by_name(cluster, way, "n1", [BEAT, beats.directory])
    cluster.add_name("n2", NAME, cluster.address("n1"))
    beats.wait_round(0, 2)
    beats.tell("all", "exit 0")
    assert (first.end(), second.end()) == (0, 0), f"{first.said()}\n{second.said()}"
    # A line when something changes, not one a second; c10d's first one is about who hosts.
    assert len(re.findall("waiting .*cannot resolve", second.err)) == 1, second.said()
    assert len(re.findall("cannot resolve", second.err)) == 1 + (way == "c10d"), second.said()


@pytest.mark.parametrize("way", WAYS)
def test_a_name_that_never_appears(lab, beats, way):
    job = start_by_name(lab(2), way, "n2", [BEAT, beats.directory], options=["--join-timeout", 3])
    assert job.end() == 125, job.said()
    why = rf"no connection in \S+ s: {NAME}:{PORT}: cannot resolve '{NAME}': .*; give a name that this node can look up"
    assert len(re.findall(rf"^muster: error: .*{why}.*$", job.err, re.M)) == 1, job.said()
    way_out = rf"^muster: this node does not host the job: cannot resolve '{NAME}': .*--rdzv-conf is_host=1$"
    assert len(re.findall(way_out, job.err, re.M)) == (way == "c10d"), job.said()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_wait_for_a_name(lab, beats, number):
    job = start_by_name(lab(2), "static", "n2", [BEAT, beats.directory])
    job.expect("cannot resolve")
    job.send(number)
    assert job.end() == 128 + number, job.said()


SILENT = """
import socket
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("", 53))
print("listens", flush=True)
while server.recv(512):
    print("asked", flush=True)
"""


def test_a_resolver_that_never_answers(lab, beats):
    cluster = lab(2)
    server = cluster.exec("ctl", ["/usr/bin/python3", "-c", SILENT])
    server.expect("listens")
    cluster.set_resolver("n2", cluster.address("ctl"))
    patient = {"RES_OPTIONS": "timeout:30 attempts:1"}  # getaddrinfo() is, longer than the job
    job = start_by_name(cluster, "static", "n2", [BEAT, beats.directory], env=patient)
    server.expect("asked")
    job.expect(rf"waiting for the coordinator \(no answer from the resolver for '{NAME}'\)")
    job.send(signal.SIGTERM)
    assert job.end() == 128 + signal.SIGTERM, job.said()
    job = start_by_name(cluster, "static", "n2", [BEAT, beats.directory], options=["--join-timeout", 2], env=patient)
    assert job.end() == 125, job.said()
    assert f"{NAME}:{PORT}: no answer from the resolver for '{NAME}'; " in job.err, job.said()


def test_a_launcher_does_not_wait_for_its_resolver(lab):
    """It asks for the hosts' names to know them at the door; ssh has its own way to them."""
    cluster = lab(1)
    server = cluster.exec("ctl", ["/usr/bin/python3", "-c", SILENT])
    server.expect("listens")
    cluster.set_resolver("ctl", cluster.address("ctl"))
    how = ["--hosts", NAME, "--ssh-option", f"HostName={cluster.address('n1')}", "--nproc-per-node", 1]
    job = cluster.muster("ctl", ["run", *how, "echo", "done"], env={"RES_OPTIONS": "timeout:30 attempts:1"})
    server.expect("asked")
    assert job.end() == 0, job.said()
    assert "done" in job.out
