"""The C++ library: another project finds the installed package, or adds muster's sources, and talks to `muster store`."""

import json
import os
import pathlib
import subprocess

import pytest

from harness import ROOT

# Reads build/release, and builds in build/store_client.
pytestmark = [pytest.mark.cli, pytest.mark.release, pytest.mark.xdist_group("make install")]
EXAMPLE = ROOT / "examples/store_client"
FROM_SOURCES = "-DCMAKE_DISABLE_FIND_PACKAGE_muster=ON"


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    """Where the library alone is installed."""
    folder = tmp_path_factory.mktemp("prefix")
    command = ["cmake", "--install", ROOT / "build/release", "--component", "library", "--prefix", folder]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=120)
    return folder


def configure(build, *options):
    """Returns the command line of the project's own file and all files that are compiled."""
    command = ["cmake", "-G", "Ninja", "--fresh", "-S", EXAMPLE, "-B", build, "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON", *options]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=120)
    commands = {c["file"]: c["command"] for c in json.loads((pathlib.Path(build) / "compile_commands.json").read_text())}
    return commands[str(EXAMPLE / "main.cpp")], list(commands)


def build_in(folder):
    jobs = str(len(os.sched_getaffinity(0)))
    subprocess.run(["cmake", "--build", folder, "-j", jobs], check=True, stdout=subprocess.DEVNULL, timeout=600)
    return folder / "store_client"


def check_talks(store_client, start_muster):
    store = start_muster(["store", "--port", 0, "--host", "loopback"], stdout=subprocess.PIPE, text=True)
    words = [store_client, "127.0.0.1", store.stdout.readline().strip(), "greeting"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as waits:
        sets = subprocess.run([*words, "hello from C++"], capture_output=True, text=True, timeout=60)
        assert (sets.returncode, sets.stdout, sets.stderr) == (0, "hello from C++\n", "")
        assert waits.stdout.read() == "hello from C++\n"
    assert waits.returncode == 0


def test_installed(prefix, tmp_path, start_muster):
    mine, files = configure(tmp_path, f"-DCMAKE_PREFIX_PATH={prefix}")
    assert f"{prefix}/include " in mine and "++20" in mine
    assert " -W" not in mine and " -f" not in mine, "its flags are its own"
    assert len(files) == 1
    check_talks(build_in(tmp_path), start_muster)


def test_from_sources(start_muster):
    """Built with the flags of the release build, whose objects ccache then has for it."""
    build = ROOT / "build/store_client"
    same = ["CMAKE_CXX_COMPILER=g++", "CMAKE_C_COMPILER=gcc", "CMAKE_BUILD_TYPE=Release", "MUSTER_WARNINGS=ON"]
    configure(build, FROM_SOURCES, *(f"-D{each}" for each in same))
    check_talks(build_in(build), start_muster)


def test_sources_bring_what_is_needed_and_no_more(tmp_path):
    mine, files = configure(tmp_path, FROM_SOURCES)
    assert f"-I{ROOT} " in mine and "++20" in mine
    assert " -W" not in mine, "its warnings are its own"
    assert not [file for file in files if "/test/" in file.removeprefix(str(ROOT))]


def test_the_package_may_be_moved_and_names_no_source(prefix):
    for file in (prefix / "lib/cmake/muster").iterdir():
        assert str(ROOT) not in file.read_text() and str(prefix) not in file.read_text(), file


def test_public_headers_need_the_standard_library_alone(prefix):
    """Each is compiled on its own; -H names every file that it includes."""
    include = prefix / "include"
    headers = sorted(str(path.relative_to(include)) for path in include.rglob("*.h"))
    assert "muster/store/client.h" in headers
    flags = ["-std=c++20", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-H", "-I", include, "-x", "c++", "-"]
    for header in headers:
        done = subprocess.run(["g++", *flags], input=f"#include <{header}>\n", capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        included = {line.split(" ", 1)[1] for line in done.stderr.splitlines() if line.startswith(".")}
        assert str(include / header) in included
        assert not [path for path in included if "fmt/" in path or "nlohmann/" in path], header
