"""Frames of Kafka's protocol in literal bytes, and an upstream that answers them: a broker for the proxy that needs no broker."""

from __future__ import annotations

import queue
import socket
import struct
import threading
from contextlib import contextmanager, suppress

from support.raw_producer import record_batch

END_TXN, PRODUCE, FETCH, METADATA, API_VERSIONS, INIT_PRODUCER_ID, ADD_PARTITIONS = 26, 0, 1, 3, 18, 22, 24
PATIENCE_S = 120.0


def text(value: str) -> bytes:
    content = value.encode()
    return struct.pack(">h", len(content)) + content


def request(api: int, version: int, correlation: int, body: bytes, client: str = "c") -> bytes:
    """A request with a header of version 1."""
    content = struct.pack(">hhi", api, version, correlation) + text(client) + body
    return struct.pack(">i", len(content)) + content


def end_txn(correlation: int, transactional_id: str = "x", committed: bool = True, producer: tuple[int, int] = (7, 3)) -> bytes:
    """EndTxn of version 0."""
    return request(END_TXN, 0, correlation, text(transactional_id) + struct.pack(">qh?", *producer, committed))


def add_partitions(correlation: int, client: str = "c") -> bytes:
    """AddPartitionsToTxn of version 5: compact lists of one, each with its tags behind it."""
    topic = b"\x02" + b"\x02t" + b"\x02" + struct.pack(">i", 0) + b"\0"
    return request(
        ADD_PARTITIONS, 5, correlation, b"\0\x02" + b"\x02x" + struct.pack(">qh?", 7, 3, False) + topic + b"\0\0", client
    )


def init_producer_id(correlation: int, transactional_id: str, client: str = "c") -> bytes:
    """InitProducerId of version 0."""
    return request(INIT_PRODUCER_ID, 0, correlation, text(transactional_id) + struct.pack(">i", 60_000), client)


def producer_is(correlation: int, producer: tuple[int, int], error: int = 0) -> bytes:
    """The answer to InitProducerId."""
    return answer(correlation, struct.pack(">ihqh", 0, error, *producer))


def produce(correlation: int, producer: tuple[int, int], topic: str = "t", partition: int = 0) -> bytes:
    """Produce of version 3 with one transactional record."""
    batch = record_batch(producer, b"value")
    place = text(topic) + struct.pack(">iii", 1, partition, len(batch)) + batch
    return request(PRODUCE, 3, correlation, text("x") + struct.pack(">hii", -1, 5000, 1) + place)


def fetch(correlation: int, replica: int = -1, topic: str = "t", partition: int = 0) -> bytes:
    """Fetch of version 4."""
    place = text(topic) + struct.pack(">iiqi", 1, partition, 0, 1 << 20)
    return request(FETCH, 4, correlation, struct.pack(">iiiib", replica, 500, 1, 1 << 20, 0) + struct.pack(">i", 1) + place)


def fetched(correlation: int, aborted: list[tuple[int, int]], error: int = 0, records: bytes = b"") -> bytes:
    """An answer to Fetch of version 4. aborted: (producer id, first offset)."""
    listed = struct.pack(">i", len(aborted)) + b"".join(struct.pack(">qq", *one) for one in aborted)
    partition = struct.pack(">ihqq", 0, error, 9, 9) + listed + struct.pack(">i", len(records)) + records
    return answer(correlation, struct.pack(">ii", 0, 1) + text("t") + struct.pack(">i", 1) + partition)


def answer(correlation: int, body: bytes = b"\0\0\0\0\0\0") -> bytes:
    """An answer, by default that of EndTxn without an error."""
    return struct.pack(">ii", 4 + len(body), correlation) + body


def correlation_of(frame: bytes) -> int:
    """Of a request without its size."""
    return int(struct.unpack_from(">i", frame, 4)[0])


class Speaker:
    """One end of a connection."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        connection.settimeout(PATIENCE_S)

    def send(self, *frames: bytes) -> None:
        self.socket.sendall(b"".join(frames))

    def send_meanwhile(self, frame: bytes) -> None:
        """Send a frame in a thread: one that is longer than what sockets keep."""
        threading.Thread(target=self.socket.sendall, args=(frame,), daemon=True).start()

    def receive(self) -> bytes | None:
        """The next frame without its size; None when the other side has closed the connection."""
        head = self.exactly(4)
        return None if head is None else self.exactly(struct.unpack(">i", head)[0])

    def exactly(self, count: int) -> bytes | None:
        content = bytearray()
        while len(content) < count:
            try:
                part = self.socket.recv(min(count - len(content), 1 << 20))
            except ConnectionError:
                return None
            if not part:
                return None
            content += part
        return bytes(content)

    def is_silent(self, within_s: float = 0.2) -> bool:
        """True if the connection is open and nothing comes."""
        self.socket.settimeout(within_s)
        try:
            self.socket.recv(1, socket.MSG_PEEK)
        except TimeoutError:
            return True
        except OSError:
            return False
        finally:
            self.socket.settimeout(PATIENCE_S)
        return False

    def close(self) -> None:
        self.socket.close()


class Upstream:
    """A listener; each connection to it is a Speaker, and what they hear is answered by whoever asks for it."""

    def __init__(self, server: socket.socket) -> None:
        self.address = f"127.0.0.1:{server.getsockname()[1]}"
        self.connections: queue.Queue[Speaker] = queue.Queue()

    def accepted(self) -> Speaker:
        return self.connections.get(timeout=PATIENCE_S)


@contextmanager
def upstream():
    with socket.create_server(("127.0.0.1", 0), backlog=600) as server:
        made = Upstream(server)

        def accept() -> None:
            with suppress(OSError):
                while True:
                    made.connections.put(Speaker(server.accept()[0]))

        threading.Thread(target=accept, daemon=True).start()
        try:
            yield made
        finally:
            server.shutdown(socket.SHUT_RDWR)


def connected(address: str) -> Speaker:
    host, _, port = address.rpartition(":")
    return Speaker(socket.create_connection((host, int(port)), PATIENCE_S))
