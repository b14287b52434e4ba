"""What the build says of itself is true."""

import json
import pathlib
import re
import subprocess

import pytest

from harness import ROOT

pytestmark = [pytest.mark.cli, pytest.mark.release]
BUILD = ROOT / "build/release"
STARTS_A_THREAD = re.compile(r"^(.*): +U (?:pthread_create|thrd_create|_ZNSt6thread15_M_start_thread)", re.M)


def modules_with_threads():
    """Those whose unit tests CI runs with ThreadSanitizer: their sources say that they have threads."""
    command = ["ctest", "--test-dir", BUILD, "--show-only=json-v1", "-L", "threads"]
    listed = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["tests"]
    return {test["name"].removeprefix("unit.") for test in listed}


def test_no_module_has_threads_unnoticed():
    """Whatever a source calls it, its object needs the function that starts a thread."""
    objects = sorted((BUILD / "muster").rglob("*.o"))
    symbols = subprocess.run(["nm", "-A", "--undefined-only", *objects], check=True, capture_output=True, text=True).stdout
    starters = {pathlib.Path(path).relative_to(BUILD / "muster").parts[0] for path in STARTS_A_THREAD.findall(symbols)}
    assert "base" in starters, "objects of the release build"
    assert starters <= modules_with_threads()
