"""The lab itself: a fault that does nothing would make every other test here pass for nothing."""

import os
import signal
import subprocess
import time

import pytest

from harness import ROOT, stat_of
from lab.state import Lab

from .beats import Beats
from .job import wait_for

ECHO = """
import socket, sys
s = socket.create_server((sys.argv[1], 7777), family=socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET)
print("listening", flush=True)
while True:
    peer = s.accept()[0]
    while data := peer.recv(65536):
        peer.sendall(data)
"""
# Prints how long each of some small exchanges took.
PING = """
import socket, sys, time
s = socket.create_connection((sys.argv[1], 7777), float(sys.argv[3]))
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
s.settimeout(float(sys.argv[3]))
for i in range(int(sys.argv[2])):
    t = time.monotonic()
    s.sendall(sys.argv[4].encode() if len(sys.argv) > 4 else b"hello")
    assert s.recv(65536)
    print(f"{time.monotonic() - t:.4f}", flush=True)
"""


def python(code, *args):
    return ["/usr/bin/python3", "-I", "-c", code, *args]


def echo(cluster, name, address="0.0.0.0"):
    cluster.exec(name, python(ECHO, address)).expect("listening")


def ping(cluster, name, address, count=1, patience=5, text="hello"):
    return cluster.exec(name, python(PING, address, count, patience, text))


def reaches(cluster, name, address):
    return ping(cluster, name, address, patience=0.5).end() == 0


def test_nodes_are_machines_of_their_own(lab):
    cluster = lab(2)
    facts = {}
    for name in cluster.names:
        job = cluster.exec(name, ["sh", "-c", "hostname; cat /etc/machine-id; echo $$; ls /dev/shm /tmp"])
        assert job.end() == 0, job.said()
        facts[name] = job.out.split()
    assert facts["n1"][0] == "n1" and facts["n2"][0] == "n2"
    assert facts["n1"][1] != facts["n2"][1]
    assert int(facts["n1"][2]) < 100, "a process table of its own"
    over_ssh = cluster.exec("n1", ["ssh", "n2", "hostname; echo $HOME"])
    assert over_ssh.end() == 0, over_ssh.said()
    assert over_ssh.out.split() == ["n2", str(cluster.home)]


def test_exit_codes_and_signals_pass(lab):
    cluster = lab(1)
    assert cluster.exec("n1", ["sh", "-c", "exit 7"]).end() == 7
    assert cluster.exec("n1", ["sh", "-c", "kill -9 $$"]).end() == 137
    assert cluster.exec("n1", ["/no/such/program"]).end() == 127
    job = cluster.exec("n1", ["sh", "-c", "trap 'exit 3' TERM; echo ready; while :; do sleep 0.01; done"])
    job.expect("ready")
    job.send(signal.SIGTERM)
    assert job.end() == 3


def test_two_labs_at_once_do_not_meet(lab):
    first, second = lab(1), lab(1)
    assert first.address("n1") == second.address("n1")
    echo(first, "n1")
    assert reaches(first, "ctl", first.address("n1"))
    assert not reaches(second, "ctl", second.address("n1"))


def test_labs_of_a_killed_run_are_removed_by_several_that_begin_at_once(lab, muster, tmp_path):
    lab(0)  # there can be nodes here
    env = {**os.environ, "PYTHONPATH": str(ROOT / "test"), "TMPDIR": str(tmp_path)}
    killed = "import sys; from multinode.harness import *; Cluster(*sys.argv[1:3], 2); os.kill(os.getpid(), 9)"
    assert subprocess.run(["/usr/bin/python3", "-c", killed, muster, tmp_path], env=env).returncode == -9
    (directory,) = tmp_path.glob("muster-lab-*")
    inits = [node.init for node in Lab.load(directory).nodes.values()]
    assert all(init.alive for init in inits)
    remove = "from multinode.harness import *; print('ready', flush=True); input(); remove_stale_labs()"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    runs = [subprocess.Popen(["/usr/bin/python3", "-c", remove], env=env, **pipes) for _ in range(4)]
    assert [run.stdout.readline() for run in runs] == ["ready\n"] * 4
    for run in runs:
        run.stdin.write("\n")
        run.stdin.flush()
    assert [run.wait(60) for run in runs] == [0] * 4
    for run in runs:
        run.communicate()
    assert not directory.exists() and not any(init.alive for init in inits)


def test_what_is_left_is_found(lab):
    cluster = lab(1)
    job = cluster.exec("n1", ["sh", "-c", "touch /tmp/a /dev/shm/b; setsid sleep 1000 >/dev/null 2>&1 & echo ready; wait"])
    job.expect("ready")
    job.kill()

    def found():
        text = " ".join(cluster.left().get("n1", []))
        return all(each in text for each in ("/tmp/a", "/shm/b", "sleep 1000"))

    wait_for("two files and a process", found)
    assert cluster.kill_all("n1", "sleep 1000")
    assert cluster.exec("n1", ["rm", "/tmp/a", "/dev/shm/b"]).end() == 0
    cluster.assert_nothing_left()


def test_cut_partition_and_loss(lab):
    cluster = lab(2)
    echo(cluster, "n2")
    n2 = cluster.address("n2")
    assert reaches(cluster, "n1", n2)
    cluster.cut("n2")
    assert not reaches(cluster, "n1", n2)
    cluster.heal("n2")
    assert ping(cluster, "n1", n2).end() == 0
    cluster.partition(["n1"], ["n2"])
    assert not reaches(cluster, "n1", n2)
    assert reaches(cluster, "ctl", n2)
    cluster.unpartition()
    assert reaches(cluster, "n1", n2)
    cluster.loss("n2", 100)
    assert not reaches(cluster, "ctl", n2)
    cluster.loss("n2", 20)
    assert ping(cluster, "ctl", n2, count=3, patience=30).end() == 0


def test_a_firewall(lab):
    cluster = lab(1)
    echo(cluster, "n1")
    cluster.firewall("n1", "22, 7000-7001")
    assert not reaches(cluster, "ctl", cluster.address("n1"))
    assert cluster.exec("ctl", ["ssh", "n1", "true"]).end() == 0
    cluster.firewall("n1", "7000-7777")
    assert reaches(cluster, "ctl", cluster.address("n1"))


def test_power_off_is_silent_and_a_node_comes_back(lab):
    cluster = lab(2)
    echo(cluster, "n2")
    connected = ping(cluster, "n1", cluster.address("n2"), count=100000, patience=1)
    connected.expect(r"^0\.")
    cluster.power_off("n2")
    assert connected.end() == 1, connected.said()
    assert "timed out" in connected.err, "nobody told the peer"
    cluster.boot("n2")
    echo(cluster, "n2")
    assert reaches(cluster, "n1", cluster.address("n2"))


def test_freeze_and_thaw(lab):
    cluster = lab(1)
    loop = cluster.exec("n1", python("import time\nwhile True: print(time.monotonic(), flush=True); time.sleep(0.01)"))
    loop.expect("\n")
    cluster.freeze("n1")
    assert [stat_of(pid)[0] for pid in cluster.processes("n1")] == ["T"]
    thawed = time.monotonic()
    cluster.thaw("n1")
    wait_for("the loop to go on", lambda: float(loop.out.rpartition("\n")[0].split()[-1]) > thawed)


def test_a_small_disk_is_full_on_one_node_only(lab):
    cluster = lab(2)
    for name in cluster.names:
        if name == "n1":
            cluster.small_disk(name, "/tmp/logs", "64k")
        job = cluster.exec(name, ["sh", "-c", "mkdir -p /tmp/logs; head -c 100000 /dev/zero > /tmp/logs/x"])
        assert (job.end() == 0) == (name != "n1")
        assert name != "n1" or "No space left" in job.err
    assert cluster.exec("n1", ["umount", "/tmp/logs"]).end() == 0
    for name in cluster.names:
        assert cluster.exec(name, ["rm", "-r", "/tmp/logs"]).end() == 0


@pytest.mark.parametrize("ipv6", [False, True], ids=["ipv4", "ipv6"])
def test_a_capture_finds_what_went_over_the_wire(lab, tmp_path, ipv6):
    cluster = lab(2, ipv6=ipv6)
    echo(cluster, "n2", "::" if ipv6 else "0.0.0.0")
    secret = "a secret " * 5000  # longer than a frame
    with cluster.capture(tmp_path / "wire.pcap") as wire:
        assert ping(cluster, "n1", cluster.address("n2"), text=secret).end() == 0
    found = wire.search(secret.encode())
    assert [flow[1::2] for flow in found][:1] == [(cluster.address("n1"), cluster.address("n2"))]
    assert not wire.search(b"another secret")


def test_addresses(lab):
    cluster = lab(2, ipv6=True)
    shown = cluster.exec("n1", ["sh", "-c", "ip -4 -o addr show dev eth0; getent hosts n2; ssh n2 hostname"])
    assert shown.end() == 0, shown.said()
    assert shown.out.split() == [cluster.address("n2"), "n2.lab", "n2", "n2"]

    cluster = lab(2, interfaces=2, docker0=True, debian_hosts=True)
    echo(cluster, "n2")
    assert reaches(cluster, "n1", cluster.address("n2", 1))
    shown = cluster.exec("n1", ["sh", "-c", "getent hosts n1; ip -o addr show dev docker0"])
    assert shown.end() == 0 and "127.0.1.1" in shown.out and "172.17.0.1" in shown.out
    cluster.cut("n2", "eth1")
    assert reaches(cluster, "n1", cluster.address("n2", 0)) and not reaches(cluster, "n1", cluster.address("n2", 1))

    cluster = lab(2, no_dns=True)
    assert cluster.exec("n1", ["getent", "hosts", "n2"], env={"RES_OPTIONS": "timeout:1 attempts:1"}).end() == 2
    assert cluster.exec("n1", ["ssh", cluster.address("n2"), "true"]).end() == 0


def test_two_rounds_at_once_are_noticed(tmp_path):
    def write(name, *lives):
        where = Beats(tmp_path / name)
        for i, (of_round, rank, first, last) in enumerate(lives):
            lines = [f"{of_round} {rank} 2 0 0 n1 {i} {t}\n" for t in (first, last)]
            (where.directory / f"{i}.beat").write_text("".join(lines))
        return where

    write("fine", (0, 0, 1, 2), (0, 1, 1, 2.5), (1, 0, 3, 4)).assert_one_round_at_a_time()
    with pytest.raises(AssertionError, match="two rounds at once"):
        write("overlap", (0, 0, 1, 2), (0, 1, 1, 3.5), (1, 0, 3, 4)).assert_one_round_at_a_time()
    with pytest.raises(AssertionError, match="twice"):
        write("twice", (0, 0, 1, 2), (0, 0, 5, 6)).assert_one_round_at_a_time()
