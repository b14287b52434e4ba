"""The user's terminal has the settings of before, however a job ends whose worker has changed them."""

import os
import signal
import sys
import termios
import time

import pytest

from cli.terminal import Terminal
from harness import children_of

pytestmark = pytest.mark.multiprocess

TWO = ["run", "--nproc-per-node", "2", "--stdin", "0"]
# Rank 0 does what readline does at the prompt of a debugger.
AT_A_PROMPT = """
import os, signal, sys, termios, time, tty
if os.environ['RANK'] == '0':
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    print('echo', bool(termios.tcgetattr(0)[3] & termios.ECHO), flush=True)
    tty.setcbreak(0)
    print('at a prompt', flush=True)
    {rank_0}
else:
    {rank_1}
time.sleep(600)
"""


class Shell(Terminal):
    """A shell script that leads the session and runs muster in the foreground: the terminal outlives muster."""

    SCRIPT = 'trap : INT; "$@"; echo "ended: $?"; read -r line; echo "next: $line"; read -r line'

    def __init__(self, start_muster, muster, args):
        super().__init__(start_muster, ["-c", self.SCRIPT, "sh", muster, *args], program="/bin/sh")
        self.before = self.settings()

    def settings(self):
        return termios.tcgetattr(self.master)

    @property
    def warden(self):
        (pid,) = children_of(self.process.pid)
        return pid

    @property
    def agent(self):
        (pid,) = children_of(self.warden)
        return pid


@pytest.fixture
def at_a_prompt(start_muster, muster):
    """at_a_prompt(options=…, rank_0=…, rank_1=…) -> Shell, as soon as rank 0 has changed the terminal."""
    shells = []

    def start(options=(), rank_0="pass", rank_1="pass"):
        code = AT_A_PROMPT.format(rank_0=rank_0, rank_1=rank_1)
        shell = Shell(start_muster, muster, [*TWO, *options, "--no-python", sys.executable, "-c", code])
        shells.append(shell)
        shell.read_until("at a prompt")
        return shell

    yield start
    for shell in shells:
        os.close(shell.master)


def ended(shell, code):
    """Waits for muster's end; the terminal then is as before. (The agent restores it after a warden's sudden end.)"""
    shell.read_until(rf"ended: {code}\b")
    deadline = time.monotonic() + 10
    while shell.settings() != shell.before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert shell.settings() == shell.before
    shell.type("typed\r")
    shell.read_until("typed\r\nnext: typed")


def test_the_worker_really_changes_it(at_a_prompt):
    shell = at_a_prompt()
    assert shell.settings() != shell.before
    os.kill(shell.warden, signal.SIGTERM)
    ended(shell, 143)


def test_ctrl_c_twice(at_a_prompt):
    shell = at_a_prompt()
    shell.type("\x03")
    shell.read_until("SIGINT: stopping")
    shell.type("\x03")
    ended(shell, 130)


def test_the_agent_is_killed(at_a_prompt):
    shell = at_a_prompt()
    os.kill(shell.agent, signal.SIGKILL)
    ended(shell, 125)


def test_the_warden_is_killed(at_a_prompt):
    shell = at_a_prompt()
    os.kill(shell.warden, signal.SIGKILL)
    ended(shell, 137)


def test_another_rank_dies(at_a_prompt, tmp_path):
    shell = at_a_prompt(rank_1=f"while not os.path.exists({str(tmp_path / 'go')!r}): time.sleep(0.01)\n    os._exit(3)")
    (tmp_path / "go").touch()
    ended(shell, 3)


def test_the_worker_ends_itself(at_a_prompt):
    ended(at_a_prompt(rank_0="os._exit(0)", rank_1="os._exit(0)"), 0)


def test_the_next_round_finds_it_as_it_was(at_a_prompt):
    shell = at_a_prompt(options=["--max-restarts", "1"], rank_0="os._exit(3)")
    ended(shell, 3)
    assert shell.seen.count("echo True") == 2, shell.seen
    assert "echo False" not in shell.seen
