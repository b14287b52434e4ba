"""make install puts everything where a distribution expects it."""

import os
import subprocess

import pytest

from harness import ROOT, clean_env

# Writes to build/release.
pytestmark = [pytest.mark.cli, pytest.mark.release, pytest.mark.xdist_group("make install")]


def make(what, destination, *variables):
    command = ["make", "-s", "-C", str(ROOT), what, f"DESTDIR={destination}", "PREFIX=/usr", *variables]
    subprocess.run(command, check=True, env=clean_env(), stdout=subprocess.DEVNULL)


def files_below(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if not p.is_dir())


@pytest.fixture
def installed(tmp_path):
    make("install", tmp_path, "TORCHRUN=1")
    return tmp_path / "usr"


def test_what_is_installed(installed):
    assert files_below(installed) == [
        "bin/muster",
        "bin/torchrun",
        "include/muster/base/clock.h",
        "include/muster/base/error.h",
        "include/muster/base/fd.h",
        "include/muster/base/result.h",
        "include/muster/base/version.h",
        "include/muster/store/client.h",
        "lib/cmake/muster/musterConfig-release.cmake",
        "lib/cmake/muster/musterConfig.cmake",
        "lib/cmake/muster/musterConfigVersion.cmake",
        "lib/libmuster_base.a",
        "lib/libmuster_net.a",
        "lib/libmuster_store.a",
        "share/bash-completion/completions/muster",
        "share/bash-completion/completions/torchrun",
        "share/fish/vendor_completions.d/muster.fish",
        "share/fish/vendor_completions.d/torchrun.fish",
        "share/man/man1/muster.1",
        "share/zsh/site-functions/_muster",
        "share/zsh/site-functions/_torchrun",
    ]
    assert os.readlink(installed / "bin/torchrun") == "muster"
    assert not [p for p in installed.rglob("*") if p.is_file() and p.stat().st_size == 0]


def test_torchrun_is_completed_too(installed):
    """Each shell reads the file that has the command's name; in zsh it is the first line that registers it."""
    share = installed / "share"
    bash = share / "bash-completion/completions/torchrun"
    ask = f"source {bash}; complete -p torchrun; COMP_WORDS=(torchrun --rdzv-b) COMP_CWORD=1; _muster; echo ${{COMPREPLY[@]}}"
    said = subprocess.run(["bash", "-c", ask], capture_output=True, text=True).stdout.splitlines()
    assert said[0].endswith("_muster torchrun") and said[1] == "--rdzv-backend"
    assert (share / "zsh/site-functions/_torchrun").read_text().startswith("#compdef torchrun\n")
    fish = share / "fish/vendor_completions.d"
    ask = f"source {fish}/muster.fish; source {fish}/torchrun.fish; complete -C 'torchrun --rdzv-b'"
    env = clean_env(HOME=installed, XDG_CONFIG_HOME=installed)
    said = subprocess.run(["fish", "--no-config", "-c", ask], capture_output=True, text=True, env=env, timeout=60)
    assert said.stdout.startswith("--rdzv-backend"), said


def test_the_program_without_the_library(installed, tmp_path):
    make("install-program", tmp_path / "alone", "TORCHRUN=1")
    library = ("include/", "lib/")
    assert files_below(tmp_path / "alone/usr") == [name for name in files_below(installed) if not name.startswith(library)]


def test_uninstall_leaves_nothing(installed):
    make("uninstall", installed.parent)
    assert not files_below(installed)


def test_glibc_is_all_it_needs(installed):
    text = subprocess.run(["ldd", installed / "bin/muster"], check=True, capture_output=True, text=True).stdout
    needed = {os.path.basename(line.split()[0]).split(".so")[0] for line in text.splitlines()}
    assert {"libc"} <= needed <= {"linux-vdso", "libc", "libm", "ld-linux-x86-64", "ld-linux-aarch64"}, text


def test_the_symlink_is_torchrun(installed, run_muster):
    # torchrun ends with 1 whatever the worker's code was; muster run with that code.
    for program, code in ((["torchrun"], 1), (["muster", "run"], 7)):
        done = run_muster([*program[1:], "--no-python", "sh", "-c", "exit 7"], program=str(installed / "bin" / program[0]))
        assert done.returncode == code, done.stderr
