"""The seed with a container: the launcher inside it, as it was written, and outside."""

import pathlib
import re
import shutil
import subprocess
import uuid

import pytest

from containers.conftest import charliecloud, enroot, enroot_directory, image, podman, squash  # noqa: F401  (fixtures)

from . import surroundings
from .seed import HERE, Seed
from .workers import assert_job

HELLO = HERE / "programs/hello.py"
IMAGE = "nvidia+pytorch+24.06-py3.tar"
SQUASHED = "nvidia+pytorch+24.06-py3.sqsh"
INSIDE = ("NNODES", "NPROC_PER_NODE", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT")  # what torchrun.sh reads


@pytest.fixture(scope="package")
def archive(seed_cluster, image):  # noqa: F811
    """In the home directory, as the seed's ~/*.sqsh is."""
    root = pathlib.Path(image)
    (root / "workspace/mnt").mkdir(parents=True)
    shutil.copy(seed_cluster.muster_program, root / "usr/bin/muster")
    subprocess.run(["tar", "-cf", seed_cluster.home / IMAGE, "-C", root, "."], check=True)


@pytest.fixture
def node_podman(podman, slurm):  # noqa: F811
    """Variables with which podman keeps everything in a directory of the node's own."""
    env = {}
    for name, file in podman.env.items():
        file = pathlib.Path(file)
        env[name] = str(slurm.directory / file.name)
        pathlib.Path(env[name]).write_text(file.read_text().replace(str(file.parent), "/var/tmp/podman"))
    yield env
    for name in slurm.cluster.names:
        (slurm.cluster.root(name) / "dev/shm/libpod_lock").unlink(missing_ok=True)  # podman's own


def submit(slurm, scripts, name, env=None):
    """From the home directory, which the container mounts."""
    for old in slurm.cluster.home.glob("*.out"):
        old.unlink()
    surroundings.put(slurm.cluster.home, {**scripts, "train.py": HELLO.read_text()})
    slurm.directory = slurm.cluster.home
    return slurm.sbatch(name, env={"USER": "root", **(env or {})})


def test_container_word_replaced(slurm, archive, charliecloud):  # noqa: F811
    """muster runs in the container: it needs glibc alone, and finds its job through the environment."""
    seed = Seed("3-container")
    print(seed.diff())
    text = submit(slurm, seed.replaced(), "run_script.sh")
    workers = assert_job(text, ["n1", "n2"], 4)
    assert workers[0].args == ["-np", "4", "-n", "2"]
    assert "--standalone is ignored" in text, "what was forgiven is said"


def test_container_after(slurm, archive, charliecloud):  # noqa: F811
    """The container is made once a node, and used again: then its image may be gone."""
    scripts, home = Seed("3-container").scripts("after"), slurm.cluster.home
    workers = assert_job(submit(slurm, scripts, "job.sh"), ["n1", "n2"], 4)
    assert workers[0].args == ["-np", "4", "-n", "2"]
    (home / IMAGE).rename(home / "elsewhere")
    try:
        assert_job(submit(slurm, scripts, "job.sh"), ["n1", "n2"], 4)
    finally:
        (home / "elsewhere").rename(home / IMAGE)


def test_container_after_with_podman(slurm, archive, node_podman):
    """The same line with another runtime, which takes a root file system as it is."""
    root = slurm.directory / "root"
    root.mkdir()
    subprocess.run(["tar", "-xf", slurm.cluster.home / IMAGE, "-C", root], check=True)
    script = Seed("3-container").scripts("after")["job.sh"]
    named = r"--container \S+ --container-runtime \S+ --container-name \S+"
    other, changes = re.subn(named, f"--container {root} --container-runtime podman", script)
    assert changes == 1
    assert_job(submit(slurm, {"job.sh": other}, "job.sh", node_podman), ["n1", "n2"], 4)


@pytest.fixture
def node_enroot(enroot, slurm, archive):  # noqa: F811
    """Variables with which enroot keeps containers in a directory of the node's own, as the seed's site does; an image."""
    root = slurm.directory / "root"
    root.mkdir()
    subprocess.run(["tar", "-xf", slurm.cluster.home / IMAGE, "-C", root], check=True)
    shutil.copy(squash(root), slurm.cluster.home / SQUASHED)
    path = f"{slurm.variables()['PATH']}:{enroot_directory()}"
    yield {"PATH": path, "ENROOT_DATA_PATH": "/var/tmp/enroot-data", "ENROOT_RUNTIME_PATH": "/var/tmp/enroot"}
    (slurm.cluster.home / SQUASHED).unlink()


def with_enroot(scripts, *more):
    """The lab's scripts with the seed's own lines for enroot. The variables that torchrun.sh reads are let in, and more."""
    variables = " ".join(f"--env {name}" for name in (*INSIDE, *more))
    start = f"enroot start --root --rw --mount $HOME:/workspace/mnt {variables} $CONTAINER_NAME"
    lines = {
        r"mkdir -p \$CONTAINER_CACHE_DIR && tar .*": "enroot create -n $CONTAINER_NAME $CONTAINER_IMAGE",
        r"ch-run (.*\\\n)+\s*bash -c \"": f'{start} bash -c "cd /workspace/mnt && ',
    }
    script = scripts["run_script.sh"]
    for old, new in lines.items():
        script, changes = re.subn(old, lambda _, new=new: new, script)
        assert changes == 1, old
    env = scripts["env.sh"].replace(IMAGE, SQUASHED).replace("/run/enroot/$MY_UID/data", "$ENROOT_DATA_PATH")
    return {**scripts, "run_script.sh": script, "env.sh": env}


def test_container_after_with_enroot(slurm, node_enroot):
    script = Seed("3-container").scripts("after")["job.sh"].replace(IMAGE, SQUASHED).replace("charliecloud", "enroot")
    for _ in range(2):
        assert_job(submit(slurm, {"job.sh": script}, "job.sh", node_enroot), ["n1", "n2"], 4)


@pytest.mark.parametrize("verb, token", [("run", {"MUSTER_TOKEN": uuid.uuid4().hex}), ("torchrun", {})])
def test_container_word_replaced_with_enroot(slurm, node_enroot, verb, token):
    """enroot hands on no variable of Slurm, and the home inside is the container's own: so is the key there."""
    scripts = with_enroot(Seed("3-container").replaced(), *token)
    scripts["torchrun.sh"] = scripts["torchrun.sh"].replace("muster run", f"muster {verb}")
    text = submit(slurm, scripts, "run_script.sh", {**node_enroot, **token})
    assert_job(text, ["n1", "n2"], 4)


def test_container_word_replaced_with_enroot_without_a_token(slurm, node_enroot):
    """The second node ends at once, and says what to add. srun ends the first, which would wait for another one."""
    scripts = with_enroot(Seed("3-container").replaced())
    scripts["run_script.sh"] = scripts["run_script.sh"].replace("exec srun ", "exec srun --kill-on-bad-exit=1 ")
    with pytest.raises(AssertionError, match="its token differs.*as with enroot start --env MUSTER_TOKEN"):
        submit(slurm, scripts, "run_script.sh", node_enroot)
