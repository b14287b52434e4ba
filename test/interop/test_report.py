"""The failure box of torchrun 2.13 beside that of `muster torchrun`, byte for byte.

Process ids and times are replaced by as many characters; the files lie under names of the same length.
"""

import json
import re
import textwrap

import pytest

from harness import launched

pytestmark = [pytest.mark.interop, pytest.mark.multiprocess, pytest.mark.slow]

SCRIPT = """
import json, os, signal, sys, time
rank = int(os.environ["RANK"])
def error_file(text): open(os.environ["TORCHELASTIC_ERROR_FILE"], "w").write(text)
def recorded(f):
    from torch.distributed.elastic.multiprocessing.errors import record
    return record(f)()
def fail_with(text):
    raise ValueError(text)
def chain():
    try: fail_with("first")
    except ValueError as e: raise RuntimeError("second\\nwith two lines") from e
"""
# Name -> (workers, script). Rank 0 sleeps where another fails.
JOBS = {
    "exit code": (2, "if rank == 1: sys.exit(7)\nsignal.pause()"),
    "kill": (2, "if rank == 1: os.kill(os.getpid(), 9)\nsignal.pause()"),
    "kill, alone": (1, "os.kill(os.getpid(), 9)"),
    "segmentation fault": (1, "os.kill(os.getpid(), 11)"),
    "a signal without a name": (1, "os.kill(os.getpid(), 40)"),
    "answers SIGTERM with a code": (
        2,
        "if rank == 0:\n  signal.signal(15, lambda *_: sys.exit(5)); open('up', 'w'); signal.pause()\n"
        "while not os.path.exists('up'): time.sleep(0.01)\nsys.exit(7)",
    ),
    "answers SIGTERM with success": (
        2,
        "if rank == 0:\n  signal.signal(15, lambda *_: sys.exit(0)); open('up', 'w'); signal.pause()\n"
        "while not os.path.exists('up'): time.sleep(0.01)\nsys.exit(7)",
    ),
    "recorded": (2, "recorded(lambda: fail_with('bad bätch') if rank == 1 else signal.pause())"),
    "recorded chain": (1, "recorded(chain)"),
    "recorded exit": (1, "recorded(lambda: sys.exit(3))"),
    "plain file": (1, """error_file('{"message": "two\\\\nlines", "timestamp": 1794737093}')\nsys.exit(1)"""),
    "empty plain file": (1, """error_file('{"message": "", "timestamp": "1794737093"}')\nsys.exit(1)"""),
    "empty plain file, killed": (1, """error_file('{"message": "", "timestamp": 5}')\nos.kill(os.getpid(), 9)"""),
    "file of one that ended well": (
        2,
        "if rank == 0:\n  error_file('not JSON'); sys.exit(0)\ntime.sleep(0.3); sys.exit(1)",
    ),
    "message without a call stack": (
        1,
        """error_file('{"message": {"message": "a\\\\nb", "extraInfo": {"timestamp": 12}}}')\nsys.exit(1)""",
    ),
}


class Run:
    def __init__(self, launcher, directory, python, workers):
        directory.mkdir()
        (directory / "train.py").write_text(directory.with_name("train.py").read_text(encoding="utf-8"), encoding="utf-8")
        self.error_file = directory / "our_error.json"
        env = {"TMPDIR": directory, "OMP_NUM_THREADS": 1, "TORCHELASTIC_ERROR_FILE": self.error_file}
        # A fixed id, and so paths of the same length.
        options = ["--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0", "--rdzv-id", "job7"]
        command = [*launcher, *options, "--log-dir", "logs", "--nproc-per-node", workers, "train.py"]
        with launched(command, python, env, cwd=directory) as process:
            _, self.stderr = process.communicate(timeout=90)
        self.code = process.returncode

    def box(self):
        """From the exception's name to the end of stderr."""
        return self.stderr[self.stderr.index("torch.distributed.elastic.multiprocessing.errors.ChildFailedError:") :]

    def plain_box(self):
        text = re.sub(r"\d{4}-\d\d-\d\d_\d\d:\d\d:\d\d", "YYYY-MM-DD_HH:MM:SS", self.box())
        text = re.sub(r"(?<=/job7_)[a-z0-9_]{8}(?=/)", "xxxxxxxx", text)
        text = re.sub(r"(?<=pid: )\d+|(?<=PID )\d+", "<pid>", text)
        # The rules are as long as the longest line, which may be one with a process id: checked apart.
        return re.sub(r"^(=+|-+)$", lambda rule: rule[0][0], text, flags=re.M)

    def check_rules(self):
        _, border, *lines, end, empty = self.box().split("\n")
        entries = [line for line in lines if not re.fullmatch("-+", line)]
        entries = [line for line in entries if line not in ("Failures:", "Root Cause (first observed failure):")]
        width = min(60, max(len(line) for line in entries if line != "  <NO_OTHER_FAILURES>"))
        assert border == end == "=" * width and empty == ""
        assert [line for line in lines if re.fullmatch("-+", line)] == ["-" * width] * 2

    def error_copy(self):
        if not self.error_file.exists():
            return None
        text = self.error_file.read_text()
        return re.sub(r'"timestamp": "\d+"', '"timestamp": "<time>"', text)


def side_by_side(muster, python, tmp_path, workers, body):
    (tmp_path / "train.py").write_text(SCRIPT + textwrap.dedent(body), encoding="utf-8")
    theirs = Run([f"{python.bin_dir}/python", "-m", "torch.distributed.run"], tmp_path / "theirs", python, workers)
    ours = Run([muster, "torchrun"], tmp_path / "mine__", python, workers)
    return theirs, ours


@pytest.mark.parametrize("name", JOBS)
def test_same_box(muster, torch_new, tmp_path, name):
    theirs, ours = side_by_side(muster, torch_new, tmp_path, *JOBS[name])
    assert ours.code == theirs.code == 1
    assert ours.plain_box() == theirs.plain_box().replace(str(tmp_path / "theirs"), str(tmp_path / "mine__"))
    theirs.check_rules()
    ours.check_rules()
    mine = ours.error_copy()
    assert mine == (theirs.error_copy() and theirs.error_copy().replace("theirs", "mine__"))
    assert mine is None or json.loads(mine)


@pytest.mark.parametrize("content", ["", "{}", "[]"])
def test_same_exit_code_after_a_malformed_error_file(muster, torch_new, tmp_path, content):
    """torchrun dies of it with a traceback; ours says so and reports the failure."""
    theirs, ours = side_by_side(muster, torch_new, tmp_path, 1, f"error_file({content!r})\nsys.exit(7)")
    assert ours.code == theirs.code == 1
    assert "ChildFailedError" not in theirs.stderr
    assert re.search(r"the error file of rank 0, \S+/error.json, is not understood: it ", ours.stderr)
    ours.check_rules()
