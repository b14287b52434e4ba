"""The seeds that run without Slurm: in PBS, by hand over ssh."""

import shlex

import pytest

from multinode.conftest import lab  # noqa: F401  (a fixture)
from pbs.conftest import pbs  # noqa: F401  (a fixture)

from . import surroundings
from .seed import HERE, Seed
from .workers import assert_job

HELLO = HERE / "programs/hello.py"
MODULES = {"python3/3.11.0": [], "cuda/12.3.2": ["setenv CUDA_HOME /apps/cuda/12.3.2"], "nccl/2.19.4": []}


def on_node(cluster, name, script):
    """What somebody types after `ssh NAME`."""
    surroundings_ = f"export HOME={cluster.home} PATH={shlex.quote(muster_path(cluster))}; cd {cluster.shared}"
    return cluster.exec("ctl", ["ssh", name, f"{surroundings_}; bash {script}"])


def muster_path(cluster):
    return f"{cluster.muster_program.rpartition('/')[0]}:/usr/bin:/bin"


def test_ssh_word_replaced(lab):  # noqa: F811
    seed, cluster = Seed("5-ssh"), lab(2)
    print(seed.diff())
    surroundings.put(cluster.shared, {**seed.replaced(), "multinode_torchrun.py": HELLO})
    jobs = [on_node(cluster, "n1", "first_node.sh"), on_node(cluster, "n2", "second_node.sh")]
    assert [job.end() for job in jobs] == [0, 0], [job.said() for job in jobs]
    assert_job("".join(job.out for job in jobs), ["n1", "n2"], 4)


def test_ssh_after(lab):  # noqa: F811
    """One line, typed anywhere."""
    cluster = lab(2)
    surroundings.put(cluster.shared, {**Seed("5-ssh").scripts("after"), "multinode_torchrun.py": HELLO})
    job = cluster.exec("ctl", ["bash", "job.sh"], env={"PATH": muster_path(cluster)}, cwd=cluster.shared)
    assert job.end() == 0, job.said()
    assert_job(job.out, ["n1", "n2"], 4)


@pytest.fixture
def site(pbs, tmp_path):  # noqa: F811
    """A PBS whose users have modules and a virtual environment."""
    p = pbs(2, path=[])
    modules = tmp_path / "modules"
    surroundings.make_modules(modules, MODULES)
    variables = surroundings.module_variables(modules)
    profile = p.cluster.home / ".bash_profile"
    lines = [f"export {name}={value}" for name, value in variables.items()]
    lines.append(f"export PATH={p.cluster.muster_program.rpartition('/')[0]}:$PATH")
    profile.write_text(profile.read_text() + "\n".join(lines) + "\n")
    surroundings.make_venv(p.cluster.shared / "venv")
    return p


# Chunks on hosts of their own, and one that comes back to a host: there `uniq` counts three.
@pytest.mark.parametrize("lines", [["n1"] * 4 + ["n2"] * 4, ["n1", "n2", "n1"]])
def test_pbs_word_replaced(site, lines):
    seed = Seed("4-pbs")
    print(seed.diff())
    first = 'print("alone on one node")\n'
    files = {**seed.replaced(), "distributed_data_parallel.py": first, "multinode_torchrun.py": HELLO}
    surroundings.put(site.cluster.shared, files)
    job = site.qsub(files["multinode_torchrun.pbs"], lines=lines)
    assert job.end() == 0, job.said()
    assert "alone on one node" in job.out
    assert_job(job.out, ["n1", "n2"], 4)
    assert "node-rank" in job.err, "what was forgiven is said"


def test_pbs_after(site):
    program = f"import os\nassert os.environ['CUDA_HOME'] == '/apps/cuda/12.3.2'\n{HELLO.read_text()}"
    surroundings.put(site.cluster.shared, {"multinode_torchrun.py": program})
    job = site.qsub(Seed("4-pbs").scripts("after")["job.pbs"])
    assert job.end() == 0, job.said()
    assert_job(job.out, ["n1", "n2"], 4)
