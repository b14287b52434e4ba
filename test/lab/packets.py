"""Raw sockets on an interface, or on all, of a network namespace."""

import socket

ETH_P_ALL = 3
SO_RCVBUFFORCE = 33
SOL_PACKET, PACKET_STATISTICS, PACKET_VNET_HDR, PACKET_IGNORE_OUTGOING = 263, 6, 15, 23
BUFFER_BYTES = 64 << 20


def open_socket(interface=None, with_offload_header=False):
    """Sees each frame as it comes in. The offload header keeps what the sender left to a network card: checksum, cutting."""
    s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0 if interface else socket.htons(ETH_P_ALL))
    s.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES)
    s.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    if with_offload_header:
        s.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    if interface:
        s.bind((interface, ETH_P_ALL))
    return s
