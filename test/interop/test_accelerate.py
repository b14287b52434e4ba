"""The same command line given to the real `accelerate launch` 1.15 and to `muster accelerate launch`.

Compared name by name: the environment of every worker. Where muster does what was asked and accelerate does less, the
tests say both. Only what is random is normalised: ports, process ids and the names of temporary directories.
"""

import contextlib
import json
import re
import signal
import subprocess

import pytest

from harness import ROOT, clean_env, free_port, launched, wait_gone

pytestmark = [pytest.mark.interop, pytest.mark.multiprocess]
WORKERS = ROOT / "test/interop/workers"
DUMP = str(WORKERS / "accelerate_dump.py")
TRAIN = str(WORKERS / "accelerate_train.py")


REAL = ("-m", "accelerate.commands.launch")


class Run:
    """One launch in a directory of its own, and what its workers were given. `machines`: each launches, with these words."""

    def __init__(self, launcher, args, where, python, env=None, port=None, machines=((),)):
        dumps, self.where, self.port = where / "dumps", where, port
        dumps.mkdir(parents=True)
        (where / "tmp").mkdir()
        given = {"DUMP_DIR": dumps, "TMPDIR": where / "tmp", "LC_ALL": "C.UTF-8", "HF_HOME": where / "hf"}
        with contextlib.ExitStack() as stack:
            all_of_it = [
                stack.enter_context(launched([*launcher, *own, *args], python, {**given, **(env or {})}, cwd=where))
                for own in machines
            ]
            said = [process.communicate(timeout=150) for process in all_of_it]
            left = [wait_gone(process.marker) for process in all_of_it]
        assert not any(left), f"processes outlived the job: {left}"
        self.stdout, self.stderr = ("".join(texts) for texts in zip(*said))
        self.code = max(abs(process.returncode) for process in all_of_it)
        self.workers = {p.stem: json.loads(p.read_text()) for p in sorted(dumps.glob("*.json"))}

    def environment(self, name):
        """Of a worker, without what only muster has and what is random."""
        env = self.workers[name]["environment"]
        env = {k: v.replace(str(self.where), "<here>") for k, v in env.items() if not k.startswith("MUSTER_")}
        if env.get("TORCHELASTIC_ERROR_FILE", "").startswith("<here>/tmp/"):
            env["TORCHELASTIC_ERROR_FILE"] = "<a temporary file>"  # laid out as muster run does
        if self.port and env.get("MASTER_PORT") == str(self.port):
            env["MASTER_PORT"] = "<the port given>"
        for per_process in ("_", "COLUMNS", "LINES"):
            env.pop(per_process, None)
        return env


@pytest.fixture
def both(muster, accelerate, tmp_path):
    """both(args, env, config) -> (real, ours): the same launch with each, on one machine or on several."""

    def launch(args, env=None, config=None, machines=((),)):
        port = free_port()
        args = [str(a).replace("{port}", str(port)) for a in args]
        if config is not None:
            (tmp_path / "config.yaml").write_text(config)
            args = ["--config_file", str(tmp_path / "config.yaml"), *args]
        real = Run([accelerate, *REAL], args, tmp_path / "real", accelerate, env, port, machines)
        ours = Run([muster, "accelerate", "launch"], args, tmp_path / "ours", accelerate, env, port, machines)
        return real, ours

    return launch


# The same on both sides but for what is named: MASTER_ADDR of c10d is the host's name there and loopback here.
MULTI = {
    "multi-gpu": (["--multi_gpu", "--num_processes", "2", "--main_process_port", "{port}"], {}, None),
    "flags": (
        ["--multi-gpu", "--num-processes=2", "--main-process-port", "{port}", "--mixed_precision", "bf16", "--dynamo_backend",
         "inductor", "--dynamo_mode", "max-autotune", "--dynamo_use_fullgraph", "--debug", "--enable_cpu_affinity",
         "--num_cpu_threads_per_process", "3", "--gpu_ids", "0,1", "--role", "trainer", "--max_restarts", "2"],
        {}, None),
    "inherited": (
        ["--multi_gpu", "--num_processes", "2", "--main_process_port", "{port}"],
        {"http_proxy": "a", "no_proxy": "b", "NO_PROXY": "c", "OMP_NUM_THREADS": "5", "PET_RDZV_ID": "mine", "MASTER_ADDR": "x"}, None),
    "fsdp": (
        ["--use_fsdp", "--num_processes", "2", "--main_process_port", "{port}", "--fsdp_offload_params", "True",
         "--fsdp_state_dict_type", "SHARDED_STATE_DICT", "--fsdp_auto_wrap_policy", "TRANSFORMER_BASED_WRAP"],
        {}, None),
    "parallelism": (
        ["--use_fsdp", "--fsdp_version", "2", "--use_parallelism_config", "--parallelism_config_cp_size", "2",
         "--num_processes", "2", "--main_process_port", "{port}"],
        {}, None),
    "megatron": (
        ["--use_megatron_lm", "--num_processes", "2", "--main_process_port", "{port}", "--megatron_lm_tp_degree", "2",
         "--megatron_lm_sequence_parallelism", "true", "--megatron_lm_no_load_optim", "false"],
        {}, None),
    "config file": (
        ["--main_process_port", "{port}"], {},
        "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\nnum_processes: 2\nmixed_precision: fp16\n"
        "debug: true\ngpu_ids: all\nmain_process_port: 1\n"
        "dynamo_config: {dynamo_backend: EAGER, dynamo_use_dynamic: true}\nmpirun_config: {max_restarts: 3}\n"),
    "fsdp file": (
        ["--main_process_port", "{port}"], {},
        "distributed_type: FSDP\nnum_processes: 2\nmixed_precision: 'no'\n"
        "fsdp_config: {fsdp_offload_params: true, fsdp_version: 2, cpu_ram_efficient_loading: false}\n"),
}


@pytest.mark.parametrize("case", MULTI)
def test_workers_get_the_same(both, case):
    args, env, config = MULTI[case]
    real, ours = both([*args, DUMP, "--lr", "1", "${local_rank}"], env, config)
    assert real.code == ours.code == 0, (real.stderr, ours.stderr)
    assert set(real.workers) == set(ours.workers) == {"0", "1"}
    for rank in real.workers:
        assert ours.environment(rank) == real.environment(rank)
        assert ours.workers[rank]["arguments"] == real.workers[rank]["arguments"]


# Two machines that are this one: each runs the same line but for its --machine_rank. Four processes in all.
# GLOO_SOCKET_IFNAME, which muster sets where the machine's name leads to loopback, is given to both. (With c10d the real
# one may wait for ever when the machine that hosts is done first.)
MEET = ["--num_machines", "2", "--num_processes", "4", "--main_process_ip", "127.0.0.1", "--main_process_port", "{port}"]
MACHINES = {
    "multi-gpu": (["--multi_gpu", *MEET], {}, None),
    "same network": (["--multi_gpu", "--same_network", *MEET, "--role", "trainer", "--max_restarts", "1"], {}, None),
    "fsdp": (["--use_fsdp", "--fsdp_offload_params", "True", "--gpu_ids", "0,1", *MEET], {"OMP_NUM_THREADS": "5"}, None),
    "config file": (
        ["--main_process_port", "{port}"], {},
        "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\nnum_machines: 2\nnum_processes: 4\n"
        "main_process_ip: 127.0.0.1\nmain_process_port: 1\nmixed_precision: bf16\nsame_network: true\n"),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", MACHINES)
def test_workers_of_two_machines_get_the_same(both, case):
    args, env, config = MACHINES[case]
    machines = [["--machine_rank", str(rank)] for rank in (0, 1)]
    real, ours = both([*args, DUMP, "--lr", "1"], {"GLOO_SOCKET_IFNAME": "lo", **env}, config, machines)
    assert real.code == ours.code == 0, (real.stderr, ours.stderr)
    assert set(real.workers) == set(ours.workers) == {"0", "1", "2", "3"}
    for rank in real.workers:
        assert ours.environment(rank) == real.environment(rank)
        assert ours.workers[rank]["arguments"] == real.workers[rank]["arguments"]


SINGLE = {
    "nothing": ([], {}, None),
    "cpu": (["--cpu", "--num_processes", "1"], {}, None),
    "flags": (["--num_processes", "1", "--mixed_precision", "bf16", "--gpu_ids", "0", "--debug", "--enable_cpu_affinity"], {}, None),
    "inherited": ([], {"http_proxy": "a", "RANK": "7", "OMP_NUM_THREADS": "5"}, None),
    "config file": ([], {}, "distributed_type: 'NO'\nuse_cpu: true\nmixed_precision: 'no'\nnum_processes: 1\n"),
}


@pytest.mark.parametrize("case", SINGLE)
def test_a_single_process_gets_the_same(both, case):
    args, env, config = SINGLE[case]
    real, ours = both([*args, DUMP, "x"], env, config)
    assert real.code == ours.code == 0, (real.stderr, ours.stderr)
    assert set(real.workers) == set(ours.workers)
    (name,) = real.workers
    assert ours.environment(name) == real.environment(name)
    assert "muster: " not in ours.stderr


def test_every_flag_is_known(muster, accelerate):
    """The table has all flags of the real parser, with their defaults and choices, and no other."""
    script = (
        "import json\nfrom accelerate.commands.launch import launch_command_parser\n"
        "parser = launch_command_parser()\ndefaults = vars(parser.parse_args(['train.py']))\n"
        "print(json.dumps([[a.option_strings, a.choices, None if a.nargs == 0 else defaults[a.dest]]"
        " for a in parser._actions if a.option_strings]))"
    )
    real = json.loads(subprocess.run([accelerate, "-c", script], capture_output=True, text=True, check=True, env=clean_env(accelerate)).stdout)
    text = subprocess.run([muster, "accelerate", "launch", "--help-all"], capture_output=True, text=True, check=True).stdout
    ours = set(re.findall(r"^  (?:-\w, )?--([\w-]+)", text, re.M))
    theirs = {o[2:].replace("-", "_") for options, *_ in real for o in options if o.startswith("--")}
    assert ours - {"help-all"} == theirs - {"env"}  # of TPU pods; muster's own stands for it
    for options, choices, default in real:
        name = next(o[2:].replace("-", "_") for o in options if o.startswith("--"))
        if name == "env":
            continue
        block = re.search(rf"^  (?:-\w, )?--{name}\b.*\n((?:      .*\n)*)", text, re.M).group(1)
        said = re.fullmatch(r".*?(?: One of ([^.]*)\.)?(?: Default: (.*)\.)?", " ".join(block.split()))
        default = ",".join(map(str, default)) if isinstance(default, list) else default
        assert said.group(1) == (", ".join(choices) if choices else None), name
        assert said.group(2) == (str(default) if default not in (None, "") else None), name


def test_two_processes_on_the_cpu_are_two(both):
    real, ours = both(["--num_processes", "2", "--main_process_port", "{port}", DUMP])
    assert set(real.workers) == {"plain"} and set(ours.workers) == {"0", "1"}
    assert "2 processes and no GPU here: as many ranks on the CPU" in ours.stderr
    env = ours.environment("1")
    assert env["ACCELERATE_USE_CPU"] == "True" and env["WORLD_SIZE"] == "2"
    missing = set(real.environment("plain")) - set(env)
    assert not missing


def losses(text):
    return re.findall(r"loss (\S+)", text)


def test_training_with_two_processes_comes_to_the_same(muster, accelerate, tmp_path):
    one = Run([muster, "accelerate", "launch"], [TRAIN], tmp_path / "one", accelerate)
    two = Run([muster, "accelerate", "launch"], ["--num_processes", "2", TRAIN], tmp_path / "two", accelerate)
    nodes = Run([muster, "accelerate", "launch"], ["--num_processes", "2", "--local-nodes", "2", TRAIN], tmp_path / "nodes", accelerate)
    assert one.code == two.code == nodes.code == 0, (one.stderr, two.stderr, nodes.stderr)
    assert "rank 0 of 1 NO" in one.stdout
    for several in (two, nodes):
        assert "rank 0 of 2 MULTI_CPU" in several.stdout and "rank 1 of 2 MULTI_CPU" in several.stdout
        assert losses(several.stdout) == losses(one.stdout)


def test_five_processes_on_two_machines_are_five(muster, accelerate, tmp_path):
    ours = Run([muster, "accelerate", "launch"], ["--num_processes", "5", "--local-nodes", "2", DUMP], tmp_path, accelerate)
    assert ours.code == 0, ours.stderr
    assert sorted(ours.workers) == ["0", "1", "2", "3", "4"]
    assert [ours.environment(r)["LOCAL_WORLD_SIZE"] for r in "01234"] == ["3", "3", "3", "2", "2"]


@pytest.mark.parametrize("backend", ["static", "c10d"])
def test_machines_that_each_run_it_meet(muster, accelerate, tmp_path, backend):
    port = free_port()
    common = ["--num_machines", "2", "--num_processes", "3", "--main_process_ip", "127.0.0.1", "--main_process_port", str(port),
              "--same_network", "--rdzv_backend", backend]
    dumps = tmp_path / "dumps"
    dumps.mkdir()
    env = {"DUMP_DIR": dumps, "HF_HOME": tmp_path}
    commands = [[muster, "accelerate", "launch", *common, "--machine_rank", str(rank), DUMP] for rank in (0, 1)]
    with launched(commands[0], accelerate, env) as first, launched(commands[1], accelerate, env) as second:
        said = [process.communicate(timeout=60)[1] for process in (first, second)]
    assert first.returncode == second.returncode == 0, said
    assert sorted(p.stem for p in dumps.glob("*.json")) == ["0", "1", "2"]


def test_a_failing_worker_gives_its_code(muster, accelerate, tmp_path):
    ours = Run([muster, "accelerate", "launch"], ["--num_processes", "2", DUMP, "exit", "3"], tmp_path / "two", accelerate)
    assert ours.code == 3
    alone = Run([muster, "accelerate", "launch"], [DUMP, "exit", "4"], tmp_path / "one", accelerate)
    assert alone.code == 4


def test_sigterm_stops_the_one_process(start_muster, tmp_path):
    """The launcher's end is not waited for alone: start_muster finds what is left."""
    program = ["--no_python", "/bin/sh", "-c", "echo up; exec sleep 1000"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = start_muster(["accelerate", "launch", *program], env={"HF_HOME": tmp_path}, **pipes)
    assert process.stdout.readline() == "up\n"
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert errors.count("/bin/sh was stopped: muster received SIGTERM\n") == 1, errors


BAD = [
    (["--num_proceses", "2", "t.py"], "unrecognized arguments: --num_proceses; did you mean --num_processes?"),
    (["--num_processes", "two", "t.py"], "argument --num_processes: invalid int value: 'two'"),
    (["--tpu", "t.py"], "--tpu"),
    (["--cpu", "--multi_gpu", "t.py"], "exclude each other"),
    (["--config_file", "nowhere.yaml", "t.py"], "nowhere.yaml"),
    (["--num_machines", "2", "--num_processes", "2", "t.py"], "give --main_process_ip HOST"),
    ([], "training_script"),
]


@pytest.mark.parametrize("args, sentence", BAD)
def test_bad_input_gets_one_sentence(muster, tmp_path, args, sentence):
    ended = subprocess.run([muster, "accelerate", "launch", *args], capture_output=True, text=True, env=clean_env(HF_HOME=tmp_path), cwd=tmp_path)
    assert ended.returncode == 2
    assert sentence in ended.stderr and ended.stderr.count("\n") == 1 and ended.stdout == ""


def test_all_unknown_keys_of_a_config_file_are_named(both):
    real, ours = both([DUMP], {}, "distributed_type: 'NO'\nzoo: 1\nfoo: 2\n")
    assert (real.code, ours.code) == (1, 2), ours.stderr
    for launcher in (real, ours):
        for word in ("unknown keys", "'foo', 'zoo'", "config.yaml"):
            assert word in launcher.stderr, launcher.stderr


def test_other_sub_commands_are_accelerates(muster):
    ended = subprocess.run([muster, "accelerate", "config"], capture_output=True, text=True, env=clean_env())
    assert ended.returncode == 2 and "use accelerate config itself" in ended.stderr


def test_a_link_named_accelerate_launch(muster, tmp_path):
    (tmp_path / "accelerate-launch").symlink_to(muster)
    ended = subprocess.run([tmp_path / "accelerate-launch", "--num_processes=2", "--no_python", "/bin/sh", "-c", "echo r$RANK"],
                           capture_output=True, text=True, env=clean_env(HF_HOME=tmp_path), cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert sorted(re.findall(r"r\d", ended.stdout)) == ["r0", "r1"]
