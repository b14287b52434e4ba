"""A job starts on several nodes: in every way, in any order, on nodes that differ."""

import os
import re

import pytest

from harness import ROOT

from .harness import BEAT, HOME, WORKERS
from .job import wait_for
from .launch import PORT, WAYS, start, start_on, state_of, status, train

DDP = [ROOT / "examples/ddp.py", "--epochs", "2", "--points", "512"]


def hosts_by_rank(lives):
    return [life.host for life in sorted(lives, key=lambda life: life.rank)]


@pytest.mark.parametrize("way", WAYS)
def test_ranks_and_a_clean_end(lab, beats, way):
    cluster = lab(3)
    run = start(cluster, way, [BEAT, beats.directory], options=["--nproc-per-node", 2])
    lives = beats.wait_round(0, 6)
    hosts = hosts_by_rank(lives)
    assert hosts[::2] == hosts[1::2], "the ranks of a node follow one another"
    if way == "c10d":  # whoever comes first
        assert sorted(hosts[::2]) == ["n1", "n2", "n3"]
    else:
        assert hosts[::2] == ["n1", "n2", "n3"]
    assert [life.local_rank for life in lives] == [0, 1] * 3
    beats.tell("all", "exit 0")
    assert run.end() == 0, run.said()
    assert {life.round for life in beats.lives()} == {0}


@pytest.mark.parametrize("way", ["static", "c10d"])
def test_any_start_order(lab, beats, way):
    """The node that hosts comes last, when the other has waited for it already."""
    cluster = lab(2)
    run = start(cluster, way, [BEAT, beats.directory], names=["n2"])
    run.jobs["n2"].expect("refused|waiting")
    run.jobs["n1"] = start_on(cluster, way, "n1", [BEAT, beats.directory])
    beats.wait_round(0, 2)
    beats.tell("all", "exit 0")
    assert run.end() == 0, run.said()


def test_nodes_with_different_numbers_of_workers(lab, beats):
    cluster = lab(3)
    run = cluster.muster("ctl", ["run", "--hosts", "n1:1,n[2-3]:2", BEAT, beats.directory])
    lives = beats.wait_round(0, 5)
    assert hosts_by_rank(lives) == ["n1", "n2", "n2", "n3", "n3"]
    beats.tell("all", "exit 0")
    assert run.end() == 0, run.said()


def test_a_slow_first_host_keeps_its_place(lab, beats):
    cluster = lab(3)
    gate = cluster.shared / "gate"
    slow = f'[ "$HOSTNAME" != n1 ] || until [ -e {gate} ]; do sleep 0.1; done'
    run = cluster.muster("ctl", ["run", "--hosts", "n[1-3]", "--nnodes", 2, "--prologue", slow, BEAT, beats.directory])
    wait_for(run.said, lambda: all(state_of(cluster, "ctl", name) for name in ("n2", "n3")))
    assert not beats.lives(), run.said()
    gate.touch()
    assert hosts_by_rank(beats.wait_round(0, 2)) == ["n1", "n2"]
    beats.tell("all", "exit 0")
    assert run.end() == 0, run.said()


def test_a_hopeless_first_host_makes_room(lab, beats):
    cluster = lab(2)
    run = cluster.muster("ctl", ["run", "--hosts", "nosuchhost,n[1-2]", "--nnodes", 2, BEAT, beats.directory])
    assert hosts_by_rank(beats.wait_round(0, 2)) == ["n1", "n2"]
    beats.tell("all", "exit 0")
    assert run.end() == 0, run.said()


def test_a_hostfile(lab, beats):
    cluster = lab(2)
    (cluster.shared / "hosts").write_text("# the cluster\nn1 slots=2\n\nn2:1\n")
    run = cluster.muster("ctl", ["run", "--hostfile", cluster.shared / "hosts", BEAT, beats.directory])
    assert hosts_by_rank(beats.wait_round(0, 3)) == ["n1", "n1", "n2"]
    beats.tell("all", "exit 0")
    assert run.end() == 0, run.said()


def test_simulated_nodes(lab, beats):
    cluster = lab(1)
    run = cluster.muster("n1", ["run", "--local-nodes", 3, "--nproc-per-node", 2, BEAT, beats.directory])
    lives = beats.wait_round(0, 6)
    assert len({life.host for life in lives}) == 3
    beats.tell("all", "exit 0")
    assert run.end() == 0, run.said()


def test_two_nodes_with_the_same_rank(lab, beats):
    cluster = lab(3)
    run = start(cluster, "static", [BEAT, beats.directory], names=["n1", "n2"])
    again = ["--nnodes", 3, "--node-rank", 1, "--master-addr", cluster.address("n1"), "--master-port", PORT]
    run.expect("2 of 3")  # n2 has it
    twin = cluster.muster("n3", ["run", *again, BEAT, beats.directory])
    assert twin.end() == 125, twin.said()
    assert "n2" in twin.err and "n3" in twin.err, twin.said()


DOUBT = "this node hosts the job as node rank 0, although {} is another machine; if another node says --node-rank 0 too"


def test_two_nodes_that_take_themselves_for_the_first(lab, beats):
    cluster = lab(2)
    copied = ["--nnodes", 2, "--node-rank", 0, "--master-addr", cluster.address("n1")]
    first = cluster.muster("n1", ["run", *copied, "--join-timeout", 8, BEAT, beats.directory])
    first.expect("1 of 2 nodes")
    second = cluster.muster("n2", ["run", *copied, BEAT, beats.directory])
    assert second.end() == 125, second.said()
    assert second.err.count(f"warning: {DOUBT.format(cluster.address('n1'))}") == 1, second.said()
    assert "error: node rank 0 is taken by n1; n2 claims it too" in second.err, second.said()
    assert first.end() == 125, first.said()
    assert "another machine" not in first.err, first.said()


def test_a_first_node_that_is_alone_says_its_doubt(lab, beats):
    """Where nobody answers at the address it may be one by which others reach this node."""
    cluster = lab(2)
    copied = ["run", "--nnodes", 2, "--node-rank", 0, "--master-addr", cluster.address("n1"), "--join-timeout", 3]
    doubt = DOUBT.format(cluster.address("n1"))
    shown = cluster.muster("n2", [*copied, "--dry-run", BEAT, beats.directory])
    assert shown.end() == 0 and doubt in shown.out, shown.said()
    job = cluster.muster("n2", [*copied, BEAT, beats.directory])
    assert job.end() == 125, job.said()
    assert job.err.count(f"warning: {doubt}") == 1, job.said()
    assert re.search(rf"1 of 2 nodes after .*{doubt}", job.err), job.said()


def test_the_headline_is_bright_on_the_terminal_of_a_node(lab):
    cluster = lab(1)
    how = f"--nnodes 1:2 --rdzv-backend c10d --rdzv-endpoint localhost:{PORT} --rdzv-conf last_call_timeout=1"
    words = f"{cluster.muster_program} run {how} --no-python false"
    job = cluster.exec("n1", ["script", "-qec", words, "/dev/null"])  # a terminal
    assert job.end() == 1, job.said()
    assert "\x1b[1;31mmuster: false failed" in job.out, job.said()


def test_c10d_says_that_it_ignores_the_node_rank(lab, beats):
    cluster = lab(2)
    run = start(cluster, "c10d", [BEAT, beats.directory], options=["--node-rank", 1])
    beats.wait_round(0, 2)
    beats.tell("all", "exit 0")
    assert run.end() == 0, run.said()
    assert len(re.findall(r"^.*node-rank.*$", run.jobs["n2"].err, re.M)) == 1, run.said()


def test_a_port_that_is_taken_is_an_error(lab, beats):
    cluster = lab(2)
    taken = f"import socket, time; s = socket.create_server(('', {PORT})); print('taken', flush=True); time.sleep(1000)"
    cluster.exec("n1", ["/usr/bin/python3", "-c", taken]).expect("taken")
    job = start_on(cluster, "static", "n1", [BEAT, beats.directory])
    assert job.end() == 2, job.said()
    assert str(PORT) in job.err, job.said()


@pytest.mark.parametrize("where, port", [("--master-addr", 29500), ("--rdzv-endpoint", 29400)])
def test_a_default_port_that_is_taken_gives_way_to_another(lab, beats, where, port):
    cluster = lab(2)
    taken = f"import socket, time; s = socket.create_server(('', {port})); print('taken', flush=True); time.sleep(1000)"
    other = cluster.exec("n1", ["/usr/bin/python3", "-c", taken])
    other.expect("taken")
    how = ["--nnodes", 2, where, cluster.address("n1")]
    jobs = []
    for rank, name in enumerate(cluster.names):
        rest = ["--node-rank", rank] if where == "--master-addr" else ["--rdzv-backend", "c10d"]
        jobs.append(cluster.muster(name, ["run", *how, *rest, BEAT, beats.directory]))
    beats.wait_round(0, 2)
    assert other.running
    beats.tell("all", "exit 0")
    assert [job.end() for job in jobs] == [0, 0], "\n".join(job.said() for job in jobs)
    assert re.search(rf"^muster: port {port} is taken.*; the nodes meet at port \d+$", jobs[0].err, re.M), jobs[0].said()


def test_a_script_on_stdin_reaches_every_node(lab, tmp_path):
    cluster = lab(2)
    (tmp_path / "script").write_text("import os, sys\nprint(os.environ['RANK'], os.uname().nodename, sys.argv)\n")
    with open(tmp_path / "script") as script:
        job = cluster.muster("ctl", ["run", "--hosts", "n1,n2", "--label", "none", "-", "x"], stdin=script)
    assert job.end() == 0, job.said()
    assert sorted(job.out.splitlines()) == ["0 n1 ['-', 'x']", "1 n2 ['-', 'x']"], job.said()
    left = [cluster.exec(name, ["sh", "-c", "ls -d /tmp/muster_script*"]) for name in cluster.names]
    assert [each.end() for each in left] == [2, 2], "\n".join(each.said() for each in left)


def test_ssh_may_be_a_command_with_arguments(lab):
    """A configuration of its own, in a file whose name has a blank: there n1 is called otherwise."""
    cluster = lab(1)
    config = cluster.shared / "my config"
    config.write_text(f"Host somewhere\n  HostName {cluster.address('n1')}\n  User root\nInclude {cluster.directory}/ssh/config\n")
    options = ["--hosts", "somewhere", "--ssh", f"ssh -F '{config}'"]
    job = cluster.muster("ctl", ["run", *options, "--no-python", "sh", "-c", "echo $MUSTER_HOST"])
    assert job.end() == 0, job.said()
    assert "somewhere" in job.out, job.said()


def test_a_missing_host_is_named(lab, beats):
    cluster = lab(2)
    cluster.power_off("n2")
    options = ["--join-timeout", 3, "--ssh-option", "ConnectTimeout=1"]
    run = start(cluster, "fan-out", [BEAT, beats.directory], options=options)
    assert run.end() == 125
    assert re.search(r"1 of 2 nodes.*n2", run.head.err), run.said()
    report = run.report()
    assert report["exit_code"] == 125 and "n2" in str(report)
    assert not beats.lives()


@pytest.mark.parametrize("way", ["static", "c10d"])
def test_a_head_that_never_comes(lab, beats, way):
    cluster = lab(2)
    job = start_on(cluster, way, "n2", [BEAT, beats.directory], options=["--join-timeout", 2])
    assert job.end() == 125
    assert cluster.address("n1") in job.err, job.said()


@pytest.mark.interop
@pytest.mark.slow
@pytest.mark.parametrize("way, nodes", [("fan-out", 3), ("static", 2), ("c10d", 2)])
def test_ddp(lab, torch_new, way, nodes):
    cluster = lab(nodes)
    run = train(cluster, way, DDP, python=torch_new, options=["--nproc-per-node", 1], env={"OMP_NUM_THREADS": 1})
    out = "\n".join(job.out for job in run.jobs.values())
    assert f"{nodes} workers" in out
    losses = re.findall(r"^\S* +(\d+)  ([\d.]+) +([\d.]+%)", out, re.M)
    assert [epoch for epoch, *_ in losses] == ["1", "2"], run.said()


@pytest.mark.interop
def test_pytorchs_own_store_client(lab, torch_new):
    cluster = lab(2)
    run = start(cluster, "fan-out", [WORKERS / "torch_store.py"], python=torch_new, options=["--nproc-per-node", 2])
    assert run.end(120) == 0, run.said()
    lines = re.findall(r"rank (\d) met (.*)", run.head.out)
    assert sorted(lines) == [(str(r), "n1:0 n1:1 n2:2 n2:3") for r in range(4)]


def test_the_program_comes_to_a_host_without_it(lab, beats):
    cluster = lab(2)
    for name in cluster.names:
        cluster.replace_program(name, None)
    refused = start(cluster, "fan-out", [BEAT, beats.directory], options=["--push-binary", "never"])
    assert refused.end() == 125
    assert "no muster" in refused.head.err and "--push-binary" in refused.head.err, refused.said()
    run = start(cluster, "fan-out", [BEAT, beats.directory])
    beats.wait_round(0, 2)
    beats.tell("all", "exit 0")
    assert run.end() == 0, run.said()
    for name in cluster.names:
        (kept,) = cluster.root(name).joinpath(HOME[1:]).glob(".cache/muster/*/muster")  # for the next time
        for path in (kept, kept.parent, kept.parent.parent):
            assert path.stat().st_mode & 0o777 == 0o700, path


def test_output_is_labelled_and_filed(lab, beats):
    cluster = lab(2)
    logs = cluster.shared / "logs"
    run = start(cluster, "fan-out", [BEAT, beats.directory], options=["--log-dir", logs, "--nproc-per-node", 2])
    beats.wait_round(0, 4)
    for rank in range(4):
        beats.tell(rank, f"print here is {rank}")
    for rank in range(4):
        run.head.expect(rf"^\[n{rank // 2 + 1}:{rank}\] here is {rank}$", stream="out")
        beats.tell(rank, f"complain there is {rank}")
    for rank in range(4):
        run.head.expect(rf"^\[n{rank // 2 + 1}:{rank}\] there is {rank}$", stream="err")
    beats.tell("all", "exit 0")
    assert run.end() == 0, run.said()
    for rank in range(4):
        for stream, word in (("out", "here"), ("err", "there")):
            files = list(logs.glob(f"**/r0/n{rank // 2 + 1}/{rank}.{stream}"))
            assert [f.read_text() for f in files] == [f"{word} is {rank}\n"], list(logs.glob("**/*"))
    (directory,) = (path for path in logs.iterdir() if not path.is_symlink())
    assert os.readlink(logs / "latest") == directory.name
    assert re.findall(r"logs: (\S+) on every node$", run.head.err, re.M) == [str(directory)], run.said()


FLOOD = """
import os, sys
for i in range(100):
    sys.stdout.write(("x" * 99 + "\\n") * 1000)
sys.stdout.flush()
open(sys.argv[1] + "/done." + os.environ["RANK"], "w").close()
"""


def test_nobody_waits_for_a_reader_that_does_not_read(lab, tmp_path):
    """10 MB from each node to a launcher whose stdout is full: no worker waits, no node is lost, nothing is lost."""
    cluster = lab(2)
    (tmp_path / "flood.py").write_text(FLOOD)
    os.mkfifo(tmp_path / "go")
    command = f"{cluster.muster_program} run --hosts n1,n2 --lease 2 {tmp_path}/flood.py {tmp_path}"
    job = cluster.exec("ctl", ["sh", "-c", f"{command} | (read go <{tmp_path}/go; wc -l)"])
    wait_for("both workers to be done", lambda: all((tmp_path / f"done.{rank}").exists() for rank in range(2)))
    (tmp_path / "go").write_text("go\n")
    assert job.end() == 0
    assert job.out.split() == ["200000"], job.said()
    assert "lost" not in job.err, job.said()


def test_status(lab, beats):
    cluster = lab(2)
    options = ["--nproc-per-node", 2, "--max-restarts", 1]
    run = start(cluster, "fan-out", [BEAT, beats.directory], options=options)
    beats.wait_round(0, 4)
    beats.tell(3, "exit 1")
    expected = {(life.host, life.rank, life.local_rank, life.pid) for life in beats.wait_round(1, 4)}

    def workers(shown):
        named = ((node["host"], worker) for node in shown["nodes"] for worker in node["workers"])
        return {(host, worker["rank"], worker["local_rank"], worker["pid"]) for host, worker in named}

    def told():
        (job,) = status(cluster, "ctl")
        return job

    wait_for(lambda: f"the workers {expected}, not {told()}", lambda: workers(told()) == expected)
    shown = told()
    assert (shown["state"], shown["round"], shown["restarts"], shown["max_restarts"]) == ("running", 1, 1, 1)
    beats.tell("all", "exit 0")
    assert run.end() == 0, run.said()
