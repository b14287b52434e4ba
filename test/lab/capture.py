"""What went over the wire: written as a pcap file (for people, any tool opens it), and searched (for tests)."""

import collections
import signal
import socket
import struct
import time

from .kernel import LabError, enter
from .packets import PACKET_STATISTICS, SOL_PACKET, open_socket

_FILE_HEAD = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 1 << 18, 1)  # version 2.4, Ethernet
_FRAME_HEAD = struct.Struct("<IIII")
_TCP, _UDP = 6, 17


def record(switch_pid, path, ready):
    """Every frame that any node sends, until SIGTERM or SIGINT."""
    enter(switch_pid, ("net",))
    s = open_socket()
    asked_to_end = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: (asked_to_end.append(True), s.setblocking(False)))
        signal.siginterrupt(number, True)
    with open(path, "wb") as f:
        f.write(_FILE_HEAD)
        ready()
        while True:
            try:
                frame, place = s.recvfrom(1 << 18)
            except (BlockingIOError, InterruptedError):
                if asked_to_end:
                    break
                continue
            if place[0].startswith("br"):
                continue  # the bridge itself; what matters came in at a port
            now = time.time_ns()
            f.write(_FRAME_HEAD.pack(now // 10**9, now % 10**9 // 1000, len(frame), len(frame)) + frame)
    dropped = struct.unpack("II", s.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))[1]
    if dropped:
        raise LabError(f"{dropped} frames were not captured: the machine was too slow")


def frames(path):
    with open(path, "rb") as f:
        f.read(len(_FILE_HEAD))
        while len(head := f.read(_FRAME_HEAD.size)) == _FRAME_HEAD.size:
            yield f.read(_FRAME_HEAD.unpack(head)[2])


def _payload(frame):
    """((protocol, from, to), sequence number, payload) of TCP and UDP; else None."""
    kind = frame[12:14]
    if kind == b"\x08\x00":
        size, protocol = (frame[14] & 15) * 4, frame[23]
        source, target, end = frame[26:30], frame[30:34], 14 + struct.unpack_from(">H", frame, 16)[0]
    elif kind == b"\x86\xdd":
        size, protocol = 40, frame[20]
        source, target, end = frame[22:38], frame[38:54], 54 + struct.unpack_from(">H", frame, 18)[0]
    else:
        return None
    at = 14 + size
    end = end if end > at else len(frame)  # no length: one that a network card would have cut
    if protocol not in (_TCP, _UDP):
        return None
    ports = struct.unpack_from(">HH", frame, at)
    flow = (protocol, _text(source), ports[0], _text(target), ports[1])
    if protocol == _UDP:
        return flow, None, frame[at + 8 : end]
    sequence = struct.unpack_from(">I", frame, at + 4)[0]
    return flow, sequence, frame[at + (frame[at + 12] >> 4) * 4 : end]


def _text(address):
    return socket.inet_ntop(socket.AF_INET if len(address) == 4 else socket.AF_INET6, address)


def flows(path):
    """{(protocol, from address, port, to address, port): all bytes that went this way, in order}."""
    first, found = {}, collections.defaultdict(bytearray)
    for frame in frames(path):
        parsed = _payload(frame)
        if parsed is None:
            continue
        flow, sequence, data = parsed
        if sequence is None:
            found[flow] += data
            continue
        at = (sequence - first.setdefault(flow, sequence)) & 0xFFFFFFFF
        if not data or at > 1 << 30:
            continue
        stream = found[flow]
        stream.extend(bytes(max(0, at + len(data) - len(stream))))
        stream[at : at + len(data)] = data
    return {flow: bytes(stream) for flow, stream in found.items()}


def search(path, needle):
    """The flows in which these bytes occur."""
    return [flow for flow, data in flows(path).items() if needle in data]
