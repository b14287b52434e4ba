"""The seed with a container: the launcher inside it, as it was written, and outside."""

import shutil
import subprocess

import pytest

from containers import rootfs

from . import surroundings
from .seed import HERE, Seed
from .workers import assert_job

HELLO = HERE / "programs/hello.py"
IMAGE = "nvidia+pytorch+24.06-py3.tar"


@pytest.fixture(scope="session")
def image(seed_cluster, tmp_path_factory):
    """In the home directory, as the seed's ~/*.sqsh is."""
    root = rootfs.make(tmp_path_factory.mktemp("image") / "root")
    (root / "workspace/mnt").mkdir(parents=True)
    shutil.copy(seed_cluster.muster_program, root / "usr/bin/muster")
    subprocess.run(["tar", "-cf", seed_cluster.home / IMAGE, "-C", root, "."], check=True)


def submit(slurm, scripts, name):
    """From the home directory, which the container mounts."""
    for old in slurm.cluster.home.glob("*.out"):
        old.unlink()
    surroundings.put(slurm.cluster.home, {**scripts, "train.py": HELLO.read_text()})
    slurm.directory = slurm.cluster.home
    return slurm.sbatch(name, env={"USER": "root"})


def test_container_word_replaced(slurm, image):
    """muster runs in the container: it needs glibc alone, and finds its job through the environment."""
    seed = Seed("3-container")
    print(seed.diff())
    text = submit(slurm, seed.replaced(), "run_script.sh")
    workers = assert_job(text, ["n1", "n2"], 4)
    assert workers[0].args == ["-np", "4", "-n", "2"]
    assert "--standalone is ignored" in text, "what was forgiven is said"


def test_container_after(slurm, image):
    """The container is made once a node, and used again: then its image may be gone."""
    scripts, home = Seed("3-container").scripts("after"), slurm.cluster.home
    workers = assert_job(submit(slurm, scripts, "job.sh"), ["n1", "n2"], 4)
    assert workers[0].args == ["-np", "4", "-n", "2"]
    (home / IMAGE).rename(home / "elsewhere")
    try:
        assert_job(submit(slurm, scripts, "job.sh"), ["n1", "n2"], 4)
    finally:
        (home / "elsewhere").rename(home / IMAGE)
