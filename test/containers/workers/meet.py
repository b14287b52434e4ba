"""Connects to the store of the round and waits for its answer to a ping: PyTorch's first words to it."""
import os
import socket
import struct

with socket.create_connection((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])), timeout=20) as store:
    store.sendall(bytes([0]) + struct.pack("<I", 0x3C85F7CE))  # VALIDATE, the magic number
    store.sendall(bytes([13]) + struct.pack("<I", 4711))  # PING
    print("store says", struct.unpack("<I", store.recv(4, socket.MSG_WAITALL))[0], flush=True)
