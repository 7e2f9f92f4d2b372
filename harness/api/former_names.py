"""Names that fencepost's packages had before 0.2, as packages of the top level: plug-ins, campaigns and plans have them."""

from __future__ import annotations

FORMER_PACKAGES = ("harness", "clusters", "nemesis", "workloads", "checkers")  # now within `fencepost`


def former_name_hint(error: BaseException) -> str:
    """The remedy, in brackets, for an import that failed because it names a package of ours as before 0.2; else an empty text."""
    first = (getattr(error, "name", None) or "").partition(".")[0] if isinstance(error, ImportError) else ""
    return f" (since 0.2 it is `fencepost.{first}`: import from there)" if first in FORMER_PACKAGES else ""
