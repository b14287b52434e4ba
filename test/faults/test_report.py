"""What muster says of a job that failed: who was the root cause and how it ended, on stderr and in --report FILE."""

import json
import os
import pathlib
import re
import signal
import subprocess
import textwrap
import uuid

import pytest

pytestmark = pytest.mark.multiprocess

PRELUDE = """
import atexit, json, os, signal, socket, struct, sys, time
rank = int(os.environ["RANK"])
"""


class Outcome:
    def __init__(self, process, directory):
        self.stdout, self.stderr = process.stdout, process.stderr
        self.json = json.loads((directory / "report.json").read_text(encoding="utf-8"))
        # The report is the last thing on stderr.
        self.text = self.stderr[self.stderr.rindex("muster: train.py ") :]

    @property
    def root(self):
        return self.json["root_cause"]

    @property
    def blames(self):
        return [worker["blame"] for worker in self.json["workers"]]

    @property
    def headline(self):
        return self.text.splitlines()[0]


@pytest.fixture
def fail(run_muster, tmp_path):
    """fail(code, workers, body, *options, **popen) -> Outcome of a job of that script, which ends with that exit code."""

    def run(code, workers, body, *options, **popen):
        (tmp_path / "train.py").write_text(PRELUDE + textwrap.dedent(body), encoding="utf-8")
        args = ["run", "--nproc-per-node", workers, "--report", "report.json", *options, "train.py", "--lr", "0.1"]
        process = run_muster(args, cwd=tmp_path, **popen)
        assert process.returncode == code, process.stderr
        outcome = Outcome(process, tmp_path)
        assert outcome.json["exit_code"] == code
        return outcome

    return run


# How rank 1 of three ends -> (exit code of muster, words of the headline, what the report says).
FAULTS = {
    "os.kill(os.getpid(), signal.SIGKILL)": (137, "SIGKILL: killed from outside, not by muster", 9),
    "os.kill(os.getpid(), signal.SIGSEGV)": (139, "SIGSEGV: invalid memory access", 11),
    "sys.exit(7)": (7, "exit code 7", None),
    "raise ValueError('bad batch')": (1, "exit code 1", None),
}


def memory_kills():
    """On this machine, by anybody."""
    return re.search(r"^oom_kill (\d+)$", pathlib.Path("/proc/vmstat").read_text(), re.M)[1]


@pytest.mark.parametrize("fault", FAULTS)
def test_one_rank_fails(fail, tmp_path, fault):
    code, words, number = FAULTS[fault]
    kills = memory_kills()
    outcome = fail(code, 3, f"if rank == 1: {fault}\nsignal.pause()", "--log-dir", "logs", "-t", "3")
    if number == signal.SIGKILL and memory_kills() != kills:
        words = "SIGKILL: possibly out of memory (the host killed something for memory at that time)"
    assert outcome.json["kind"] == "worker-failed"
    assert outcome.json["command"][1:] == ["-u", "train.py", "--lr", "0.1"]
    assert outcome.root["rank"] == 1
    assert outcome.root["how"]["signal"] == number
    assert outcome.blames == ["stopped", "root-cause", "stopped"]
    assert outcome.headline.startswith(f"muster: train.py failed: rank 1 (local rank 1, pid {outcome.root['pid']}) on ")
    assert f": {words} after " in outcome.headline
    assert "others   ranks 0, 2: stopped by muster (SIGTERM)" in outcome.text
    log = pathlib.Path(tmp_path, outcome.root["stderr_log"])
    assert f"  log      {outcome.root['stderr_log']}\n" in outcome.text
    assert log.read_text().splitlines()[-5:] == outcome.root["stderr_tail"][-5:]
    if "raise" in fault:
        assert outcome.root["exception"] == "ValueError: bad batch"
        assert "\n  ValueError: bad batch\n  last lines of its stderr:\n    Traceback" in outcome.text
    else:
        assert outcome.root["exception"] is None
        assert "it wrote nothing to stderr" in outcome.text


def test_the_last_words_are_shown_printably(fail):
    outcome = fail(
        3,
        1,
        r"""
        for i in range(40): print("line", i, file=sys.stderr)
        sys.stderr.flush()
        os.write(2, b"\x1b[31mred\x1b[0m \x00 \xff gr\xc3\xbcn\n10%\r20%\n")
        os._exit(3)
        """,
    )
    assert "    line 22\n" in outcome.text and "line 21\n" not in outcome.text
    assert outcome.text.splitlines()[-3:-1] == ["    red \\x00 \ufffd grün", "    20%"]
    assert "\x1b" not in outcome.text and "\0" not in outcome.text


# Rank 0 raises and is still in an exit handler when rank 1 dies of the connection it closed.
SLOW_SOCKETS = """
import tempfile
path = "ready"
if rank == 0:
    listener = socket.create_server(("127.0.0.1", 0))
    with open(path + ".new", "w") as f: f.write(str(listener.getsockname()[1]))
    os.rename(path + ".new", path)
    peer = listener.accept()[0]
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # closing resets
    def slow_end():
        peer.close()
        time.sleep(1)
    atexit.register(slow_end)
    raise ValueError("bad batch")
while not os.path.exists(path): time.sleep(0.01)
peer = socket.create_connection(("127.0.0.1", int(open(path).read())))
try:
    peer.recv(1)
except OSError as e:
    RETHROW
"""


@pytest.mark.parametrize("rethrow", ["raise", "raise RuntimeError('the ring is broken') from None", "sys.exit(5)"])
def test_whoever_raised_first_is_named_not_whoever_ended_first(fail, rethrow):
    outcome = fail(1, 2, SLOW_SOCKETS.replace("RETHROW", rethrow))
    assert outcome.root["rank"] == 0, outcome.json["reason"]
    assert outcome.root["exception"] == "ValueError: bad batch"
    assert outcome.json["workers"][1]["how"]["exit_code"] == (5 if "exit" in rethrow else 1)
    assert outcome.blames[1] == ("peer" if rethrow == "raise" else "itself")
    if rethrow == "raise":
        assert "rank 1: failed because a peer was gone (exit code 1: Connection reset by peer)" in outcome.text


def test_whoever_goes_on_without_a_word_may_be_the_cause(fail):
    raising = '    atexit.register(slow_end)\n    raise ValueError("bad batch")\n'
    assert raising in SLOW_SOCKETS
    body = SLOW_SOCKETS.replace(raising, "    peer.close()\n    signal.pause()\n").replace("RETHROW", "raise")
    outcome = fail(1, 2, body)
    assert outcome.blames == ["stopped", "root-cause"], outcome.json["reason"]
    doubt = "rank 1 failed because a peer was gone; rank 0 was still running then, and may be the cause"
    assert f"\n  but      {doubt}\n" in outcome.text
    assert outcome.json["doubt"] == doubt


GLOO = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
one = torch.ones(1)  # stays: PyTorch 1.13 can hang in destroy_process_group() when it is already out of use
dist.all_reduce(one)
"""


@pytest.mark.interop
@pytest.mark.slow
def test_slow_end_with_gloo(fail, torch_python):
    body = GLOO + textwrap.dedent(
        """
        if rank == 0:
            def slow_end():
                dist.destroy_process_group()
                time.sleep(1)
            atexit.register(slow_end)
            raise ValueError("bad batch")
        dist.all_reduce(torch.ones(1))
        """
    )
    outcome = fail(1, 2, body, python=torch_python, timeout=120)
    assert outcome.root["rank"] == 0, outcome.json["reason"]
    assert outcome.root["exception"] == "ValueError: bad batch"
    assert outcome.blames == ["root-cause", "peer"]


@pytest.mark.interop
@pytest.mark.slow
def test_kill_of_one_rank_with_gloo(fail, torch_python):
    body = GLOO + textwrap.dedent(
        """
        if rank == 1: os.kill(os.getpid(), signal.SIGKILL)
        dist.all_reduce(torch.ones(1))
        """
    )
    outcome = fail(137, 3, body, python=torch_python, timeout=120)
    assert outcome.root["rank"] == 1, outcome.json["reason"]
    assert outcome.root["how"]["name"] == "SIGKILL"
    assert set(outcome.blames[::2]) <= {"peer", "stopped"}


def test_a_traceback_before_the_end_that_was_handled_does_not_count(fail):
    outcome = fail(
        1,
        2,
        """
        import traceback
        if rank == 0:
            try: raise KeyError("handled")
            except KeyError: traceback.print_exc()
            for step in range(30): print("step", step, file=sys.stderr)
            sys.stderr.flush()
            open("went_on", "w").close()
            signal.pause()
        while not os.path.exists("went_on"): time.sleep(0.01)
        raise ValueError("bad batch")
        """,
    )
    assert outcome.root["rank"] == 1, outcome.json["reason"]
    assert outcome.blames == ["stopped", "root-cause"]


def test_a_handler_that_raises_when_stopped_is_not_to_blame(fail):
    outcome = fail(
        7,
        2,
        """
        if rank == 0:
            def stop(*_): raise RuntimeError("told to stop")
            signal.signal(signal.SIGTERM, stop)
            open("waiting", "w").close()
            signal.pause()
        while not os.path.exists("waiting"): time.sleep(0.01)
        sys.exit(7)
        """,
    )
    assert outcome.blames == ["stopped", "root-cause"], outcome.json["reason"]
    assert "rank 0: stopped by muster (exit code 1)" in outcome.text


def test_stopped_by_a_signal(start_muster, tmp_path):
    (tmp_path / "train.py").write_text(
        PRELUDE + "open(f'up{rank}.new', 'w').close(); os.rename(f'up{rank}.new', f'up{rank}'); print('up', flush=True)\n"
        "signal.pause()"
    )
    args = ["run", "--nproc-per-node", 2, "--report", "report.json", "train.py"]
    process = start_muster(args, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for _ in range(2):
        assert "up" in process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    _, stderr = process.communicate(timeout=30)
    report = json.loads((tmp_path / "report.json").read_text())
    assert process.returncode == report["exit_code"] == 143
    assert report["kind"] == "signalled" and report["signal"] == "SIGTERM"
    assert report["root_cause"] is None
    assert [worker["blame"] for worker in report["workers"]] == ["stopped", "stopped"]
    assert "muster: train.py was stopped: muster received SIGTERM\n" in stderr


def test_restarts_are_counted(fail):
    outcome = fail(3, 2, "if rank == 0: sys.exit(3)\nsignal.pause()", "--max-restarts", 2)
    assert (outcome.json["round"], outcome.json["restarts"], outcome.json["max_restarts"]) == (2, 2, 2)
    assert outcome.text.endswith("  restarts 2 of 2 used\n")


# --- error files ----------------------------------------------------------------------------------------------------

RECORDED = {
    "message": {
        "message": "ValueError: bad batch",
        "extraInfo": {"py_callstack": "Traceback (most recent call last):\n  here\n", "timestamp": "1794737093"},
    }
}


def test_an_error_file_is_shown_and_handed_on(fail, tmp_path):
    outcome = fail(
        9,
        2,
        f"""
        if rank == 1:
            with open(os.environ["TORCHELASTIC_ERROR_FILE"], "w") as f: json.dump({RECORDED!r}, f)
            os._exit(9)
        signal.pause()
        """,
        "--log-dir",
        "logs",
        env={"TORCHELASTIC_ERROR_FILE": tmp_path / "ours.json"},
    )
    assert outcome.root["rank"] == 1
    assert outcome.root["exception"] == "ValueError: bad batch"
    file = outcome.root["error_file"]
    assert file["message"] == "ValueError: bad batch" and file["timestamp"] == 1794737093
    assert "\n  ValueError: bad batch\n  its call stack:\n    Traceback (most recent call last):\n" in outcome.text
    assert f"\n  error    {file['path']}\n" in outcome.text
    assert json.loads(pathlib.Path(tmp_path, file["path"]).read_text()) == RECORDED
    expected = json.loads(json.dumps(RECORDED))
    expected["message"]["errorCode"] = 9
    assert (tmp_path / "ours.json").read_text() == json.dumps(expected)


@pytest.mark.interop
@pytest.mark.slow
def test_the_error_file_of_record(fail, torch_python):
    body = """
    from torch.distributed.elastic.multiprocessing.errors import record
    @record
    def main():
        if rank == 1: raise ValueError("bad bätch")
        signal.pause()
    main()
    """
    outcome = fail(1, 2, body, python=torch_python, timeout=120)
    assert outcome.root["rank"] == 1
    assert outcome.root["exception"] == outcome.root["error_file"]["message"] == "ValueError: bad bätch"
    assert outcome.root["error_file"]["callstack"].startswith("Traceback (most recent call last):\n")


MALFORMED = ["", "{", "[1]", "{}", '{"message": 3}', "\\xff", '{"message": ' + "[" * 100000]


@pytest.mark.parametrize("content", MALFORMED, ids=lambda content: content[:16])
def test_a_malformed_error_file_is_said_and_ignored(fail, content):
    outcome = fail(
        4,
        1,
        f"""
        with open(os.environ["TORCHELASTIC_ERROR_FILE"], "wb") as f: f.write(b'''{content}''')
        sys.exit(4)
        """,
    )
    assert outcome.root["error_file"] is None
    assert "muster: warning: the error file of rank 0, " in outcome.stderr


# --- out of memory --------------------------------------------------------------------------------------------------


@pytest.fixture
def memory_limit():
    """A memory cgroup (v1 or v2) of 96 MiB -> a function that moves the calling process into it."""
    v1, v2 = pathlib.Path("/sys/fs/cgroup/memory"), pathlib.Path("/sys/fs/cgroup")
    base, limit = (v1, "memory.limit_in_bytes") if v1.is_dir() else (v2, "memory.max")
    folder = base / f"muster-test-{uuid.uuid4().hex}"
    try:
        folder.mkdir()
    except OSError as e:
        pytest.skip(f"no memory cgroup of our own: {e}")
    try:
        if not (folder / limit).exists():
            pytest.skip(f"no memory cgroup of our own: {base} has no memory controller for us")
        (folder / limit).write_text(str(96 << 20))
        swap = folder / "memory.swap.max"
        if swap.exists():
            swap.write_text("0")
        yield lambda: (folder / "cgroup.procs").write_text(str(os.getpid()))
    finally:
        folder.rmdir()


@pytest.mark.limits
def test_an_out_of_memory_kill_is_called_that(fail, memory_limit):
    outcome = fail(
        137,
        2,
        """
        if rank == 1:
            kept = []
            while True: kept.append(b"x" * (1 << 20))
        signal.pause()
        """,
        preexec_fn=memory_limit,
    )
    assert outcome.root["rank"] == 1
    assert outcome.root["oom"] == "yes"
    assert "out of memory (the job's own memory limit)" in outcome.headline
    # The host's counter has moved: a kill that comes later, and at once, is not taken for one of memory.
    kills = memory_kills()
    outcome = fail(137, 8, "os.kill(os.getpid(), signal.SIGKILL)")
    assert outcome.root["oom"] == "no" or memory_kills() != kills


@pytest.mark.limits
def test_an_out_of_memory_kill_behind_a_shell(run_muster, tmp_path, memory_limit):
    script = tmp_path / "run.sh"
    script.write_text("#!/bin/sh\n/usr/bin/python3 -c 'x = [b\"x\" * (1 << 20) for _ in range(1 << 20)]'\nexit $?\n")
    script.chmod(0o755)
    process = run_muster(["run", script], preexec_fn=memory_limit)
    assert process.returncode == 137
    assert "exit code 137, as a shell reports SIGKILL by the kernel: out of memory" in process.stderr
