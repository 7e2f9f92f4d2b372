"""Programs that cannot be executed, in words."""

from __future__ import annotations

from pathlib import Path


def no_program(name: str) -> str:
    """The reason why there is no program of this name or path to be executed here, and the remedy."""
    path = Path(name)
    if path.is_file():
        return f'"{name}" is not executable: chmod +x {name}'
    if path.is_dir():
        return f'"{name}" is a directory, no program'
    return f'"{name}" is no program that can be executed here' + ("; there is no such file" if "/" in name else "")
