"""Fixtures of the whole-program tests: the program, the two PyTorches, and the check that a job leaves nothing behind."""

import atexit
import functools
import os
import pathlib
import re
import select
import signal
import subprocess
import tempfile
import time
import uuid

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
MARKER = "MUSTER_TEST_JOB"
# The promise is one second; a machine that is busy with other tests gets some more. What was
# forgotten stays for ever.
GONE_WITHIN_S = 5.0
TEST_TIMEOUT_S = 180  # a hung test is a failed test; nothing here takes this long

# What a launcher or a scheduler around the tests would have set: each would change what muster does.
_FOREIGN = re.compile(
    r"PET_|TORCH|MUSTER_|SLURM_|PBS_|OMPI_|PMI|NCCL_|CUDA_VISIBLE|ROCR_|HIP_|ZE_AFFINITY|"
    r"(GROUP_|LOCAL_|ROLE_)?(RANK|WORLD_SIZE)$|ROLE_NAME$|MASTER_|OMP_NUM_THREADS$|PYTHON_EXEC$|LOGLEVEL$"
)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    def expire(signum, frame):
        raise TimeoutError(f"the test ran for more than {TEST_TIMEOUT_S} s")

    previous = signal.signal(signal.SIGALRM, expire)
    signal.alarm(TEST_TIMEOUT_S)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, previous)


@pytest.fixture(scope="session")
def muster():
    """Path of the program under test: $MUSTER or the release build."""
    path = pathlib.Path(os.environ.get("MUSTER") or ROOT / "build/release/bin/muster").resolve()
    if not os.access(path, os.X_OK):
        pytest.exit(f"{path} is not there: run make first, or name the program in $MUSTER", returncode=2)
    return str(path)


class TorchPython(str):
    """Path of a Python that has PyTorch; `bin_dir` in front of PATH makes it the `python` that muster finds."""

    def __new__(cls, path, bin_dir, version):
        self = super().__new__(cls, path)
        self.bin_dir, self.version = str(bin_dir), version
        return self

    @property
    def modern(self):
        return self.version >= (2, 0)


@pytest.fixture(scope="session")
def torch_new():
    """PyTorch 2.13 in the tests' virtual environment: $MUSTER_VENV or .venv."""
    venv = pathlib.Path(os.environ.get("MUSTER_VENV") or ROOT / ".venv")
    python = venv / "bin/python"
    if not list(venv.glob("lib/python3*/site-packages/torch/version.py")):
        pytest.skip("no virtual environment with torch 2.13: make setup could not make it")
    return TorchPython(python, python.parent, (2, 13))


@pytest.fixture(scope="session")
def torch_old():
    """Debian's PyTorch 1.13."""
    if not pathlib.Path("/usr/lib/python3/dist-packages/torch/version.py").exists():
        pytest.skip("no python3-torch: make setup could not install it")
    return TorchPython("/usr/bin/python3", debian_python_dir(), (1, 13))


@pytest.fixture(params=["torch_new", "torch_old"])
def torch_python(request):
    return request.getfixturevalue(request.param)


@functools.lru_cache(maxsize=None)
def debian_python_dir():
    """A directory whose `python` is Debian's, which by itself has only `python3`; earlier ones on PATH are not asked."""
    directory = tempfile.TemporaryDirectory(prefix="muster-test-python-")
    atexit.register(directory.cleanup)
    for name in ("python", "python3"):
        os.symlink("/usr/bin/python3", f"{directory.name}/{name}")
    return directory.name


def clean_env(python=None, **extra):
    """The environment for a launcher under test: ours without what would steer it, `python` (or Debian's) first on PATH.

    RES_OPTIONS bounds the reverse look-ups of PyTorch's store client. A value of None removes a variable.
    """
    env = {k: v for k, v in os.environ.items() if not _FOREIGN.match(k)}
    env["RES_OPTIONS"] = "timeout:1 attempts:2"
    env["PATH"] = f"{python.bin_dir if python else debian_python_dir()}:{env['PATH']}"
    for name, value in extra.items():
        env.pop(name, None)
        if value is not None:
            env[name] = str(value)
    return env


def carriers(marker):
    """Pids of the living processes whose environment has the marker."""
    needle = f"{MARKER}={marker}".encode()
    found = []
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            with open(f"/proc/{entry.name}/environ", "rb") as f:
                if needle in f.read().split(b"\0"):
                    found.append(int(entry.name))
        except OSError:
            pass  # gone meanwhile, or not ours
    return found


def wait_gone(marker, timeout):
    """Waits until no process carries the marker; returns those that still do at the end, with their command lines."""
    deadline = time.monotonic() + timeout
    while True:
        left = carriers(marker)
        remaining = deadline - time.monotonic()
        if not left or remaining <= 0:
            return {pid: _command_line(pid) for pid in left}
        try:
            fd = os.pidfd_open(left[0])
        except OSError:
            continue
        select.select([fd], [], [], remaining)
        os.close(fd)


def _command_line(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            return f.read().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


def kill_carriers(marker):
    while left := carriers(marker):
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.01)


@pytest.fixture
def job_marker():
    """A value that every process of this test's jobs carries in its environment (as MUSTER_TEST_JOB).

    When the test is over none may be left a little later: nothing outlives a job.
    """
    marker = uuid.uuid4().hex
    yield marker
    left = wait_gone(marker, GONE_WITHIN_S)
    kill_carriers(marker)
    assert not left, f"processes outlived the job: {left}"


@pytest.fixture
def start_muster(muster, job_marker):
    """start_muster(args, python=…, env={…}, **popen) -> Popen, in a session of its own, marked; killed at teardown."""
    started = []

    def start(args, python=None, env=None, **popen):
        popen.setdefault("stdin", subprocess.DEVNULL)
        popen.setdefault("start_new_session", True)
        process = subprocess.Popen(
            [popen.pop("program", muster), *map(str, args)],
            env=clean_env(python, **{**(env or {}), MARKER: job_marker}),
            **popen,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream:
                stream.close()


@pytest.fixture
def run_muster(start_muster, job_marker):
    """run_muster(args, python=…, env={…}, timeout=60, input=None, text=True, **popen) -> CompletedProcess.

    Past the timeout everything of the job is killed and TimeoutExpired raised, with the output so far.
    """

    def run(args, timeout=60, input=None, text=True, **popen):
        if input is not None:
            popen["stdin"] = subprocess.PIPE
        popen.setdefault("stdout", subprocess.PIPE)
        popen.setdefault("stderr", subprocess.PIPE)
        if text:
            popen.update(encoding="utf-8", errors="replace")
        process = start_muster(args, **popen)
        try:
            out, err = process.communicate(input, timeout=timeout)
        except subprocess.TimeoutExpired as e:
            process.kill()
            kill_carriers(job_marker)
            out, err = process.communicate()
            raise subprocess.TimeoutExpired(e.cmd, e.timeout, out, err) from None
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    return run
