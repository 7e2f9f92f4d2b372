"""A fake broker that speaks in literal bytes."""

import socket
import struct
import threading
from contextlib import contextmanager


@contextmanager
def broker(reply):
    """A server that answers one request with `reply` (after the correlation id); yields its address and what it heard."""
    heard = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            connection, _ = server.accept()
            with connection:
                (length,) = struct.unpack(">i", connection.recv(4))
                heard.append(connection.recv(length))
                if reply is not None:
                    connection.sendall(struct.pack(">ii", 4 + len(reply), 1) + reply)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname(), heard
        thread.join(5)


def text(value):
    return struct.pack(">h", len(value)) + value.encode()


def ints(*values):
    return struct.pack(f">{len(values)}i", *values)
