"""Networks as they are: names that lie, no names, several interfaces, IPv6 alone, firewalls."""

import re

import pytest

from harness import ROOT

from .harness import BEAT
from .launch import WAYS, start, train

DDP = [ROOT / "examples/ddp.py", "--epochs", "1", "--points", "256"]
NETWORKS = {
    "debian-hosts": {"debian_hosts": True},
    "no-dns": {"no_dns": True},
    "ipv6": {"ipv6": True},
    "docker0": {"docker0": True, "interfaces": 2},
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("network", NETWORKS)
def test_workers_meet(lab, beats, network, way):
    cluster = lab(2, **NETWORKS[network])
    run = start(cluster, way, [BEAT, beats.directory])
    beats.wait_round(0, 2)
    beats.tell("all", "exit 0")
    assert run.end() == 0, run.said()


@pytest.mark.interop
@pytest.mark.slow
@pytest.mark.parametrize(
    "network, nodes, way", [*(("debian-hosts", 3, way) for way in WAYS), ("ipv6", 2, "c10d"), ("no-dns", 2, "fan-out")]
)
def test_ddp(lab, torch_new, network, nodes, way):
    """gloo looks up its own host's name, and gives out what it finds; and the node that hosts is started last."""
    cluster = lab(nodes, **NETWORKS[network])
    run = train(cluster, way, DDP, names=cluster.names[::-1], python=torch_new, env={"OMP_NUM_THREADS": 1})
    assert any(f"{nodes} workers" in job.out for job in run.jobs.values()), run.said()


@pytest.mark.parametrize(
    "network, given, shown",
    [("debian-hosts", None, "eth0"), ("debian-hosts", "lo", "lo"), ("no-dns", None, "eth0"), ("docker0", None, "")],
)
def test_gloo_is_told_the_interface_where_its_own_name_lies_or_is_unknown(lab, network, given, shown):
    cluster = lab(2, **NETWORKS[network])
    script = ["--no-python", "/bin/sh", "-c", "echo =$GLOO_SOCKET_IFNAME=$NCCL_SOCKET_IFNAME="]
    run = start(cluster, "fan-out", script, env={"GLOO_SOCKET_IFNAME": given})
    assert run.end() == 0, run.said()
    assert re.findall(r"=.*=", run.head.out) == [f"={shown}=="] * 2, run.said()


@pytest.mark.parametrize("way", ["fan-out", "c10d"])
def test_an_interface_of_choice(lab, way):
    cluster = lab(2, interfaces=2)
    show = ["--no-python", "/bin/sh", "-c", "echo $MASTER_ADDR $NCCL_SOCKET_IFNAME $GLOO_SOCKET_IFNAME"]
    for interface in ("eth1", "10.88.1.0/24"):
        run = start(cluster, way, show, options=["--interface", interface])
        assert run.end() == 0, run.said()
        out = "".join(job.out for job in run.jobs.values())
        words = set(re.findall(r"^(?:\[\S+\] )?(.*)$", out.strip(), re.M))
        # In c10d the first who comes has rank 0.
        hosts = cluster.names if way == "c10d" else ["n1"]
        assert words in [{f"{cluster.address(host, 1)} eth1 eth1"} for host in hosts], run.said()


def test_a_firewall_with_a_port_range(lab, beats):
    cluster = lab(2)
    for name in cluster.lab.nodes:
        cluster.firewall(name, "22, 30000-30020")
    run = start(cluster, "fan-out", [BEAT, beats.directory], options=["--port-range", "30000-30020"])
    beats.wait_round(0, 2)
    beats.tell("all", "exit 0")
    assert run.end() == 0, run.said()
