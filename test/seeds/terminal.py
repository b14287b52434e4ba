"""Somebody who types into a terminal on a node of the lab, and waits for the prompt each time."""

import subprocess

from multinode.job import SOON_S, wait_for

PROMPT = "typed> "


class Terminal:
    """A bash, and whatever shells are started from it; each reads the .bashrc of the lab's home directory."""

    def __init__(self, cluster, name, env, cwd):
        (cluster.home / ".bashrc").write_text(f"PS1='{PROMPT}'\nsource /usr/share/modules/init/bash\n")
        command = ["script", "--quiet", "--flush", "--command", "bash --noediting", "/dev/null"]
        self._job = cluster.exec(name, command, env={"TERM": "dumb", **env}, cwd=cwd, stdin=subprocess.PIPE)
        self._seen = 0
        self._prompt(SOON_S)

    def _prompt(self, within):
        """Waits for it; returns what came before it."""
        found = lambda: self._job.out.find(PROMPT, self._seen)  # noqa: E731
        wait_for(lambda: f"the prompt:\n{self._job.said()}", lambda: found() >= 0, within)
        said, self._seen = self._job.out[self._seen : found()], found() + len(PROMPT)
        return said.replace("\r", "")

    def _write(self, line):
        self._job.process.stdin.write(line.encode() + b"\n")
        self._job.process.stdin.flush()

    def type(self, line, within=90):
        """What was said until the next prompt."""
        self._write(line)
        return self._prompt(within)

    def leave(self):
        """The last shell; its exit code."""
        self._write("exit")
        self._job.process.stdin.close()
        return self._job.end()
