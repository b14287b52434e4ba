"""What muster says about itself: help, man page and completion, all from one table."""

import fcntl
import fnmatch
import json
import os
import pty
import re
import shutil
import struct
import subprocess
import termios

import pytest

from harness import ROOT, clean_env

pytestmark = pytest.mark.cli

VERBS = ["run", "torchrun", "launch", "where", "status", "store", "env", "completion", "man", "version", "help"]


@pytest.fixture
def say(muster):
    """say(*args) -> what muster prints on stdout; it must end with 0 and say nothing else."""

    def run(*args, **extra):
        env = clean_env(PYTHONWARNINGS="ignore", **extra)  # launch is deprecated and says so
        done = subprocess.run([muster, *args], capture_output=True, text=True, env=env, timeout=30)
        assert (done.returncode, done.stderr) == (0, ""), done
        return done.stdout

    return run


def tool(name):
    path = shutil.which(name)
    assert path, f"{name} is not installed: make setup installs it"
    return path


def on_a_terminal(muster, args, columns, **extra):
    """What a terminal that wide shows."""
    main, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    process = subprocess.Popen([muster, *args], stdout=side, env=clean_env(**extra))
    os.close(side)
    shown = b""
    while True:
        try:
            block = os.read(main, 65536)
        except OSError:  # the other side is closed: the end
            break
        if not block:
            break
        shown += block
    os.close(main)
    assert process.wait() == 0
    return shown.decode()


def test_general_help_leads_to_every_verb(say):
    text = say("--help")
    assert all(re.search(rf"^  {verb} ", text, re.M) for verb in VERBS)
    assert say("-h") == say("help") == text


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself(say, verb):
    text = say(verb, "--help")
    assert text.startswith(f"usage: muster {verb} ")
    assert "Examples:\n  " in text
    assert not re.search(r" $", text, re.M)
    assert say("help", verb) == text


def test_help_fits_a_screen_and_help_all_has_every_option(say):
    for words in (["--help"], ["run", "--help"], ["accelerate", "launch", "--help"]):
        lines = say(*words).splitlines()
        assert len(lines) <= 40 and max(map(len, lines)) <= 80, words
    for words in (["run"], ["accelerate", "launch"], ["accelerate"]):
        assert len(re.findall(r"^  (?:-\w, )?--", say(*words, "--help-all"), re.M)) > 50, words
    assert "--token-file" in say("run", "--help-all") and "--token-file" not in say("run", "--help")


def test_a_link_named_torchrun_is_torchrun(muster, tmp_path):
    (tmp_path / "torchrun").symlink_to(muster)
    done = subprocess.run([tmp_path / "torchrun", "--help"], capture_output=True, text=True, timeout=30)
    assert done.stdout.startswith("usage: torchrun ")


def test_help_is_plain_in_a_pipe_and_fills_a_terminal(muster, say):
    assert "\033" not in say("run", "--help")
    narrow, wide = (on_a_terminal(muster, ["run", "--help-all"], columns, NO_COLOR=None) for columns in (60, 110))
    assert "\033[1m" in wide
    assert max(map(len, wide.splitlines())) > 100 > 60
    assert len(narrow.splitlines()) > len(wide.splitlines())
    assert "\033" not in on_a_terminal(muster, ["run", "--help"], 80, NO_COLOR="1")


def test_settings_without_effect_are_named_as_such(say):
    text = " ".join(say("run", "--help-all").split())
    assert "close_timeout, heartbeat_timeout and read_timeout are accepted and have no effect" in text


def test_examples_of_help_are_accepted(say, muster, tmp_path):
    """Every `muster run` line that help shows means something to the parser."""
    (tmp_path / "train.py").write_text("")
    (tmp_path / "a.out").write_text("#!/bin/sh\n")
    (tmp_path / "a.out").chmod(0o755)
    lines = re.findall(r"^  muster run (.*)", say("run", "--help-all"), re.M)
    assert len(lines) >= 8
    for line in lines:
        command = [muster, "run", "--dry-run", *line.split()]
        done = subprocess.run(command, capture_output=True, text=True, env=clean_env(), cwd=tmp_path, timeout=30)
        assert done.returncode == 0, (line, done.stderr)


def test_man_page_is_sound(say):
    page = say("man")
    lint = subprocess.run([tool("mandoc"), "-Tlint"], input=page, capture_output=True, text=True, timeout=30)
    assert (lint.returncode, lint.stdout) == (0, "")
    shown = subprocess.run([tool("mandoc"), "-Tascii"], input=page, capture_output=True, text=True, timeout=30).stdout
    shown = re.sub(".\b", "", shown)
    helps = [say(verb, "--help") for verb in VERBS] + [say("run", "--help-all"), say("accelerate", "--help-all")]
    options = set(re.findall(r"^  (?:-\w, )?(--[\w-]+)", "".join(helps), re.M))
    assert len(options) > 150 and "--help-all" in options
    assert [option for option in options if option not in shown] == []


@pytest.mark.parametrize("shell, check", [("bash", ["-n"]), ("zsh", ["-n"]), ("fish", ["-n"])])
def test_completion_is_sound(say, tmp_path, shell, check):
    script = tmp_path / "completion"
    script.write_text(say("completion", shell))
    done = subprocess.run([tool(shell), *check, script], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_torchrun_prints_its_completion(say, tmp_path, shell):
    script = tmp_path / "completion"
    script.write_text(say("torchrun", "--print-completion", shell))
    done = subprocess.run([tool(shell), "-n", script], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stderr) == (0, "")
    assert " torchrun\n" in script.read_text()


@pytest.mark.parametrize(
    "typed, offered",
    [
        ("muster ru", {"run"}),
        ("muster run --nproc", {"--nproc-per-node"}),
        ("muster run --help", {"--help", "--help-all"}),
        ("muster run --label ", {"none", "rank", "host:rank"}),
        ("muster run --label none --max-re", {"--max-restarts"}),
        ("muster run --standalone -m mod --max-re", set()),  # the module's own
        ("muster completion ", {"bash", "zsh", "fish"}),
        ("muster torchrun --lab", set()),
        ("torchrun --nproc", {"--nproc-per-node"}),
        ("torchrun --nproc_p", {"--nproc_per_node"}),
        ("muster run --nproc_p", {"--nproc_per_node"}),
    ],
)
def test_bash_completes(say, tmp_path, typed, offered):
    script = tmp_path / "completion"
    script.write_text(say("completion", "bash"))
    words = typed.split(" ")
    ask = f"""source {script}
    COMP_WORDS=({' '.join(f"'{word}'" for word in words)}) COMP_CWORD={len(words) - 1}
    _muster; printf '%s\\n' "${{COMPREPLY[@]}}" """
    done = subprocess.run([tool("bash"), "-c", ask], capture_output=True, text=True, timeout=30)
    assert done.stderr == ""
    assert set(done.stdout.split()) == offered


def test_fish_completes(say, tmp_path):
    script = tmp_path / "completion"
    script.write_text(say("completion", "fish"))
    ask = f"source {script}; complete -C 'muster run --label '; complete -C 'muster comp'"
    env = clean_env(HOME=tmp_path, XDG_CONFIG_HOME=tmp_path)
    done = subprocess.run([tool("fish"), "--no-config", "-c", ask], capture_output=True, text=True, env=env, timeout=60)
    first = {line.split("\t")[0] for line in done.stdout.splitlines()}
    assert {"none", "rank", "host:rank", "completion"} <= first, done


def test_version(say):
    assert re.fullmatch(r"muster \d+\.\d+\.\d+\n", say("--version"))
    assert say("--version") == say("version")
    assert json.loads(say("version", "--json"))["version"] == say("--version").split()[1]


def test_env_lists_what_workers_get_and_what_muster_reads(say):
    listed = {entry["name"]: entry for entry in json.loads(say("env", "--json"))}
    assert {"RANK", "WORLD_SIZE", "MASTER_ADDR", "TORCHELASTIC_RUN_ID", "PET_NNODES", "PYTHON_EXEC"} <= listed.keys()
    assert "PET_NUMA_BINDING" not in listed, "torchrun does not read that one"
    text = say("env")
    assert all(name in text for name in listed)
    assert [line for line in text.splitlines() if line.startswith("Set by")] == [
        "Set by muster, for workers:",
        "Set by you, for muster:",
    ]


def test_env_lists_every_variable_that_the_sources_read(say):
    call = r'\b(?:getenv_?|environment_variable|find_variable|variable|value|take|number)\((?:[\w.>-]+, )?\{?"([A-Z]\w+)"'
    in_bash = r'\$\{([A-Z]\w+):?[-+]'  # in the text of a set-up
    read = set()
    for source in (ROOT / "muster").glob("**/*.cpp"):
        if "test" not in source.relative_to(ROOT).parts:
            read |= set(re.findall(f"{call}|{in_bash}", source.read_text()))
    names = {name for pair in read for name in pair if name}
    assert {"PATH", "PYTHON_EXEC", "SLURM_JOB_ID", "PBS_JOBID", "CONDA_EXE"} <= names, "the sources are not read right"
    listed = [entry["name"] for entry in json.loads(say("env", "--json"))]
    assert [n for n in sorted(names) if not any(fnmatch.fnmatchcase(n, known) for known in listed)] == []


def test_dry_run_is_what_a_worker_gets(say, tmp_path):
    script = tmp_path / "worker"
    script.write_text("#!/bin/sh\nenv\n")
    script.chmod(0o755)
    options = ["--nproc-per-node", "2", "--role", "r", "--rdzv-id", "j", "--label", "none", "--local-ranks-filter", "1"]
    planned = json.loads(say("run", *options, "--dry-run", "--json", script))
    text = say("run", *options, "--dry-run", script)
    assert text.startswith("2 workers on ") and "\nrank 1\n" in text
    worker = planned["ranks"][1]
    assert worker["command"] == [str(script)]
    got = dict(line.split("=", 1) for line in say("run", *options, script).splitlines() if "=" in line)
    assert worker["environment"]["RANK"] == "1" and worker["environment"]["ROLE_NAME"] == "r"
    for name, value in worker["environment"].items():
        assert name in got
        assert value == got[name] or "<chosen at start>" in value, name
