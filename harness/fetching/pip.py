"""Python packages from PyPI, by pip and its ordinary configuration: a wheel for any Python, or a release with what it needs."""

from __future__ import annotations

import platform
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from fencepost.harness.api import CampaignError, ClusterError, HarnessError
from fencepost.harness.fetching import tools

_LINUX = ("manylinux_2_28", "manylinux_2_17", "manylinux2014", "manylinux2010", "manylinux1")
_FETCH_S = 600.0
_QUIET = ("--disable-pip-version-check", "--no-input", "--only-binary=:all:")
_NO_SUCH = "from versions: "


def missing() -> str:
    """The reason why pip cannot be used, with the remedy; empty when it can."""
    if find_spec("pip") is not None:
        return ""
    return f"pip is missing in fencepost's own Python: {sys.executable} -m ensurepip (or install python3-pip)"


def wheel(project: str, version: str, pythons: Sequence[str], directory: Path) -> Path:
    """The wheel of a release for this machine, put into a directory; `pythons` ("311") are tried in turn.

    Raises CampaignError when there is no such release, ClusterError when it could not be had.
    """
    platforms = [argument for name in _LINUX for argument in ("--platform", f"{name}_{platform.machine()}")]
    failed = []
    for python in pythons:
        tags = ["--python-version", python, "--implementation", "cp", "--abi", f"cp{python}", *platforms]
        try:
            _pip(["download", "--no-deps", *tags, "--dest", str(directory), f"{project}=={version}"], project, version)
            return next(directory.glob("*.whl"))
        except tools.ToolError as error:
            failed.append(error)
            if _NO_SUCH not in error.output:
                break
    raise _refusal(project, version, failed)


def install(project: str, version: str, python: str, directory: Path, extras: Sequence[str] = ()) -> None:
    """A release and all that it needs, for this interpreter, as files below a directory. Nothing is compiled, built or run.

    extras: sets of packages that the release names as optional. Raises as `wheel` does.
    """
    wanted = f"{project}[{','.join(extras)}]=={version}" if extras else f"{project}=={version}"
    own = [] if python == sys.executable else ["--python", python]
    try:
        _pip([*own, "install", "--no-compile", "--target", str(directory), wanted], project, version)
    except tools.ToolError as error:
        raise _refusal(project, version, [error]) from error


def _pip(arguments: Sequence[str], project: str, version: str) -> str:
    front = 2 if arguments[0] == "--python" else 0
    argv = [sys.executable, "-m", "pip", *arguments[:front], arguments[front], *_QUIET, *arguments[front + 1 :]]
    return tools.run(argv, f"fetching {project} {version}", timeout_s=_FETCH_S)


def _refusal(project: str, version: str, failed: Sequence[tools.ToolError]) -> HarnessError:
    """The error for pip's output: there is no such release, or PyPI could not be reached; with pip's own words."""
    for error in failed:
        versions = error.output.partition(_NO_SUCH)[2].partition(")")[0]
        if versions and versions != "none":
            return CampaignError([f"{project} {version}: PyPI has no such release for this machine; it has {versions}"])
    return ClusterError(f"{failed[-1]}. If the release exists, is PyPI reachable from here?")
