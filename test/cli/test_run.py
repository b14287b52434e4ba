"""`muster run` from its start to its end: exit codes, restarts, signals, and that nothing is left behind."""

import json
import os
import pathlib
import re
import resource
import select
import signal
import socket
import subprocess
import sys
import time
import zipapp

import pytest

from harness import children_of, free_port, shell, stat_of, wait_gone

pytestmark = pytest.mark.multiprocess

# Two workers unless a test says otherwise. "$$" would be "$" to muster, so scripts use other names for pids.
RUN = ["run", "--nproc-per-node", "2", "--label", "none"]
TORCHRUN = ["torchrun", "--nproc-per-node", "2"]


def lines_until(stream, wanted, count=1):
    """Reads lines until `count` of them contain `wanted`; returns all."""
    lines = []
    while count > 0:
        line = stream.readline()
        assert line, f"the end came before {wanted!r}: {lines}"
        lines.append(line)
        count -= wanted in line
    return lines


def agent_of(muster):
    [agent] = children_of(muster.pid)
    return agent


@pytest.fixture
def start(start_muster):
    """start(args) -> Popen with both streams as text pipes."""

    def start(args, **popen):
        return start_muster(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **popen)

    return start


@pytest.fixture
def fifo(tmp_path):
    """A pipe by which a test and its workers wait for each other."""
    path = tmp_path / "fifo"
    os.mkfifo(path)
    return str(path)


# --- Exit codes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "script, code",
    [("exit 0", 0), ("exit 7", 7), ("exit 255", 255), ("kill -KILL $(exec sh -c 'echo $PPID')", 137), ("kill -SEGV $(exec sh -c 'echo $PPID')", 139)],
)
def test_exit_code_is_the_workers(run_muster, script, code):
    assert run_muster([*RUN, *shell(script)]).returncode == code


@pytest.mark.parametrize("script, code", [("exit 0", 0), ("exit 7", 1), ("kill -KILL $(exec sh -c 'echo $PPID')", 1)])
def test_exit_code_is_torchruns(run_muster, script, code):
    assert run_muster([*TORCHRUN, *shell(script)]).returncode == code


def test_program_that_does_not_exist(run_muster):
    result = run_muster([*RUN, "--no-python", "/no/such/program"])
    assert result.returncode == 127
    assert "/no/such/program" in result.stderr


def test_program_that_is_not_executable(run_muster, tmp_path):
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\n")
    result = run_muster([*RUN, "--no-python", program])
    assert result.returncode == 126
    assert str(program) in result.stderr


HOW = "import sys; print(*sys.orig_argv[1:])"
PYTHON_PROGRAMS = ["train.py", "app.pyz", "app", "tool", "package", "text", "-m module"]


@pytest.mark.parametrize("words", PYTHON_PROGRAMS)
def test_what_is_run_by_python(run_muster, tmp_path, words):
    """By the one on PATH and unbuffered, whatever the file's own first line and mode say."""
    (tmp_path / "package").mkdir()
    for name in ("train.py", "package/__main__.py", "text", "module.py"):
        (tmp_path / name).write_text(HOW)
    for name, first_line in (("app.pyz", None), ("app", None), ("tool", "/no/such/python3")):
        zipapp.create_archive(tmp_path / "package", tmp_path / name, first_line)
    (tmp_path / "train.py").chmod(0o755)
    result = run_muster(["run", *words.split(), "an argument"], cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stdout == f"-u {words} an argument\n"


def test_what_runs_by_itself(run_muster, tmp_path):
    for name, text in (("script", "#!/bin/sh\necho $0 $1"), ("jar", "#!/bin/echo of\nPK\3\4")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    assert run_muster(["run", "script", "1"], cwd=tmp_path).stdout == "./script 1\n"
    assert run_muster(["run", "jar", "1"], cwd=tmp_path).stdout == "of ./jar 1\n"


def test_one_failure_stops_the_others(start, fifo):
    job = start([*RUN, "--shutdown-timeout", "60", *shell(
        "if [ $RANK = 1 ]; then read line < $FIFO; exit 3; fi;"
        "trap 'echo stopped; exit 0' TERM; echo ready > $FIFO; while :; do sleep 0.02; done")],
        env={"FIFO": fifo})
    out, err = job.communicate(timeout=30)
    assert job.returncode == 3
    assert out.splitlines() == ["stopped"]
    assert "rank 1" in err and "exit code 3" in err


def test_a_dry_run_shows_common_variables_once(run_muster):
    shown = run_muster([*RUN, "--env", "TOPIC=trees", "--dry-run", "--no-python", "/bin/true"]).stdout
    every, rank_0, rank_1 = re.split(r"^rank \d\n", shown.split("\nevery rank\n")[1], flags=re.M)
    assert "    TOPIC=trees\n" in every and "    WORLD_SIZE=2\n" in every
    assert shown.count("TOPIC") == shown.count("    WORLD_SIZE=") == 1
    assert "    RANK=0\n" in rank_0 and "    RANK=1\n" in rank_1 and "    RANK=" not in every
    alone = run_muster(["run", "--nproc-per-node", "1", "--dry-run", "--no-python", "/bin/true"]).stdout
    assert "every rank" not in alone and "    WORLD_SIZE=1\n" in alone


# --- Restarts -----------------------------------------------------------------------------------------------------


def test_restarts_until_success_with_all_logs_kept(run_muster, tmp_path):
    result = run_muster(
        [*RUN, "--max-restarts", "3", "--log-dir", tmp_path, "-r", "3",
         *shell("echo round $TORCHELASTIC_RESTART_COUNT of $RANK; [ $TORCHELASTIC_RESTART_COUNT = 2 ] || exit $((5 + $RANK))")])
    assert result.returncode == 0, result.stderr
    said = re.findall(r"^muster: (restart \d of \d): rank \d failed \(exit code \d\)$", result.stderr, re.M)
    assert said == ["restart 1 of 3", "restart 2 of 3"]
    run_dir = tmp_path / "latest"
    assert (run_dir / "attempt_2/1/stdout.log").read_text() == "round 2 of 1\n"
    for attempt in range(2):
        logs = [run_dir / f"attempt_{attempt}/{rank}/stdout.log" for rank in range(2)]
        assert any(log.read_text() for log in logs)


@pytest.mark.parametrize("nodes, rank", [([], "rank 1"), (["--local-nodes", "2"], "rank 1 on node0")], ids=["alone", "nodes"])
def test_a_restart_names_the_exception(run_muster, nodes, rank):
    code = ("import os; e = os.environ\n"
            "if e['RANK'] == '1' and e['TORCHELASTIC_RESTART_COUNT'] == '0': raise ValueError('bad batch')")
    result = run_muster([*RUN, *nodes, "--max-restarts", "1", "--no-python", sys.executable, "-c", code])
    assert result.returncode == 0, result.stderr
    assert re.findall(rf"restart 1 of 1: {rank} failed \(exit code 1: ValueError: bad batch\)$", result.stderr, re.M)


def test_restarts_run_out(run_muster, tmp_path):
    report = tmp_path / "report.json"
    result = run_muster([*RUN, "--max-restarts", "1", "--report", report,
                         *shell("echo $TORCHELASTIC_RESTART_COUNT/$TORCHELASTIC_MAX_RESTARTS/$MUSTER_ROUND; exit 9")])
    assert result.returncode == 9
    assert {"0/1/0", "1/1/1"} == set(result.stdout.split())
    told = json.loads(report.read_text())
    assert (told["kind"], told["exit_code"], told["restarts"], told["max_restarts"]) == ("worker-failed", 9, 1, 1)


@pytest.mark.parametrize("verb, restarts", [("run", 2), ("torchrun", 4)])
def test_a_crash_loop_ends_a_job_on_one_machine_but_not_torchruns(run_muster, verb, restarts):
    script = shell("echo restart $TORCHELASTIC_RESTART_COUNT; exit 9")
    result = run_muster([verb, "--nproc-per-node", "1", "--max-restarts", "4", *script])
    assert re.findall(r"restart (\d)", result.stdout) == [str(number) for number in range(restarts + 1)]
    assert ("3 times in a row (--crash-loop)" in result.stderr) == (verb == "run")


def test_the_report_names_a_crash_loop(run_muster, tmp_path):
    report = tmp_path / "report.json"
    result = run_muster([*RUN, "--max-restarts", "4", "--crash-loop", "2", "--report", report, *shell("exit $((RANK * 9))")])
    told = json.loads(report.read_text())
    assert (result.returncode, told["kind"], told["restarts"]) == (9, "crash-loop", 1)


def test_status_of_a_job_on_one_machine(start, run_muster, tmp_path):
    env = {"XDG_RUNTIME_DIR": str(tmp_path)}

    def jobs():
        return json.loads(run_muster(["status", "--json"], env=env).stdout)

    def ours():
        return [job for job in jobs() if job["run_id"] == "mine"]

    job = start([*RUN, "--rdzv-id", "mine", *shell("exec sleep 1000")], env=env)
    wait_for(lambda: any(told["state"] == "running" for told in ours()), "the job tells its status")
    [told] = ours()
    assert (told["mode"], told["round"], told["pid"]) == ("local", 0, agent_of(job))
    [node] = told["nodes"]
    assert sorted(worker["pid"] for worker in node["workers"]) == sorted(children_of(agent_of(job)))
    assert f"round 0, 0 of 0 restarts  local, pid {agent_of(job)}  for " in run_muster(["status", "mine"], env=env).stdout
    job.send_signal(signal.SIGTERM)
    assert job.wait(timeout=30) == 143
    assert not ours() and not list(tmp_path.glob("muster/*"))


ELASTIC = ["--nnodes", "1:2", "--rdzv-endpoint", "localhost:{port}", "--rdzv-conf", "last_call_timeout=1"]


@pytest.mark.parametrize("nodes", [[], ["--local-nodes", "2"], ELASTIC], ids=["alone", "fan-out", "symmetric"])
def test_a_report_tells_of_the_last_run(run_muster, tmp_path, fifo, nodes):
    words = [word.format(port=free_port()) for word in nodes]
    (tmp_path / "report.json").symlink_to("kept.json")
    command = ["run", *words, "--nproc-per-node", "1", "--report", tmp_path / "report.json"]
    assert run_muster([*command, "/bin/false"]).returncode == 1
    assert json.loads((tmp_path / "kept.json").read_text())["exit_code"] == 1
    assert run_muster([*command, "--dry-run", "/bin/true"]).returncode == 0
    assert (tmp_path / "kept.json").exists()
    assert run_muster([*command, "/bin/true"]).returncode == 0
    assert not (tmp_path / "kept.json").exists()
    assert run_muster([*command[:-1], fifo, "/bin/true"]).returncode == 0
    assert pathlib.Path(fifo).is_fifo(), "only a file can be an old report"


@pytest.mark.parametrize("linked", [False, True], ids=["file", "link"])
def test_a_report_that_does_not_fit_leaves_no_file(run_muster, tmp_path, linked):
    if linked:
        (tmp_path / "report.json").symlink_to("kept.json")
    # What a full disk looks like: no file may grow. Python ignores the signal of that, and so does what it starts.
    full = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    command = ["run", "--report", tmp_path / "report.json", "/bin/false"]
    done = run_muster(command, preexec_fn=full, restore_signals=False)
    assert done.returncode == 1
    assert re.search("the report is lost: .*File too large", done.stderr)
    assert [path.name for path in tmp_path.iterdir()] == ["report.json"] * linked


def test_fixed_port_is_bound_again_by_every_round(run_muster):
    port = free_port()
    # Every worker has talked to the store, so the old round's connections linger in TIME_WAIT.
    result = run_muster([*RUN, "--master-port", port, "--max-restarts", "3", "--crash-loop", "0",
                         "--no-python", "/bin/bash", "-c",
                         "exec 3<>/dev/tcp/127.0.0.1/$MASTER_PORT && echo $MASTER_PORT; exit 4"])
    assert result.returncode == 4, result.stderr
    assert set(result.stdout.split()) == {str(port)}
    assert "restart 3 of 3" in result.stderr


def test_taken_port_starts_nothing(run_muster):
    with socket.socket() as s:
        s.bind(("", 0))
        s.listen()
        port = s.getsockname()[1]
        result = run_muster([*RUN, "--master-port", port, *shell("echo started")])
    assert (result.returncode, result.stdout) == (2, "")
    assert f"port {port} is taken by pid {os.getpid()}" in result.stderr


def test_every_round_without_a_fixed_port_has_a_fresh_store(run_muster, tmp_path):
    result = run_muster([*RUN, "--max-restarts", "1", "--nproc-per-node", "1",
                         *shell("echo $MASTER_PORT $TORCHELASTIC_USE_AGENT_STORE; exit 1")])
    ports = [line.split()[0] for line in result.stdout.splitlines()]
    assert len(ports) == 2 and "0" not in ports
    assert result.stdout.count("True") == 2


def test_store_in_the_worker_gets_a_port_it_can_listen_on(run_muster):
    listen = ("import os, socket; s = socket.socket(socket.AF_INET6); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1);"
              "s.bind(('::', int(os.environ['MASTER_PORT']))); s.listen(); print(os.environ['TORCHELASTIC_USE_AGENT_STORE'])")
    result = run_muster(["run", "--store", "worker", "--no-python", "/usr/bin/python3", "-c", listen])
    assert (result.returncode, result.stdout) == (0, "False\n"), result.stderr


def test_spawn_failure_of_a_later_round_ends_the_job(run_muster, tmp_path):
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\nrm -f \"$0\"\nexit 1\n")
    program.chmod(0o755)
    result = run_muster([*RUN, "--nproc-per-node", "1", "--max-restarts", "2", "--no-python", program])
    assert result.returncode == 127
    assert str(program) in result.stderr


# --- Signals ------------------------------------------------------------------------------------------------------

TRAPS = "for s in TERM INT HUP QUIT USR1 USR2; do trap \"echo got $s; $1\" $s; done; echo ready;"
LOOP = " while :; do sleep 0.02; done"


def trapping(then):
    """A worker that names every signal it gets, then does `then`."""
    return ["--no-python", "/bin/sh", "-c", TRAPS + LOOP, "worker", then]


@pytest.mark.parametrize("name", ["TERM", "INT", "HUP", "QUIT"])
def test_handled_signal_reaches_every_worker_once(start, name):
    job = start([*RUN, *trapping("exit 0")])
    lines_until(job.stdout, "ready", 2)
    number = getattr(signal, f"SIG{name}")
    job.send_signal(number)
    out, err = job.communicate(timeout=30)
    assert job.returncode == 128 + number
    assert out.splitlines() == [f"got {name}"] * 2
    assert f"SIG{name}" in err


def test_handled_signal_under_torchrun(start):
    job = start([*TORCHRUN, *trapping("exit 0")])
    lines_until(job.stdout, "ready", 2)
    job.send_signal(signal.SIGTERM)
    out, err = job.communicate(timeout=30)
    assert job.returncode == 1
    assert out.count("got TERM") == 2
    assert "Received 15 death signal, shutting down workers" in err
    assert err.endswith(f"SignalException: Process {job.pid} got signal: 15\n")


def test_signals_to_handle(start):
    job = start([*RUN, "--signals-to-handle", "SIGUSR1", *trapping("exit 0")])
    lines_until(job.stdout, "ready", 2)
    job.send_signal(signal.SIGUSR1)
    out, _ = job.communicate(timeout=30)
    assert job.returncode == 128 + signal.SIGUSR1
    assert out.splitlines() == ["got USR1"] * 2


def test_user_signals_are_passed_on_and_the_job_goes_on(start):
    job = start([*RUN, *trapping(":")])
    lines_until(job.stdout, "ready", 2)
    job.send_signal(signal.SIGUSR1)
    assert len(lines_until(job.stdout, "got USR1", 2)) == 2
    job.send_signal(signal.SIGUSR2)
    assert len(lines_until(job.stdout, "got USR2", 2)) == 2
    assert job.poll() is None
    job.kill()


@pytest.mark.parametrize("nodes, ranks", [([], "0-1"), (["--local-nodes", "2"], "0-3")], ids=["one", "two"])
def test_whoever_has_no_handler_for_what_is_passed_on_is_the_cause(start, nodes, ranks):
    """Whichever of them dies first."""
    job = start([*RUN, *nodes, "--no-python", "/bin/sh", "-c", "echo ready;" + LOOP])
    lines_until(job.stdout, "ready", 4 if nodes else 2)
    job.send_signal(signal.SIGUSR1)
    _, err = job.communicate(timeout=60)
    assert job.returncode == 128 + signal.SIGUSR1
    assert f" failed: muster received SIGUSR1 and passed it on; ranks {ranks} have no handler for it\n" in err
    assert "failed by itself" not in err and "stopped by muster" not in err


def test_shutdown_timeout_then_sigkill(start):
    job = start([*RUN, "--shutdown-timeout", "1", *trapping(":")])
    lines_until(job.stdout, "ready", 2)
    job.send_signal(signal.SIGTERM)
    _, err = job.communicate(timeout=30)
    assert job.returncode == 143
    assert re.findall(r"rank (\d) \(pid \d+\) still runs 1 s after SIGTERM: SIGKILL", err) == ["0", "1"]


def test_no_grace_at_all(start):
    job = start([*RUN, "--shutdown-timeout", "0", *trapping(":")])
    lines_until(job.stdout, "ready", 2)
    job.send_signal(signal.SIGTERM)
    assert job.wait(timeout=30) == 143


@pytest.mark.parametrize(
    "nodes, stopped, killed",
    [([], "2 workers", "2 workers"), (["--local-nodes", "2"], "the job on 2 nodes", "all workers")],
    ids=["one", "two"],
)
def test_second_interrupt_is_immediate(start, nodes, stopped, killed):
    job = start([*RUN, *nodes, "--shutdown-timeout", "1000", *trapping(":")])
    workers = 4 if nodes else 2
    lines_until(job.stdout, "ready", workers)
    job.send_signal(signal.SIGINT)
    lines_until(job.stdout, "got INT", workers)
    job.send_signal(signal.SIGINT)
    _, err = job.communicate(timeout=60)
    assert job.returncode == 130
    assert f"SIGINT: stopping {stopped}, SIGKILL in 1000 s; press Ctrl-C again to kill them now" in err
    assert f"second SIGINT: killing {killed}" in err


@pytest.mark.parametrize(
    "nodes, advice",
    [
        ([], "rank 1 asked for input and has none; --stdin 1 gives it yours\n"),
        (["--local-nodes", "2"], "in a job of several nodes no worker has any; debug it on one node with --stdin RANK, or "),
    ],
    ids=["one", "two"],
)
def test_a_breakpoint_without_input(run_muster, tmp_path, nodes, advice):
    script = tmp_path / "train.py"
    script.write_text("import os, time\nif os.environ['RANK'] == '1': breakpoint()\ntime.sleep(600)\n")
    done = run_muster([*RUN, *nodes, script])
    assert done.returncode == 1
    assert advice in done.stderr, done.stderr


def test_one_interrupt_to_every_process_of_muster_is_one(start):
    """As pkill and schedulers send it."""
    job = start([*RUN, *trapping("exit 0")])
    lines_until(job.stdout, "ready", 2)
    for pid in (agent_of(job), job.pid):
        os.kill(pid, signal.SIGINT)
    out, err = job.communicate(timeout=30)
    assert job.returncode == 130
    assert out.splitlines() == ["got INT"] * 2
    assert "second SIGINT" not in err


def test_signal_while_workers_are_stopped_after_a_failure(start):
    """No restart is made against a signal."""
    job = start([*RUN, "--max-restarts", "5", "--shutdown-timeout", "1000",
                 *shell("trap 'echo got TERM' TERM; if [ $RANK = 1 ]; then sleep 0.2; exit 3; fi; echo ready; while :; do sleep 0.02; done")])
    lines_until(job.stdout, "got TERM")
    job.send_signal(signal.SIGINT)
    job.send_signal(signal.SIGINT)
    job.wait(timeout=30)
    assert job.returncode == 130


def test_suspend_and_continue(start, fifo):
    job = start([*RUN, *shell("echo $(exec sh -c 'echo $PPID'); read x < $FIFO")], env={"FIFO": fifo})
    workers = [int(job.stdout.readline()) for _ in range(2)]
    job.send_signal(signal.SIGTSTP)
    _, status = os.waitpid(job.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    wait_for(lambda: [stat_of(pid)[0] for pid in workers] == ["T", "T"], "the workers are stopped")
    job.send_signal(signal.SIGCONT)
    wait_for(lambda: "T" not in [stat_of(pid)[0] for pid in workers], "the workers run again")
    job.send_signal(signal.SIGTERM)
    assert job.wait(timeout=30) == 143


def wait_for(condition, what, timeout=20):
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(0.01)


def test_ignored_hangup_stays_ignored(start, muster):
    job = start([muster, *RUN, *trapping("exit 0")], program="/usr/bin/nohup")
    lines_until(job.stdout, "ready", 2)
    job.send_signal(signal.SIGHUP)
    job.send_signal(signal.SIGTERM)
    out, _ = job.communicate(timeout=30)
    assert job.returncode == 143
    assert out.splitlines() == ["got TERM"] * 2


# --- Nothing is left ----------------------------------------------------------------------------------------------

# A worker with a child, and a grandchild that left its session; all carry the test's marker.
FAMILY = "sleep 1000 & (setsid sh -c 'echo ready; exec sleep 1000' &) ;"


@pytest.mark.parametrize("victim", ["muster", "agent"])
def test_sigkill_leaves_nothing(start, job_marker, victim):
    job = start([*RUN, *shell(FAMILY + "wait")])
    lines_until(job.stdout, "ready", 2)
    os.kill(job.pid if victim == "muster" else agent_of(job), signal.SIGKILL)
    assert wait_gone(job_marker) == {}
    code = job.wait(timeout=10)
    assert code == (-signal.SIGKILL if victim == "muster" else 125)
    if victim == "agent":
        assert "was killed by SIGKILL; its workers were ended" in job.stderr.read()


@pytest.mark.parametrize("code", [0, 5])
def test_the_end_of_the_job_ends_daemons(start, job_marker, fifo, code):
    job = start([*RUN, *shell(FAMILY + f"read x < $FIFO; exit {code}")], env={"FIFO": fifo})
    lines_until(job.stdout, "ready", 2)
    # Held open until both have read: a worker that comes late must still find its line.
    with open(fifo, "r+b", buffering=0) as pipe:
        pipe.write(b"a\nb\n")
        job.wait(timeout=30)
    assert job.returncode == code
    assert wait_gone(job_marker) == {}


def test_a_workers_children_end_with_it(start, fifo):
    """While the other worker runs on."""
    job = start([*RUN, *shell("[ $RANK = 1 ] || exec sleep 1000; (setsid sh -c 'echo $PPID $(exec sh -c \"echo \\$PPID\");"
                              " exec sleep 1000' &); read x < $FIFO")], env={"FIFO": fifo})
    daemon = os.pidfd_open(int(job.stdout.readline().split()[1]))
    pathlib.Path(fifo).write_text("go\n")
    assert select.select([daemon], [], [], 5)[0], "the daemon outlived its worker"
    os.close(daemon)
    assert job.poll() is None
    job.send_signal(signal.SIGTERM)
    job.wait(timeout=30)


# --- Odds and ends ------------------------------------------------------------------------------------------------


def test_launchers_own_error_file_gets_the_root_cause(run_muster, tmp_path):
    target = tmp_path / "mine.json"
    error = '{"message": {"message": "ValueError: x", "extraInfo": {"py_callstack": "t", "timestamp": "1700000000"}}}'
    result = run_muster([*RUN, *shell(f"[ $RANK = 1 ] || exec sleep 1000; echo '{error}' > $TORCHELASTIC_ERROR_FILE; exit 3")],
                        env={"TORCHELASTIC_ERROR_FILE": target, "TMPDIR": tmp_path})
    assert result.returncode == 3
    assert json.loads(target.read_text())["message"]["errorCode"] == 3


SET_TIMER = """
import json, os, sys, time
with open(os.environ["TORCHELASTIC_TIMER_FILE"], "w") as pipe:
    json.dump({"version": 1, "pid": int(sys.argv[1]) or os.getpid(), "scope_id": "step", "expiration_time": time.time(), "signal": 9}, pipe)
    pipe.write("\\n")
time.sleep(float(sys.argv[2]))
"""


def test_file_timer_ends_whoever_lets_it_expire(run_muster, tmp_path):
    result = run_muster(["run", "--no-python", "/usr/bin/python3", "-c", SET_TIMER, "0", "1000"],
                        env={"TORCHELASTIC_ENABLE_FILE_TIMER": 1, "TMPDIR": tmp_path})
    assert result.returncode == 137
    assert re.search(r"rank 0 \(pid \d+\) let its timer 'step' expire: SIGKILL", result.stderr)
    assert list(tmp_path.glob("watchdog_timer_*")) == []


def test_file_timer_ends_nobody_else(run_muster):
    with subprocess.Popen(["sleep", "1000"]) as bystander:
        result = run_muster(["run", "--no-python", "/usr/bin/python3", "-c", SET_TIMER, bystander.pid, "0.2"],
                            env={"TORCHELASTIC_ENABLE_FILE_TIMER": 1})
        assert (result.returncode, bystander.poll()) == (0, None)
        bystander.kill()


def test_signal_ends_the_wait_for_a_reader_who_does_not_read(start):
    job = start([*RUN, *shell("echo started >&2; head -c 2000000 /dev/zero | tr '\\0' x")])
    lines_until(job.stderr, "started", 2)
    wait_for(lambda: not children_of(agent_of(job)), "the workers have ended")
    job.send_signal(signal.SIGTERM)
    assert job.wait(timeout=30) == 143


def test_temporary_logs_are_removed(run_muster, tmp_path):
    assert run_muster([*RUN, *shell("test -d $(dirname $TORCHELASTIC_ERROR_FILE)")], env={"TMPDIR": tmp_path}).returncode == 0
    assert list(tmp_path.iterdir()) == []


def test_closed_standard_streams(start_muster, tmp_path):
    """Nothing that muster opens may end up in their place."""
    script = f"echo out; echo err >&2; ls -l /proc/self/fd > {tmp_path}/fds"
    job = start_muster([*RUN, "--nproc-per-node", "1", *shell(script)], close_fds=True,
                       preexec_fn=lambda: [os.close(fd) for fd in (0, 1, 2)])
    assert job.wait(timeout=30) == 0
    assert "socket" not in (tmp_path / "fds").read_text()


def test_nothing_of_ours_is_inherited(run_muster):
    """No descriptor beyond 0 to 2, no ignored or blocked signal."""
    script = "ls /proc/self/fd | tr '\\n' ' '; grep -E 'SigBlk|SigIgn' /proc/self/status | tr '\\n' ' '"
    result = run_muster(["run", *shell(script)])
    fds, _, masks = result.stdout.partition("SigBlk")
    assert fds.split() == ["0", "1", "2", "3"]  # 3 is ls's own
    assert set(re.findall(r"[0-9a-f]{16}", masks)) == {"0" * 16}
