"""A worker and its child; each says which signals it gets and leaves at SIGTERM."""
import os
import signal
import time

child = os.fork()
name = "parent" if child else "child"


def say(words):
    os.write(1, f"{name} {words}\n".encode())  # whole lines, though two write


def leave(number, frame):
    say(f"got {number}")
    if child:
        os.waitpid(child, 0)
    os._exit(5)


signal.signal(signal.SIGTERM, leave)
signal.signal(signal.SIGUSR1, lambda number, frame: say(f"got {number}"))
say("ready")
while True:
    time.sleep(60)
