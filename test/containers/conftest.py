"""Containers for real: a root file system of this machine's own programs, the runtimes that Debian has, and enroot.

enroot is used if it is on PATH, or if MUSTER_ENROOT names the directory of its programs: it is built from its sources.
"""

import dataclasses
import os
import pathlib
import shutil
import subprocess
import tempfile
import uuid

import pytest

from multinode.conftest import lab  # noqa: F401

from . import rootfs

WORKERS = pathlib.Path(__file__).parent / "workers"


@dataclasses.dataclass
class Runtime:
    name: str
    env: dict
    root: str  # the root file system that is the image, or a file with it

    def options(self, *more):
        return ["--container", self.root, "--container-runtime", self.name, *more]

    def storage(self):
        """Where containers with a name are kept."""
        if self.name == "enroot":
            return pathlib.Path(self.env["ENROOT_DATA_PATH"])
        return pathlib.Path(f"/var/tmp/muster-{os.geteuid()}/{self.name}")

    def image_of(self, root):
        """What `--container` is given for another root file system."""
        return squash(root) if self.name == "enroot" else root

    def containers(self):
        """What the runtime itself still knows of containers."""
        if self.name != "podman":
            return []
        return subprocess.run(["podman", "ps", "-aq"], env={**os.environ, **self.env}, stdout=subprocess.PIPE,
                              text=True, check=True).stdout.split()  # fmt: skip


@pytest.fixture(scope="session")
def image(tmp_path_factory):
    return str(rootfs.make(tmp_path_factory.mktemp("image") / "root"))


def squash(root):
    """An image file of a root file system, beside it."""
    image = f"{root}.sqsh"
    subprocess.run(["mksquashfs", root, image, "-all-root", "-noappend", "-quiet", "-no-progress", "-comp", "gzip",
                    "-Xcompression-level", "1"], stdout=subprocess.DEVNULL, check=True)  # fmt: skip
    return image


def complaint(argv, env):
    """What a runtime says when it cannot run `true` in the image; None when it can."""
    try:
        done = subprocess.run(argv, env={**os.environ, **env}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=60)  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return None if done.returncode == 0 else done.stdout.strip().splitlines()[-1:] or f"exit code {done.returncode}"


def podman_env(directory, oci_runtime, ulimits):
    """Settings with which podman keeps everything below `directory`."""
    directory.mkdir()
    (directory / "containers.conf").write_text(
        f"[containers]\n{ulimits}\n[engine]\ncgroup_manager = \"cgroupfs\"\nevents_logger = \"none\"\n"
        f"runtime = \"{oci_runtime}\"\ntmp_dir = \"{directory}/tmp\"\n"
    )
    (directory / "storage.conf").write_text(
        f"[storage]\ndriver = \"overlay\"\ngraphroot = \"{directory}/store\"\nrunroot = \"{directory}/run\"\n"
    )
    return {"CONTAINERS_CONF": f"{directory}/containers.conf", "CONTAINERS_STORAGE_CONF": f"{directory}/storage.conf"}


def unmount_below(directory):
    """podman leaves its storage mounted on itself."""
    mounts = [line.split()[1] for line in pathlib.Path("/proc/self/mounts").read_text().splitlines()]
    for mount in reversed([mount for mount in mounts if mount.startswith(f"{directory}/")]):
        subprocess.run(["umount", "--lazy", mount], check=True)


def ways_to_run_podman(base):
    """Not every machine that runs tests lets root raise limits, or has cgroups that every OCI runtime understands."""
    for oci_runtime in ("crun", "runc"):
        for number, ulimits in enumerate(("", 'default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]')):
            yield oci_runtime, podman_env(base / f"{oci_runtime}{number}", oci_runtime, ulimits)


@pytest.fixture(scope="session")
def podman(image):
    if not shutil.which("podman"):
        pytest.skip("podman does not run containers here: it is not installed")
    base = pathlib.Path(tempfile.mkdtemp(prefix="podman-"))  # `podman container cleanup` refuses a path of 51 characters
    said = []
    try:
        for oci_runtime, env in ways_to_run_podman(base):
            problem = complaint(["podman", "run", "--rm", "--network=host", "--ipc=host", "--pid=host",
                                 "--log-driver=passthrough", "--rootfs", f"{image}:O", "/bin/true"], env)  # fmt: skip
            if problem is None:
                yield Runtime("podman", env, image)
                subprocess.run(["podman", "rm", "--force", "--all"], env={**os.environ, **env}, stdout=subprocess.DEVNULL)
                return
            said.append(f"{oci_runtime}: {problem}")
        pytest.skip(f"podman does not run containers here: {said}")
    finally:
        unmount_below(base)
        shutil.rmtree(base, ignore_errors=True)


@pytest.fixture(scope="session")
def charliecloud(image):
    problem = complaint(["ch-run", image, "--", "/bin/true"], {"USER": os.environ.get("USER") or "root"})
    if problem is not None:
        pytest.skip(f"charliecloud does not run containers here: {problem}")
    return Runtime("charliecloud", {}, image)


def enroot_directory():
    """That of its programs; None: there is none."""
    found = shutil.which("enroot")
    return os.environ.get("MUSTER_ENROOT") or (found and os.path.dirname(found))


@pytest.fixture(scope="session")
def enroot(image, tmp_path_factory):
    if not enroot_directory():
        pytest.skip("enroot does not run containers here: it is not installed")
    base = tmp_path_factory.mktemp("enroot")
    env = {"PATH": f"{enroot_directory()}:{os.environ['PATH']}",
           **{f"ENROOT_{name.upper()}_PATH": str(base / name) for name in ("data", "cache", "runtime", "config")}}  # fmt: skip
    root = squash(image)
    problem = complaint(["enroot", "start", root, "/bin/true"], env)
    if problem is not None:
        pytest.skip(f"enroot does not run containers here: {problem}")
    return Runtime("enroot", env, root)


@pytest.fixture(params=["podman", "charliecloud", "enroot"])
def runtime(request):
    """Each that runs here; whatever a test does, none of its containers may be left."""
    runtime = request.getfixturevalue(request.param)
    before = runtime.containers()
    yield runtime
    assert runtime.containers() == before, "containers outlived the job"


@pytest.fixture
def kept_name(request):
    """A name for a container; what is kept under it is removed."""
    name = f"test-{uuid.uuid4().hex[:12]}"
    yield name
    for runtime in ("podman", "charliecloud", "enroot"):
        folder = pathlib.Path(f"/var/tmp/muster-{os.geteuid()}/{runtime}")
        shutil.rmtree(folder / name, ignore_errors=True)
        for rest in folder.glob(f".{name}.*"):
            shutil.rmtree(rest) if rest.is_dir() else rest.unlink()


@pytest.fixture
def job_dir(tmp_path):
    """A working directory with the workers of these tests."""
    for worker in WORKERS.iterdir():
        shutil.copy(worker, tmp_path)
    return tmp_path
