"""The kernel's packet queue (nfnetlink_queue) in the present network namespace: packets wait in it for our verdict.

Pure netlink (linux/netfilter/nfnetlink_queue.h), and nothing that takes long to import. `queue_rules.py` makes the rules that
send packets here. Standard library only, because it is copied to hosts too (`ssh`).
"""

from __future__ import annotations

import errno
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass

NUMBER, TRIAL = 0, 1  # queues of a namespace: for delays, for the trial
_MAX_PACKETS = 65535  # packets that may wait
_NETLINK_NETFILTER, _SOL_NETLINK, _NETLINK_NO_ENOBUFS = 12, 270, 5
_QUEUE, _VERDICT, _CONFIG = 3 << 8, 3 << 8 | 1, 3 << 8 | 2
_ERROR, _REQUEST, _ACK = 2, 1, 5
_BIND, _COPY_PACKET, _IP_HEADER = 1, 2, 20
_BUFFER = 1 << 23
_MESSAGE, _ATTRIBUTE = struct.Struct("=IHHII"), struct.Struct("=HH")
_GENERAL = struct.Struct(">BBH")
_HEADER, _PAYLOAD = 1, 10  # attributes of a packet


@dataclass(frozen=True)  # without slots, which Python 3.9 has not
class Packet:
    """A waiting packet: the kernel's id of it, its sender's address, its size in bytes."""

    id: bytes
    address: str
    size: int


class PacketQueue:
    """An open queue of this namespace. Raises OSError where the kernel has none, or another process has it open."""

    def __init__(self, number: int = NUMBER) -> None:
        self._general = _GENERAL.pack(0, 0, number)
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_NETFILTER)
        self._socket.bind((0, 0))
        self._socket.setsockopt(_SOL_NETLINK, _NETLINK_NO_ENOBUFS, 1)  # packets that we read too late are lost, as on a full link
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
        self._set(1, struct.pack(">BxH", _BIND, socket.AF_INET))
        self._set(2, struct.pack(">IB", _IP_HEADER, _COPY_PACKET))
        self._set(3, struct.pack(">I", _MAX_PACKETS))
        self._socket.setblocking(False)

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    def arrived(self) -> Iterator[Packet]:
        """The packets that have arrived since the last call."""
        while True:
            try:
                data = self._socket.recv(65536)
            except BlockingIOError:
                return
            for kind, body in _messages(data):
                if kind == _QUEUE:
                    yield _packet(body)

    def let_go(self, packet: Packet) -> None:
        self._decide(packet, 1)

    def drop(self, packet: Packet) -> None:
        self._decide(packet, 0)

    def _decide(self, packet: Packet, verdict: int) -> None:
        body = self._general + _attribute(2, struct.pack(">I", verdict) + packet.id)
        self._socket.send(_message(_VERDICT, body, _REQUEST))

    def _set(self, attribute: int, value: bytes) -> None:
        self._socket.send(_message(_CONFIG, self._general + _attribute(attribute, value), _ACK))
        ((kind, body),) = _messages(self._socket.recv(4096))
        (code,) = struct.unpack_from("=i", body)
        if kind != _ERROR or code != 0:
            raise OSError(-code, f"nfnetlink_queue: {errno.errorcode.get(-code, code)}")


def _message(kind: int, body: bytes, flags: int) -> bytes:
    return _MESSAGE.pack(_MESSAGE.size + len(body), kind, flags, 0, 0) + body


def _attribute(kind: int, value: bytes) -> bytes:
    return _ATTRIBUTE.pack(_ATTRIBUTE.size + len(value), kind) + value + bytes(-len(value) % 4)


def _messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Type and body of each message."""
    while data:
        length, kind, _, _, _ = _MESSAGE.unpack_from(data)
        yield kind, data[_MESSAGE.size : length]
        data = data[(length + 3) & ~3 :]


def _packet(body: bytes) -> Packet:
    attributes, rest = {}, body[_GENERAL.size :]
    while rest:
        length, kind = _ATTRIBUTE.unpack_from(rest)
        attributes[kind] = rest[_ATTRIBUTE.size : length]
        rest = rest[(length + 3) & ~3 :]
    header = attributes[_PAYLOAD]
    return Packet(attributes[_HEADER][:4], socket.inet_ntoa(header[12:16]), int.from_bytes(header[2:4], "big"))
