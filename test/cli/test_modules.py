"""cmake/MusterModule.cmake: configure fails on a file that nobody builds and on an include outside of DEPS."""

import subprocess

import pytest

from harness import ROOT

pytestmark = pytest.mark.cli

TREE = {
    "CMakeLists.txt": f"""\
cmake_minimum_required(VERSION 3.25)
project(two_modules LANGUAGES CXX)
add_library(muster_flags INTERFACE)
include({ROOT}/cmake/MusterModule.cmake)
add_subdirectory(muster/low)
add_subdirectory(muster/high)
muster_check_every_test_has_a_target()
""",
    "muster/low/CMakeLists.txt": "muster_module(NAME low SRCS low.cpp TESTS test/low_test.cpp)",
    "muster/low/low.cpp": "",
    "muster/low/test/low_test.cpp": '#include "muster/low/low.h"',
    "muster/high/CMakeLists.txt": "muster_module(NAME high DEPS low SRCS high.cpp)",
    "muster/high/high.cpp": '#include "muster/high/high.h"\n#include <muster/low/low.h>',
}


@pytest.fixture
def configure(tmp_path):
    """configure({path: text}) -> what CMake complains of, as one line, in a tree of two modules with these files."""

    def run(files):
        root = tmp_path / "test/tree"  # the tree may lie below a folder of any name
        for path, text in {**TREE, **files}.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text + "\n")
        command = ["cmake", "-S", root, "-B", tmp_path / "build"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert (done.returncode == 0) == (done.stderr == ""), done
        return " ".join(done.stderr.split())

    return run


def test_a_whole_tree(configure):
    assert configure({}) == ""


@pytest.mark.parametrize("path", ["muster/low/stray.cpp", "muster/low/deep/stray.cpp"])
def test_a_source_in_no_target(configure, path):
    assert f"{path} is in no target: add it to SRCS" in configure({path: ""})


@pytest.mark.parametrize("path", ["muster/low/test/stray_test.cpp", "muster/low/test/deep/stray_test.cpp"])
def test_a_test_in_no_target(configure, path):
    assert f"{path} is in no target: add it to TESTS" in configure({path: ""})


@pytest.mark.parametrize("include", ['#include "{}"', "#include <{}>", "#  include <{}>"])
def test_an_include_outside_of_deps(configure, include):
    complaint = configure({"muster/low/low.h": include.format("muster/high/high.h")})
    assert "muster/low/low.h includes module 'high', which is not in the DEPS of 'low'" in complaint
