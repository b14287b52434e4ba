"""Events: those of `muster torchrun` beside torchrun's own, and the file of `muster run`."""

import json
import re
import signal

import pytest

from harness import launched

pytestmark = pytest.mark.multiprocess

SCRIPT = """
import os, signal, sys, time
rank, restarts = int(os.environ["RANK"]), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
"""
# Name -> (arguments, script)
JOBS = {
    "success": (["--nproc-per-node", 2], ""),
    "exit code": (["--nproc-per-node", 2, "--role", "trainer"], "if rank == 1: sys.exit(7)\nsignal.pause()"),
    "killed": (["--nproc-per-node", 2], "if rank == 0: os.kill(os.getpid(), 9)\nsignal.pause()"),
    "one ended well": (["--nproc-per-node", 2], "if rank == 0: sys.exit(0)\ntime.sleep(0.5); sys.exit(7)"),
    "restart": (["--max-restarts", 1], "sys.exit(3 - 3 * restarts)"),
    "restarts used up": (["--max-restarts", 1, "--nproc-per-node", 2], "if rank == 0: sys.exit(3)\nsignal.pause()"),
    "error file": (
        ["--nproc-per-node", 1],
        """open(os.environ["TORCHELASTIC_ERROR_FILE"], "w").write('{"message": "gr\\\\u00fcn", "timestamp":12 }')\nsys.exit(1)""",
    ),
    "static": (["--master-port", "0"], ""),
}


def events_of(stderr):
    found = []
    for line in stderr.splitlines():
        if line.startswith('{"name"'):
            event = json.loads(line)
            assert json.dumps(event) == line, "as Python's json writes it"
            found.append(event)
    return found


def plain(event):
    """Without what is random or depends on speed."""
    metadata = event["metadata"]
    metadata["run_id"] = re.sub(r"^[0-9a-f-]{36}$", "<uuid>", metadata["run_id"])
    inner = json.loads(metadata["metadata"])
    assert json.dumps(inner) == metadata["metadata"]
    if metadata["worker_id"] is not None:
        if inner["worker_pid"] != [None]:
            assert inner["worker_pid"] == [int(metadata["worker_id"])]
            inner["worker_pid"] = ["<pid>"]
        metadata["worker_id"] = "<pid>"
    # torchrun keeps one object for all failures without a file: whether a signal's death has traits is chance there.
    if inner.get("exit_code", [None])[0] in (-9, -15) and "<NONE>" in metadata["raw_error"]:
        metadata["raw_error"] = "<no file>"
    metadata["metadata"] = inner
    metadata["total_run_time"] = type(metadata["total_run_time"]).__name__
    metadata["duration_ms"] = type(metadata["duration_ms"]).__name__
    return event


def launch(command, where, python, stop_when=None):
    where.mkdir()
    with launched(command, python, {"TMPDIR": where, "OMP_NUM_THREADS": 1}) as process:
        if stop_when:
            assert stop_when in process.stdout.readline()
            process.send_signal(signal.SIGTERM)
        return process.communicate(timeout=90)[1]


def both(muster, python, tmp_path, options, body, **kw):
    script = tmp_path / "train.py"
    script.write_text(SCRIPT + body)
    args = ["--event-log-handler", "console", *options, script]
    theirs = launch([f"{python.bin_dir}/python", "-m", "torch.distributed.run", *args], tmp_path / "theirs", python, **kw)
    ours = launch([muster, "torchrun", *args], tmp_path / "ours", python, **kw)
    return [plain(e) for e in events_of(theirs)], [plain(e) for e in events_of(ours)]


@pytest.mark.interop
@pytest.mark.slow
@pytest.mark.parametrize("name", JOBS)
def test_same_events_as_torchrun(muster, torch_new, tmp_path, name):
    theirs, ours = both(muster, torch_new, tmp_path, *JOBS[name])
    assert theirs
    assert ours == theirs


@pytest.mark.interop
@pytest.mark.slow
def test_same_events_after_a_signal(muster, torch_new, tmp_path):
    theirs, ours = both(muster, torch_new, tmp_path, [], "print('up', flush=True)\nsignal.pause()", stop_when="up")
    for events in (theirs, ours):
        assert events[-1]["metadata"].pop("raw_error"), "why the agent ended"
    assert ours == theirs


# Rank 1 fails, but not before rank 0 has ended well: else that one might be stopped.
FAIL_AFTER_RANK_0 = """
import select
link = __file__ + ".rank0"
if rank == 0:
    os.symlink(str(os.getpid()), link)
    sys.exit(0)
while not os.path.islink(link): time.sleep(0.01)
try:
    select.select([os.pidfd_open(int(os.readlink(link)))], [], [])
except ProcessLookupError:
    pass
sys.exit(5)
"""


def test_events_into_a_file(run_muster, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(SCRIPT + FAIL_AFTER_RANK_0)
    events = tmp_path / "events.jsonl"
    events.write_text("of an earlier run\n")
    process = run_muster(["run", "--nproc-per-node", 2, "--events", events, script])
    assert process.returncode == 5
    assert '"name"' not in process.stderr
    found = [json.loads(line) for line in events.read_text().splitlines()]
    states = [(e["source"], e["metadata"]["state"]) for e in found]
    assert states[:2] == [("AGENT", "RENDEZVOUS"), ("AGENT", "ASSIGN_WORKER_RANKS")]
    assert states[2:] == [("WORKER", s) for s in ("START", "START", "TERMINATED", "FAILED")] + [("AGENT", "FAILED")]
    assert found[-1]["metadata"]["raw_error"] == "rank 1 failed: exit code 5; no restarts were asked for (--max-restarts)"
    times = [e["timestamp"] for e in found]
    assert times == sorted(times) and times[0] > 1_700_000_000_000


@pytest.mark.parametrize("nodes", [[], ["--local-nodes", 2]], ids=["one", "two"])
def test_what_a_restart_follows_is_an_event(run_muster, tmp_path, nodes):
    (tmp_path / "train.py").write_text("import os; os._exit(7 if os.environ['TORCHELASTIC_RESTART_COUNT'] == '0' else 0)")
    done = run_muster(["run", *nodes, "--max-restarts", 1, "--events", "events", "train.py"], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    events = [json.loads(line)["metadata"] for line in (tmp_path / "events").read_text().splitlines()]
    for rank in range(2 if nodes else 1):
        own = [(e["state"], e["agent_restarts"]) for e in events if e["global_rank"] == rank]
        assert [e for e in own if e[0] == "START"] == [("START", 0), ("START", 1)]
        assert own[2:] == [("START", 1), ("SUCCEEDED", 1)] and own[1][1] == 0
    # The others of that round may have been stopped before they could fail.
    failed = [json.loads(e["metadata"])["exit_code"] for e in events if e["state"] == "FAILED"]
    assert [7] in failed and all(e["agent_restarts"] == 0 for e in events if e["state"] == "FAILED")
    rounds = [e["state"] for e in events if e["hostname"] == events[0]["hostname"] and e["state"] in ("RENDEZVOUS", "FAILED")]
    assert nodes or rounds == ["RENDEZVOUS", "FAILED", "RENDEZVOUS"]


def test_one_file_for_all_nodes(run_muster, tmp_path):
    (tmp_path / "train.py").write_text("")
    done = run_muster(["run", "--local-nodes", 2, "--nproc-per-node", 2, "--events", "events", "train.py"], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = (tmp_path / "events").read_text().splitlines()
    events = [json.loads(line) for line in lines]
    of = lambda state: [e["metadata"]["global_rank"] for e in events if e["metadata"]["state"] == state]  # noqa: E731
    assert sorted(of("START")) == [0, 1, 2, 3], done.stderr
    assert sorted(rank for rank in of("SUCCEEDED") if rank is not None) == [0, 1, 2, 3]
    assert of("SUCCEEDED").count(None) == 2 and len(of("RENDEZVOUS")) == 2, "one of each agent"


def test_agents_of_several_nodes_know_their_number_and_why_the_job_failed(run_muster, tmp_path):
    (tmp_path / "train.py").write_text("import os, signal, sys\nif os.environ['RANK'] == '1': sys.exit(5)\nsignal.pause()")
    args = ["--local-nodes", 2, "--nproc-per-node", 1, "--max-restarts", 1, "--events", "events", "train.py"]
    assert run_muster(["run", *args], cwd=tmp_path).returncode == 5
    events = [json.loads(line) for line in (tmp_path / "events").read_text().splitlines()]
    of_agents = [e["metadata"] for e in events if e["source"] == "AGENT" and e["metadata"]["agent_restarts"] == 1]
    number = lambda e: (e["group_rank"], json.loads(e["metadata"])["group_world_size"])  # noqa: E731
    for state in ("RENDEZVOUS", "ASSIGN_WORKER_RANKS", "FAILED"):
        assert sorted(number(e) for e in of_agents if e["state"] == state) == [(0, 2), (1, 2)]
    why = {e["raw_error"] for e in of_agents if e["state"] == "FAILED"}
    assert len(why) == 1 and re.match(r"rank 1 on \S+ failed: exit code 5", *why)


def test_an_end_is_told_once_where_the_next_round_cannot_start(run_muster, tmp_path):
    """A file stands where the logs of the restart would go."""
    (tmp_path / "train.py").write_text("import glob\nopen(glob.glob('logs/*')[0] + '/r1', 'w').close()\nraise SystemExit(5)")
    args = ["--local-nodes", 2, "--nproc-per-node", 1, "--max-restarts", 1, "--events", "events", "--log-dir", "logs"]
    done = run_muster(["run", *args, "train.py"], cwd=tmp_path)
    assert done.returncode == 125 and "/r1 is a link or a file" in done.stderr, done
    events = [json.loads(line)["metadata"] for line in (tmp_path / "events").read_text().splitlines()]
    ends = [e["global_rank"] for e in events if e["state"] in ("FAILED", "TERMINATED") and e["global_rank"] is not None]
    assert sorted(ends) == [0, 1], done


@pytest.mark.parametrize("path", ["no/such/directory/events", "."])
def test_an_unwritable_file_is_refused_before_anything_starts(run_muster, tmp_path, path):
    script = tmp_path / "train.py"
    script.write_text("open('started', 'w')")
    process = run_muster(["run", "--events", path, script], cwd=tmp_path)
    assert process.returncode == 2
    assert f"--events {path} cannot be written" in process.stderr
    assert not (tmp_path / "started").exists()
