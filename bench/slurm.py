"""Jobs in Slurm, on three nodes of the lab of test/lab: what muster adds to srun, and how long a script takes to its workers."""

from __future__ import annotations

import atexit
import encodings.idna  # noqa: F401  (in a node this interpreter's own files may be out of sight)
import functools
import json
import os
import pathlib
import select
import shutil
import sys
import tempfile

from lib import Contest, Failed, Goal, Metric, Subject
from machine import ROOT, muster, torchrun

NODES, GPUS = 3, 4
SEED = ROOT / "test/seeds/7-srun"
# Says when it runs, without an import that costs: what is left is the launchers' time, and Python's own 15 ms.
WORKER = "import sys\nfrom time import time\nopen(f'{sys.argv[0]}.times', 'a').write(f'{time()}\\n')\n"


def contests() -> list[Contest]:
    ours, theirs = muster(), torchrun()
    absent = ours.absent or no_lab()
    return [
        Contest(
            f"true on {NODES} Slurm nodes",
            [Subject("muster run", muster_true, absent, 5), Subject("srun", srun_true, absent, 5)],
            [Metric("wall time", "s")],
        ),
        Contest(
            f"true on {NODES} Slurm nodes",
            [Subject("muster run", beyond_srun, absent, 5)],
            [Metric("beyond the srun before it", "s", [Goal(limit=0.050)])],
        ),
        Contest(
            f"batch script to the first line of the last of {NODES * GPUS} workers",
            [
                Subject("muster run, one line", lambda: script_to_workers("after"), absent),
                Subject("the old script, muster run", lambda: script_to_workers("replaced"), absent),
                Subject(f"the old script, {theirs.title}", lambda: script_to_workers("lab"), absent or theirs.absent),
            ],
            [Metric("since the script's start", "s", [Goal(f"the old script, {theirs.title}", at_least=10)])],
            rounds=5,
        ),
    ]


def no_lab() -> str:
    if not shutil.which("sbatch"):
        return "no Slurm (make setup)"
    return _tests()[0].why_no_nodes() or ""


@functools.lru_cache(maxsize=None)
def _tests():
    """The lab's harness and the seeds' scripts."""
    sys.path.append(str(ROOT / "test"))
    from multinode import harness
    from seeds import seed

    return harness, seed


@functools.lru_cache(maxsize=None)
def cluster():
    harness, _ = _tests()
    folder = tempfile.TemporaryDirectory(prefix="bench_")
    atexit.register(folder.cleanup)
    try:
        made = harness.Cluster(muster().path, folder.name, NODES, slurm=True, gpus=GPUS, cpus=32)
    except harness.LabError as error:
        raise Failed(str(error)) from error
    atexit.register(made.close)
    return made


def variables() -> dict[str, str]:
    """`muster` and `torchrun` are on PATH."""
    return {"PATH": f"{pathlib.Path(muster().path).parent}:{pathlib.Path(torchrun().path).parent}:{os.environ['PATH']}"}


class BatchJob:
    """One on all nodes, in whose script commands are run and timed. It ends with the lab."""

    def __init__(self):
        shared = cluster().shared
        pipes = [str(shared / name) for name in ("requests", "answers")]
        for pipe in pipes:
            os.mkfifo(pipe)
        # For both: nobody waits for the other to open it.
        self._requests, self._answers = (os.open(pipe, os.O_RDWR) for pipe in pipes)
        command = " ".join([str(ROOT / "bench/programs/in_job.py"), *pipes])
        options = ["--nodes", str(NODES), "--ntasks-per-node=1", "--output=/dev/null", "--wrap", command]
        job = cluster().exec("ctl", ["sbatch", *options], env=variables(), cwd=shared)
        if job.end() != 0:
            raise Failed(job.err.strip())

    def time(self, *command: str) -> float:
        os.write(self._requests, json.dumps(command).encode() + b"\n")
        if not select.select([self._answers], [], [], 60)[0]:
            raise Failed(f"no answer within 60 s: {' '.join(command)}")
        seconds, code = json.loads(os.read(self._answers, 4096))
        if code:
            raise Failed(f"exit code {code}: {' '.join(command)}")
        return seconds


@functools.lru_cache(maxsize=None)
def batch_job() -> BatchJob:
    return BatchJob()


def srun_true() -> float:
    return batch_job().time("srun", "true")


def muster_true() -> float:
    return batch_job().time("muster", "run", "--nproc-per-node", "1", "true")


def beyond_srun() -> float:
    bare = srun_true()
    return muster_true() - bare


def script_to_workers(stage: str) -> float:
    """`stage`: "lab", the script as somebody wrote it; "replaced", the same with another launcher's name; "after"."""
    _, seeds = _tests()
    script = seeds.Seed(SEED.name).replaced() if stage == "replaced" else seeds.Seed(SEED.name).scripts(stage)
    with tempfile.TemporaryDirectory(prefix=stage, dir=cluster().shared) as folder:
        program = pathlib.Path(folder, "training_script.py")
        program.write_text(WORKER)
        began = pathlib.Path(folder, "began")
        pathlib.Path(folder, "job.sh").write_text(_timed(script["job.sh"], began))
        job = cluster().exec("ctl", ["sbatch", "--wait", "--output=job.out", "job.sh"], env=variables(), cwd=folder)
        if job.end(120) != 0:
            raise Failed(f"{job.err}{pathlib.Path(folder, 'job.out').read_text()[-300:]}".strip())
        times = [float(line) for line in pathlib.Path(f"{program}.times").read_text().split()]
        if len(times) != NODES * GPUS:
            raise Failed(f"{len(times)} workers of {NODES * GPUS}")
        return max(times) - float(began.read_text())


def _timed(script: str, file: pathlib.Path) -> str:
    """The script with its first command: what time it is."""
    lines = script.splitlines(keepends=True)
    first = next(i for i, line in enumerate(lines) if not line.startswith("#") and line.strip())
    lines.insert(first, f"echo $EPOCHREALTIME > {file}\n")
    return "".join(lines)
