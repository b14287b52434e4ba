"""examples/store_client: another project adds muster's sources, links the store's client and talks to `muster store`."""

import json
import os
import subprocess

import pytest

from harness import ROOT

pytestmark = pytest.mark.cli
EXAMPLE = ROOT / "examples/store_client"


def configure(build, *definitions):
    command = ["cmake", "-G", "Ninja", "--fresh", "-S", EXAMPLE, "-B", build, *definitions]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=120)


@pytest.fixture(scope="module")
def store_client():
    """The program; built with the flags of the release build, whose objects ccache then has for it."""
    build = ROOT / "build/store_client"
    same = ["CMAKE_CXX_COMPILER=g++", "CMAKE_C_COMPILER=gcc", "CMAKE_BUILD_TYPE=Release", "MUSTER_WARNINGS=ON"]
    configure(build, *(f"-D{each}" for each in same))
    jobs = str(len(os.sched_getaffinity(0)))
    subprocess.run(["cmake", "--build", build, "-j", jobs], check=True, stdout=subprocess.DEVNULL, timeout=600)
    return build / "store_client"


def test_sets_and_gets(store_client, start_muster):
    store = start_muster(["store", "--port", 0, "--host", "loopback"], stdout=subprocess.PIPE, text=True)
    words = [store_client, "127.0.0.1", store.stdout.readline().strip(), "greeting"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as waits:
        sets = subprocess.run([*words, "hello from C++"], capture_output=True, text=True, timeout=60)
        assert (sets.returncode, sets.stdout, sets.stderr) == (0, "hello from C++\n", "")
        assert waits.stdout.read() == "hello from C++\n"
    assert waits.returncode == 0


def test_another_project_gets_what_it_needs_and_no_more(tmp_path):
    configure(tmp_path, "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON")
    commands = {c["file"]: c["command"] for c in json.loads((tmp_path / "compile_commands.json").read_text())}
    mine = commands[str(EXAMPLE / "main.cpp")]
    assert f"-I{ROOT} " in mine and "++20" in mine
    assert " -W" not in mine, "its warnings are its own"
    assert not [file for file in commands if "/test/" in file.removeprefix(str(ROOT))]
