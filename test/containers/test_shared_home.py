"""--container-name with enroot's data in a home that nodes share: one node makes the container, and no half one is used.

With a stand-in, and with the real enroot if there is one.
"""

import os
import pathlib
import shutil
import tarfile

import pytest

from multinode.job import wait_for

from .conftest import WORKERS, enroot_directory

pytestmark = pytest.mark.multinode

STAND_INS = pathlib.Path(__file__).parent / "stand_ins"
# Unpacking says that it began, and waits until it may go on.
UNSQUASHFS = """\
#!/bin/bash
case " $* " in *" -d "*) ;; *) exec {real} "$@" ;; esac
echo "$HOSTNAME" >> {directory}/unpacked
until [ -e {directory}/go ]; do sleep 0.05; done
{unpack}
"""


class SharedHome:
    """Two nodes with one home, and an image there."""

    name = "torch"

    def __init__(self, cluster, directory, image, programs, real, unpack):
        self.cluster, self.directory, self.image = cluster, directory, image
        (directory / "bin").mkdir()
        (directory / "bin/unsquashfs").write_text(UNSQUASHFS.format(directory=directory, real=real, unpack=unpack))
        (directory / "bin/unsquashfs").chmod(0o755)
        self.env = {"PATH": f"{directory}/bin:{programs}:{os.environ['PATH']}"}
        shutil.copy(WORKERS / "look.py", directory)

    @property
    def data(self):
        return self.cluster.home / ".local/share/enroot"

    def run(self, node):
        return self.cluster.muster(node, ["run", "--container", self.image, "--container-runtime", "enroot",
                                          "--container-name", self.name, "look.py"], cwd=self.directory, env=self.env)  # fmt: skip

    def unpacked(self):
        """The nodes that began to unpack."""
        file = self.directory / "unpacked"
        return file.read_text().split() if file.exists() else []

    def go(self):
        (self.directory / "go").touch()

    def entries(self):
        return {path.name for path in self.data.iterdir() if not path.name.endswith(".lock")}


@pytest.fixture(params=["stand-in", "enroot"])
def shared_home(request, lab, tmp_path):  # noqa: F811
    cluster = lab(2, private=["/var/tmp"])
    if request.param == "enroot":
        image = shutil.copy(request.getfixturevalue("enroot").root, cluster.home / "torch.sqsh")
        real = shutil.which("unsquashfs")
        return SharedHome(cluster, tmp_path, image, enroot_directory(), real, f'exec {real} "$@"')
    image = cluster.home / "torch.sqsh"
    (tmp_path / "of-the-image").touch()
    with tarfile.open(image, "w") as archive:
        archive.add(tmp_path / "of-the-image", "last")
    unpack = 'mkdir "$2" && exec tar -xf "$3" -C "$2"'
    return SharedHome(cluster, tmp_path, image, STAND_INS, "false", unpack)


def test_one_node_makes_it_and_the_other_waits(shared_home):
    jobs = [shared_home.run("n1")]
    wait_for("n1 to unpack", shared_home.unpacked)
    jobs.append(shared_home.run("n2"))
    jobs[1].expect("waiting for n1 to finish making the container torch$")
    shared_home.go()
    for job in jobs:
        assert job.end() == 0, job.said()
    assert shared_home.unpacked() == ["n1"]
    assert shared_home.entries() == {"torch"}


def test_what_a_killed_maker_leaves_is_not_used(shared_home):
    first = shared_home.run("n1")
    wait_for("n1 to unpack", shared_home.unpacked)
    second = shared_home.run("n2")
    second.expect("waiting for n1 to finish making the container torch$")
    first.kill()
    wait_for("n2 to unpack", lambda: shared_home.unpacked() == ["n1", "n2"])
    (shared_home.data / ".torch.making.n1").mkdir(exist_ok=True)  # the stand-in may not have come so far
    shared_home.go()
    assert second.end() == 0, second.said()
    assert shared_home.entries() == {"torch", ".torch.making.n1"}
    again = shared_home.run("n1")
    assert again.end() == 0, again.said()
    assert "making" not in again.err
    assert shared_home.entries() == {"torch"}, "n1 removes what it left"
    assert shared_home.unpacked() == ["n1", "n2"]
