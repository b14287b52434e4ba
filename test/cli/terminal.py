"""A program on a pseudo-terminal, and the test as the person in front of it."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time


class Terminal:
    """muster on a pseudo-terminal of its own, as a shell would start it: the leader of the terminal's session."""

    def __init__(self, start_muster, args, rows=24, columns=80, **popen):
        self.master, slave = pty.openpty()
        self.resize(rows, columns)

        def own_terminal():
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.process = start_muster(args, stdin=slave, stdout=slave, stderr=slave, start_new_session=False,
                                    preexec_fn=own_terminal, **popen)
        os.close(slave)
        self.seen = ""

    def resize(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read_until(self, wanted, timeout=30):
        """Everything shown so far, as soon as the pattern is in it."""
        deadline = time.monotonic() + timeout
        while not re.search(wanted, self.seen):
            if not select.select([self.master], [], [], max(0, deadline - time.monotonic()))[0]:
                raise AssertionError(f"{wanted!r} did not appear in {self.seen!r}")
            try:
                data = os.read(self.master, 65536)
            except OSError:  # nobody has the other end any more
                data = b""
            assert data, f"the end came before {wanted!r}: {self.seen!r}"
            self.seen += data.decode(errors="replace")
        return self.seen

    def read_to_end(self, timeout=30):
        deadline = time.monotonic() + timeout
        while select.select([self.master], [], [], max(0, deadline - time.monotonic()))[0]:
            try:
                data = os.read(self.master, 65536)
            except OSError:
                break
            self.seen += data.decode(errors="replace")
        try:
            self.process.wait(max(0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise AssertionError(f"muster has not ended in {timeout} s: {self.seen!r}") from None
        return self.seen

    def type(self, text):
        os.write(self.master, text.encode())
