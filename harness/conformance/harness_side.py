"""A harness that is there to be killed: `python -m` this module with RUN_DIR holds the sandbox's lifeline.

It ends when its own standard input does, and then everything in the sandbox ends with it.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

from fencepost.harness.history.run_directory import read_plan
from fencepost.harness.planning.plan import cluster_of
from fencepost.harness.system.python_command import module_command


def main(argv: list[str]) -> int:
    run_dir = Path(argv[0])
    plan = read_plan(run_dir)
    command = cluster_of(plan).sandbox(module_command("fencepost.harness.conformance.sandbox_side", str(run_dir)))
    sandbox = subprocess.Popen(command, stdin=subprocess.PIPE)
    threading.Thread(target=_await_end_of_input, args=(sandbox,), daemon=True).start()
    return sandbox.wait()


def _await_end_of_input(sandbox: subprocess.Popen[bytes]) -> None:
    sys.stdin.read()
    assert sandbox.stdin is not None
    sandbox.stdin.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
