"""Scripts that muster itself is the interpreter of, that come on stdin, and musters inside of each other."""

import os
import pwd
import re
import resource
import shutil
import stat

import pytest

from harness import shell

pytestmark = pytest.mark.multiprocess

SHOW = "import os, sys\nsys.stdout.write(f\"{os.environ['RANK']} {os.environ['WORLD_SIZE']} {sys.argv[1:]}\\n\")\n"


@pytest.fixture
def few_processes():
    """preexec_fn: a program that starts itself without end stops soon. (root has no limit: another user runs it.)"""
    nobody = pwd.getpwnam("nobody")

    def limit():
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(nobody.pw_gid)
            os.setuid(nobody.pw_uid)
        resource.setrlimit(resource.RLIMIT_NPROC, (200, 200))

    return limit


@pytest.fixture
def place(tmp_path_factory, muster):
    """A directory for everybody, with a copy of the program."""
    place = tmp_path_factory.mktemp("scripts")
    for directory in (place, place.parent):
        directory.chmod(directory.stat().st_mode | stat.S_IRWXO | stat.S_IXGRP)
    for directory in place.parents[1:]:
        if not directory.stat().st_mode & stat.S_IXOTH and directory.stat().st_uid == os.geteuid():
            directory.chmod(directory.stat().st_mode | stat.S_IXOTH)
    shutil.copy(muster, place / "muster")
    return place


def write(path, text):
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("name", ["muster", "muster-0.2"])
@pytest.mark.parametrize(
    "line",
    [
        "/usr/bin/env -S {muster} run --nproc-per-node 2",
        "/usr/bin/env -S {muster} torchrun --nproc-per-node 2",
        "/usr/bin/env -S nice {muster} run --nproc-per-node 2",
        "{muster} run",
        "{muster} torchrun",
    ],
)
def test_a_script_whose_first_line_starts_muster(run_muster, place, few_processes, line, name):
    """Without `env -S` the kernel gives all that follows the interpreter as one word: the verb alone."""
    (place / "muster").rename(place / name)
    script = write(place / "slurm_script", f"#!{line.format(muster=place / name)}\n{SHOW}")
    env = {"TMPDIR": place, **({} if "--nproc" in line else {"PET_NPROC_PER_NODE": "2"})}
    done = run_muster(["a", "b"], program=str(script), preexec_fn=few_processes, env=env)
    assert done.returncode == 0, done.stderr
    lines = sorted(re.sub(r"^\[\d\] ", "", line) for line in done.stdout.splitlines())
    assert lines == ["0 2 ['a', 'b']", "1 2 ['a', 'b']"], done.stdout


def test_a_first_line_with_options_needs_env(run_muster, place):
    script = write(place / "train", f"#!{place / 'muster'} run --nproc-per-node 2\n{SHOW}")
    done = run_muster([], program=str(script))
    assert done.returncode == 2
    assert done.stderr.endswith("as the first line of a script write #!/usr/bin/env -S muster run --nproc-per-node 2\n"), done.stderr


def test_a_program_that_starts_itself_is_stopped(run_muster, place, few_processes):
    script = write(place / "again", f"#!/bin/sh\nexec {place}/muster run --nproc-per-node 2 {place}/again\n")
    done = run_muster([], program=str(script), preexec_fn=few_processes, env={"TMPDIR": place})
    assert done.returncode == 2, done.stderr
    assert "this muster runs inside of 4 others" in done.stderr, done.stderr


# --- `muster run -` -------------------------------------------------------------------------------------------------


def test_the_script_comes_on_stdin(run_muster, tmp_path):
    script = "import sys\nprint(sys.argv, sys.path[0], __name__, sys.stdin.read())\n"
    for options in ([], ["--local-nodes", "2", "--nproc-per-node", "1"]):
        done = run_muster(["run", "--nproc-per-node", "2", "--label", "none", *options, "-", "x"], input=script,
                          env={"TMPDIR": tmp_path})
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines() == ["['-', 'x']  __main__ "] * 2, done.stderr
        assert list(tmp_path.iterdir()) == [], "nothing of it stays"


def test_an_empty_script_on_stdin_is_refused(run_muster):
    done = run_muster(["run", "-"], input="")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "muster: error: '-': the script is empty; write muster run - <train.py, or name the script\n"


def test_a_script_on_stdin_that_does_not_fit(run_muster, tmp_path):
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))  # noqa: E731
    done = run_muster(["run", "-"], input="print(1)\n", preexec_fn=limit, env={"TMPDIR": tmp_path})
    assert done.returncode == 125, done.stderr
    assert f"cannot keep the script in {tmp_path}/" in done.stderr and "; set TMPDIR to " in done.stderr, done.stderr


def test_modules_and_child_processes_of_a_script_on_stdin(run_muster, tmp_path):
    (tmp_path / "beside.py").write_text("VALUE = 7\n")
    script = (
        "import multiprocessing, beside\n"
        "def double(x): return 2 * x\n"
        "if __name__ == '__main__':\n"
        "    print(multiprocessing.get_context('spawn').Pool(1).map(double, [beside.VALUE]))\n"
    )
    done = run_muster(["run", "-"], input=script, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "[14]\n"), done.stderr


def test_a_traceback_of_a_script_on_stdin_has_its_lines(run_muster):
    done = run_muster(["run", "-"], input="def fail():\n    raise ValueError(4)\nfail()\n")
    assert done.returncode == 1
    shown = done.stderr.partition("muster: ")[0]
    assert "/stdin\", line 3, in <module>\n    fail()\n" in shown and "_muster_script" not in done.stderr, done.stderr
    assert "<string>" not in shown, "nothing of how it was started"


# --- --run-path -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "last, code, shown",
    [
        ("os.kill(os.getpid(), signal.SIGINT)\ntime.sleep(600)", 130, "KeyboardInterrupt\n"),
        ("raise type('Odd', (BaseException,), {})('no')", 1, "Odd: no\n"),
        ("raise ValueError('no')", 1, "ValueError: no\n"),
        ("sys.exit('no')", 1, "no\n"),
        ("sys.exit(7)", 7, ""),
    ],
)
def test_run_path_leaves_out_the_clean_up_of_the_interpreter(run_muster, tmp_path, last, code, shown):
    script = tmp_path / "train.py"
    script.write_text(
        "import atexit, os, signal, sys, time\n"
        "class Kept:\n"
        "    def __del__(self, write=os.write): write(1, b'cleaned up\\n')\n"
        "sys.kept = Kept()\n"
        "atexit.register(print, 'at exit')\n"
        f"{last}\n"
    )
    done = run_muster(["run", "--run-path", script])
    assert (done.returncode, done.stdout) == (code, "at exit\n"), done.stderr
    assert shown in done.stderr.partition("muster: ")[0], done.stderr
    assert ("SIGINT" in done.stderr) == (code == 130), done.stderr


# --- TMPDIR -----------------------------------------------------------------------------------------------------------


def test_a_temporary_directory_that_is_not_there(run_muster):
    for options in ([], ["--local-nodes", "1"]):
        done = run_muster(["run", *options, *shell("dirname $TORCHELASTIC_ERROR_FILE")], env={"TMPDIR": "/does/not/exist"})
        assert done.returncode == 0, done.stderr
        assert "/tmp/muster_" in done.stdout
        assert "TMPDIR is /does/not/exist, which is not a directory: temporary files go to /tmp" in done.stderr
