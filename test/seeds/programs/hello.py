"""A worker that needs nothing but Python: says who it is, and that it reaches the store of its round."""

import os
import socket
import sys

address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
socket.create_connection((address, port), 20).close()
names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK")
words = ["worker", *(os.environ[name] for name in names), socket.gethostname(), address, *sys.argv[1:]]
os.write(1, f"{' '.join(words)}\n".encode())  # at once: others may write to the same file
