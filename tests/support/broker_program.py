"""A program that speaks as much of Kafka's protocol as shows that a broker is ready: `HOST PORT ID PEERS [MODE]`.

PEERS: `id@host:port` of every broker, with commas. Modes: alone (it knows itself only), elsewhere (it sends clients to port 1),
few (it answers neither CreateTopics nor EndTxn).
"""

import socketserver
import struct
import sys

PRODUCE, FETCH, OFFSETS, METADATA, COORDINATOR, VERSIONS, CREATE, END = 0, 1, 2, 3, 10, 18, 19, 26


def text(value):
    return struct.pack(">h", len(value)) + value.encode()


def versions(mode, version):
    """In version 0, whichever is asked for: error 35 says that another one is not known (KIP-511)."""
    keys = [PRODUCE, FETCH, OFFSETS, METADATA, COORDINATOR, VERSIONS, 22, 24, 28]
    keys += [] if mode == "few" else [CREATE, END]
    rows = b"".join(struct.pack(">hhh", key, *((7, 7) if key == METADATA else (0, 1))) for key in keys)
    return struct.pack(">hi", 35 if version else 0, len(keys)) + rows


def metadata(peers):
    brokers = b"".join(struct.pack(">i", i) + text(host) + struct.pack(">ih", port, -1) for i, host, port in peers)
    return struct.pack(">ii", 0, len(peers)) + brokers + text("double") + struct.pack(">ii", peers[0][0], 0)


def coordinator(peers):
    number, host, port = peers[-1]
    return struct.pack(">ihh", 0, 0, -1) + struct.pack(">i", number) + text(host) + struct.pack(">i", port)


def serve(host, port, number, peers, mode=""):
    known = [(int(name), *_address(address)) for name, _, address in (peer.partition("@") for peer in peers.split(","))]
    if mode == "alone":
        known = [(int(number), host, int(port))]
    if mode == "elsewhere":
        known = [(i, "localhost", 1) for i, _, _ in known]

    class Handler(socketserver.BaseRequestHandler):
        def handle(self):
            while head := self.request.recv(4, 0x100):  # MSG_WAITALL
                request = self.request.recv(struct.unpack(">i", head)[0], 0x100)
                key, version, correlation = struct.unpack_from(">hhi", request)
                answers = {VERSIONS: versions(mode, version), METADATA: metadata(known), COORDINATOR: coordinator(known)}
                if key not in answers:
                    return
                reply = struct.pack(">i", correlation) + answers[key]
                self.request.sendall(struct.pack(">i", len(reply)) + reply)

    class Server(socketserver.ThreadingTCPServer):
        allow_reuse_address = daemon_threads = True

    print(f"serving at {host}:{port}", flush=True)
    Server((host, int(port)), Handler).serve_forever()


def _address(word):
    host, _, port = word.rpartition(":")
    return host, int(port)


if __name__ == "__main__":
    serve(*sys.argv[1:])
