"""A program in a node of a lab, and waiting for what it does."""

import os
import re
import subprocess
import threading
import time

# How long a test waits for what should come within a second or two: a busy machine gets more, a hang fails.
SOON_S = 30


def wait_for(what, function, within=SOON_S):
    """Asks until the answer is true, and returns it; `what` is for the message. What it asks for has no event of its own."""
    deadline = time.monotonic() + within
    while not (answer := function()):
        assert time.monotonic() < deadline, f"waited {within} s for {what() if callable(what) else what}"
        time.sleep(0.01)
    return answer


class Job:
    """A program in a node: its output as it comes, and its end."""

    def __init__(self, cluster, process):
        self.cluster, self.process = cluster, process
        self.out, self.err = "", ""
        self._changed = threading.Condition()
        self._readers = [threading.Thread(target=self._read, args=(n,), daemon=True) for n in ("out", "err")]
        for reader in self._readers:
            reader.start()

    def _read(self, name):
        stream = getattr(self.process, f"std{name}")
        while data := os.read(stream.fileno(), 65536):
            with self._changed:
                setattr(self, name, getattr(self, name) + data.decode(errors="replace"))
                self._changed.notify_all()
        with self._changed:
            setattr(self, f"{name}_closed", True)
            self._changed.notify_all()

    def expect(self, pattern, within=SOON_S, stream=None):
        """Waits for a match in what it said on `stream` ("out", "err"; either by default); returns the match."""
        names = [stream] if stream else ["out", "err"]

        def found():
            matches = [re.search(pattern, getattr(self, name), re.M) for name in names]
            return next(filter(None, matches), None)

        with self._changed:
            over = lambda: all(getattr(self, f"{name}_closed", False) for name in names)  # noqa: E731
            self._changed.wait_for(lambda: found() or over(), within)
            match = found()
        assert match, f"no {pattern!r} within {within} s.\n{self.said()}"
        return match

    def end(self, within=60):
        """Waits for its end; returns the exit code as a shell gives it."""
        try:
            self.process.wait(within)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still runs after {within} s.\n{self.said()}") from None
        for reader in self._readers:
            reader.join(10)  # whoever still holds a pipe open is found by the look for what is left
        return self.process.returncode

    def send(self, number):
        self.process.send_signal(number)

    @property
    def running(self):
        return self.process.poll() is None

    def said(self):
        return f"--- stdout\n{self.out}\n--- stderr\n{self.err}"

    @property
    def pid(self):
        """Of the program itself, as seen from outside its node, once it has started; None when it is over.

        `process` is only the way into the node. To kill that would leave a zombie for the machine's PID 1 to reap.
        """
        front = self.process.pid

        def child():
            with open(f"/proc/{front}/task/{front}/children") as f:
                return f.read().split()

        pids = wait_for("the program to start", lambda: not self.running or child())
        return int(pids[0]) if pids is not True else None

    def kill(self):
        if pid := self.pid:
            self.cluster.kill(pid)

    def abandon(self):
        try:
            self.kill()
            self.process.wait(10)
        finally:
            self.process.kill()
        for reader in self._readers:
            reader.join(1)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream:
                stream.close()
