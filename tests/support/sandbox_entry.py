"""Runs outside a sandbox: enters the one that a provider offers and plays `cluster_scenes.py` there, with the same arguments.

Its own standard input, when that is a pipe, is the lifeline.
"""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

from fencepost.harness.plugins import registry

INSIDE = str(Path(__file__).with_name("cluster_scenes.py"))


def provider(text):
    """The provider that `{"kind": ..., option: ...}` names."""
    options = json.loads(text)
    return registry.build(registry.load("fencepost.cluster", options.pop("kind")), options, "cluster")


if __name__ == "__main__":
    command = provider(sys.argv[1]).sandbox([sys.executable, INSIDE, *sys.argv[1:]])
    lifeline = subprocess.PIPE if stat.S_ISFIFO(os.fstat(0).st_mode) else subprocess.DEVNULL
    sys.exit(subprocess.Popen(command, stdin=lifeline).wait())
