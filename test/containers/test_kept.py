"""--container-name: made once a node, used again, and never half."""

import os
import pathlib
import signal
import stat
import subprocess

import pytest

pytestmark = pytest.mark.multiprocess

NOTE = "open('/kept', 'a').write('x'); print(open('/kept').read())"


@pytest.fixture
def run(run_muster, charliecloud, job_dir):
    def run(args, env=None):
        return run_muster(["run", "--container-runtime", "charliecloud", *args], env=env, cwd=job_dir)

    return run


def test_what_is_written_stays(run, charliecloud, kept_name):
    made = run(["--container", charliecloud.root, "--container-name", kept_name, "--container-writable", "look.py", NOTE])
    assert made.returncode == 0, made.stderr
    assert f"making the container {kept_name} of {charliecloud.root}" in made.stderr
    again = run(["--container-name", kept_name, "--container-writable", "look.py", NOTE])
    assert again.returncode == 0, again.stderr
    assert again.stdout.splitlines()[-1] == "xx" and "making the container" not in again.stderr
    assert not os.path.exists(f"{charliecloud.root}/kept")


def test_two_at_once_make_one(run, charliecloud, kept_name, tmp_path):
    # Each copy of the image is counted.
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "cp").write_text(f'#!/bin/sh\necho >> {tmp_path}/copies\nexec /bin/cp "$@"\n')
    (programs / "cp").chmod(stat.S_IRWXU)
    done = run(["--local-nodes", "3", "--container", charliecloud.root, "--container-name", kept_name, "look.py"],
               env={"PATH": f"{programs}:{os.environ['PATH']}"})  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "copies").read_text() == "\n"


@pytest.mark.parametrize("nodes", [[], ["--local-nodes", "2"]], ids=["one_node", "two_nodes"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["term", "kill"])
def test_making_one_ends_with_muster(start_muster, run, charliecloud, kept_name, job_dir, tmp_path, number, nodes):
    # A copy that takes for ever, and a process of its own session besides. That nothing is left is start_muster's to check.
    programs = tmp_path / "programs"
    programs.mkdir()
    os.mkfifo(tmp_path / "up")
    (programs / "cp").write_text(f"#!/bin/sh\nsetsid sleep 1000 &\necho > {tmp_path}/up\nsleep 1000\n")
    (programs / "cp").chmod(stat.S_IRWXU)
    image = ["--container", charliecloud.root, "--container-name", kept_name]
    muster = start_muster(["run", "--container-runtime", "charliecloud", *nodes, *image, "look.py"], cwd=job_dir,
                          env={"PATH": f"{programs}:{os.environ['PATH']}"}, stderr=subprocess.PIPE, text=True)  # fmt: skip
    (tmp_path / "up").read_text()
    muster.send_signal(number)
    said = muster.communicate(timeout=30)[1]
    assert muster.returncode == (128 + number if number == signal.SIGTERM else -number), said
    if number == signal.SIGTERM and nodes:
        assert "muster: SIGTERM: stopping" in said
    elif number == signal.SIGTERM:
        host = os.uname().nodename
        assert f"muster: error: {host}: SIGTERM interrupted the set-up, at `cp " in said
    again = run([*image, "look.py"])  # no half one
    assert again.returncode == 0, again.stderr
    assert (charliecloud.kept(kept_name) / "etc/image").exists()


def test_half_a_container_is_made_anew(run, charliecloud, kept_name):
    # As a muster leaves it that was killed while it copied.
    half = charliecloud.kept(kept_name)
    half.mkdir(parents=True, mode=0o700)
    pathlib.Path(f"/var/tmp/muster-{os.geteuid()}").chmod(0o700)
    half.parent.chmod(0o700)
    (half / "rubbish").touch()
    (half.parent / f".{kept_name}.making").touch()
    done = run(["--container", charliecloud.root, "--container-name", kept_name, "look.py"])
    assert done.returncode == 0, done.stderr
    assert not (half / "rubbish").exists() and (half / "etc/image").exists()


def test_one_that_does_not_exist_needs_an_image(run, kept_name):
    done = run(["--container-name", kept_name, "look.py"])
    assert done.returncode == 2
    assert f"charliecloud has no container {kept_name}; name the image to make it of with --container" in done.stderr


def test_podman_keeps_one_too(run_muster, podman, job_dir, kept_name):
    env = {**os.environ, **podman.env}
    archive = subprocess.Popen(["tar", "-C", podman.root, "-cf", "-", "."], stdout=subprocess.PIPE)
    image = f"localhost/{kept_name}"
    subprocess.run(["podman", "import", "--quiet", "--change", "ENV OF_THE_IMAGE=yes", "-", image], env=env,
                   stdin=archive.stdout, stdout=subprocess.DEVNULL, check=True)  # fmt: skip
    assert archive.wait() == 0
    options = ["run", "--container-runtime", "podman", "--container-name", kept_name, "--container-writable"]
    try:
        say = NOTE + "; print(os.environ['OF_THE_IMAGE'])"
        first = run_muster([*options, "--container", image, "look.py", say], env=podman.env, cwd=job_dir)
        assert first.returncode == 0, first.stderr
        again = run_muster([*options, "look.py", say], env=podman.env, cwd=job_dir)
        assert again.returncode == 0, again.stderr
        assert again.stdout.splitlines()[-2:] == ["xx", "yes"]
    finally:
        subprocess.run(["podman", "rm", "--force", kept_name], env=env, stdout=subprocess.DEVNULL)
        subprocess.run(["podman", "rmi", "--force", image], env=env, stdout=subprocess.DEVNULL)
