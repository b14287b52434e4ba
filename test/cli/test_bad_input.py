"""Bad input: one sentence that says what is wrong and what to do, the right exit code, and nothing started."""

import os
import pathlib
import resource
import shutil
import socket
import subprocess
import tempfile

import pytest

from harness import clean_env

pytestmark = pytest.mark.cli


@pytest.fixture
def refused(muster, tmp_path):
    """refused(args, code=2) -> the sentence. Every worker would leave a file behind; there must be none."""
    trace = tmp_path / "started"
    script = tmp_path / "train.py"
    script.write_text(f"open({str(trace)!r}, 'w')")

    def run(args, code=2, env=None, prefix="muster: error: ", with_usage="", **popen):
        command = [muster, *(str(script) if arg == "SCRIPT" else str(arg) for arg in args)]
        popen.setdefault("cwd", tmp_path)
        done = subprocess.run(command, capture_output=True, text=True, env=clean_env(**(env or {})), timeout=60, **popen)
        assert done.returncode == code, done
        assert not trace.exists(), "something was started"
        assert done.stdout == ""
        usage, found, sentence = done.stderr.rpartition(prefix)
        assert found and sentence.count("\n") == 1 and usage.startswith(with_usage), done.stderr
        assert bool(usage) == bool(with_usage)
        return sentence.rstrip("\n")

    return run


@pytest.mark.parametrize("slip", ["--nporc-per-node", "--nporc"])
def test_unknown_option_names_the_nearest(refused, slip):
    assert refused(["run", slip, 2, "SCRIPT"]) == f"unknown option '{slip}'; did you mean '--nproc-per-node'?"


@pytest.mark.parametrize("habit", [["-n", 2], ["-n2"], ["-np", 2], ["--ntasks", 2], ["--ntasks=2"]])
def test_habits_of_srun_and_mpirun(refused, habit):
    typed = str(habit[0]).partition("=")[0]
    assert refused(["run", *habit, "SCRIPT"]).startswith(f"unknown option '{typed}'; write --nproc-per-node ")


@pytest.mark.parametrize(
    "habit, ours",
    [
        ("--num_processes", "--nproc-per-node"),
        ("--num-gpus", "--nproc-per-node"),
        ("--workers", "--nproc-per-node"),
        ("--num_machines", "--nnodes"),
        ("--machine_rank", "--node-rank"),
        ("--main_process_ip", "--master-addr"),
        ("--port", "--master-port"),
    ],
)
def test_habits_of_accelerate_and_deepspeed(refused, habit, ours):
    assert refused(["run", habit, 2, "SCRIPT"]).startswith(f"unknown option '{habit}'; write {ours} ")


def test_unknown_verb_names_the_nearest(refused):
    assert refused(["rnu", "SCRIPT"]) == "unknown verb 'rnu'; did you mean 'muster run'?"
    assert refused(["train.py"]) == "unknown verb 'train.py'; to run it write muster run train.py"
    assert "write muster run --nproc-per-node" in refused(["--nproc-per-node", 2, "SCRIPT"])
    assert "muster --help" in refused([])
    assert refused(["--verson"]) == "unknown option '--verson'; did you mean '--version'?"


def test_unknown_word_of_a_verb_names_the_nearest(refused):
    assert refused(["accelerate", "lanch", "SCRIPT"]) == "'lanch' is not a sub-command; did you mean 'muster accelerate launch'?"
    assert refused(["completion", "bsh"]) == "'bsh' is not supported; did you mean 'muster completion bash'?"
    assert refused(["completion", "powershell"]) == "'powershell' is not supported; choose bash|zsh|fish"
    assert refused(["help", "rnu"]) == "unknown verb 'rnu'; did you mean 'muster help run'?"


def test_missing_program(refused):
    assert "does not exist" in refused(["run", "nothing.py"], code=127)
    assert "does not exist" in refused(["run", "--run-path", "nothing.py"], code=127)
    assert refused(["run", "--no-python", "no-such-program"], code=127) == (
        "there is no program 'no-such-program' on PATH; check the name, or write its path"
    )
    assert refused(["run", "--no-python", "./a.out"], code=127) == (
        "./a.out does not exist; check the path; relative ones start at the current directory"
    )
    assert "set it to a Python" in refused(["run", "SCRIPT"], code=127, env={"PYTHON_EXEC": "/nowhere"})


@pytest.mark.root
def test_a_directory_that_denies_access(muster):
    with tempfile.TemporaryDirectory() as base:
        os.chmod(base, 0o755)
        program = shutil.copy(muster, base)
        os.mkdir(f"{base}/closed", mode=0o700)
        script = pathlib.Path(base, "closed/train.py")
        script.touch()
        as_nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", program]
        for words in ([script], ["--no-python", script]):
            done = subprocess.run([*as_nobody, "run", *words], capture_output=True, text=True, env=clean_env(), cwd="/")
            assert done.returncode == 126, done
            assert f"'{script}' cannot be reached: a directory of its path denies access" in done.stderr


def test_program_that_is_not_executable(refused, tmp_path):
    (tmp_path / "data").write_text("x")
    assert "chmod +x" in refused(["run", "--no-python", "./data"], code=126)
    (tmp_path / "folder").mkdir()
    assert "without a __main__.py" in refused(["run", "folder"], code=126)


@pytest.mark.parametrize(
    "count, sentence",
    [
        ("0", "0 is too small; it must be at least 1"),
        ("-1", "-1 is too small; it must be at least 1"),
        ("x", "'x' is not a number of workers; write a number, gpu, cpu, xpu or auto"),
        ("99999999999", "99999999999 workers are more than a node can have; write a number up to 1000000"),
        ("gpu", "there is no GPU (CUDA_VISIBLE_DEVICES"),
    ],
)
def test_number_of_workers(refused, count, sentence):
    env = {"CUDA_VISIBLE_DEVICES": ""}
    assert f"--nproc-per-node: {sentence}" in refused(["run", "--nproc-per-node", count, "SCRIPT"], env=env)


def test_nodes(refused):
    assert "the minimum of '3:2' is above its maximum" in refused(["run", "--nnodes", "3:2", "SCRIPT"])
    assert "no rendezvous address for 2 nodes; give --master-addr HOST" in refused(["run", "--nnodes", "2", "SCRIPT"])


def test_hosts(refused):
    assert refused(["run", "--nnodes", 2, "--master-addr=", "SCRIPT"]) == (
        "--master-addr: '' is not the name of a host; write the name or the address of the first node"
    )
    assert "--hosts: no host is named; write n1,n2" in refused(["run", "--hosts", "", "SCRIPT"])
    assert refused(["run", "--hosts", "n1", "--ssh", "no-such-ssh", "SCRIPT"]) == (
        "--ssh: there is no program 'no-such-ssh' on PATH; name the ssh to use, or install one"
    )


def test_files_that_cannot_be_read(refused, tmp_path):
    may_read = "give a file you may read"
    assert refused(["run", "--hostfile", tmp_path, "SCRIPT"]) == f"--hostfile: {tmp_path}: Is a directory; {may_read}"
    assert refused(["run", "--env-file", tmp_path, "SCRIPT"]) == f"--env-file: {tmp_path}: Is a directory; {may_read}"
    words = ["accelerate", "launch", "--use_deepspeed", "--deepspeed_hostfile", "none", "SCRIPT"]
    assert refused(words) == f"--deepspeed_hostfile: none: No such file or directory; {may_read}"


def test_help_on_a_full_disk(muster):
    with open("/dev/full", "w") as full:
        for words in (["run", "--help"], ["--help"], ["env", "--json"], ["run", "--dry-run", "--no-python", "true"]):
            done = subprocess.run([muster, *words], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
            assert done.returncode == 125, words
            assert done.stderr == "muster: error: cannot write to stdout: No space left on device\n"


def test_help_of_launch_is_no_warning(muster):
    done = subprocess.run([muster, "launch", "--help"], capture_output=True, text=True, env=clean_env(), timeout=60)
    assert done.returncode == 0 and done.stderr == "" and done.stdout.startswith("usage: ")


@pytest.mark.parametrize("option", ["--master-port={}", "--rdzv-endpoint=localhost:{}"])
def test_taken_port_names_its_holder(refused, option):
    with socket.socket() as taken:
        taken.bind(("0.0.0.0", 0))
        taken.listen()
        port = taken.getsockname()[1]
        sentence = refused(["run", option.format(port), "SCRIPT"])
    assert str(port) in sentence and "pid " in sentence and sentence.endswith("; choose another one, or 0: then a free one is taken")


def test_taken_ports_of_others(refused):
    static = ["--nnodes", 2, "--node-rank", 0, "--master-addr", "localhost", "--master-port"]
    with socket.socket() as taken:
        taken.bind(("0.0.0.0", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert refused(["store", "--port", port]).endswith("; choose another one, or 0: then a free one is taken")
        for verb, code, prefix in (("run", 2, "muster: error: "), ("torchrun", 1, "torchrun: error: ")):
            sentence = refused([verb, *static, port, "SCRIPT"], code=code, prefix=prefix, env={"MUSTER_TOKEN": "x"})
            assert sentence.startswith(f"port {port} is taken by pid ")
            assert sentence.endswith("; choose another one for all nodes, with --master-port or --rdzv-endpoint")


def test_range_of_ports(refused):
    with socket.socket() as taken:
        taken.bind(("0.0.0.0", 0))
        taken.listen()
        port = taken.getsockname()[1]
        for nodes in [[], ["--local-nodes", 2]]:
            sentence = refused(["run", *nodes, "--port-range", f"{port}-{port}", "SCRIPT"])
            assert sentence == f"--port-range: every port from {port} to {port} is taken; give a wider range"
    assert "is not a range of ports" in refused(["run", "--port-range", "9-1", "SCRIPT"])


def test_log_directory(refused, tmp_path):
    (tmp_path / "file").write_text("")
    assert "a file, not a directory; name a directory" in refused(["run", "--log-dir", tmp_path / "file", "SCRIPT"])
    assert "cannot be created" in refused(["run", "--log-dir", "/proc/muster", "SCRIPT"])


def test_working_directory_that_is_gone(refused, tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    sentence = refused(["run", "--local-nodes", 2, "SCRIPT"], cwd=gone, preexec_fn=gone.rmdir)
    assert "working directory" in sentence and sentence.endswith("; cd to one that exists")


def test_files_that_cannot_be_written(refused, tmp_path):
    assert "cannot be written: Is a directory; " in refused(["run", "--report", tmp_path, "SCRIPT"])
    assert "cannot be written" in refused(["run", "--events", tmp_path, "SCRIPT"])
    assert "cannot be written: No such file or directory; " in refused(["run", "--report", "/proc/muster/r", "SCRIPT"])
    assert "cannot be written" in refused(["run", "--events", "/proc/muster/e", "SCRIPT"])


@pytest.mark.parametrize("name, value", [("STANDALONE", "yes"), ("MAX_RESTARTS", "x"), ("NPROC_PER_NODE", ""), ("TEE", "9")])
def test_malformed_variables_are_named(refused, name, value):
    assert refused(["run", "SCRIPT"], env={f"PET_{name}": value}).startswith(f"PET_{name}")


def test_rendezvous(refused):
    assert refused(["run", "--rdzv-conf", "timeout", "SCRIPT"]) == (
        "--rdzv-conf: 'timeout' has no value; write timeout=VALUE"
    )
    assert "use c10d" in refused(["run", "--rdzv-backend", "etcd-v2", "SCRIPT"])
    assert "has no port" in refused(["run", "--rdzv-endpoint", "localhost", "SCRIPT"])
    assert "is not this machine" in refused(["run", "--master-addr", "192.0.2.1", "--master-port", "1", "SCRIPT"])
    assert "is not this machine" in refused(["run", "--master-addr", "192.0.2.1", "SCRIPT"])
    assert "is not this machine" in refused(["run", "SCRIPT"], env={"PET_MASTER_ADDR": "192.0.2.1"})
    assert "join_timeout" in refused(["run", "--rdzv-conf", "join_timeout=soon", "SCRIPT"])


def test_json_is_for_dry_runs(refused):
    assert "--dry-run" in refused(["run", "--json", "SCRIPT"])


def test_no_python(refused, tmp_path):
    assert "no python or python3 on PATH" in refused(["run", "SCRIPT"], env={"PATH": str(tmp_path)})


def test_too_few_descriptors(refused):
    def lower():
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, 1024))

    sentence = refused(["run", "--nproc-per-node", 10000, "SCRIPT"], preexec_fn=lower)
    assert "10000 workers need 100064 file descriptors and this process may open 1024" in sentence
    assert "ulimit -Hn 100064" in sentence


def test_soft_limit_is_raised(muster):
    def lower():
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 4096))

    done = subprocess.run([muster, "run", "--nproc-per-node", "24", "/bin/true"], preexec_fn=lower, env=clean_env(), timeout=60)
    assert done.returncode == 0


def test_python_internals_are_refused_with_what_to_use(refused):
    assert "use --log-dir" in refused(["run", "--logs-specs", "x", "SCRIPT"])
    assert "--events FILE" in refused(["run", "--event-log-handler", "x", "SCRIPT"])


def test_torchrun_ends_as_torchrun_does(refused):
    """Words are wrong: usage and 2. Values are wrong: 1."""
    torchrun = {"prefix": "torchrun: error: "}
    sentence = refused(["torchrun", "--nproc", 2, "SCRIPT"], with_usage="usage: torchrun [-h] [--nnodes", **torchrun)
    assert sentence == "ambiguous option: --nproc could match --nproc-per-node, --nproc_per_node"
    assert "there is no node 2 in a job of 2" in refused(
        ["torchrun", "--nnodes", 2, "--node-rank", 2, "SCRIPT"], code=1, **torchrun
    )
    assert "PET_STANDALONE" in refused(["torchrun", "SCRIPT"], env={"PET_STANDALONE": ""}, code=1, **torchrun)


def test_a_report_replaces_nothing_but_a_report(refused, tmp_path):
    script = tmp_path / "train.py"
    script.write_text("print('trained')\n")
    assert "would be overwritten: it holds something else than a report" in refused(["run", "--report", script, script])
    assert script.read_text() == "print('trained')\n"


def test_a_report_does_not_go_where_the_output_goes(muster, tmp_path):
    log = tmp_path / "log.txt"
    log.write_text("{ kept\n")
    with log.open("a") as stdout:
        done = subprocess.run(
            [muster, "run", "--report", "/dev/stdout", "--no-python", "true"], stdout=stdout, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (done.returncode, log.read_text()) == (2, "{ kept\n"), done.stderr
    assert "muster's own output goes there" in done.stderr
