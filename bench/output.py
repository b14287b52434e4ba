"""How fast eight workers' output reaches a reader: 100-byte lines, counted from the first byte read to the last."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import tempfile

from lib import Contest, Failed, Goal, Metric, Subject
from machine import compiled, muster, torchrun, wait

WORKERS = 8
LINES = 100_000  # a worker


def contests() -> list[Contest]:
    ours, torch = muster(), torchrun()
    writer = [compiled("write_lines.c"), str(LINES)]
    run = [ours.path, "run", "--nproc-per-node", str(WORKERS)]
    tee = [torch.path, "--no-python", "--nproc-per-node", str(WORKERS), "-t", "3"]
    cat = Subject("cat", lambda: lines_a_second(["sh", "-c", f"({forked(writer)}) | cat"]))
    peer = Subject(f"{torch.title} -t 3", lambda: logged(tee, writer), torch.absent)
    rate = Metric("lines", "/s", [Goal(peer.name, at_least=20)], more_is_better=True)
    return [
        Contest(
            f"forward {WORKERS} × {LINES} labelled lines",
            [Subject("muster run", lambda: lines_a_second([*run, *writer]), ours.absent), peer, cat],
            [rate],
            rounds=7,
        ),
        Contest(
            "the same, one line a write",
            [
                Subject("muster run", lambda: lines_a_second([*run, *writer, "1"]), ours.absent),
                Subject(peer.name, lambda: logged(tee, [*writer, "1"]), torch.absent),
                Subject("cat", lambda: lines_a_second(["sh", "-c", f"({forked([*writer, '1'])}) | cat"])),
            ],
            [Metric("lines", "/s", more_is_better=True)],
            rounds=7,
        ),
        Contest(
            "the same, with log files",
            [Subject("muster run -t 3", lambda: logged([*run, "-t", "3"], writer), ours.absent), peer, cat],
            [rate],
            rounds=7,
        ),
    ]


def forked(writer: list[str]) -> str:
    """A shell's words for as many writers at once."""
    return f"for i in {' '.join(map(str, range(WORKERS)))}; do {shlex.join(writer)} & done; wait"


def logged(launcher: list[str], writer: list[str]) -> float:
    folder = tempfile.mkdtemp(prefix="bench_")
    try:
        return lines_a_second([*launcher, "--log-dir", folder, *writer])
    finally:
        shutil.rmtree(folder)


def lines_a_second(argv: list[str], timeout: float = 120, expected: int = WORKERS * LINES) -> float:
    """Of a program whose stdout is a pipe to a reader that only counts."""
    counter = subprocess.Popen([compiled("count_lines.c")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    program = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=counter.stdin, stderr=subprocess.DEVNULL)
    counter.stdin.close()
    counter.stdin = None
    try:
        if code := wait(program, timeout):
            raise Failed(f"exit code {code}: {' '.join(argv)}")
        lines, seconds = counter.communicate()[0].split()
    finally:
        counter.kill()
    if int(lines) != expected:
        raise Failed(f"{lines} of {expected} lines arrived: {' '.join(argv)}")
    return int(lines) / float(seconds)
