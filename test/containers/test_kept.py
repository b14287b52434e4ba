"""--container-name: made once per node, used again, and never half."""

import os
import re
import shutil
import signal
import stat
import subprocess

import pytest

pytestmark = pytest.mark.multiprocess

NOTE = "open('/kept', 'a').write('x'); print(open('/kept').read())"


# Unpacks the image for each runtime, and is found on PATH.
UNPACKERS = {"charliecloud": "cp", "enroot": "unsquashfs"}


@pytest.fixture(params=list(UNPACKERS))
def keeper(request):
    """A runtime whose containers are directories."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def run(run_muster, keeper, job_dir):
    def run(args, env=None):
        return run_muster(["run", "--container-runtime", keeper.name, *args], env={**keeper.env, **(env or {})},
                          cwd=job_dir)  # fmt: skip

    return run


def instead_of_unpacker(keeper, directory, script):
    """The variables with which `script` unpacks images; $real does what it is instead of."""
    programs = directory / "programs"
    programs.mkdir()
    name = UNPACKERS[keeper.name]
    real = shutil.which(name)
    only = 'case " $* " in *" -s "*) exec $real "$@" ;; esac\n' if name == "unsquashfs" else ""  # a look at the image
    (programs / name).write_text(f"#!/bin/sh\nreal={real}\n{only}{script}")
    (programs / name).chmod(stat.S_IRWXU)
    return {"PATH": f"{programs}:{keeper.env.get('PATH', os.environ['PATH'])}"}


def test_what_is_written_stays(run, keeper, kept_name):
    made = run(["--container", keeper.root, "--container-name", kept_name, "--container-writable", "look.py", NOTE])
    assert made.returncode == 0, made.stderr
    assert f"making the container {kept_name} of {keeper.root}" in made.stderr
    again = run(["--container-name", kept_name, "--container-writable", "look.py", NOTE])
    assert again.returncode == 0, again.stderr
    assert again.stdout.splitlines()[-1] == "xx" and "making the container" not in again.stderr
    assert not os.path.exists(f"{keeper.root}/kept")


def test_two_at_once_make_one(run, keeper, kept_name, tmp_path):
    env = instead_of_unpacker(keeper, tmp_path, f'echo >> {tmp_path}/copies\nexec $real "$@"\n')
    done = run(["--local-nodes", "3", "--container", keeper.root, "--container-name", kept_name, "look.py"], env=env)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "copies").read_text() == "\n"


@pytest.mark.parametrize("nodes", [[], ["--local-nodes", "2"]], ids=["one_node", "two_nodes"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["term", "kill"])
def test_making_one_ends_with_muster(start_muster, run, keeper, kept_name, job_dir, tmp_path, number, nodes):
    # A copy that takes for ever, and a process of its own session besides. That nothing is left is start_muster's to check.
    os.mkfifo(tmp_path / "up")
    script = f"setsid sleep 1000 &\necho > {tmp_path}/up\nsleep 1000\n"
    env = {**keeper.env, **instead_of_unpacker(keeper, tmp_path, script)}
    image = ["--container", keeper.root, "--container-name", kept_name]
    muster = start_muster(["run", "--container-runtime", keeper.name, *nodes, *image, "look.py"], cwd=job_dir,
                          env=env, stderr=subprocess.PIPE, text=True)  # fmt: skip
    (tmp_path / "up").read_text()
    muster.send_signal(number)
    said = muster.communicate(timeout=30)[1]
    assert muster.returncode == (128 + number if number == signal.SIGTERM else -number), said
    if number == signal.SIGTERM and nodes:
        assert "muster: SIGTERM: stopping" in said
    elif number == signal.SIGTERM:
        host = os.uname().nodename
        assert re.search(f"muster: error: {host}: SIGTERM interrupted the set-up, at `\\S*(cp|enroot create) ", said), said
    again = run([*image, "look.py"])  # no half one
    assert again.returncode == 0, again.stderr
    assert (keeper.storage() / kept_name / "etc/image").exists()


def test_half_a_container_is_made_anew(run, keeper, kept_name):
    # As a muster leaves it that was killed while it copied: with directories that cannot be written to.
    storage = keeper.storage()
    storage.mkdir(parents=True, mode=0o700, exist_ok=True)
    if keeper.name != "enroot":
        storage.chmod(0o700)
        storage.parent.chmod(0o700)
    half = storage / f".{kept_name}.making.{os.uname().nodename}"
    (half / "folder").mkdir(parents=True)
    (half / "folder/rubbish").touch()
    (half / "folder").chmod(0o500)
    done = run(["--container", keeper.root, "--container-name", kept_name, "look.py"])
    assert done.returncode == 0, done.stderr
    assert not half.exists() and (storage / kept_name / "etc/image").exists()


def test_one_that_does_not_exist_needs_an_image(run, keeper, kept_name):
    done = run(["--container-name", kept_name, "look.py"])
    assert done.returncode == 2
    assert f"{keeper.name} has no container {kept_name}; name the image to make it of with --container" in done.stderr


def test_podman_keeps_one_too(run_muster, podman, job_dir, kept_name):
    env = {**os.environ, **podman.env}
    # The worker of an ordinary user is not the owner of the image's files, and podman protects / itself.
    archive = subprocess.Popen(["tar", "-C", podman.root, "--mode=a+rwX", "-cf", "-", "."], stdout=subprocess.PIPE)
    image = f"localhost/{kept_name}"
    subprocess.run(["podman", "import", "--quiet", "--change", "ENV OF_THE_IMAGE=yes", "-", image], env=env,
                   stdin=archive.stdout, stdout=subprocess.DEVNULL, check=True)  # fmt: skip
    assert archive.wait() == 0
    options = ["run", "--container-runtime", "podman", "--container-name", kept_name, "--container-writable"]
    try:
        say = NOTE.replace("/kept", "/opt/kept") + "; print(os.environ['OF_THE_IMAGE'])"
        first = run_muster([*options, "--container", image, "look.py", say], env=podman.env, cwd=job_dir)
        assert first.returncode == 0, first.stderr
        again = run_muster([*options, "look.py", say], env=podman.env, cwd=job_dir)
        assert again.returncode == 0, again.stderr
        assert again.stdout.splitlines()[-2:] == ["xx", "yes"]
    finally:
        subprocess.run(["podman", "rm", "--force", kept_name], env=env, stdout=subprocess.DEVNULL)
        subprocess.run(["podman", "rmi", "--force", image], env=env, stdout=subprocess.DEVNULL)
