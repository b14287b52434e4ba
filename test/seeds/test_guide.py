"""The guide shows what the tests run."""

import re

import pytest

from harness import ROOT

from .seed import HERE, Seed, replace_words

pytestmark = pytest.mark.cli
GUIDE = (ROOT / "docs/guide/five-setups.md").read_text()
SEEDS = sorted(path.name for path in HERE.glob("[0-9]-*"))
# A path in back quotes, alone on its line, says what the block below it is.
SHOWN = {path: text for path, text in re.findall(r"^`(test/seeds/\S+)`\n\n```\w+\n(.*?)^```", GUIDE, re.M | re.S)}


def test_every_script_is_shown():
    scripts = {str(path.relative_to(ROOT)) for path in HERE.glob("[0-9]-*/after/*")}
    assert scripts == {path for path in SHOWN if "/after/" in path}


def test_every_change_for_the_lab_is_shown():
    assert {f"test/seeds/{name}/lab" for name in SEEDS} == {path for path in SHOWN if path.endswith("/lab")}


@pytest.mark.parametrize("path", SHOWN)
def test_what_is_shown_is_what_runs(path):
    if path.endswith("/lab"):
        assert SHOWN[path] == Seed(path.split("/")[2]).diff()
    else:
        assert SHOWN[path] == (ROOT / path).read_text()


@pytest.mark.parametrize("name", SEEDS)
def test_one_line_is_left(name):
    """Of the part that runs something: schedulers' comments, `cd` and salloc aside."""
    for script in Seed(name).scripts("after").values():
        lines = script.replace("\\\n", "").splitlines()
        rest = [line for line in lines if line and not re.match(r"#|cd |salloc |exit$", line)]
        assert len(rest) == 1 and rest[0].startswith("muster run "), rest


def test_only_the_word_is_replaced():
    assert replace_words("srun -l torchrun \\\n  --nnodes=2") == "srun -l muster run \\\n  --nnodes=2"
    assert replace_words("python \\\n   -m torch.distributed.launch \\\n") == "muster launch \\\n"
    assert replace_words('bash -c "./torchrun.sh"') == 'bash -c "./torchrun.sh"'
    for name in SEEDS:
        assert not re.search(r"\btorchrun\b(?!\.|_)", "".join(Seed(name).replaced().values()).replace("multinode_torchrun", ""))
