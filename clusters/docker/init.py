"""The first process of a sandbox: `python -m fencepost.clusters.docker.init -- argv...`.

It is the supervisor of `local` without its namespaces (lifeline, reaping, signals), and it removes everything that the run has
in Docker when its child has ended, or the harness has. When it is killed itself, its child dies with it, the nodes die with their
helpers, and an empty network is left for `fencepost clean`.
"""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Sequence

from fencepost.clusters.docker import engine, leftovers
from fencepost.clusters.local import init

SANDBOX = "FENCEPOST_SANDBOX"  # the label of everything in this sandbox, for the child


def main(argv: Sequence[str]) -> int:
    """Run the child; its exit status, or 137 when the lifeline ended first."""
    os.environ[SANDBOX] = sandbox = new()
    try:
        return init.main(argv)
    finally:
        with engine.opened() as client:
            leftovers.remove(client, sandbox)
        init.remove_scratch()  # once more: brokers in containers wrote until now


def new() -> str:
    """A name for a sandbox, never used before."""
    return secrets.token_hex(6)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
