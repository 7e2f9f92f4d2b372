"""Stand-ins for the tools that build clients in Go and Node.js, for tests of campaigns with such clients that build none."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

TOOLS = ("go", "npm")


def path_with_build_tools(directory: Path, path: str) -> str:
    """`path` (a PATH), and behind it `directory` with a stand-in, which always fails, for each tool that `path` lacks."""
    for tool in TOOLS:
        if shutil.which(tool, path=path) is None:
            stand_in = directory / tool
            stand_in.write_text("#!/bin/sh\nexit 1\n")
            stand_in.chmod(0o755)
    return f"{path}{os.pathsep}{directory}"
