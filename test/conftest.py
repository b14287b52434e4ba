"""Fixtures of the whole-program tests: the program, the two PyTorches, and the check that a job leaves nothing behind."""

import hashlib
import os
import pathlib
import signal
import subprocess
import uuid

import pytest

from harness import MARKER, ROOT, clean_env, debian_python_dir, kill_carriers, wait_gone

# A hung test is a failed test; nothing here takes this long. Set-up may make an image that others use too.
TIMEOUT_S = {"set-up": 300, "test": 180, "clean-up": 180}
TIMEOUT_REPEATED_S = 30  # longer than a clean-up in the test itself

NEED_NODES = ("multinode", "pbs", "seeds", "slurm")  # real ones
ROOT_FIXTURES = {"lab", "seed_cluster", "disk", "memory_limit"}
ONE_AT_A_TIME = {"containers": "podman", "seeds": "podman"}  # both take podman's locks


def pytest_configure():
    # A signal that is ignored stays so in the programs under test: nohup and background jobs of a shell must not decide
    # what they do.
    for number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGTSTP):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(items):
    """Labels that follow from a test's folder and fixtures; groups of tests of which pytest-xdist runs one at a time."""
    here = pathlib.Path(__file__).parent
    for item in items:
        folder = item.path.relative_to(here).parts[0]
        if folder in NEED_NODES:
            item.add_marker(pytest.mark.multinode)
        if ROOT_FIXTURES.intersection(item.fixturenames):
            item.add_marker(pytest.mark.root)
        if os.geteuid() != 0 and item.get_closest_marker("root"):
            item.add_marker(pytest.mark.skip("needs root"))
        if folder in ONE_AT_A_TIME:
            item.add_marker(pytest.mark.xdist_group(ONE_AT_A_TIME[folder]))
    if "PYTEST_XDIST_WORKER" in os.environ:
        items.sort(key=turn)


def turn(item):
    """What takes longest comes first: groups, in their order. The rest is mixed, so that some tests compute while others wait."""
    if item.get_closest_marker("xdist_group"):
        return (0,)
    return 1, not item.get_closest_marker("slow"), hashlib.sha256(item.nodeid.encode()).digest()


class TookTooLong(BaseException):
    """Not an Exception: loops that poll catch those (OSError and TimeoutError above all) and go on."""


def watched(phase):
    """A hook around one phase of a test: raises TookTooLong in it, again and again if something swallows that too."""

    def hook(item):
        def expire(signum, frame):
            raise TookTooLong(f"the {phase} of {item.name} took more than {TIMEOUT_S[phase]} s")

        previous = signal.signal(signal.SIGALRM, expire)
        signal.setitimer(signal.ITIMER_REAL, TIMEOUT_S[phase], TIMEOUT_REPEATED_S)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, previous)

    return pytest.hookimpl(hookwrapper=True)(hook)


pytest_runtest_setup = watched("set-up")
pytest_runtest_call = watched("test")
pytest_runtest_teardown = watched("clean-up")


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
    if not list(venv.glob("lib/python3*/site-packages/torch-2.13.0*.dist-info")):
        pytest.skip("no virtual environment with torch 2.13: make setup could not make it")
    return TorchPython(python, python.parent, (2, 13))


@pytest.fixture(scope="session")
def torch_old():
    """Debian's PyTorch 1.13."""
    if not pathlib.Path("/usr/lib/python3/dist-packages/torch/version.py").exists():
        pytest.skip("no python3-torch: make setup could not install it")
    return TorchPython("/usr/bin/python3", debian_python_dir(), (1, 13))


@pytest.fixture(scope="session")
def accelerate(torch_new):
    """The same Python, where it has accelerate 1.15."""
    venv = pathlib.Path(torch_new.bin_dir).parent
    if not list(venv.glob("lib/python3*/site-packages/accelerate-1.15.*.dist-info")):
        pytest.skip("no accelerate 1.15 beside torch 2.13: make setup could not install it")
    return torch_new


@pytest.fixture(params=["torch_new", "torch_old"])
def torch_python(request):
    return request.getfixturevalue(request.param)


@pytest.fixture
def job_marker():
    """A value that every process of this test's jobs carries in its environment (as MUSTER_TEST_JOB).

    When the test is over none may be left a second later: nothing outlives a job.
    """
    marker = uuid.uuid4().hex
    yield marker
    left = wait_gone(marker)
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
