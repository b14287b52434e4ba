"""Nobody else gets in, and nothing gets out: tokens, versions, strangers, a look at the wire."""

import hashlib
import pathlib
import re
import secrets
import signal
import struct
import subprocess

import pytest

from .harness import BEAT, HOME
from .job import wait_for
from .launch import PORT, WAYS, start, start_on

# To each port of a node: random bytes, a torn connection, one that says nothing, a request of another protocol. Prints
# to which port how many connections were made; a server may close one before it has read everything.
GARBAGE = r"""
import collections, os, socket, sys
host, ports = sys.argv[1], [int(p) for p in sys.argv[2].split(",")]
kept, made = [], collections.Counter()
for port in ports:
    for i in range(int(sys.argv[3])):
        s = socket.create_connection((host, port), 20)
        made[port] += 1
        data = [os.urandom(1 + i * 37 % 5000), b"", b"GET / HTTP/1.0\r\n\r\n", b"\0" * 4096, b"\xff" * 64][i % 5]
        try: s.sendall(data)
        except ConnectionError: pass
        if i % 3: s.close()
        else: kept.append(s)
print(*(f"{port}:{count}" for port, count in made.items()))
"""


def listening_ports(cluster, name):
    """Of the node, sshd's left out."""
    found = set()
    for table in ("tcp", "tcp6"):
        for line in pathlib.Path(f"/proc/{cluster.lab.node(name).pid}/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A":
                found.add(int(words[1].rpartition(":")[2], 16))
    return found - {22}


@pytest.mark.parametrize("way", WAYS)
def test_garbage_to_every_port(lab, beats, way):
    cluster = lab(2)
    run = start(cluster, way, [BEAT, beats.directory])
    beats.wait_round(0, 2)
    ports = {name: listening_ports(cluster, name) for name in cluster.lab.nodes}
    assert any(ports.values())
    for source, name in (("ctl", "n1"), ("n2", "n1"), ("n1", "n2"), ("n1", "ctl")):
        if ports[name]:
            argv = [cluster.address(name), ",".join(map(str, ports[name])), "60"]
            sender = cluster.exec(source, ["/usr/bin/python3", "-c", GARBAGE, *argv])
            assert sender.end() == 0, sender.said()
            assert sorted(sender.out.split()) == sorted(f"{port}:60" for port in ports[name]), sender.said()
    beats.tell("all", "exit 0")
    assert run.end() == 0, run.said()
    assert {life.round for life in beats.lives()} == {0}


HELLO_OF_ANOTHER_PROTOCOL = b"\xd7muster?" + struct.pack("<HBB", 99, 1, 0) + b"9.9.9".ljust(20, b"\0") + bytes(32)


REFUSAL_SIZE, SERVER_HELLO_SIZE, HELLO_HEAD_SIZE = 120, 96, 32

# A stranger: sends its hello, and then, where it is told a token, the proof of that. Prints the two answers.
STRANGER = r"""
import hashlib, socket, sys
def keyed(key, data): return hashlib.blake2b(data, key=key, digest_size=32).digest()
s = socket.create_connection((sys.argv[1], int(sys.argv[2])), 5)
hello, size, token = bytes.fromhex(sys.argv[3]), int(sys.argv[4]), bytes.fromhex(sys.argv[5])
s.sendall(hello)
stream = s.makefile("rb")
answer = stream.read(size)
print(answer.hex())
if token:
    header = bytes(24)
    s.sendall(header + keyed(keyed(token, b"muster session" + hello + answer), b"client proof" + header))
    s.shutdown(socket.SHUT_WR)
    try: print(stream.read().hex())
    except ConnectionError: print()
"""


def ask(cluster, source, hello, size, host="n1", port=PORT, token=""):
    """What a coordinator answers to a stranger's hello, and to its proof."""
    where = [cluster.address(host), port]
    asked = cluster.exec(source, ["/usr/bin/python3", "-c", STRANGER, *where, hello.hex(), size, token])
    assert asked.end() == 0, asked.said()
    return [bytes.fromhex(line) for line in asked.out.splitlines()]


def say_hello(cluster, source, hello, host="n1", port=PORT):
    """Of another version; returns the refusal."""
    return ask(cluster, source, hello, REFUSAL_SIZE, host, port)[0]


def proper_hello(cluster, host, port):
    """What a node of this version says first."""
    refusal = say_hello(cluster, "n2", HELLO_OF_ANOTHER_PROTOCOL, host, port)
    return b"\xd7muster?" + refusal[8:10] + b"\1\0" + refusal[12:32] + secrets.token_bytes(32)


DIFFERS = r"belongs to another job or another user \(its token differs\)"


@pytest.mark.slow
def test_who_was_refused_is_named_where_nodes_are_missing(lab, beats, muster):
    """A wrong token, on both sides; another version."""
    cluster = lab(2)
    options = ["--join-timeout", 12]
    jobs = {
        name: start_on(
            cluster, "static", name, [BEAT, beats.directory], options=options, env={"MUSTER_TOKEN": secrets.token_hex(32)}
        )
        for name in cluster.names
    }
    wait_for("the port", lambda: PORT in listening_ports(cluster, "n1"))
    say_hello(cluster, "ctl", HELLO_OF_ANOTHER_PROTOCOL)
    assert {job.end() for job in jobs.values()} == {125}
    ctl, n1, n2 = (re.escape(cluster.address(name)) for name in ("ctl", "n1", "n2"))
    assert re.search(rf"^muster: error: {n1}:{PORT} {DIFFERS}", jobs["n2"].err, re.M), jobs["n2"].said()
    error = re.search("^muster: .* failed: (.*); 1 of 2 nodes after ", jobs["n1"].err, re.M)
    assert error, jobs["n1"].said()
    assert re.search(f"refused {n2}: {n2} {DIFFERS}", error[1]), jobs["n1"].said()
    assert re.search(rf"refused {ctl}: .*9\.9\.9.*{re.escape(version_of(muster))}", error[1]), jobs["n1"].said()
    assert not beats.lives()


def test_keys_that_differ_are_told_at_once_on_both_sides(lab, beats):
    """As in containers that do not mount the home directory. The first node says so while it waits."""
    cluster = lab(2)
    jobs = {name: start_on(cluster, "static", name, [BEAT, beats.directory], env={"HOME": HOME}) for name in cluster.names}
    assert jobs["n2"].end() == 125, jobs["n2"].said()
    way_out = rf"\S+ {DIFFERS}; .* the same secret: MUSTER_TOKEN, .*enroot start --env MUSTER_TOKEN"
    assert re.search(f"^muster: error: {way_out}", jobs["n2"].err, re.M), jobs["n2"].said()
    jobs["n1"].expect(rf"^muster: warning: refused {re.escape(cluster.address('n2'))}: {way_out}")
    jobs["n1"].kill()
    assert not beats.lives()


def test_another_id_is_named_where_it_may_differ(lab, beats):
    """The default port stands for several: what the one that answers has said is shown, not that others are closed."""
    cluster = lab(2)
    how = ["--nnodes", 2, "--master-addr", cluster.address("n1"), "--join-timeout", 6]
    token = {"MUSTER_TOKEN": secrets.token_hex(32)}
    first, second = (
        cluster.muster(
            name, ["run", *how, "--node-rank", rank, "--rdzv-id", f"id-of-{name}", BEAT, beats.directory], env=token
        )
        for rank, name in enumerate(cluster.names)
    )
    n1 = re.escape(cluster.address("n1"))
    second.expect(rf"^muster: waiting for the coordinator \({n1}:29500: {n1}:29500 {DIFFERS}.*\)$")
    assert (first.end(), second.end()) == (125, 125), f"{first.said()}\n{second.said()}"
    why = rf"no connection in \S+ s: {n1}:29500: \S+ {DIFFERS}.*; \S+ \(and \d+ more\): connection refused; .*--rdzv-id"
    assert re.search(rf"^muster: error: {why}", second.err, re.M), second.said()
    assert len(re.findall(rf"^muster: warning: refused .* {DIFFERS}", first.err, re.M)) == 1, first.said()
    assert not beats.lives()


def other_version(cluster, program):
    """A muster that says it is of another version: the text is replaced in a copy."""
    version = version_of(program)
    data = pathlib.Path(program).read_bytes()
    other = version[:-1] + ("8" if version[-1] != "8" else "9")
    assert version.encode() in data
    path = cluster.shared / "other/muster"
    path.parent.mkdir()
    path.write_bytes(data.replace(version.encode(), other.encode()))
    path.chmod(0o755)
    return str(path)


def version_of(program):
    return subprocess.run([program, "version"], capture_output=True, text=True, check=True).stdout.split()[-1]


def test_another_protocol_is_refused_with_both_versions(lab, beats, muster):
    cluster = lab(2)
    run = start(cluster, "static", [BEAT, beats.directory], names=["n1"])
    wait_for("the port", lambda: PORT in listening_ports(cluster, "n1"))
    answer = say_hello(cluster, "n2", HELLO_OF_ANOTHER_PROTOCOL)
    assert version_of(muster).encode() in answer, "the other side can say both"
    said = run.expect(r"refused .*9\.9\.9.*").group()
    assert version_of(muster) in said and cluster.address("n2") in said
    run.jobs["n2"] = start_on(cluster, "static", "n2", [BEAT, beats.directory])
    beats.wait_round(0, 2)
    beats.tell("all", "exit 0")
    assert run.end() == 0, run.said()


def test_a_host_with_another_version_gets_ours(lab, beats, muster):
    cluster = lab(2)
    cluster.replace_program("n2", other_version(cluster, muster))
    run = start(cluster, "fan-out", [BEAT, beats.directory])
    beats.wait_round(0, 2)
    beats.tell("all", "exit 0")
    assert run.end() == 0, run.said()


WRONG_TOKEN = bytes(28)


def test_a_secret_that_people_choose_is_costly_to_guess(lab, beats):
    """One fast hash does not make its token, and a stranger gets nothing that depends on it: two hellos have the same
    head, and what follows is a nonce and a public key of the connection."""
    cluster = lab(2)
    run = start(cluster, "static", [BEAT, beats.directory], env={"MUSTER_TOKEN": "hunter2"})
    beats.wait_round(0, 2)
    assert not has_token(cluster, "static", token_of_the_job(cluster, "static", "hunter2"))
    hello = proper_hello(cluster, "n1", PORT)
    (answer,), (again,) = (ask(cluster, "n2", hello, SERVER_HELLO_SIZE) for _ in range(2))
    assert len(answer) == len(again) == SERVER_HELLO_SIZE
    assert answer[:HELLO_HEAD_SIZE] == again[:HELLO_HEAD_SIZE] and answer != again
    beats.tell("all", "exit 0")
    assert run.end() == 0, run.said()


def test_a_token_file_that_others_can_read_is_refused(lab, beats):
    cluster = lab(1)
    secret = cluster.shared / "secret"
    secret.write_text(secrets.token_hex(32))
    secret.chmod(0o644)
    how = ["--nnodes", 2, "--node-rank", 1, "--master-addr", "n1", "--token-file", secret]
    job = cluster.muster("n1", ["run", *how, BEAT, beats.directory])
    assert job.end() == 2, job.said()
    assert re.search(r"--token-file: '\S+/secret' can be read or changed by others; chmod 600 ", job.err), job.said()


def test_nodes_of_two_schedulers_jobs_do_not_meet(lab, beats):
    """The same user, key, port and id. Each side says which job is which."""
    cluster = lab(2)
    first, second = ({"PBS_JOBID": f"{number}.server"} for number in (41, 42))
    jobs = {
        name: start_on(cluster, "static", name, [BEAT, beats.directory], env=env)
        for name, env in (("n1", first), ("n2", second))
    }
    assert jobs["n2"].end() == 125, jobs["n2"].said()
    n1, n2 = (re.escape(cluster.address(name)) for name in cluster.names)
    which = "belongs to another job of yours: PBS job {}.server; this is PBS job {}.server"
    said = rf"^muster: error: {n1}:{PORT} {which.format(41, 42)}; .*MUSTER_TOKEN"
    assert re.search(said, jobs["n2"].err, re.M), jobs["n2"].said()
    jobs["n1"].expect(rf"refused {n2}: {n2} {which.format(42, 41)}")
    assert "token differs" not in jobs["n1"].err, jobs["n1"].said()
    jobs["n2"] = start_on(cluster, "static", "n2", [BEAT, beats.directory], env=first)
    beats.wait_round(0, 2)
    beats.tell("all", "exit 0")
    assert [job.end() for job in jobs.values()] == [0, 0]


def in_a_pbs_job(cluster, number, name):
    """The variables of the script of a job that has that one node."""
    nodefile = cluster.shared / f"nodes.{number}"
    nodefile.write_text(f"{name}\n")
    return {"PBS_ENVIRONMENT": "PBS_BATCH", "PBS_JOBID": f"{number}.server", "PBS_NODEFILE": str(nodefile)}


def test_a_secret_of_their_own_makes_two_schedulers_jobs_one(lab, beats):
    cluster = lab(2)
    token = {"MUSTER_TOKEN": secrets.token_hex(32)}
    jobs = [
        start_on(cluster, "c10d", name, [BEAT, beats.directory], options=["--mode", "symmetric"],
                 env=token | in_a_pbs_job(cluster, number, name))
        for number, name in enumerate(cluster.names)
    ]
    beats.wait_round(0, 2)
    beats.tell("all", "exit 0")
    assert [job.end() for job in jobs] == [0, 0]


def test_a_secret_in_a_script_does_not_make_its_two_jobs_one(lab, beats):
    """Of jobs whose size is not known, as in a container that passes on no more than the job's name."""
    cluster = lab(2)
    token = {"MUSTER_TOKEN": secrets.token_hex(32)}
    first = start_on(cluster, "c10d", "n1", [BEAT, beats.directory], env=token | {"PBS_JOBID": "41.server"})
    second = start_on(cluster, "c10d", "n2", [BEAT, beats.directory], env=token | {"PBS_JOBID": "42.server"})
    assert second.end() == 125, second.said()
    assert "belongs to another job of yours: PBS job 41.server; this is PBS job 42.server" in second.err, second.said()
    first.kill()
    assert not beats.lives()


def test_torchruns_own_agents_are_named(lab, beats):
    """On both sides: the store that torchrun has where muster looks for its coordinator, and its client at our port."""
    cluster = lab(2)
    job = start_on(cluster, "static", "n1", [BEAT, beats.directory], options=["--join-timeout", 30])
    wait_for("the port", lambda: PORT in listening_ports(cluster, "n1"))
    client = (
        "import socket, sys\n"
        "s = socket.create_connection((sys.argv[1], int(sys.argv[2])), 5)\n"
        "s.sendall(bytes.fromhex('00cef7853c'))\n"
        "s.recv(1)\n"
    )
    assert cluster.exec("n2", ["/usr/bin/python3", "-c", client, cluster.address("n1"), PORT]).end() == 0
    job.expect(rf"refused {re.escape(cluster.address('n2'))}: .* speaks torchrun's protocol .*muster torchrun")
    store = (
        "import socket\n"
        f"s = socket.create_server(('', {PORT}))\n"
        "print('listening', flush=True)\n"
        "kept = []\n"
        "while True:\n"
        "    kept.append(s.accept()[0])\n"
        "    said = kept[-1].recv(64)\n"
        "    if said[:1] == b'\\0': kept[-1].sendall(said[-4:])\n"
    )
    cluster.exec("n2", ["/usr/bin/python3", "-c", store]).expect("listening")
    how = ["--nnodes", 2, "--node-rank", 1, "--master-addr", cluster.address("n2"), "--master-port", PORT]
    joiner = cluster.muster("n1", ["run", *how, "--join-timeout", 6, BEAT, beats.directory])
    assert joiner.end() == 125, joiner.said()
    assert re.search("no connection in .* speaks torchrun's protocol .*; start muster there too", joiner.err), joiner.said()
    job.kill()


# At the first port where nodes look for their coordinator: passes on the hello of the real one, and then says nothing.
SILENT_STRANGER = r"""
import pathlib, socket, sys
s = socket.create_server(("", int(sys.argv[1])))
print("listening", flush=True)
kept = []
while True:
    kept.append(s.accept()[0])
    with socket.create_connection(("127.0.0.1", int(pathlib.Path(sys.argv[2]).read_text()))) as real:
        real.sendall(kept[-1].recv(4096))
        kept[-1].sendall(real.recv(4096))
    print("said hello", flush=True)
"""


@pytest.mark.slow
def test_a_stranger_that_says_hello_does_not_hold_a_node(lab, beats):
    """The default port stands for several. A stranger has the first one."""
    cluster = lab(2)
    port = cluster.shared / "port"
    stranger = cluster.exec("n1", ["/usr/bin/python3", "-c", SILENT_STRANGER, 29500, port])
    stranger.expect("listening")
    how = ["run", "--nnodes", 2, "--master-addr", cluster.address("n1")]
    first = cluster.muster("n1", [*how, "--node-rank", 0, BEAT, beats.directory])
    (real,) = wait_for("the port", lambda: listening_ports(cluster, "n1") - {29500})
    port.write_text(str(real))
    second = cluster.muster("n2", [*how, "--node-rank", 1, BEAT, beats.directory])
    stranger.expect("said hello")
    beats.wait_round(0, 2)
    beats.tell("all", "exit 0")
    assert (first.end(), second.end()) == (0, 0), f"{first.said()}\n{second.said()}"
    stranger.kill()


# ssh that writes down what an agent is told.
LISTENING_SSH = r"""#!/usr/bin/python3
import os, subprocess, sys, threading
ssh = subprocess.Popen(["ssh", *sys.argv[1:]], stdin=subprocess.PIPE)
heard = open(f"{sys.argv[0]}.{os.getpid()}", "wb", buffering=0)
def listen():
    while data := os.read(0, 65536):
        heard.write(data)
        os.write(ssh.stdin.fileno(), data)
    ssh.stdin.close()
threading.Thread(target=listen, daemon=True).start()
os._exit(ssh.wait())
"""


def token_of_the_job(cluster, way, given):
    """Random in a fan-out; made of what was given and of the job's name where every node has a muster of its own."""
    if way == "fan-out":
        told = [path.read_bytes() for path in cluster.shared.glob("ssh.*")]
        assert len(told) == len(cluster.names)
        found = {word.decode() for text in told for word in re.findall(rb"\b[0-9a-f]{64}\b", text)} - {given}
        assert len(found) == 1, found
        return found.pop()
    name = {"static": f"{PORT}\nnone", "c10d": f"{PORT}\njob"}[way]
    return keyed(keyed(b"", given.encode()), b"muster job token" + name.encode()).hex()


def keyed(key, data):
    return hashlib.blake2b(data, key=key, digest_size=32).digest()


def has_token(cluster, way, token):
    """Whether it is what the coordinator knows: whoever proves another one is told so."""
    host = "ctl" if way == "fan-out" else "n1"
    (port,) = listening_ports(cluster, host) if way == "fan-out" else [PORT]
    hello = proper_hello(cluster, host, port)
    _, refusal = ask(cluster, "n2", hello, SERVER_HELLO_SIZE, host, port, token)
    assert refusal in (b"", WRONG_TOKEN)
    return refusal == b""


@pytest.mark.parametrize("way", WAYS)
def test_secrets_stay_secret(lab, beats, tmp_path, way):
    """Neither environment nor token in an argument, a log, a worker's environment, or readable on the wire."""
    cluster = lab(2)
    given, secret = secrets.token_hex(32), secrets.token_hex(16)
    logs, ssh = cluster.shared / "logs", cluster.shared / "ssh"
    ssh.write_text(LISTENING_SSH)
    ssh.chmod(0o755)
    options = ["--log-dir", logs, "--verbose", *(["--ssh", ssh] if way == "fan-out" else [])]
    env = {"MUSTER_TOKEN": given, "API_KEY": secret}
    with cluster.capture(tmp_path / "wire.pcap") as wire:
        run = start(cluster, way, [BEAT, beats.directory], options=options, env=env)
        beats.wait_round(0, 2)
        token = token_of_the_job(cluster, way, given)
        assert has_token(cluster, way, token)
        assert not has_token(cluster, way, secrets.token_hex(32))
        for name in cluster.lab.nodes:
            for words in cluster.processes(name).values():
                assert not any(needle in words for needle in (given, token, secret)), words
            for pid in cluster.workers(name):
                environment = pathlib.Path(f"/proc/{pid}/environ").read_bytes()
                assert secret.encode() in environment
                assert not any(needle.encode() in environment for needle in (given, token)), "a worker knows the token"
        beats.tell("all", "exit 0")
        assert run.end() == 0, run.said()
    for needle in (given, token, secret):
        for data in (needle.encode(), bytes.fromhex(needle)):
            assert not wire.search(data), f"on the wire: {data!r}"
        assert needle not in run.said()
        for file in logs.glob("**/*"):
            assert not file.is_file() or needle.encode() not in file.read_bytes(), file
    assert wire.search(b"start/0"), "the store's own traffic is seen, so the capture saw what there was"


# Says whether a store answers a PING.
ASK_STORE = r"""
import socket, sys
s = socket.create_connection((sys.argv[1], int(sys.argv[2])), 5)
try:
    s.sendall(bytes.fromhex('00cef7853c') + b'\x0d' + b'ABCD')
    got = s.recv(4)
except ConnectionError: got = b''
print('answered' if got else 'turned away')
"""
ANOTHER_USER = ["setpriv", "--reuid", 65534, "--regid", 65534, "--clear-groups"]


def master_of(cluster, name):
    """Where the worker of the node meets the others."""
    (worker,) = cluster.workers(name)
    variables = dict(v.split("=", 1) for v in pathlib.Path(f"/proc/{worker}/environ").read_text().split("\0") if "=" in v)
    return variables["MASTER_ADDR"], variables["MASTER_PORT"]


def ask_store(cluster, name, endpoint, user=()):
    job = cluster.exec(name, [*user, "/usr/bin/python3", "-c", ASK_STORE, *endpoint])
    assert job.end() == 0, job.said()
    return job.out.strip()


def let_every_address_be_bound(cluster, name):
    set_it = "for f in /proc/sys/net/ipv[46]/ip_nonlocal_bind; do echo 1 > $f; done"
    job = cluster.exec(name, ["sh", "-c", set_it])
    assert job.end() == 0, job.said()


@pytest.mark.parametrize("can_be_bound", ["own addresses", "every address"])
def test_the_store_serves_members_alone(lab, beats, can_be_bound):
    """A stranger's address and another user of the store's machine are turned away: the protocol has no passwords."""
    cluster = lab(2)
    if can_be_bound == "every address":
        let_every_address_be_bound(cluster, "n1")
    run = start(cluster, "fan-out", [BEAT, beats.directory], options=["--nproc-per-node", 1])
    beats.wait_round(0, 2)
    address, port = master_of(cluster, "n2")
    asked = {
        "another machine": ask_store(cluster, "ctl", (address, port)),
        "the other node": ask_store(cluster, "n2", (address, port)),
        "another user": ask_store(cluster, "n1", (address, port), ANOTHER_USER),
        "another user, over loopback": ask_store(cluster, "n1", ("127.0.0.1", port), ANOTHER_USER),
        "our user": ask_store(cluster, "n1", (address, port)),
        "our user, over loopback": ask_store(cluster, "n1", ("127.0.0.1", port)),
    }
    assert asked == {
        "another machine": "turned away",
        "the other node": "answered",
        "another user": "turned away",
        "another user, over loopback": "turned away",
        "our user": "answered",
        "our user, over loopback": "answered",
    }
    refused = re.findall(r"store: refused (\S+):\d+: not known as a member of this job", run.said())
    assert sorted(refused) == sorted([cluster.address("ctl"), address, "127.0.0.1"]), run.said()
    beats.tell("all", "exit 0")
    assert run.end() == 0, run.said()


# Holds 500 connections at a time. Prints how many it has made.
STRANGERS = r"""
import collections, socket, sys
kept, made = collections.deque(), 0
while made < int(sys.argv[3]):
    kept.append(socket.create_connection((sys.argv[1], int(sys.argv[2])), 20))
    made += 1
    if len(kept) > 500: kept.popleft().close()
print(made)
"""


def test_ten_thousand_strangers(lab, beats):
    cluster = lab(2)
    run = start(cluster, "static", [BEAT, beats.directory])
    beats.wait_round(0, 2)
    come = ["/usr/bin/python3", "-c", STRANGERS, cluster.address("n1"), PORT, 5000]
    strangers = [cluster.exec(name, come) for name in ("ctl", "n2")]
    assert [s.end() for s in strangers] == [0, 0], [s.said() for s in strangers]
    assert sum(int(s.out) for s in strangers) == 10_000
    beats.tell("all", "exit 0")
    assert run.end() == 0, run.said()
    assert {life.round for life in beats.lives()} == {0}


# 300 connections that say nothing. Whenever one is closed, another takes its place: so many want in all the time.
SILENT = r"""
import select, socket, sys
def connect(): return socket.create_connection((sys.argv[1], int(sys.argv[2])), 20)
kept = [connect() for i in range(300)]
print("connected", flush=True)
turned_away = 0
while True:
    for old in select.select(kept, [], [])[0]:
        old.close()
        kept[kept.index(old)] = connect()
        turned_away += 1
        if turned_away == 300: print("all were turned away", flush=True)
"""


def test_nobody_waits_for_a_stranger_that_says_nothing(lab, beats):
    """Silent connections before the first member comes do not keep it out."""
    cluster = lab(2)
    first = start(cluster, "static", [BEAT, beats.directory], names=["n1"])
    wait_for("the port", lambda: PORT in listening_ports(cluster, "n1"))
    strangers = cluster.exec("ctl", ["/usr/bin/python3", "-c", SILENT, cluster.address("n1"), PORT])
    strangers.expect("connected")
    first.jobs["n2"] = start_on(cluster, "static", "n2", [BEAT, beats.directory])
    beats.wait_round(0, 2)
    strangers.expect("all were turned away")
    assert strangers.running, strangers.said()
    strangers.kill()
    beats.tell("all", "exit 0")
    assert first.end() == 0, first.said()


# Each new one takes the place of the oldest.
FLOOD = r"""
import collections, socket, sys, time
kept = collections.deque()
for count in range(1_000_000):
    s = socket.create_connection((sys.argv[1], int(sys.argv[2])), 20)
    s.sendall(bytes.fromhex(sys.argv[3]))
    kept.append(s)
    if len(kept) > 500: kept.popleft().close()
    if count == 500: print("flooded", flush=True)
    time.sleep(0.001)
"""

# A hello whose proof never comes: until as many in a row as argv[5] says were treated as argv[4] says.
LINGER = r"""
import socket, sys, time
in_a_row = 0
for attempt in range(20):
    began = time.monotonic()
    s = socket.create_connection((sys.argv[1], int(sys.argv[2])), 20)
    try:
        s.sendall(bytes.fromhex(sys.argv[3]))
        while s.recv(120): pass
    except ConnectionError: pass
    treated = "kept" if time.monotonic() - began > 1.5 else "thrown out"
    in_a_row = in_a_row + 1 if treated == sys.argv[4] else 0
    if in_a_row == int(sys.argv[5]): sys.exit()
sys.exit(f"never {sys.argv[4]} {sys.argv[5]} times in a row")
"""


def test_places_are_kept_for_hosts_that_are_given_by_name(lab):
    """Before they have joined: their names are looked up, without ssh's user. n1 is one of the job, n2 none."""
    cluster = lab(2)
    ssh = cluster.shared / "ssh"
    ssh.write_text("#!/bin/sh\nexec sleep 1000\n")
    ssh.chmod(0o755)
    job = cluster.muster("ctl", ["run", "--hosts", "root@n1", "--ssh", ssh, "--nproc-per-node", 1, "true"])
    wait_for("the port", lambda: listening_ports(cluster, "ctl"))
    (port,) = listening_ports(cluster, "ctl")
    where = [cluster.address("ctl"), port, proper_hello(cluster, "ctl", port).hex()]
    flood = cluster.exec("n2", ["/usr/bin/python3", "-c", FLOOD, *where])
    flood.expect("flooded")
    # For its two seconds, or for one who comes later. A stranger may have luck, a host of the job needs none.
    for name, treated, times in (("n1", "kept", 3), ("n2", "thrown out", 1)):
        visitor = cluster.exec(name, ["/usr/bin/python3", "-c", LINGER, *where, treated, times])
        assert visitor.end() == 0, f"{name}: {visitor.said()}"
    for each in (flood, job):
        each.send(signal.SIGTERM)
        assert each.end() == 128 + signal.SIGTERM, each.said()
