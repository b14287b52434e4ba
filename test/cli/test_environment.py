"""What workers find: --modules, --conda, --venv, --prologue, --env, --env-file; --env-diff and --record."""

import json
import os
import pathlib
import signal
import stat
import subprocess
import time

import pytest

from harness import ROOT, shell

pytestmark = pytest.mark.multiprocess

CONDA = pathlib.Path(__file__).with_name("conda_stand_in.sh")
LMOD = pathlib.Path(os.environ.get("MUSTER_LMOD") or ROOT / "build/lmod") / "usr/share/lmod/lmod"
# Modules of a login shell around the tests would be those of the workers.
BARE = {name: None for name in os.environ if name.startswith(("LMOD", "MODULE", "BASH_", "CONDA", "_ModuleTable"))}


def say(*names):
    """A worker that prints these variables, one a line."""
    return shell("; ".join(f'echo "{name}=${{{name}-unset}}"' for name in names))


@pytest.fixture
def run(run_muster, tmp_path):
    def run(*args, env=None, **more):
        more.setdefault("cwd", tmp_path)
        return run_muster(["run", *args], env={**BARE, **(env or {})}, **more)

    return run


def script(folder, name, text):
    path = folder / name
    path.write_text(text)
    return path


# --- Variables ------------------------------------------------------------------------------------------------------


def test_variables_from_options_and_files(run, tmp_path):
    script(tmp_path, "one.env", "# mine\nexport A=\"from file\"\nB='x'  # why\nHANDED\n")
    done = run("--env-file", "one.env", "--env", "B=2=3", "--env", "C", *say("A", "B", "C", "HANDED"),
               env={"C": "c here", "HANDED": "on", "A": "old"})  # fmt: skip
    assert done.stdout.splitlines() == ["A=from file", "B=2=3", "C=c here", "HANDED=on"], done.stderr


def test_a_file_travels_with_the_job(run, tmp_path):
    script(tmp_path, "one.env", "A=from file\n")
    done = run("--local-nodes", "2", "--label", "none", "--env-file", "one.env", "--env", "TMPDIR", *say("A", "TMPDIR"),
               env={"TMPDIR": str(tmp_path)})  # fmt: skip
    assert sorted(done.stdout.splitlines()) == ["A=from file"] * 2 + [f"TMPDIR={tmp_path}"] * 2, done.stderr


def test_a_wrong_line_of_a_file_is_named(run, tmp_path):
    script(tmp_path, "bad.env", "A=1\n\nB='open\n")
    done = run("--env-file", "bad.env", "true")
    assert done.returncode == 2
    assert "bad.env, line 3: the ' that opens here is never closed" in done.stderr


def test_options_beat_files_beat_prologues_beat_the_launchers(run, tmp_path):
    script(tmp_path, "one.env", "A=file\nB=file\n")
    done = run("--env", "A=option", "--env-file", "one.env", "--prologue", "export A=p B=p C=p D=p$D",
               *say("A", "B", "C", "D", "E"), env=dict(A="l", B="l", C="l", D="l", E="l"))  # fmt: skip
    assert done.stdout.split() == ["A=option", "B=file", "C=p", "D=pl", "E=l"], done.stderr


# --- Prologues ------------------------------------------------------------------------------------------------------


def test_a_prologue_runs_once_a_node_whatever_happens_later(run, tmp_path):
    script(tmp_path, "setup.sh", "echo once >> count\nexport A=$(wc -l < count)\n")
    done = run("--nproc-per-node", "3", "--max-restarts", "1", "--prologue", "setup.sh", "--label", "none",
               *shell("echo A=$A; exit $((1 - TORCHELASTIC_RESTART_COUNT))"))  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "count").read_text() == "once\n"
    # Workers of the first round may be stopped before they say it.
    assert set(done.stdout.split()) == {"A=1"}


def test_nothing_of_it_is_seen_when_all_is_well_unless_asked_for(run):
    quiet = run("--prologue", "echo to stdout; echo to stderr >&2", "true")
    assert (quiet.stdout, quiet.stderr) == ("", "")
    loud = run("--verbose", "--prologue", "echo to stdout; echo to stderr >&2", "true")
    assert loud.stdout == ""
    assert "to stdout\n" in loud.stderr and "to stderr\n" in loud.stderr


def test_a_failing_line_starts_nothing_and_is_shown(run, tmp_path):
    script(tmp_path, "setup.sh", "export A=1\n# more\nls /no/such/place\nexport B=1\n")
    done = run("--prologue", "setup.sh", "touch", "started")
    assert done.returncode == 2
    assert not (tmp_path / "started").exists()
    host = os.uname().nodename
    *output, error = done.stderr.splitlines()
    assert output == [f"[{host}] ls: cannot access '/no/such/place': No such file or directory"]
    assert error == f"muster: error: {host}: line 3 of ./setup.sh, `ls /no/such/place`, failed with exit code 2"


def test_a_failing_line_on_one_of_several_nodes_ends_the_job(run, tmp_path):
    # Both are at it when one of them fails.
    script(tmp_path, "setup.sh", "printf x >> count\nwhile ! grep -q xx count; do sleep 0.01; done\nmkdir lock || false\n")
    done = run("--local-nodes", "2", "--report", "report", "--prologue", "./setup.sh", "touch", "started")
    assert done.returncode == 2, done.stderr
    assert not (tmp_path / "started").exists()
    assert "] mkdir: cannot create directory" in done.stderr
    assert json.loads((tmp_path / "report").read_text())["kind"] == "set-up-failed"
    last = done.stderr[done.stderr.index("\nmuster: ") :]
    assert "line 3 of ./setup.sh, `mkdir lock || false`, failed with exit code 1" in last
    assert "node0: line 3" in last or "node1: line 3" in last


@pytest.mark.parametrize(
    "line, said",
    [
        ("exit 3", "--prologue `exit 3` ends the set-up with exit code 3"),
        ("exec true", "`exec true` ended the shell (exit code 0) before its environment was known"),
        ("kill -KILL $$", "`kill -KILL $$` was ended by SIGKILL"),
        ("set -e\nfalse", "line 2 of --prologue, `false`, failed with exit code 1"),
        ("no-such-command", "--prologue `no-such-command` failed with exit code 127; that node has neither"),
        ("missing.sh", "--prologue `missing.sh` failed with exit code 127; that node has neither"),
    ],
)
def test_ways_in_which_a_prologue_ends_the_job(run, line, said):
    done = run("--prologue", line, "echo", "started")
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stdout == ""


def test_workers_start_where_muster_was_started(run, tmp_path):
    done = run("--prologue", "cd /", *shell("pwd; echo $PWD; echo ${OLDPWD-none} $SHLVL"), env={"SHLVL": "7", "OLDPWD": None})
    # sh itself counts.
    assert done.stdout.split()[:3] == [str(tmp_path), str(tmp_path), "none"], done.stderr


def test_exported_functions_reach_workers(run):
    done = run("--prologue", "greet() { echo hello $1; }; export -f greet", "--no-python", "bash", "-c", "greet you")
    assert done.stdout == "hello you\n", done.stderr


def test_large_environments_and_floods(run):
    done = run("--prologue", "for i in {1..15}; do export V$i=$(head -c 100000 /dev/zero | tr '\\0' v); done; seq 2000000",
               *shell("echo ${#V1} ${#V15}"))  # fmt: skip
    assert done.stdout == "100000 100000\n", done.stderr[-2000:]


def test_the_program_and_python_are_found_in_what_it_leaves(run, tmp_path):
    (tmp_path / "bin").mkdir()
    for name in ("python", "mine"):
        path = script(tmp_path / "bin", name, f"#!/bin/sh\necho {name} \"$@\"\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    script(tmp_path, "train.py", "")
    assert run("--prologue", "PATH=$PWD/bin:$PATH", "train.py").stdout == "python -u train.py\n"
    assert run("--env", f"PATH={tmp_path}/bin", "mine", "x").stdout == "mine x\n"


def test_what_it_prints_and_says_reaches_no_terminal_unescaped(run):
    done = run("--local-nodes", "2", "--prologue", "printf '\\033[2Jcleared\\007\\n'; false # \x1b[2J", "true")
    assert done.returncode == 2
    assert "cleared" in done.stderr and "\\x1b[2J" in done.stderr
    assert "\x1b" not in done.stderr and "\x07" not in done.stderr


def test_what_takes_long_is_said(run):
    done = run("--prologue", "sleep 1.5", "true")
    assert done.stderr == f"muster: setting up {os.uname().nodename}: sleep 1.5\n"
    done = run("--local-nodes", "2", "--prologue", "sleep 1.5", "true")
    assert "waiting for node0 (setting up: sleep 1.5), node1 (setting up: sleep 1.5)" in done.stderr


def test_time_is_limited(run):
    done = run("--join-timeout", "1", "--prologue", "sleep 1000 & setsid sleep 1000", "echo", "started")
    assert (done.returncode, done.stdout) == (125, "")
    assert "`sleep 1000 & setsid sleep 1000` was not done after 1 s; raise --join-timeout" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize("nodes", [[], ["--local-nodes", "2"]])
def test_nothing_is_left_of_a_set_up_when_muster_is_ended(start_muster, tmp_path, number, nodes):
    # That nothing carries the test's marker later is checked by start_muster's fixture.
    os.mkfifo(tmp_path / "up")
    muster = start_muster(
        ["run", *nodes, "--prologue", "setsid sleep 1000 & echo > up; sleep 1000", "true"],
        cwd=tmp_path, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    (tmp_path / "up").read_text()
    muster.send_signal(number)
    assert muster.wait(timeout=30) == (130 if number == signal.SIGINT else -signal.SIGKILL)


@pytest.mark.parametrize("verb", ["run", "torchrun"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_set_up_says_where_it_was(start_muster, tmp_path, number, verb):
    os.mkfifo(tmp_path / "up")
    muster = start_muster([verb, "--prologue", "echo > up; sleep 1000", "true"], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    (tmp_path / "up").read_text()
    muster.send_signal(number)
    said = muster.communicate(timeout=30)[1]
    assert muster.returncode == 128 + number
    (line,) = [line for line in said.splitlines() if "setting up" not in line]  # a busy machine takes a second
    where = f"{os.uname().nodename}: {number.name} interrupted the set-up, at `echo > up; sleep 1000`"
    assert line == f"{'muster' if verb == 'run' else 'torchrun'}: error: {where}"


def test_an_interrupted_set_up_of_nodes_says_where_they_were(start_muster, tmp_path):
    muster = start_muster(
        ["run", "--local-nodes", "2", "--prologue", "sleep 1000", "true"],
        cwd=tmp_path, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    said = []
    while not said or "node0 (setting up: sleep 1000), node1 (setting up: sleep 1000)" not in said[-1]:
        said.append(muster.stderr.readline())
        assert said[-1], said
    muster.send_signal(signal.SIGINT)
    line = muster.communicate(timeout=30)[1].splitlines()[0]
    assert muster.returncode == 130
    assert line == (
        "muster: SIGINT: stopping, 0 of 2 nodes · waiting for node0 (setting up: sleep 1000), node1 (setting up: sleep 1000)"
    )


def test_what_it_leaves_in_the_background_lives_as_long_as_the_job(run, tmp_path):
    done = run("--prologue", "sleep 1000 & export DAEMON=$!", *shell("kill -0 $DAEMON && echo there"))
    assert done.stdout == "there\n", done.stderr  # and is gone now: the fixture looks


def test_torchrun_has_them_too(run_muster, tmp_path):
    script(tmp_path, "setup.sh", "export A=1\nfalse\n")
    done = run_muster(["torchrun", "--prologue", "setup.sh", *shell("echo $A")], cwd=tmp_path)
    assert done.returncode == 1
    assert "line 2 of ./setup.sh, `false`, failed with exit code 1" in done.stderr


# --- venv -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def venv(tmp_path_factory):
    folder = tmp_path_factory.mktemp("venv") / "an environment"
    subprocess.run(["/usr/bin/python3", "-m", "venv", "--without-pip", folder], check=True)
    return folder


def test_a_virtual_environment(run, tmp_path, venv):
    script(tmp_path, "where.py", "import os, sys; print(sys.prefix, os.environ['VIRTUAL_ENV'], os.environ.get('PS1'))")
    done = run("--venv", venv, "where.py")
    assert done.stdout == f"{venv} {venv} None\n", done.stderr
    done = run("--local-nodes", "2", "--label", "none", "--venv", venv, "where.py")
    assert done.stdout == f"{venv} {venv} None\n" * 2, done.stderr


def test_a_virtual_environment_that_is_not_there(run, tmp_path):
    done = run("--venv", "none", "true")
    assert done.returncode == 2
    assert "there is no none/bin/activate" in done.stderr
    assert "`source none/bin/activate` failed with exit code 1; `python -m venv DIR` makes one" in done.stderr


# --- Modules --------------------------------------------------------------------------------------------------------


@pytest.fixture(params=["environment-modules", "lmod"])
def modules(request, tmp_path):
    """The environment of someone who has modules: `thing`, `other`, and `broken`."""
    if request.param == "lmod" and not (LMOD / "init/bash").exists():
        pytest.skip("no lmod: make setup could not fetch it")
    home = LMOD if request.param == "lmod" else pathlib.Path("/usr/share/modules")
    folder = tmp_path / "modulefiles"
    for name in ("thing", "other"):
        (folder / name).mkdir(parents=True)
        script(folder / name, "1.0", f"#%Module1.0\nsetenv {name.upper()} loaded\nprepend-path PATH /opt/{name}\n")
    return {"MODULESHOME": str(home), "MODULEPATH": str(folder), "LMOD_ALLOW_ROOT_USE": "yes"}


@pytest.mark.parametrize("spelled", [["--modules", "thing,other/1.0"], ["--module", "thing,other"], ["--module=thing,other"], ["--module=thing", "--module=other"]])
def test_modules(run, modules, spelled):
    done = run(*spelled, *say("THING", "OTHER", "LOADEDMODULES", "PATH"), env=modules)
    thing, other, loaded, path = done.stdout.splitlines()
    assert (thing, other, loaded) == ("THING=loaded", "OTHER=loaded", "LOADEDMODULES=thing/1.0:other/1.0"), done.stderr
    assert path.startswith("PATH=/opt/other:/opt/thing:")


def test_prologues_have_the_module_command_too(run, modules):
    done = run("--prologue", "module load thing\nexport SEEN=$THING", *say("SEEN"), env=modules)
    assert done.stdout == "SEEN=loaded\n", done.stderr


def test_a_module_that_does_not_exist(run, modules):
    done = run("--modules", "thing,nope", "echo", "started", env=modules)
    assert (done.returncode, done.stdout) == (2, "")
    assert "nope" in done.stderr.splitlines()[0] + done.stderr.splitlines()[1]  # in its own words
    assert done.stderr.endswith(
        "`module load nope` failed with exit code 1; `module avail` on that node lists those that exist\n"
    )


def test_modules_of_the_machine_are_found_without_any_variable(run, tmp_path):
    done = run("--modules", "null", *say("LOADEDMODULES"))
    assert done.stdout == "LOADEDMODULES=null\n", done.stderr


# --- conda ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def conda(tmp_path):
    """The environment of someone who has conda with one environment, `trains`."""
    prefix = tmp_path / "envs/trains"
    for folder in ("bin", "conda-meta", "etc/conda/activate.d"):
        (prefix / folder).mkdir(parents=True)
    script(prefix / "etc/conda/activate.d", "libs.sh", "export FROM_ACTIVATE_D=$CONDA_PREFIX\n")
    (prefix / "bin/python").symlink_to("/usr/bin/python3")
    return {"CONDA_EXE": str(CONDA), "CONDA_STAND_IN_ENVS": str(tmp_path / "envs"), "CONDA_SHLVL": "0"}


def test_conda_by_name_and_by_prefix(run, tmp_path, conda):
    prefix = tmp_path / "envs/trains"
    names = ("CONDA_PREFIX", "CONDA_DEFAULT_ENV", "CONDA_SHLVL", "FROM_ACTIVATE_D", "PATH")
    for given in ("trains", str(prefix), "envs/trains"):
        done = run("--conda", given, *say(*names), env=conda)
        values = dict(line.split("=", 1) for line in done.stdout.splitlines())
        assert values.pop("PATH").split(":")[0].endswith("envs/trains/bin"), done.stderr
        assert values["CONDA_PREFIX"] in (str(prefix), "envs/trains")
        assert values == {**values, "CONDA_DEFAULT_ENV": given, "CONDA_SHLVL": "1", "FROM_ACTIVATE_D": values["CONDA_PREFIX"]}


def test_conda_on_path_and_in_prologues(run, tmp_path, conda):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/conda").symlink_to(CONDA)
    env = {**conda, "CONDA_EXE": None, "CONDA_SHLVL": None}
    done = run("--prologue", "PATH=$PWD/bin:$PATH; conda activate trains", *say("CONDA_DEFAULT_ENV"), env=env)
    assert done.stdout == "CONDA_DEFAULT_ENV=trains\n", done.stderr


@pytest.mark.parametrize("where", ["base", "history", "nowhere"])
def test_the_conda_that_made_a_prefix(run, tmp_path, conda, where):
    """Neither CONDA_EXE nor PATH leads to a conda: the prefix does, and without any it is activated all the same."""
    env = {**conda, "CONDA_EXE": None, "CONDA_SHLVL": None, "HOME": "/nonexistent"}
    prefix, maker = tmp_path / "envs/trains", ""
    if where != "nowhere":
        maker = tmp_path / "bin/conda" if where == "base" else tmp_path / "elsewhere/bin/conda"
        maker.parent.mkdir(parents=True)
        maker.symlink_to(CONDA)
    if where == "history":
        (prefix / "conda-meta/history").write_text(f"==> 2024-01-01 00:00:00 <==\n# cmd: {maker} create -p {prefix} python\n")
    done = run("--conda", prefix, *say("CONDA_PREFIX", "FROM_ACTIVATE_D", "PATH", "CONDA_EXE"), env=env)
    values = dict(line.split("=", 1) for line in done.stdout.splitlines())
    assert (values["CONDA_PREFIX"], values["FROM_ACTIVATE_D"]) == (str(prefix), str(prefix)), done.stderr
    assert values["PATH"].startswith(f"{prefix}/bin:")
    assert not maker or os.path.samefile(values["CONDA_EXE"], maker)


def test_a_conda_environment_that_does_not_exist(run, conda):
    done = run("--conda", "nope", "echo", "started", env=conda)
    assert (done.returncode, done.stdout) == (2, "")
    assert "EnvironmentNameNotFound: Could not find conda environment: nope" in done.stderr
    assert "`conda activate nope` failed with exit code 1; `conda env list` on that node lists" in done.stderr


def test_no_conda_at_all(run):
    done = run("--conda", "x", "true", env={"HOME": "/nonexistent"})
    assert done.returncode == 2
    assert "`conda activate x` failed with exit code 127; put conda on PATH, or set CONDA_EXE" in done.stderr


# --- --env-diff -----------------------------------------------------------------------------------------------------


def test_nodes_that_do_not_differ(run):
    done = run("--local-nodes", "2", "--env-diff", "--env", "A=1")
    assert (done.returncode, done.stdout) == (0, "The 2 nodes do not differ.\n"), done.stderr


def test_where_nodes_differ(run, tmp_path):
    # Whoever comes first makes the folder.
    mine = "mkdir first 2>/dev/null && export A=first HF_TOKEN=hush || export B=second"
    done = run("--local-nodes", "2", "--env-diff", "--prologue", mine)
    assert done.returncode == 1
    assert "hush" not in done.stdout
    lines = done.stdout.splitlines()
    for name, values in (("A", {"first", "(not set)"}), ("B", {"second", "(not set)"})):
        at = lines.index(name)
        assert {line.split(None, 1)[1] for line in lines[at + 1 : at + 3]} == values
    assert "HF_TOKEN" in lines


def test_where_nodes_differ_as_json(run, venv):
    done = run("--local-nodes", "2", "--env-diff", "--json", "--venv", venv, "train.py")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["differences"] == []
    assert [node["host"] for node in said["nodes"]] == ["node0", "node1"]
    assert str(venv) in said["nodes"][0]["versions"]["python"]
    assert said["nodes"][0]["variables"]["VIRTUAL_ENV"] == str(venv)


def test_one_node_has_nothing_to_differ_from(run):
    done = run("--env-diff")
    assert done.stdout == f"There is one node, {os.uname().nodename}, and nothing to compare it with.\n"
    assert json.loads(run("--env-diff", "--json").stdout)["nodes"][0]["versions"]["kernel"] == os.uname().release


def test_nodes_that_each_run_their_own_muster_are_not_compared(run):
    done = run("--nnodes", "2", "--node-rank", "0", "--master-addr", "localhost", "--env-diff")
    assert done.returncode == 2
    assert "--env-diff compares nodes from one place" in done.stderr


# --- --record -------------------------------------------------------------------------------------------------------


@pytest.fixture
def repository(tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    git = ["git", "-c", "user.name=me", "-c", "user.email=me@here", "-c", "init.defaultBranch=main"]
    script(work, "train.txt", "one\n")
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*git, *command], cwd=work, check=True)
    script(work, "train.txt", "two\n")
    return work


def await_folder(path):
    """A job that waits for its own record: it appears whole."""
    return f"while [ ! -e {path} ]; do sleep 0.05; done"


@pytest.mark.parametrize("nodes", [[], ["--local-nodes", "2"]])
def test_a_record(run, repository, tmp_path, conda, nodes):
    kept = tmp_path / "kept"
    done = run(*nodes, "--rdzv-id", "my job", "--record", kept, "--conda", "trains", "--env", "HF_TOKEN=hush", "--env", "A=b c",
               *shell(await_folder(f"{kept}/my_job")), "--token=hush", cwd=repository, env={**conda, "WANDB_API_KEY": "hush"})  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert [entry.name for entry in kept.iterdir()] == ["my_job"]
    texts = {path.name: path.read_text() for path in (kept / "my_job").iterdir()}
    assert not [name for name, text in texts.items() if "hush" in text]
    assert texts["command.txt"].startswith("muster run ") and "--token=***" in texts["command.txt"]
    assert "A='b c'\n" in texts["environment.txt"] and "HF_TOKEN='***'\n" in texts["environment.txt"]
    assert "FROM_ACTIVATE_D=" in texts["environment.txt"]
    assert "first" in texts["git.txt"]
    assert "-one\n+two\n" in texts["git.diff"]
    assert "numpy=1.26.4" in texts["conda-list.txt"]
    assert json.loads(texts["versions.json"])["kernel"] == os.uname().release
    index = json.loads(texts["record.json"])
    assert set(index["files"]) | {"record.json"} == set(texts)
    assert index["directory"] == str(repository)


def test_a_short_job_waits_for_its_record_and_a_second_has_its_own(run, repository, tmp_path):
    kept = tmp_path / "kept"
    for name in ("x", "x-2"):
        run("--rdzv-id", "x", "--record", kept, "true", cwd=repository)
        assert (kept / name / "record.json").exists()


@pytest.mark.parametrize("nodes", [[], ["--local-nodes", "2"]])
def test_a_record_that_cannot_be_kept_starts_nothing(run, nodes):
    done = run(*nodes, "--record", "/proc/nowhere", "--prologue", "echo set up >&2", "echo", "started")
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("muster: error: --record: /proc/nowhere: ")
    assert line.endswith("; name a directory that you may write to on that node")


def program(folder, name, text):
    folder.mkdir(exist_ok=True)
    path = script(folder, name, f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("nodes", [[], ["--local-nodes", "2"]])
def test_the_record_of_a_job_that_ends_at_once_is_complete(run, tmp_path, nodes):
    # Slower than all that a launcher allows an agent which has nothing more to say.
    program(tmp_path / "bin", "python", 'case "$*" in *freeze*) sleep 4; echo numpy==1.0;; *) echo 3.9.1;; esac')
    done = run(*nodes, "--rdzv-id", "x", "--record", "kept", "--env", f"PATH={tmp_path}/bin:{os.environ['PATH']}", "true")
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "kept/x/pip-freeze.txt").read_text() == "numpy==1.0\n"
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["x"]


def test_what_is_recorded_is_no_argument(run, tmp_path):
    program(tmp_path / "bin", "git", f"tr '\\0' ' ' < /proc/$PPID/cmdline >> {tmp_path}/seen; exit 1")
    done = run("--record", "kept", "--env", f"PATH={tmp_path}/bin:{os.environ['PATH']}", "--env", "PLAIN=hush", "true")
    assert done.returncode == 0, done.stderr
    seen = (tmp_path / "seen").read_text()
    assert "node-record" in seen and "hush" not in seen
