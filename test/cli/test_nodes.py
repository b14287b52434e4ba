"""The command line of a job on several nodes: what is refused and why, what --dry-run shows, the agent's first words."""

import json
import pathlib
import signal
import socket
import subprocess
import threading
import time

import pytest

from harness import clean_env

pytestmark = pytest.mark.cli

TIMEOUT = 60


@pytest.fixture
def call(muster, tmp_path):
    """call(args, code=0) -> the finished process. It has a home of its own and nothing of the user's."""
    home = tmp_path / "home"
    home.mkdir()

    def run(args, code=0, env=None, **popen):
        everything = clean_env(**{"HOME": str(home), **(env or {})})
        done = subprocess.run(
            [muster, *map(str, args)], capture_output=True, text=True, env=everything, cwd=tmp_path, timeout=TIMEOUT, **popen
        )
        assert done.returncode == code, done
        return done

    run.home = home
    return run


def error(done):
    assert done.stdout == ""
    assert done.stderr.startswith("muster: error: ") and done.stderr.count("\n") == 1, done.stderr
    return done.stderr.removeprefix("muster: error: ").rstrip("\n")


@pytest.mark.parametrize(
    "args, sentence",
    [
        (["--hosts", "n1,,n2"], "--hosts: "),
        (["--hosts", "n1,n1"], "--hosts: "),
        (["--hosts", "-oProxyCommand=x"], "option '--hosts' needs a value"),
        (["--hosts=-oProxyCommand=x"], "--hosts: "),
        (["--hostfile", "missing"], "--hostfile: "),
        (["--local-nodes", "0"], "--local-nodes: 0 is out of range"),
        (["--local-nodes", "2", "--hosts", "n1"], "both say which nodes there are"),
        (["--hosts", "n1", "--nnodes", "2"], "2 nodes were asked for, and 1 host is named"),
        (["--hosts", "n1", "--lease", "1"], "--lease: 1 is out of range; write 2 or more seconds"),
        (["--hosts", "n1", "--grow", "soon"], "choose now, restart, never"),
        (["--hosts", "n1", "--port-range", "9-1"], "'9-1' is not a range of ports"),
        (["--hosts", "n1", "--interface", "no-such-interface"], "--interface: "),
        (["--hosts", "192.0.2.1", "--interface", "lo"], "--interface: lo is loopback, where 192.0.2.1 cannot reach"),
        (["--hosts", "n1", "--stdin", "all"], "cannot read what is typed or piped in here"),
        (["--nnodes", "2", "--rdzv-backend", "c10d"], "give --rdzv-endpoint HOST"),
        (["--nnodes", "2", "--node-rank", "2", "--master-addr", "h"], "there is no node 2 in a job of 2 nodes"),
        (["--nnodes", "2", "--node-rank", "1", "--master-addr", "h", "--token-file", "none"], "--token-file: "),
    ],
)
def test_what_is_wrong_is_said_and_nothing_started(call, args, sentence):
    assert sentence in error(call(["run", *args, "true"], code=2))


def test_a_coordinator_whose_name_nobody_knows(call):
    """Waited for until --join-timeout, since it may appear; whether a resolver says no here or nothing at all."""
    env = {"MASTER_ADDR": "nohost.invalid", "MASTER_PORT": "29511", "NNODES": "2", "NODE_RANK": "1"}
    done = call(["run", "--join-timeout", "2", "true"], code=125, env=env)
    last = done.stderr.splitlines()[-1]
    assert last.startswith("muster: error: ") and "nohost.invalid:29511: " in last, done.stderr
    assert last.endswith("; give a name that this node can look up, or an address"), done.stderr


def test_torchrun_keeps_its_words_and_has_ours(call):
    """--hosts is known, its prefixes are not: whatever torchrun refuses stays refused."""
    done = call(["torchrun", "--hos", "n1", "x.py"], code=2)
    assert "torchrun: error: unrecognized arguments: --hos" in done.stderr
    done = call(["torchrun", "--hosts", "n1", "--nnodes", "2", "x.py"], code=1)
    assert "2 nodes were asked for, and 1 host is named" in done.stderr


def test_dry_run_of_hosts(call):
    done = call(["run", "--hosts", "n1:2,n[2-3]", "--nproc-per-node", "4", "--nnodes", "2", "--dry-run", "not-here.py"])
    assert done.stdout.startswith("fan-out to 2 of 3 hosts (--hosts names 3)\n  n1  ranks 0-1\n  n2  ranks 2-5\n  n3  spare\n")
    plan = json.loads(
        call(["run", "--hosts", "n1,n2", "--nproc-per-node", 1, "--dry-run", "--json", "x.py", "--lr", "1"]).stdout
    )
    assert plan["mode"] == "fanout"
    assert plan["hosts"] == [
        {"host": "n1", "workers": 1, "ranks": "0"},
        {"host": "n2", "workers": 1, "ranks": "1"},
    ]
    assert plan["command"] == ["x.py", "--lr", "1"]
    assert plan["lease"] == 10


def test_dry_run_of_a_node_among_others(call):
    args = ["run", "--nnodes", "2:4", "--rdzv-endpoint", "localhost", "--dry-run", "--json", "true"]
    plan = json.loads(call(args).stdout)
    assert plan["mode"] == "symmetric"
    assert plan["endpoint"] == "localhost:29400"
    assert plan["hosts_job"] == "this node hosts the job, or another one on this machine"
    assert (plan["min_nodes"], plan["max_nodes"]) == (2, 4)
    assert not (call.home / ".config").exists(), "a dry run makes no key"


def test_a_key_that_others_can_read_is_refused(call):
    key = call.home / ".config" / "muster" / "key"
    key.parent.mkdir(parents=True)
    key.write_text("secret")
    key.chmod(0o644)
    args = ["run", "--nnodes", "2", "--node-rank", "1", "--master-addr", "127.0.0.1", "--dry-run", "true"]
    assert error(call(args, code=2)) == f"the key {key} can be read or changed by others; chmod 600 {key}"
    key.chmod(0o600)
    assert "no secret" not in call(args).stdout
    assert "no secret" in call([*args[:1], "--insecure", *args[1:]]).stdout


@pytest.mark.parametrize(
    "words, said",
    [
        (
            ["--node-rank", "0", "--master-addr", "localhost"],
            "no word of node rank 1; start the same command there, with its own --node-rank, or give them longer with",
        ),
        (
            ["--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost"],
            "start the same command, with the same --rdzv-id, on the others, or give them longer with --join-timeout",
        ),
    ],
)
def test_who_did_not_come_is_said(call, words, said):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = [*words[:-1], f"{words[-1]}:{port}"] if "c10d" in words else [*words, "--master-port", port]
    done = call(["run", "--nnodes", "2", *words, "--rdzv-id", "lonely", "--join-timeout", "1", "true"], code=125)
    assert f"; {socket.gethostname()} is there; {said}" in done.stderr


def test_one_that_still_waits_has_nobody_to_stop(start_muster, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    args = ["run", "--nnodes", "2", "--node-rank", "0", "--master-addr", "localhost", "--master-port", port, "true"]
    one = start_muster(args, env={"HOME": tmp_path}, stderr=subprocess.PIPE, text=True)
    assert "waiting for node rank 1" in one.stderr.readline()
    one.send_signal(signal.SIGINT)
    assert one.stderr.readline() == "muster: SIGINT: ending\n"
    assert one.wait(TIMEOUT) == 130


def test_a_taken_endpoint_may_be_the_other_node(call):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        endpoint = f"localhost:{taken.getsockname()[1]}"
        done = call(["run", "--nnodes", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint", endpoint, "true"], code=2)
    assert "if that is the other node of this job, give both the same --rdzv-id" in done.stderr


def test_the_token_is_no_variable_of_a_worker(call):
    done = call(["run", "--no-python", "env"], env={"MUSTER_TOKEN": "secret-7"})
    assert "secret-7" not in done.stdout
    assert "RANK=0" in done.stdout


def test_one_of_many_without_a_place_to_meet_is_alone(call):
    done = call(["run", "--nnodes", "1:4", "true"])
    assert "starting on this node alone; for more give --rdzv-endpoint HOST on every node" in done.stderr


# --- the agent -------------------------------------------------------------------------------------------------------


def test_agent_is_not_for_people(call):
    assert "agent" not in call(["--help"]).stdout.split("Verbs:")[1]
    assert "usage: muster agent" in call(["agent", "--help"]).stdout
    assert "started by muster itself" in error(call(["agent"], code=2, stdin=subprocess.DEVNULL))


def agent(muster, tmp_path):
    return subprocess.Popen(
        [muster, "agent"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=clean_env(HOME=str(tmp_path)),
    )


def test_agent_greets_and_ends_with_its_launcher(muster, tmp_path):
    process = agent(muster, tmp_path)
    version = subprocess.run([muster, "--version"], capture_output=True, text=True).stdout.split()[1]
    assert process.stdout.readline().decode() == f"muster-agent {version} 4\n"
    assert process.poll() is None, "it waits for what it is to do"
    process.stdin.close()
    assert process.wait(TIMEOUT) == 125
    assert process.stderr.read() == b"muster: error: the launcher is gone\n"


@pytest.mark.parametrize("junk", [b"GET / HTTP/1.1\r\n\r\n", b"\0" * 64, b"\xff" * 64])
def test_agent_takes_orders_from_nobody_else(muster, tmp_path, junk):
    process = agent(muster, tmp_path)
    out, err = process.communicate(junk, timeout=TIMEOUT)
    assert process.returncode == 125
    assert out.startswith(b"muster-agent ")
    assert err.startswith(b"muster: error: ") and err.count(b"\n") == 1


# --- status ----------------------------------------------------------------------------------------------------------

JOB = {
    "job": "1b4e28ba",
    "run_id": "mine",
    "pid": 4711,
    "mode": "fanout",
    "state": "running",
    "since": 0,
    "round": 1,
    "restarts": 1,
    "max_restarts": 3,
    "message": "",
    "nodes": [
        {
            "host": "n1",
            "state": "running",
            "address": "10.0.0.1",
            "agent_pid": 5,
            "group_rank": 0,
            "workers": [{"rank": 0, "local_rank": 0, "pid": 6}],
            "since": 0,
        }
    ],
    "lost": [],
}


@pytest.fixture
def runtime(tmp_path):
    """A directory of status sockets, and serve(name, document) for a job that answers."""
    directory = tmp_path / "muster"
    directory.mkdir(mode=0o700)
    open_sockets = []

    def serve(name, document):
        server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        server.bind(str(directory / f"{name}.sock"))
        server.listen()
        open_sockets.append(server)

        def answer():
            while True:
                try:
                    client, _ = server.accept()
                except OSError:
                    return
                with client:
                    client.sendall(document.encode())

        threading.Thread(target=answer, daemon=True).start()

    serve.directory = directory
    serve.env = {"XDG_RUNTIME_DIR": str(tmp_path)}
    yield serve
    for server in open_sockets:
        server.shutdown(socket.SHUT_RDWR)
        server.close()


def jobs_in(done):
    return [job["job"] for job in json.loads(done.stdout)]


def test_status_of_a_job(call, runtime):
    runtime("1b4e28ba", json.dumps(JOB))
    text = call(["status", "1b4e28ba"], env=runtime.env).stdout
    assert text.startswith("job 1b4e28ba  running  round 1, 1 of 3 restarts  fanout, pid 4711  for ")
    assert "n1    running  10.0.0.1  0      6     5" in text
    assert json.loads(call(["status", "--json", "1b"], env=runtime.env).stdout) == [JOB]
    assert "1b4e28ba" in jobs_in(call(["status", "--json"], env=runtime.env))
    assert jobs_in(call(["status", "--json", "mine"], env=runtime.env)) == ["1b4e28ba"]


def test_status_of_an_unknown_job_names_those_there_are(call, runtime):
    runtime("1b4e28ba", json.dumps(JOB))
    done = call(["status", "nope"], env=runtime.env, code=1)
    assert done.stderr.startswith("muster: error: there is no job 'nope'; running jobs: ")
    assert "1b4e28ba" in done.stderr


def test_status_skips_and_removes_what_is_dead(call, runtime):
    dead = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    dead.bind(str(runtime.directory / "dead.sock"))
    dead.close()
    runtime("1b4e28ba", json.dumps(JOB))
    assert "1b4e28ba" in jobs_in(call(["status", "--json"], env=runtime.env))
    assert not (runtime.directory / "dead.sock").exists()


def test_status_says_what_does_not_answer_as_a_job(call, runtime):
    runtime("odd", "no json")
    done = call(["status"], env=runtime.env)
    assert "odd.sock: the answer is not the status of a job" in done.stderr


def test_status_trusts_no_open_directory(call, runtime):
    runtime("1b4e28ba", json.dumps(JOB))
    runtime.directory.chmod(0o777)
    done = call(["status", "--json"], env=runtime.env)
    assert "is open to others" in done.stderr
    assert "1b4e28ba" not in jobs_in(done)


# --- what goes over the wire to an agent -----------------------------------------------------------------------------


@pytest.fixture
def description(muster, tmp_path):
    """description(*args, **env) -> what an agent of such a job would read, caught by an ssh that is none."""
    caught = tmp_path / "caught"
    version = subprocess.run([muster, "--version"], capture_output=True, text=True).stdout.split()[1]
    ssh = tmp_path / "ssh"
    ssh.write_text(f"#!/bin/sh\necho muster-agent {version} 4\nexec dd bs=64k of={caught} 2>/dev/null\n")
    ssh.chmod(0o755)

    def whole():
        data = caught.read_bytes() if caught.exists() else b""
        return len(data) >= 16 and len(data) == 16 + int.from_bytes(data[12:16], "little") and data

    def catch(*args, **env):
        command = [muster, "run", "--hosts", "n1", "--ssh", str(ssh), *args]
        launcher = subprocess.Popen(command, env=clean_env(**env), cwd=tmp_path, stderr=subprocess.DEVNULL)
        try:
            return wait_until(whole, "no description came")
        finally:
            launcher.kill()
            launcher.wait()

    return catch


def wait_until(so, otherwise):
    deadline = time.monotonic() + TIMEOUT
    while not (answer := so()):
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.01)
    return answer


def test_a_description_has_no_token_of_other_jobs(description):
    data = description("true", MUSTER_TOKEN="secret-7", SHARED="yes", TMPDIR="/tmp", SSH_AUTH_SOCK="/x/y")
    assert b"SHARED" in data
    for absent in (b"secret-7", b"MUSTER_TOKEN", b"SSH_AUTH_SOCK", b"TMPDIR"):
        assert absent not in data


def test_an_agent_whose_launcher_died_before_it_joined_ends(muster, tmp_path, description):
    data = description("--join-timeout", "600", "sleep", "600")
    process = agent(muster, tmp_path)
    process.stdin.write(data)
    process.stdin.flush()
    assert process.stdout.readline().startswith(b"muster-agent ")
    # Warden and agent have parted: it has understood, and asks at an address where nobody answers any more.
    children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
    wait_until(lambda: children.read_text(), "no agent was started")
    assert process.poll() is None
    process.stdin.close()
    assert process.wait(TIMEOUT) == 125
