"""The programs that take part, whether they are here, and what machine this is."""

from __future__ import annotations

import os
import pathlib
import platform
import re
import select
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass

from lib import Failed

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILT = ROOT / "build" / "bench"


@dataclass(frozen=True)
class Program:
    name: str
    path: str
    version: str = ""
    absent: str = ""  # why it cannot take part; empty: it is here

    @property
    def title(self) -> str:
        return f"{self.name} {self.version}".strip()


def muster() -> Program:
    path = os.environ.get("MUSTER", str(ROOT / "build/release/bin/muster"))
    if not os.access(path, os.X_OK):
        return Program("muster", path, absent=f"{path} is not built (make)")
    return Program("muster", path, _version([path, "--version"]))


def torch_python() -> Program:
    """The interpreter that has the newer torch: $MUSTER_VENV, or .venv of this tree."""
    venv = pathlib.Path(os.environ.get("MUSTER_VENV", ROOT / ".venv"))
    python = venv / "bin" / "python"
    found = sorted(venv.glob("lib/python3*/site-packages/torch-*.dist-info"))
    if not python.exists() or not found:
        return Program("torch", str(python), absent=f"no torch in {venv} (make setup)")
    return Program("torch", str(python), re.match(r"torch-([0-9.]*[0-9])", found[-1].name).group(1))


def torchrun() -> Program:
    python = torch_python()
    path = pathlib.Path(python.path).parent / "torchrun"
    if python.absent or not path.exists():
        return Program("torchrun", str(path), absent=python.absent or f"no {path}")
    return Program("torchrun", str(path), python.version)


def mpirun() -> Program:
    path = shutil.which("mpirun")
    if not path:
        return Program("mpirun", "mpirun", absent="not installed (openmpi-bin)")
    return Program("mpirun", path, _version([path, "--version"]))


def compiled(source: str) -> str:
    """Path of a program of bench/programs, compiled when it is older than its source or a header there."""
    file = ROOT / "bench" / "programs" / source
    program = BUILT / file.stem
    changed = max(each.stat().st_mtime for each in [file, *file.parent.glob("*.h")])
    if not program.exists() or program.stat().st_mtime < changed:
        BUILT.mkdir(parents=True, exist_ok=True)
        command = ["c++" if file.suffix == ".cpp" else "cc", "-O2", "-Wall", "-Wextra", "-o", str(program), str(file)]
        subprocess.run(command, check=True)
    return str(program)


def run_time(argv: list[str], timeout: float = 60, expect: int = 0, **kwargs) -> float:
    """Wall time of a program from its start to its end, in seconds; its output is thrown away unless redirected."""
    kwargs = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL} | kwargs
    start = time.perf_counter()
    try:
        process = subprocess.Popen(argv, **kwargs)
    except OSError as error:
        raise Failed(f"{argv[0]}: {error.strerror}") from error
    wait(process, timeout)
    elapsed = time.perf_counter() - start
    if process.returncode != expect:
        raise Failed(f"exit code {process.returncode}: {' '.join(argv)}")
    return elapsed


def wait(process: subprocess.Popen, timeout: float) -> int:
    """Until the very moment it ends: Popen.wait() with a timeout would poll."""
    pidfd = os.pidfd_open(process.pid)
    try:
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        if not poll.poll(timeout * 1000):
            process.send_signal(signal.SIGKILL)
            process.wait()
            raise Failed(f"still running after {timeout:g} s: {' '.join(process.args)}")
    finally:
        os.close(pidfd)
    return process.wait()


def facts() -> dict[str, str]:
    """What a reader needs to judge the figures."""
    programs = [muster(), torchrun(), mpirun()]
    return {
        "machine": f"{len(os.sched_getaffinity(0))} of {os.cpu_count()} cores, {_cpu_model()}, {_memory_gib()} GiB",
        "system": f"Linux {platform.release()}, {_os_name()}, Python {platform.python_version()}",
        "programs": ", ".join(p.title if not p.absent else f"{p.name} absent ({p.absent})" for p in programs),
        "load": " ".join(f"{load:.2f}" for load in os.getloadavg()) + " (1, 5, 15 minutes, at the start)",
    }


def _version(argv: list[str]) -> str:
    try:
        text = subprocess.run(argv, capture_output=True, text=True, timeout=10).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
    found = re.search(r"\d+\.\d+(\.\d+)?", text)
    return found.group() if found else ""


def _cpu_model() -> str:
    found = re.search(r"model name\s*:\s*(.*)", pathlib.Path("/proc/cpuinfo").read_text())
    return found.group(1) if found else platform.machine()


def _memory_gib() -> int:
    return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30)


def _os_name() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "")
    except OSError:
        return "unknown distribution"
