"""Commands in README and guide are accepted as they are written, and those that need no other machine do what they say."""

import re
import shlex

import pytest

from harness import ROOT

pytestmark = pytest.mark.cli

# Those of five-setups.md are files that test/seeds runs.
DOCUMENTS = [ROOT / "README.md", *(p for p in sorted((ROOT / "docs/guide").glob("*.md")) if p.name != "five-setups.md")]
# Every variable and file that a command in the documents names.
ENVIRONMENT = {"NODE": "1", "HOME": "~"}


def commands():
    """(document, command) of every line that is a `muster run`; in prose they stand for a part of one."""
    for document in DOCUMENTS:
        text = document.read_text()
        blocks = re.findall(r"^```\w*\n(.*?)^```", text, re.M | re.S) + re.findall(r"(?:^    \S.*\n)+", text, re.M)
        for line in re.sub(r"\s*\\\n\s*", " ", "".join(blocks)).splitlines():
            command = re.sub(r"\s+#.*", "", line.strip())
            if command.startswith("muster run ") and "…" not in command:
                yield document.name, re.sub(r"\$(\w+)", lambda name: ENVIRONMENT[name[1]], command)


COMMANDS = sorted(set(commands()))


@pytest.fixture
def place(tmp_path):
    """A directory with what the commands run."""
    train = "import os\nprint(os.environ['RANK'], 'of', os.environ['WORLD_SIZE'])\n"
    for name in ("train.py", "my/package/train.py", "my/package/__init__.py", "my/__init__.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(train if name.endswith("train.py") else "")
    (tmp_path / "hosts.txt").write_text("n1\nn2:4  # more of them\nn3 slots=2\n")
    (tmp_path / "keys.env").write_text("A=1\n")
    (tmp_path / "a.out").write_text("#!/bin/sh\n")
    (tmp_path / "a.out").chmod(0o755)
    return tmp_path


def test_there_are_commands():
    assert len(COMMANDS) > 10
    assert {"README.md", "running.md", "nodes.md"} <= {document for document, _ in COMMANDS}


@pytest.mark.parametrize("document, command", COMMANDS)
def test_is_accepted(run_muster, place, document, command):
    words = shlex.split(command)[2:]
    done = run_muster(["run", "--dry-run", *words], env={"HOME": place}, cwd=place)
    assert done.returncode == 0, done.stderr
    assert done.stderr == "", "nothing in it is ignored or doubtful"


@pytest.mark.parametrize("command", [c for _, c in COMMANDS if "--local-nodes" in c])
def test_runs_on_simulated_nodes(run_muster, place, command):
    done = run_muster(shlex.split(command)[1:], env={"HOME": place}, cwd=place)
    assert done.returncode == 0, done.stderr
    nodes = int(re.search(r"--local-nodes (\d+)", command)[1])
    workers = nodes * int((re.search(r"--nproc-per-node (\d+)", command) or [0, 1])[1])
    per_node = workers // nodes
    assert sorted(done.stdout.splitlines()) == [f"[node{r // per_node}:{r}] {r} of {workers}" for r in range(workers)]
