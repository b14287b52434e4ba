"""A cable with a delay: frames that come in at one end leave at the other some time later, the other way at once."""

import collections
import select
import time

from .kernel import enter
from .packets import open_socket

LARGEST_FRAME = 1 << 17


def relay(network_pid, from_end, to_end, seconds, ready):
    """Never returns. `ready` is called once the frames pass."""
    enter(network_pid, ("net",))
    source = open_socket(from_end, with_offload_header=True)
    target = open_socket(to_end, with_offload_header=True)
    ready()
    held = collections.deque()  # (when to send, frame)
    while True:
        now = time.monotonic()
        while held and held[0][0] <= now:
            _send(target, held.popleft()[1])
        timeout = max(0, held[0][0] - now) if held else None
        for s in select.select([source, target], [], [], timeout)[0]:
            frame = s.recv(LARGEST_FRAME)
            if s is source:
                held.append((time.monotonic() + seconds, frame))
            else:
                _send(source, frame)


def _send(s, frame):
    try:
        s.send(frame)
    except OSError:
        pass  # a cable that is down loses frames
