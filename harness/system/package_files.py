"""Files that come with fencepost beside its code: campaigns and examples. In a working copy they are those of the tree."""

from __future__ import annotations

from pathlib import Path

import fencepost

PACKAGE = Path(fencepost.__file__).resolve().parent
CAMPAIGNS = (PACKAGE / "campaigns").resolve()
EXAMPLES = (PACKAGE / "examples").resolve()


def campaigns() -> dict[str, Path]:
    """The campaigns that come with fencepost, by name, sorted."""
    return {path.stem: path for path in sorted(CAMPAIGNS.glob("*.toml"), key=lambda path: path.stem)}


def example_programs() -> dict[str, Path]:
    """The examples that are programs in Python, by name, sorted.

    They are applications to be judged, sinks, brokers, tests through the proxy, and reproducers.
    """
    folders = ("applications", "sinks", "brokers", "proxy", "reproducers")
    programs = [path for folder in folders for path in (EXAMPLES / folder).glob("*.py")]
    return {path.stem: path for path in sorted(programs, key=lambda path: path.stem)}
