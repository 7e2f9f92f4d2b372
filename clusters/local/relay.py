"""The two halves of a service's relay: `python -m fencepost.clusters.local.relay`.

    outside NAME=HOST:PORT... -- COMMAND...    serves a Unix socket for each service, as long as the command runs
    inside HOST PORT SOCKET                    serves HOST:PORT in this network namespace

Each connection to a half becomes one to the next; bytes go both ways until both sides have ended, or one is broken.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path

from fencepost.clusters.local.services import SOCKETS, address_of
from fencepost.harness.system.parent_death import die_with

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
_CHUNK = 1 << 16


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass on bytes until the reader's side has ended, and end the writer's then."""
    while part := await reader.read(_CHUNK):
        writer.write(part)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()


def _joined(onward: Callable[[], Awaitable[Streams]]) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
    """A server's callback that joins each connection with a new one onward; one that cannot be made ends it."""

    async def join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ends = [writer]
        with suppress(OSError):
            there, back = await onward()
            ends.append(back)
            await asyncio.gather(_pump(reader, back), _pump(there, writer))
        for end in ends:
            end.transport.abort() if end.transport.is_closing() else end.close()

    return join


async def _serve_unix(path: Path, target: str) -> None:
    host, port = address_of(target)
    server = await asyncio.start_unix_server(_joined(lambda: asyncio.open_connection(host, port)), str(path))
    await server.serve_forever()


async def _serve_inside(host: str, port: int, path: str) -> None:
    server = await asyncio.start_server(_joined(lambda: asyncio.open_unix_connection(path)), host, port)
    print("listens", flush=True)  # noqa: T201
    await server.serve_forever()


async def _serve_all(directory: Path, services: dict[str, str]) -> None:
    await asyncio.gather(*(_serve_unix(directory / name, target) for name, target in services.items()))


def outside(declared: Sequence[str], command: Sequence[str]) -> int:
    """Run a command with the outer halves beside it; its exit status."""
    services = dict(word.split("=", 1) for word in declared)
    directory = Path(tempfile.mkdtemp(prefix="fencepost-services-"))
    threading.Thread(target=lambda: asyncio.run(_serve_all(directory, services)), daemon=True).start()
    try:
        child = subprocess.Popen(
            command, env={**os.environ, SOCKETS: str(directory)}, preexec_fn=die_with(os.getpid()), close_fds=False
        )
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda received, _frame: child.send_signal(received))
        code = child.wait()
        return code if code >= 0 else 128 - code
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def main(argv: Sequence[str]) -> int:
    if argv[0] == "outside":
        end = argv.index("--")
        return outside(argv[1:end], argv[end + 1 :])
    host, port, path = argv[1:]
    asyncio.run(_serve_inside(host, int(port), path))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
