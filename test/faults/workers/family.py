"""A worker with relatives of every kind that launchers have left behind. Writes one line `pid role` for each to $FAMILY."""

import os
import signal
import sys
import time


def record(role):
    line = f"{os.getpid()} rank{os.environ.get('RANK', '?')}-{role}\n".encode()
    fd = os.open(family, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(fd, line)
    os.close(fd)


def linger():
    while True:
        time.sleep(1000)


def start(function):
    if os.fork() == 0:
        function()
        os._exit(0)


def plain():
    record("child")
    linger()


def deaf():
    """Ignores all it can."""
    for number in range(1, signal.NSIG):
        try:
            signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError):
            pass
    os.setsid()
    record("deaf")
    linger()


def stopped():
    record("stopped")
    os.kill(os.getpid(), signal.SIGSTOP)
    linger()


def daemon():
    """As daemon(3) does it: a session of its own, its parent gone, no descriptor of ours."""
    os.setsid()
    if os.fork() > 0:
        os._exit(0)
    os.closerange(0, 256)
    record("daemon")
    linger()


def forgetful():
    """A daemon without our environment."""
    os.setsid()
    if os.fork() > 0:
        os._exit(0)
    record("forgetful")
    os.execve("/bin/sleep", ["sleep", "1000"], {})


ROLES = {"child": plain, "deaf": deaf, "stopped": stopped, "daemon": daemon, "forgetful": forgetful}

family = os.environ["FAMILY"]
roles = sys.argv[1].split(",")
for role in roles:
    start(ROLES[role])
record("worker")
while sum(f"rank{os.environ['RANK']}-" in line for line in open(family)) <= len(roles):
    time.sleep(0.005)

how = sys.argv[2]
if how == "deaf":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
if how.startswith("first-exits-") and os.environ["RANK"] == "0":
    while not os.path.exists(family + ".go"):
        time.sleep(0.005)
    sys.exit(int(how.rpartition("-")[2]))
linger()
