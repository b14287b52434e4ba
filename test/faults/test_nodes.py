"""A job on several nodes of this machine, and what goes wrong with it: what is said, the exit code, and what is left."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest

from harness import children_of, free_port, shell, wait_gone

pytestmark = pytest.mark.multiprocess

TIMEOUT = 60

# An ssh that leads to this machine. HOSTS is a dictionary: what becomes of an agent there, as a function of its program.
SSH = f"""#!{sys.executable}
import os, re, subprocess, sys
host, program = sys.argv[sys.argv.index("--") + 1], sys.argv[-2]

def say(text, code):
    sys.stderr.write(text + "\\n")
    sys.exit(code)

def reached():
    os.execv(program, [program, "agent"])

def misled():
    agent = subprocess.Popen([program, "agent"], stdin=subprocess.PIPE)
    head = sys.stdin.buffer.read(16)
    body = sys.stdin.buffer.read(int.from_bytes(head[12:], "little"))
    wrong = lambda match: match[1] + b"%d" % (int(match[2]) ^ 1)
    agent.stdin.write(head + re.sub(rb"((?:127\\.0\\.0\\.1|\\[::1\\]):)(\\d+)", wrong, body))
    agent.stdin.flush()
    sys.exit(agent.wait())

def without_program():
    agent = subprocess.run([program, "agent"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    sys.stdout.buffer.write(agent.stdout)
    sys.stdout.flush()
    sys.stdin.buffer.read(1)
    say("muster: error: /x/train does not exist", 127)

HOSTS
"""


@pytest.fixture
def over_ssh(start_muster, tmp_path):
    """over_ssh({host: what}, *args) -> the launcher, whose hosts are what SSH has under that name."""

    def start(hosts, *args):
        ssh = tmp_path / "ssh"
        choices = "".join(f"if host == {name!r}: {what}\n" for name, what in hosts.items())
        ssh.write_text(SSH.replace("HOSTS", choices))
        ssh.chmod(0o755)
        options = ["--hosts", ",".join(hosts), "--ssh", ssh, "--interface", "lo", "--nproc-per-node", 1]
        return start_muster(
            ["run", *options, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path
        )

    return start


REFUSED = 'say("ssh: connect to host n1 port 22: Connection refused", 255)'


def test_a_host_that_does_not_exist_ends_the_job_at_once(over_ssh):
    unknown = 'say("ssh: Could not resolve hostname n2: Name or service not known", 255)'
    launcher = over_ssh({"n1": REFUSED, "n2": unknown}, "true")
    _, err = launcher.communicate(timeout=TIMEOUT)
    assert launcher.returncode == 125
    assert re.search(r"true failed: only 1 of 2 nodes can join; n2: ssh: no such host; check the name: ", err), err


def test_the_time_to_join_ends_with_what_is_known_of_each(over_ssh):
    launcher = over_ssh({"n1": REFUSED, "n2": "reached()"}, "--join-timeout", "2", "true")
    _, err = launcher.communicate(timeout=TIMEOUT)
    assert launcher.returncode == 125
    assert "true failed: 1 of 2 nodes after 2.0 s; no word of n1\n" in err
    assert re.search(r"  missing  n1: ssh: connection refused(, attempt \d|; attempt \d was under way .*)\n", err), err


def test_a_program_that_one_node_lacks(over_ssh, tmp_path):
    launcher = over_ssh({"n1": "reached()", "n2": "without_program()"}, "--report", "report", "/bin/true")
    _, err = launcher.communicate(timeout=TIMEOUT)
    assert launcher.returncode == 127
    assert err.count("/x/train does not exist") == 1, err
    assert "true failed: only 1 of 2 nodes can join; n2: /x/train does not exist\n" in err, err
    report = json.loads((tmp_path / "report").read_text())
    assert report["kind"] == "not-found"
    assert report["exit_code"] == 127 and "n2: /x/train does not exist" in report["message"]


def test_an_agent_that_cannot_reach_its_launcher_says_where(over_ssh):
    launcher = over_ssh({"n1": "misled()"}, "--join-timeout", "3", "true")
    _, err = launcher.communicate(timeout=TIMEOUT)
    assert launcher.returncode == 125
    assert re.search(r"  missing  n1: its agent cannot reach \S+:\d+: connection refused\n", err), err


def test_an_agent_that_cannot_prepare_says_why(over_ssh, tmp_path):
    (tmp_path / "taken").touch()
    launcher = over_ssh({"n1": "reached()"}, "--log-dir", tmp_path / "taken", "true")
    _, err = launcher.communicate(timeout=TIMEOUT)
    assert launcher.returncode == 2
    assert f"n1: --log-dir {tmp_path}/taken: it is a file, not a directory; name a directory" in err


# --- nodes of this machine -------------------------------------------------------------------------------------------


class Nodes:
    """A job of two simulated nodes with one worker each, once all its processes are there."""

    def __init__(self, launcher):
        self.launcher = launcher
        deadline = time.monotonic() + TIMEOUT
        while not (self._look() and len(self.workers) == 2):
            assert launcher.poll() is None, launcher.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def _look(self):
        self.wardens = children_of(self.launcher.pid)
        self.agents = [pid for warden in self.wardens for pid in children_of(warden)]
        self.workers = [pid for agent in self.agents for pid in children_of(agent)]
        return len(self.agents) == 2


@pytest.fixture
def two_nodes(start_muster, tmp_path):
    """two_nodes(script, *options) -> Nodes"""

    def start(script, *options):
        command = ["run", "--local-nodes", 2, "--nproc-per-node", 1, *options, *shell(script)]
        return Nodes(start_muster(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path))

    return start


def test_all_agents_at_once(two_nodes, job_marker):
    """Their wardens end what they left, undisturbed by a launcher that starts others in their place."""
    # Grandchildren, so that there is something to clean up; in the second round nobody stays.
    job = two_nodes("test $MUSTER_ROUND != 0 || for i in 1 2 3 4; do sleep 600 & done; wait")
    for agent in job.agents:
        os.kill(agent, signal.SIGKILL)
    _, err = job.launcher.communicate(timeout=TIMEOUT)
    assert job.launcher.returncode == 0, err
    assert "node0 is lost: " in err or "node1 is lost: " in err
    assert wait_gone(job_marker) == {}


FLOOD = """
import os, sys
piece, count = b"x" * 99 + b"\\n" if sys.argv[1] == "lines" else b"x" * 100, int(sys.argv[2]) * 10_000
os.write(1, b"begin\\n")
for _ in range(count // 1000): os.write(1, piece * 1000)
"""


LOST = re.compile(rb"lost|dropped|missing")


class TestSlowReader:
    """The launcher's reader takes its time: what the nodes' workers wrote arrives all the same."""

    @pytest.fixture
    def flooded(self, start_muster):
        def start(what, megabytes, *options):
            return start_muster(["run", "--local-nodes", 2, "--nproc-per-node", 1, "--label", "none", *options, "--no-python",
                                 sys.executable, "-c", FLOOD, what, megabytes],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

        return start

    @pytest.mark.slow
    def test_that_pauses_at_the_end(self, flooded):
        """More than the launcher and the nodes' connections hold, and less than what a node may spool besides."""
        lease_s = 2
        process = flooded("lines", 26, "--lease", lease_s, "--output-cap", "9MiB")
        assert process.stdout.read1(6) == b"begin\n"
        time.sleep(10 + lease_s + 5)  # a stopped reader has no deadline
        out, err = process.communicate(timeout=TIMEOUT)
        assert process.returncode == 0, err
        assert not LOST.search(err), err
        assert out.count(b"x" * 99 + b"\n") == 520_000

    def test_past_the_launchers_cap(self, flooded):
        """The cap is a node's: the launcher holds both nodes back instead of dropping lines."""
        process = flooded("bytes", 8, "--output-cap", "9MiB")
        out = b""
        while piece := process.stdout.read1(1 << 17):
            out += piece
            if len(out) < 12 << 20:
                time.sleep(0.01)  # a reader that does not count as fast
        assert process.wait(TIMEOUT) == 0
        err = process.stderr.read()
        assert not LOST.search(err), err
        assert out.count(b"x") == 16_000_000

    @pytest.mark.slow
    def test_of_a_node_whose_coordinator_is_gone(self, start_muster):
        """The first node has ended with the job; the second needs no lease to deliver what its worker wrote."""
        lease_s = 4
        size = ["--nnodes", 2, "--nproc-per-node", 1, "--lease", lease_s, "--insecure", "--label", "none"]
        meet = ["--master-addr", "127.0.0.1", "--master-port", free_port()]
        first, second = (
            start_muster(["run", *size, *meet, "--node-rank", rank, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            for rank, words in enumerate([shell("exit 0"), ["--no-python", sys.executable, "-c", FLOOD, "lines", 8]])
        )
        assert second.stdout.read1(6) == b"begin\n"
        assert first.wait(TIMEOUT) == 0, first.stderr.read()
        time.sleep(1.5 * lease_s)  # there is no event
        out, err = second.communicate(timeout=TIMEOUT)
        assert second.returncode == 0, err
        assert not LOST.search(err), err
        assert out.count(b"x" * 99 + b"\n") == 80_000
