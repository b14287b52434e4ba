"""Workers in containers: the contract crosses the border, and so do signals, exit codes and the end."""

import json
import os
import shutil
import signal
import subprocess

import pytest

from harness import wait_none

pytestmark = pytest.mark.multiprocess

LONG = "import time; time.sleep(600)"


@pytest.fixture
def run_inside(run_muster, runtime, job_dir):
    def run(args, env=None, **options):
        return run_muster(["run", *runtime.options(), *args], env={**runtime.env, **(env or {})}, cwd=job_dir, **options)

    return run


@pytest.fixture
def start_inside(start_muster, runtime, job_dir):
    def start(args, env=None, **options):
        return start_muster(["run", *runtime.options(), *args], env={**runtime.env, **(env or {})}, cwd=job_dir,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)  # fmt: skip

    return start


def looks(result):
    """What the workers said, by rank."""
    assert result.returncode == 0, result.stderr
    found = [json.loads(line[line.index("{") :]) for line in result.stdout.splitlines() if "{" in line]
    return {int(look["environment"]["RANK"]): look for look in found}


def test_a_worker_has_the_whole_contract(run_inside, runtime, job_dir):
    said = looks(run_inside(["--nproc-per-node", "2", "--env", "GIVEN=by hand", "look.py"],
                            env={"OF_THE_NODE": "here", "LD_LIBRARY_PATH": "/of/the/node"}))  # fmt: skip
    assert sorted(said) == [0, 1]
    for rank, look in said.items():
        env = look["environment"]
        assert look["image"] == "of the tests"
        assert look["directory"] == str(job_dir)
        assert look["user"] == os.geteuid()
        assert look["python"] == "/usr/bin/python3"
        assert env["LOCAL_RANK"] == str(rank) and env["WORLD_SIZE"] == env["LOCAL_WORLD_SIZE"] == "2"
        assert env["MASTER_ADDR"] and int(env["MASTER_PORT"]) > 0
        assert env["TORCHELASTIC_RUN_ID"] and env["MUSTER_WORKER"].endswith(f".0.{rank}")
        assert env["OF_THE_NODE"] == "here" and env["GIVEN"] == "by hand"
        # The image's own or the runtime's, not the node's. That of enroot is the default of the C library it was built with.
        plain = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        of_enroot = ("/usr/bin:/bin:/usr/sbin:/sbin", "/bin:/usr/bin:/sbin:/usr/sbin")  # glibc, musl
        assert env["PATH"] in (of_enroot if runtime.name == "enroot" else (plain,))
        assert "LD_LIBRARY_PATH" not in env


def test_what_was_given_wins_over_the_image(run_inside, runtime, image, tmp_path_factory):
    """Whatever is in a value: charliecloud reads quotes and dollars in what it is told to set."""
    root, variables = image, {"charliecloud": "ch/environment", "enroot": "etc/environment"}.get(runtime.name)
    if variables:
        root = shutil.copytree(image, tmp_path_factory.mktemp("with-variables") / "root", symlinks=True)
        (root / variables).parent.mkdir(exist_ok=True)
        (root / variables).write_text("SECRET=the image's\nRANK=17\nEMPTY=not\nOTHER=kept\n")
    values = {"SECRET": "'$HOME:hush'", "EMPTY": ""}
    done = run_inside(["--container", runtime.image_of(root), *(f"--env={name}={value}" for name, value in values.items()), "look.py"])
    env = looks(done)[0]["environment"]
    assert {name: env[name] for name in values} == values
    assert not [name for name in env if name.startswith("__muster")]
    assert not variables or env["OTHER"] == "kept"


def test_the_store_lets_workers_in(run_inside):
    done = run_inside(["--nproc-per-node", "2", "meet.py"])
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("store says 4711") == 2


def test_root_inside_is_let_in_too(run_inside):
    done = run_inside(["--container-root", "--", "bash", "-c", "id -u; python3 -u meet.py"])
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["0", "store says 4711"]


@pytest.mark.parametrize("end, code, words", [
    ("sys.exit(7)", 7, "exit code 7"),
    ("os.kill(os.getpid(), 9)", 137, "SIGKILL"),
    ("os.kill(os.getpid(), 11)", 139, "SIGSEGV"),
])  # fmt: skip
def test_exit_codes_and_signals_come_out(run_inside, end, code, words):
    done = run_inside(["--nproc-per-node", "2", "look.py", f"if os.environ['RANK'] == '1': {end}\n{LONG}"])
    assert done.returncode == code, done.stderr
    assert "rank 1" in done.stderr and words in done.stderr


def test_an_error_file_is_read(run_inside):
    write = "json.dump({'message': 'said inside'}, open(os.environ['TORCHELASTIC_ERROR_FILE'], 'w')); sys.exit(1)"
    done = run_inside(["look.py", write])
    assert done.returncode == 1
    assert "said inside" in done.stderr


def test_log_files_are_outside(run_inside, tmp_path_factory):
    folder = tmp_path_factory.mktemp("logs") / "made by muster"
    done = run_inside(["--log-dir", folder, "look.py", "print('to the log')"])
    assert done.returncode == 0, done.stderr
    logs = list(folder.rglob("stdout.log"))
    assert len(logs) == 1 and "to the log" in logs[0].read_text()


def test_stdin_goes_inside(run_inside):
    done = run_inside(["look.py", "print('read', input())"], input="a line\n")
    assert done.returncode == 0, done.stderr
    assert "read a line" in done.stdout


def read_until(stream, words):
    """Lines until each of the words has been seen."""
    lines, missing = [], set(words)
    while missing:
        line = stream.readline()
        assert line, f"ended before {missing}: {lines}"
        lines.append(line.strip())
        missing -= {line.strip()}
    return lines


def test_signals_reach_everybody_inside_once(start_inside):
    job = start_inside(["family.py"])
    read_until(job.stdout, ["parent ready", "child ready"])
    job.send_signal(signal.SIGUSR1)
    read_until(job.stdout, ["parent got 10", "child got 10"])
    job.send_signal(signal.SIGTERM)
    out, err = job.communicate(timeout=60)
    assert sorted(out.split("\n")[:-1]) == ["child got 15", "parent got 15"]
    assert job.returncode == 128 + signal.SIGTERM
    assert "exit code 5" in err


def test_who_does_not_listen_is_killed(start_inside):
    job = start_inside(["--shutdown-timeout", "1", "look.py",
                        "import signal; signal.signal(15, signal.SIG_IGN); print('deaf', flush=True); " + LONG])  # fmt: skip
    read_until(job.stdout, ["deaf"])
    job.send_signal(signal.SIGTERM)
    out, err = job.communicate(timeout=60)
    assert job.returncode == 128 + signal.SIGTERM
    assert "SIGKILL" in err


@pytest.mark.parametrize("whom", ["warden", "agent", "runtime"])
def test_nothing_is_left_when_somebody_is_killed(start_inside, runtime, whom):
    job = start_inside(["look.py", "print('runs', flush=True); " + LONG])
    read_until(job.stdout, ["runs"])
    agent = int(subprocess.check_output(["pgrep", "-P", str(job.pid)]).split()[0])
    started = int(subprocess.check_output(["pgrep", "-P", str(agent), "-f", "podman run|look.py"]).split()[0])
    os.kill({"warden": job.pid, "agent": agent, "runtime": started}[whom], signal.SIGKILL)
    job.communicate(timeout=60)
    if whom == "warden":
        # Nobody is left whom we could wait for.
        wait_none(runtime.containers)
    assert runtime.containers() == []


def test_mounts_and_working_directory(run_inside, runtime, tmp_path_factory):
    data = tmp_path_factory.mktemp("data")
    (data / "file").write_text("of the node\n")
    done = run_inside(["--mount", f"{data}:/mnt", "--container-workdir", "/mnt", "--", "bash", "-c",
                       "cat file; echo new > made"])  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "of the node\n"), done.stderr
    assert (data / "made").read_text() == "new\n"
    done = run_inside(["--mount", f"{data}:/mnt:ro", "--", "bash", "-c", "echo > /mnt/x"])
    if runtime.name == "charliecloud":
        assert done.returncode == 2 and "cannot mount" in done.stderr
    else:
        assert done.returncode == 1 and "Read-only file system" in done.stderr


def test_a_file_is_mounted_where_the_image_has_none(run_inside, runtime, image, tmp_path_factory):
    folder = tmp_path_factory.mktemp("file")
    root = shutil.copytree(image, folder / "root", symlinks=True)
    (folder / "env.sh").write_text("of the node\n")
    for _ in range(2):  # what the first leaves behind is no obstacle
        done = run_inside(["--container", runtime.image_of(root), "--mount", f"{folder}/env.sh:/etc/new", "--", "cat", "/etc/new"])
        assert (done.returncode, done.stdout) == (0, "of the node\n"), done.stderr


def test_the_nodes_names_are_found_inside(run_muster, charliecloud, image, job_dir, tmp_path_factory):
    """charliecloud mounts /etc/hosts and /etc/resolv.conf only on what the image has."""
    root = shutil.copytree(image, tmp_path_factory.mktemp("nameless") / "root", symlinks=True)
    shutil.rmtree(root / "etc")
    read = ["--container", root, "--container-runtime", "charliecloud", "--", "cat", "/etc/hosts", "/etc/resolv.conf"]
    done = run_muster(["run", *read], cwd=job_dir)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "".join(open(path).read() for path in ("/etc/hosts", "/etc/resolv.conf"))


def test_two_nodes(run_inside):
    done = run_inside(["--local-nodes", "2", "--nproc-per-node", "2", "meet.py"])
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("store says 4711") == 4


def test_a_failed_worker_is_started_again(run_inside):
    done = run_inside(["--max-restarts", "1", "look.py",
                       "sys.exit(3) if os.environ['TORCHELASTIC_RESTART_COUNT'] == '0' else print('again')"])  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "again" in done.stdout


@pytest.mark.parametrize("args, words", [
    (["--container", "/nowhere/image"],
     "there is no image /nowhere/image: no such file; give a file or directory that every node sees"),
    (["--container", "missing.sqsh"],
     "there is no image missing.sqsh: no such file; give a file or directory that every node sees"),
    (["--mount", "/nowhere:/mnt"], "/nowhere cannot be mounted: it does not exist; name what every node has"),
    (["--container-option=--no-such-option"], "no-such-option"),
])  # fmt: skip
def test_bad_input_is_one_line_with_the_way_out(run_inside, args, words):
    done = run_inside([*args, "look.py"])
    assert done.returncode == 2
    assert words in done.stderr and len(done.stderr.splitlines()) == 1
    assert done.stdout == ""


def test_enroot_refuses_a_directory(run_muster, enroot, image, job_dir):
    done = run_muster(["run", "--container", image, "--container-runtime", "enroot", "look.py"], env=enroot.env, cwd=job_dir)
    assert done.returncode == 2
    assert f"enroot runs image files, and {image} is a directory; make one: mksquashfs {image} {image}.sqsh" in done.stderr


def test_nodes_over_ssh(lab, charliecloud, job_dir):  # noqa: F811
    image = shutil.copytree(charliecloud.root, job_dir / "image", symlinks=True)  # where all nodes see it
    cluster = lab(2)
    job = cluster.muster("n1", ["run", "--hosts", "n1,n2", "--nproc-per-node", "2", "--container", image,
                                "--container-runtime", "charliecloud", "meet.py"], cwd=job_dir)  # fmt: skip
    assert job.end() == 0, job.said()
    assert job.out.count("store says 4711") == 4
