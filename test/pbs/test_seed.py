"""A job script that people wrote by hand, with torchrun replaced by muster torchrun, on real PyTorch."""

import difflib
import os
import pathlib
import shutil

import pytest

from harness import ROOT

SEED = pathlib.Path(__file__).parent / "multinode.pbs"


def corrected(text, venv, sources, program):
    """The seed as it runs here. Its own bugs stay: $PBS_NODEID is unset everywhere, uniq, a taken port at worst."""
    for old, new in (
        ("/scratch/vp91/Training-Venv/pytorch", str(venv)),
        ("/scratch/vp91/$USER/intro-to-pytorch/src", str(sources)),
        ("NPROC_PER_NODE=4", "NPROC_PER_NODE=1"),  # two cores are all there is
        ("torchrun --nnodes", f"{program} --nnodes"),
    ):
        assert old in text
        text = text.replace(old, new)
    return text


def changes(old, new):
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), "seed", "here", lineterm="", n=0)
    return [line for line in lines if line[0] in "+-" and not line.startswith(("+++", "---"))]


@pytest.fixture
def sources(tmp_path):
    """What the seed runs: a program on one node, then one on all."""
    folder = tmp_path / "src"
    folder.mkdir()
    (folder / "distributed_data_parallel.py").write_text("print('one node: done')\n")
    shutil.copy(ROOT / "examples/ddp.py", folder / "ddp.py")
    (folder / "multinode_torchrun.py").write_text(
        "import runpy, sys\nsys.argv[1:] = ['--epochs', '2', '--points', '512']\n"
        f"sys.path.insert(0, {str(folder)!r})\nrunpy.run_path({str(folder / 'ddp.py')!r}, run_name='__main__')\n"
    )
    return folder


@pytest.mark.interop
@pytest.mark.slow
@pytest.mark.parametrize("nodes", [2, 3])
def test_the_seed_with_the_word_replaced(pbs, torch_new, muster, sources, nodes):
    p = pbs(nodes, path=[os.path.dirname(muster)])
    profile = p.cluster.home / ".bash_profile"
    # `module` is a function that login shells export; RES_OPTIONS bounds PyTorch's look-ups of names nobody knows.
    profile.write_text(profile.read_text() + 'module() { :; }\nexport -f module\nexport RES_OPTIONS="timeout:1 attempts:2"\n')
    seed = SEED.read_text()
    here = corrected(seed, pathlib.Path(torch_new).parent.parent, sources, "muster torchrun")
    print("\n".join(changes(seed, here)))
    assert len(changes(seed, here)) == 10, "five lines, and nothing else"
    names = p.cluster.names
    job = p.qsub(here, name="multinode", lines=[name for name in names for _ in range(4)])
    assert job.end(150) == 0, job.said()
    assert "one node: done" in job.out
    assert "2 workers, 512 points" in job.out, job.said()


@pytest.mark.interop
@pytest.mark.slow
def test_the_same_in_one_line(pbs, torch_new, muster, sources):
    p = pbs(2, path=[os.path.dirname(muster), torch_new.bin_dir])
    line = f"export RES_OPTIONS='timeout:1 attempts:2'\nmuster run {sources}/multinode_torchrun.py\n"
    job = p.qsub("#!/bin/bash\n" + line)
    assert job.end(150) == 0, job.said()
    assert "2 workers, 512 points" in job.out, job.said()
