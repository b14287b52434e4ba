"""How a job starts by where it is: each row of the table of modes, on a real Slurm; and what old scripts get wrong."""

import json
import re
import shutil

import pytest

# What a worker knows of its place.
SHOW = "echo $RANK/$WORLD_SIZE $LOCAL_RANK $GROUP_RANK $(hostname) $TORCHELASTIC_RUN_ID"
QUIET = ["--label", "none"]


@pytest.fixture
def show(tmp_path):
    path = tmp_path / "show.sh"
    path.write_text(f"#!/bin/sh\n{SHOW}\n")
    path.chmod(0o755)
    return str(path)


def where(slurm, *prefix):
    ended = slurm.run(*prefix, slurm.muster, "where", "--json")
    assert ended.code == 0, ended
    return json.loads(ended.out)


# --- row 3: a step on several nodes ------------------------------------------------------------------------------------


def test_a_step_finds_itself(slurm, show):
    two = slurm(2)
    ended = two.run("srun", "-N2", two.muster, "run", *QUIET, "--nproc-per-node=2", show)
    assert ended.code == 0, ended
    assert ended.lines == ["0/4 0 0 n1 1.0", "1/4 1 0 n1 1.0", "2/4 0 1 n2 1.0", "3/4 1 1 n2 1.0"]
    assert ended.complaints == ""


def test_a_step_of_a_larger_allocation_uses_its_own_nodes(slurm, show):
    three = slurm(3)
    ended = three.batch(f"srun -N2 -n2 -w n2,n3 {three.muster} run --label none {show}", "-N3")
    assert ended.code == 0, ended
    assert ended.lines == ["0/2 0 0 n2 1.0", "1/2 0 1 n3 1.0"]


def test_steps_of_one_job_do_not_collide(slurm, show):
    """Two steps on the same two nodes, each of which waits until the other has begun."""
    two = slurm(2)
    script = f"""
        meet() {{ srun --overlap -N2 -n2 {two.muster} run --label none {two.cluster.shared}/meet.sh $1 $2; }}
        meet a b & first=$!
        meet b a & second=$!
        wait $first && wait $second
    """
    two.file("meet.sh", f"#!/bin/sh\ncd {two.cluster.shared}\ntouch $1.$RANK\n"
                        "for i in $(seq 600); do [ -e $2.0 ] && [ -e $2.1 ] && break; sleep 0.05; done\n"
                        "[ -e $2.0 ] && [ -e $2.1 ] && " + SHOW + "\n")
    ended = two.batch(script, "-N2")
    assert ended.code == 0, ended
    assert ended.lines == ["0/2 0 0 n1 1.0", "0/2 0 0 n1 1.1", "1/2 0 1 n2 1.0", "1/2 0 1 n2 1.1"]


def test_the_exit_code_of_a_step(slurm):
    two = slurm(2)
    fails = two.file("fails.sh", "#!/bin/sh\n[ $RANK = 1 ] && exit 7\nsleep 600\n")
    ended = two.run("srun", "-N2", two.muster, "run", fails)
    assert ended.code == 7, ended
    assert re.search(r"rank 1 .*exit code 7", ended.err), ended


@pytest.mark.slow
def test_a_step_whose_nodes_only_slurm_can_find(slurm, show):
    two = slurm(2, no_dns=True)
    for name in two.cluster.names:
        two.cluster.set_resolver(name, None)
    ended = two.run("srun", "-N2", two.muster, "run", *QUIET, show)
    assert ended.code == 0, ended
    assert ended.lines == ["0/2 0 0 n1 1.0", "1/2 0 1 n2 1.0"]


def test_a_step_that_meets_at_a_name_that_appears_later(slurm, show):
    """The other node has its token from there, by munge."""
    two = slurm(2)
    job = two.start("srun", "-N2", two.muster, "run", *QUIET, "--master-addr=master", "--master-port=12234", show)
    job.expect(r"waiting for master \(cannot resolve 'master': .*\), which has the job's token")
    two.cluster.add_name("n2", "master", two.cluster.address("n1"))
    assert job.end() == 0, job.said()
    assert [line.split()[0] for line in sorted(job.out.splitlines())] == ["0/2", "1/2"]


def test_a_step_that_meets_at_a_name_that_never_appears(slurm, show):
    two = slurm(2)
    meet = ["--master-addr=master", "--master-port=12234", "--join-timeout=3"]
    ended = two.run("srun", "-N2", two.muster, "run", *meet, show)
    assert ended.code == 125, ended
    assert "master:12234 has not given us the job's token in" in ended.err, ended
    assert "cannot resolve 'master'" in ended.err, ended


# --- old scripts in a step ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        "--nnodes=$SLURM_NNODES --node_rank=$SLURM_NODEID --master_addr=n1 --master_port=12234",
        "--nnodes=$SLURM_NNODES --rdzv_backend=c10d --rdzv_endpoint=n1 --rdzv_id=$SLURM_JOB_ID",
        "--nnodes=$SLURM_NNODES --node_rank=$NO_SUCH_VARIABLE --master_addr=n1 --master_port=12234",
        "--nnodes=$SLURM_NNODES --master_addr=n1",
        "--nnodes=$SLURM_NNODES",
        "--standalone --nnodes=$SLURM_NNODES --node_rank=$SLURM_NODEID --master_addr=n1 --master_port=12234",
    ],
)
def test_torchrun_in_a_step(slurm, show, options):
    two = slurm(2)
    line = f"{two.muster} torchrun {options} --nproc_per_node=v100:1 --no_python {show}"
    ended = two.run("srun", "-N2", "sh", "-c", line)
    assert ended.code == 0, ended
    assert sorted(line.split()[0] for line in ended.lines) == ["0/2", "1/2"]


def test_every_node_is_told_to_be_the_first(slurm, show):
    """The batch script's $SLURM_NODEID is 0."""
    two = slurm(2)
    options = "--nnodes=2 --node_rank=$SLURM_NODEID --master_addr=n1 --master_port=12234 --no_python"
    ended = two.batch(f"srun {two.muster} torchrun {options} {show}", "-N2", "--ntasks-per-node=1")
    assert ended.code == 0, ended
    assert [line.split()[0] for line in ended.lines] == ["0/2", "1/2"]
    assert "--node-rank 0 is ignored: this is node 1 of the step, says Slurm" in ended.err


def test_a_number_of_nodes_that_contradicts_the_step(slurm, show):
    two = slurm(2)
    ended = two.run("srun", "-N2", two.muster, "run", "--nnodes=3", "--master-addr=n1", show)
    assert ended.code == 2, ended
    assert "--nnodes: 3 nodes were asked for, and this step of Slurm job 1 has 2; leave it out" in ended.err


# --- several tasks a node ----------------------------------------------------------------------------------------------


def test_several_tasks_a_node_are_one_agent(slurm, show):
    two = slurm(2)
    ended = two.run("srun", "-N2", "--ntasks-per-node=4", two.muster, "run", *QUIET, "--nproc-per-node=2", show)
    assert ended.code == 0, ended
    assert ended.lines == ["0/4 0 0 n1 1.0", "1/4 1 0 n1 1.0", "2/4 0 1 n2 1.0", "3/4 1 1 n2 1.0"]
    assert ended.complaints == ""


def test_tasks_that_become_one_worker_are_named(slurm, show):
    one = slurm(1, gpus=0)
    ended = one.run("srun", "-N1", "-n4", one.muster, "run", *QUIET, show)
    assert ended.code == 0 and [line[:10] for line in ended.lines] == ["0/1 0 0 n1"], ended
    assert ended.complaints == (
        "muster: the 4 tasks that srun started on this node become 1 worker: muster starts one per GPU, and there is none; "
        "for 4 workers write muster run --nproc-per-node 4\n"
    ), ended


def test_the_others_end_as_the_first_does(slurm):
    two = slurm(2)
    ended = two.batch(
        f"srun -n3 {two.muster} run --no-python sh -c 'exit 9'; echo $?\n"
        f"srun -N1 -n2 sh -c '{two.muster} run --no-python sh -c \"exit 5\" 2>/dev/null; echo $SLURM_PROCID $?'",
        "-N2", "-n3",
    )
    assert "9\n" in ended.out, ended
    assert {"0 5", "1 5"} <= set(ended.lines), ended


def test_the_first_takes_the_cores_of_the_others(slurm):
    """Slurm binds each task to a CPU of its own."""
    two = slurm(2, gpus=0, cpus=2, conf=["TaskPlugin=task/affinity"])
    tasks = ["srun", "-N2", "--ntasks-per-node=2", "--cpus-per-task=1"]
    show = ["sh", "-c", "grep Cpus_allowed_list: /proc/self/status"]
    bound = two.run(*tasks, *show)
    both = two.run("srun", "-N2", "--cpu-bind=none", "--ntasks-per-node=1", "--cpus-per-task=2", *show)
    assert bound.lines != both.lines * 2, "nothing is bound here"
    ended = two.run(*tasks, two.muster, "run", *QUIET, "--nproc-per-node=1", "--no-python", *show)
    assert (ended.code, ended.lines, ended.complaints) == (0, both.lines, ""), (ended, both)


def test_a_step_whose_tasks_have_gpus_of_their_own(slurm, show):
    two = slurm(2, gpus=4)
    script = f"srun --gpus-per-task=1 {two.muster} run {show}; echo $?"
    ended = two.batch(script, "-N2", "--ntasks-per-node=4", "--gres=gpu:4")
    assert ended.out == "2\n", ended
    [line] = set(re.findall(r"write (srun .*) muster …", ended.err))
    assert ended.err.count("each sees GPUs of its own only") == 2, ended  # once a node
    # The line that it names.
    ended = two.batch(f"{line} {two.muster} run --label none {show}", "-N2", "--ntasks-per-node=4", "--gres=gpu:4")
    assert ended.code == 0, ended
    assert len(ended.lines) == 8, ended


# --- heterogeneous jobs ------------------------------------------------------------------------------------------------


def test_all_components_of_a_heterogeneous_job(slurm, show):
    """One node without GPUs, two with: one worker, and one per GPU."""
    three = slurm(3)
    components = ["-N1", ":", "-N2", "--gres=gpu:2"]
    ended = three.batch(f"{three.muster} run --label none {show}", *components)
    assert (ended.code, ended.complaints) == (0, ""), ended
    places = [line.split()[:4] for line in ended.lines]
    assert [p[0] for p in places] == [f"{rank}/5" for rank in range(5)], ended
    assert [p[3] for p in places] == ["n1", "n2", "n2", "n3", "n3"], ended
    ended = three.batch(f"srun --het-group=0,1 {three.muster} run --label none {show}", *components)
    assert (ended.code, ended.complaints) == (0, ""), ended
    assert [line.split()[3] for line in ended.lines] == ["n1", "n2", "n2", "n3", "n3"], ended
    ended = three.batch(f"srun {three.muster} run --label none {show}", *components)
    assert (ended.code, len(ended.lines)) == (0, 1), ended
    assert "1 of the job's 3 nodes" in ended.err and "or with srun --het-group=0-1" in ended.err, ended
    ended = three.batch(f"{three.muster} where --json", "-N1", "--time=10", ":", "-N1", "--time=20")
    assert 0 < json.loads(ended.out)["time_left"] <= 600, ended  # the first component's, which has the script


# --- row 4: a step on one node -----------------------------------------------------------------------------------------


def test_a_step_on_one_node_of_a_larger_job(slurm, show):
    two = slurm(2)
    ended = two.batch(f"srun -N1 -n1 -w n2 {two.muster} run {show}", "-N2")
    assert ended.code == 0, ended
    assert [line.split()[:4] for line in ended.lines] == [["0/1", "0", "0", "n2"]]
    assert "this step has 1 of the job's 2 nodes: starting on n2 alone" in ended.err


def test_steps_on_one_node_each_that_meet(slurm, show):
    two = slurm(2)
    script = "\n".join(
        f"srun -N1 -n1 -w n{rank + 1} {two.muster} torchrun --nnodes=2 --node_rank={rank} --master_addr=n1"
        f" --master_port=12355 --no_python {show} &"
        for rank in range(2)
    )
    ended = two.batch(script + "\nwait", "-N2")
    assert [line.split()[0] for line in ended.lines] == ["0/2", "1/2"], ended


# --- row 5: inside an allocation ---------------------------------------------------------------------------------------


def places(ended):
    """What each worker said of rank and host."""
    assert ended.code == 0, ended
    return sorted(re.findall(r"(\d+/\d+) \d+ \d+ (\S+)", ended.out))


def test_a_batch_script_starts_all_nodes(slurm, show):
    three = slurm(3)
    ended = three.batch(f"{three.muster} run --label none {show}", "-N3")
    assert places(ended) == [("0/3", "n1"), ("1/3", "n2"), ("2/3", "n3")]
    assert ended.complaints == "", ended
    ended = three.batch(f"{three.muster} run --label none --nnodes=2 {show}", "-N3")
    assert places(ended) == [("0/2", "n1"), ("1/2", "n2")]


def test_every_node_counts_its_own_gpus(slurm, show):
    two = slurm(2, gpus=4)
    ended = two.batch(f"{two.muster} run --label none {show}", "-N2", "--gpus=4")  # Slurm gives 3 and 1
    assert places(ended) == [("0/4", "n1"), ("1/4", "n1"), ("2/4", "n1"), ("3/4", "n2")]


def test_salloc_starts_nodes_from_another_machine(slurm, show):
    two = slurm(2)
    ended = two.run("salloc", "-Q", "-N2", two.muster, "run", *QUIET, show)
    assert places(ended) == [("0/2", "n1"), ("1/2", "n2")]
    ended = two.run("salloc", "-Q", "-N1", two.muster, "run", *QUIET, show)
    assert places(ended) == [("0/1", "n1")]


def test_the_interactive_step_of_salloc(slurm, show):
    two = slurm(2, conf=["LaunchParameters=use_interactive_step"])
    script = two.file("typed", f"{two.muster} run --label none {show}; exit\n")
    with open(script) as typed:
        ended = two.run("salloc", "-Q", "-N2", stdin=typed)
    assert places(ended) == [("0/2", "n1"), ("1/2", "n2")]


def test_all_nodes_from_a_step_on_one(slurm, show):
    two = slurm(2)
    ended = two.batch(f"srun -N1 -n1 {two.muster} run --mode fanout --label none {show}", "-N2")
    assert places(ended) == [("0/2", "n1"), ("1/2", "n2")]


def test_torchrun_in_a_batch_script(slurm, show):
    """As if it ran on every node, with the number of a node that no variable has, and a port that is taken."""
    two = slurm(2)
    options = "--nnodes=$NNODES --nproc_per_node=1 --node_rank=$PBS_NODEID --master_addr=n1 --master_port=6818"
    ended = two.batch(f"NNODES=2\n{two.muster} torchrun {options} --no_python {show}", "-N2")
    assert places(ended) == [("0/2", "n1"), ("1/2", "n2")]
    assert "--node-rank is empty, and ignored: the allocation says which node this is" in ended.err
    assert "--master-addr is not needed: muster starts every node of the allocation itself" in ended.err
    assert re.search(r"--master-port: .*6818.* taken.*; taking a free one", ended.err), ended


def test_standalone_for_several_nodes(slurm, show):
    two = slurm(2)
    options = "--standalone --nnodes 2 --nproc_per_node 1 --node_rank 0 --master_addr n1 --master_port 12355"
    ended = two.batch(f"{two.muster} torchrun {options} --no_python {show}", "-N2")
    assert places(ended) == [("0/2", "n1"), ("1/2", "n2")]
    assert "--standalone is ignored: --nnodes asks for 2" in ended.err


def test_an_allocation_of_one_node_needs_no_srun(slurm, show):
    one = slurm(1)
    (one.cluster.shared / "bin").mkdir()
    (one.cluster.shared / "bin/hostname").symlink_to(shutil.which("hostname"))
    ended = one.batch(f"PATH={one.cluster.shared}/bin {one.muster} run --nproc-per-node=2 --label none {show}", "-N1")
    assert ended.code == 0, ended
    assert [line.split()[:4] for line in ended.lines] == [["0/2", "0", "0", "n1"], ["1/2", "1", "0", "n1"]]


def test_what_is_missing_in_a_batch_script(slurm, show):
    two = slurm(2)
    ended = two.batch(f"{two.muster} run --nnodes 3 {show}; echo $?\nPATH=/nowhere {two.muster} run {show}; echo $?", "-N2")
    assert ended.out == "2\n2\n", ended
    assert "--nnodes: 3 nodes were asked for, and Slurm job 1 has 2; leave it out to use them all" in ended.err
    assert "there is no srun on PATH to start its nodes with; add Slurm's bin directory to PATH" in ended.err
    assert "--hosts n1,n2" in ended.err


def test_torchrun_without_nnodes_stays_on_its_node(slurm, show):
    two = slurm(2)
    ended = two.batch(f"{two.muster} torchrun --nproc_per_node=2 --no_python {show}", "-N2")
    assert ended.code == 0, ended
    assert [line.split()[0] for line in ended.lines] == ["0/2", "1/2"]
    assert {line.split()[3] for line in ended.lines} == {"n1"}


# --- muster where ------------------------------------------------------------------------------------------------------


def test_where(slurm):
    two = slurm(2)
    here = where(two)
    assert (here["adapter"], here["row"], here["mode"]) == (None, 7, "local")
    here = where(two, "salloc", "-Q", "-N2", "-t", "10")
    assert (here["adapter"], here["row"], here["mode"]) == ("slurm", 5, "fanout")
    assert here["nodes"] == ["n1", "n2"] and here["node_rank"] is None
    assert 0 < here["time_left"] <= 600
    here = where(two, "srun", "-N1", "-t", "10")
    assert (here["row"], here["mode"], here["node_name"]) == (4, "local", "n1")
    ended = two.batch(f"{two.muster} where", "-N2", "-J", "train")
    assert ended.out.startswith("batch script of Slurm job "), ended
    assert "SLURM_JOB_NODELIST=n[1-2]: of the whole allocation\n" in ended.out
    assert re.search(r"^nodes: n1, n2\nthis node: n1, number 0\ntime left: (59 min \d+ s|1 h 0 min)$", ended.out, re.M), ended
    assert "mode: fanout (row 5: inside an allocation: its nodes are started from here)\n" in ended.out
    assert "`muster run train.py` starts one agent on each of n1, n2 with srun" in ended.out


def test_where_in_a_step(slurm):
    two = slurm(2)
    ended = two.run("srun", "-N2", "-l", two.muster, "where")
    assert ended.code == 0, ended
    for rank in range(2):
        assert f"{rank}: mode: symmetric (row 3: a step on several nodes: each runs its own muster)\n" in ended.out
        assert f"{rank}: `muster run train.py` makes this node number {rank} of 2, which meet on n1" in ended.out


def test_where_an_interactive_step(slurm):
    two = slurm(2, conf=["LaunchParameters=use_interactive_step"])
    script = two.file("where.txt", f"{two.muster} where --json; exit\n")
    with open(script) as typed:
        ended = two.run("salloc", "-Q", "-N2", stdin=typed)
    here = json.loads(ended.out)
    assert (here["row"], here["mode"], here["node_name"]) == (2, "fanout", "n1")
    assert {"name": "SLURM_STEP_ID", "value": "4294967290",
            "meaning": "the interactive step of salloc: as in a batch script"} in here["clues"]
