"""A client of PyTorch's TCPStore that needs no PyTorch: a worker with it starts in milliseconds."""

import os
import socket
import struct
import time

_VALIDATE, _SET, _GET, _ADD, _WAIT = 0, 1, 3, 4, 6
_MAGIC = 0x3C85F7CE
PATIENCE_S = 30


def _text(value):
    data = value if isinstance(value, bytes) else str(value).encode()
    return struct.pack("<Q", len(data)) + data


class Store:
    """The store of this worker's round, as the environment names it."""

    def __init__(self):
        endpoint = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                self._socket = socket.create_connection(endpoint, PATIENCE_S)
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.sendall(struct.pack("<BI", _VALIDATE, _MAGIC))

    def _ask(self, code, body, reply_bytes=0):
        self._socket.sendall(bytes([code]) + body)
        return self._read(reply_bytes)

    def _read(self, size):
        data = b""
        while len(data) < size:
            more = self._socket.recv(size - len(data))
            if not more:
                raise ConnectionResetError("the store has closed the connection")
            data += more
        return data

    def set(self, key, value):
        self._ask(_SET, _text(key) + _text(value))

    def get(self, key):
        size = struct.unpack("<Q", self._ask(_GET, _text(key), 8))[0]
        return self._read(size)

    def add(self, key, amount):
        return struct.unpack("<q", self._ask(_ADD, _text(key) + struct.pack("<q", amount), 8))[0]

    def wait(self, key):
        self._ask(_WAIT, struct.pack("<Q", 1) + _text(key), 1)

    def barrier(self, name, size):
        if self.add(name, 1) == size:
            self.set(name + "/all", "here")
        self.wait(name + "/all")
