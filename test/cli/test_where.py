"""Where muster takes itself to be without a scheduler, and what it makes of variables that somebody has preset."""

import json
import socket
import subprocess

import pytest

SHOW = "echo $RANK/$WORLD_SIZE of node $GROUP_RANK"


@pytest.fixture
def port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def kubernetes(port, rank, nodes):
    """What the training operator gives a pod: there WORLD_SIZE counts pods."""
    return {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(nodes), "RANK": str(rank)}


def test_a_bare_machine(run_muster):
    ended = run_muster(["where"])
    assert ended.returncode == 0
    assert ended.stdout.startswith("no scheduler, and nothing preset\nmode: local (row 7: ")
    assert "`muster run train.py` starts one worker per GPU (one, if there is none) on this machine alone" in ended.stdout
    here = json.loads(run_muster(["where", "--json"]).stdout)
    assert here["adapter"] is None and here["row"] == 7 and here["mode"] == "local" and here["nodes"] == []


def test_preset_variables_are_obeyed_and_said(run_muster, start_muster, port):
    here = json.loads(run_muster(["where", "--json"], env=kubernetes(port, 1, 2)).stdout)
    assert (here["adapter"], here["row"], here["mode"], here["node_rank"]) == ("preset", 6, "symmetric", 1)
    assert {"name": "WORLD_SIZE", "value": "2", "meaning": "how many nodes: one process was started on each"} in here["clues"]
    command = ["run", "--label", "none", "--nproc-per-node=2", "--no-python", "sh", "-c", SHOW]
    piped = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "encoding": "utf-8"}
    nodes = [start_muster(command, env=kubernetes(port, rank, 2), **piped) for rank in range(2)]
    said = [node.communicate(timeout=60) for node in nodes]
    assert [node.returncode for node in nodes] == [0, 0], said
    assert sorted("".join(out for out, _ in said).splitlines()) == ["0/4 of node 0", "1/4 of node 0", "2/4 of node 1", "3/4 of node 1"]
    assert said[1][1] == (
        "muster: node 1 of 2 that meet at 127.0.0.1, preset in the environment; to run on this node alone: --mode local\n"
    )


def test_where_and_run_agree_on_pet_variables(run_muster):
    ended = run_muster(["where"], env={"PET_NNODES": "1", "PET_MASTER_ADDR": "127.0.0.1", "PET_NPROC_PER_NODE": "2"})
    assert "mode: local (row 7: one node is preset)\n`muster run train.py` starts 2 workers on this node.\n" in ended.stdout
    assert "mode: local" in run_muster(["where"], env={"PET_MODULE": "1"}).stdout
    refused = run_muster(["run", "--no-python", "true"], env={"PET_NNODES": "2"})
    said = refused.stderr.removeprefix("muster: error: ").rstrip("\n")
    assert refused.returncode == 2 and said.startswith("PET_NNODES: no rendezvous address for 2 nodes"), refused
    ended = run_muster(["where"], env={"PET_NNODES": "2"})
    assert f"`muster run train.py` is refused: {said}.\n" in ended.stdout
    assert json.loads(run_muster(["where", "--json"], env={"PET_NNODES": "2"}).stdout)["mode"] is None


def test_a_preset_job_of_one_node(run_muster, port):
    ended = run_muster(["run", "--no-python", "sh", "-c", SHOW], env=kubernetes(port, 0, 1))
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "0/1 of node 0\n", "")


def test_preset_variables_that_make_no_sense(run_muster, port):
    variables = kubernetes(port, 2, 2)
    ended = run_muster(["run", "--no-python", "true"], env=variables)
    assert ended.returncode == 2
    assert ended.stderr == (
        "muster: error: RANK='2' is preset in the environment, and is not a number from 0 to 1; set it right, unset it, or "
        "stay on this node with --mode local\n"
    )
    where = run_muster(["where"], env=variables)
    assert where.returncode == 0 and "\nmode: none (RANK='2' is preset" in where.stdout, where
    assert "\n`muster run train.py` is refused: RANK='2' is preset in the environment" in where.stdout
    here = json.loads(run_muster(["where", "--json"], env={"SLURM_JOB_ID": "12"}).stdout)
    assert (here["mode"], here["row"], here["adapter"]) == (None, None, None)
    assert here["would"].startswith("is refused: SLURM_JOB_ID=12 is set and no SLURM_JOB_NODELIST"), here
    assert run_muster(["run", "--mode", "local", "--no-python", "true"], env=variables).returncode == 0


def test_inside_a_worker_nothing_is_preset(run_muster, muster):
    """A launcher in a worker starts a job of its own, whatever the one around it has set."""
    inner = f"[ $RANK = 1 ] || $MUSTER_UNDER_TEST run --label none --no-python sh -c '{SHOW}'"
    ended = run_muster(["run", "--nproc-per-node=2", "--label", "none", "--no-python", "sh", "-c", inner],
                       env={"MUSTER_UNDER_TEST": str(muster)})
    assert (ended.returncode, ended.stdout) == (0, "0/1 of node 0\n"), ended


def test_a_mode_that_cannot_be(run_muster):
    ended = run_muster(["run", "--mode=fanout", "--no-python", "true"])
    assert ended.returncode == 2
    assert "there is no allocation here whose nodes could be started; name them with --hosts or --hostfile" in ended.stderr
