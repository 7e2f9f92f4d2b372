"""Runs outside a sandbox: enters the one that `Local` offers and plays `inside.py` there, with the same arguments."""

import json
import subprocess
import sys
from pathlib import Path

from clusters.local import Local

INSIDE = str(Path(__file__).with_name("inside.py"))


if __name__ == "__main__":
    command = Local(**json.loads(sys.argv[1])).sandbox([sys.executable, INSIDE, *sys.argv[1:]])
    sys.exit(subprocess.run(command, stdin=subprocess.DEVNULL).returncode)
