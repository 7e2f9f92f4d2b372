"""`fencepost serve`: the page over all runs, on loopback, while runs are performed."""

from __future__ import annotations

import signal
from typing import Annotated

import typer

from fencepost.harness.cli.console import KnownFile, Results, err, print_line
from fencepost.harness.system.addresses import is_loopback

EXAMPLES = "\b\nExamples:\n  fencepost serve\n  fencepost serve --port 0 --results /mnt/results"


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command(epilog=EXAMPLES)(serve)


def serve(
    results: Results = None,
    port: Annotated[int, typer.Option("--port", help="Where to listen; 0: any port that is free.")] = 8700,
    host: Annotated[str, typer.Option("--host", help="The address to listen at.")] = "127.0.0.1",
    known: KnownFile = None,
) -> None:
    """Serve the page over all runs, with their reports and logs, until Ctrl-C. It follows a campaign that is performed."""
    from fencepost.harness.memory.known import known_of
    from fencepost.harness.runs.store import results_root
    from fencepost.harness.site.server import SiteServer

    root = results_root(results)
    with SiteServer(root, host, port, known_of(known)) as server:
        print_line(f"{server.url} shows the runs below {root}; Ctrl-C ends it")
        if not is_loopback(host):
            err().print(f"everybody who reaches {host} can read all of them: --host 127.0.0.1 for this machine alone")
        for number in (signal.SIGINT, signal.SIGTERM):  # both end it, also where a shell in the background ignores the first
            signal.signal(number, signal.default_int_handler)
        try:
            server.serve_forever()
        except KeyboardInterrupt:  # the way to end it
            print_line("ended")
