"""This machine's own Python inside a container: an empty image into which the machine's directories are mounted read-only.

Helpers and workers need the very interpreter, libraries and plug-ins that the harness runs with; nothing is installed, copied
or downloaded for them, so a worker is the same program as in `local`.
"""

from __future__ import annotations

import io
import os
import sys
import tarfile
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from docker.errors import ImageNotFound
from docker.types import Mount

REPOSITORY, TAG = "fencepost/shell", "1"
IMAGE = f"{REPOSITORY}:{TAG}"
_SYSTEM = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")  # links into /usr on most machines
_MORE = ("/usr", "/nix", "/gnu")
_ETC = ("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "ssl", "localtime")
_EMPTY = ("usr", "etc", "proc", "sys", "dev", "tmp", "run", "var", "home", "root")
_INSTALLED = ("site-packages", "dist-packages")
_PASSED_ON = ("PATH", "LANG", "LANGUAGE", "TZ", "JAVA_HOME", "LD_LIBRARY_PATH")
_PASSED_ON_PREFIXES = ("PYTHON", "FENCEPOST_", "LC_")


def ensure_image(client: Any) -> str:
    """The empty image, made on the spot when the daemon lacks it (some kilobytes); its name."""
    try:
        client.images.get(IMAGE)
    except ImageNotFound:
        client.api.import_image_from_data(_skeleton(), repository=REPOSITORY, tag=TAG, changes=['LABEL "fencepost"="shell"'])
    return IMAGE


def mounts(writable: Iterable[Path] = (), more: Iterable[Path] = ()) -> list[Mount]:
    """All that this interpreter needs and `more`, read-only at the same places, and `writable` directories as they are."""
    system = [Path("/", name) for name in _SYSTEM if Path("/", name).is_dir() and not Path("/", name).is_symlink()]
    system += [Path(name) for name in _MORE if Path(name).is_dir()]
    system += [Path("/etc", name) for name in _ETC if Path("/etc", name).exists()]
    python = [Path(sys.prefix), Path(sys.base_prefix), Path(sys.base_prefix).resolve()]
    python += [path for paths in _imported_paths().values() for path in paths]
    bound = [Mount(str(path), str(path), type="bind", read_only=True) for path in outermost([*system, *python, *more])]
    return bound + [Mount(str(path), str(path), type="bind") for path in writable]


def environment(variables: Mapping[str, str] | None = None) -> dict[str, str]:
    """The part of an environment (default: ours) that a worker may need: the daemon shows it to all who may ask it, so no more.

    What this interpreter imports from is named, since the working directory is another.
    """
    given = os.environ if variables is None else variables
    passed_on = {name: value for name, value in given.items() if name in _PASSED_ON or name.startswith(_PASSED_ON_PREFIXES)}
    return {**passed_on, "PYTHONPATH": os.pathsep.join(map(str, _imported_paths())), "PYTHONDONTWRITEBYTECODE": "1"}


def python() -> str:
    """The interpreter, as it is called inside."""
    return sys.executable


def user() -> str:
    """The user and group that own what a container writes into the run: ours."""
    return f"{os.getuid()}:{os.getgid()}"


def _imported_paths() -> dict[Path, list[Path]]:
    """Directories outside the interpreter on the search path from which something was imported, in order, each with what was."""
    own = (Path(sys.prefix), Path(sys.base_prefix))
    directories = dict.fromkeys(Path(entry).resolve() for entry in sys.path)
    outside = [path for path in directories if path.is_dir() and not any(path.is_relative_to(prefix) for prefix in own)]
    places = module_places()
    by_directory = {path: imported(path, places) for path in outside}
    return {path: paths for path, paths in by_directory.items() if paths}


def module_places() -> list[tuple[str, Path]]:
    """The imported modules by name, each with the places where it lies."""
    resolved = cache(os.path.realpath)  # of directories: most modules share theirs with others
    return [(name, place) for name, module in list(sys.modules.items()) for place in _places(module, resolved)]


def imported(directory: Path, places: Iterable[tuple[str, Path]]) -> list[Path]:
    """The needed part of a directory on the search path: the packages and files that were imported from it.

    The working directory and the campaign's are on the path: mounted as a whole they would show all that is in them, which may be
    a home. A directory of installed packages is needed as a whole. A package of links (ours in a working copy) needs
    their targets.
    """
    if directory.name in _INSTALLED:
        return [directory]
    inside = [(name, place) for name, place in places if str(place).startswith(os.path.join(directory, ""))]
    parts = ((name, place.relative_to(directory).parts) for name, place in inside)
    needed = {directory / path[0] for name, path in parts if path and path[0].partition(".")[0] == name.partition(".")[0]}
    linked = {entry.resolve() for path in needed if path.is_dir() for entry in path.iterdir() if entry.is_symlink()}
    return sorted(needed | linked)


def _places(module: Any, resolved: Callable[[str], str]) -> list[Path]:
    """The place of a module: its file, or the directories of a package without one."""
    try:
        places = [module.__file__] if getattr(module, "__file__", None) else list(getattr(module, "__path__", ()))
        return [Path(_resolved_file(os.path.abspath(place), resolved)) for place in places]
    except (TypeError, OSError, AttributeError):  # some objects in sys.modules are no modules
        return []


def _resolved_file(path: str, resolved: Callable[[str], str]) -> str:
    """A path without links."""
    directory, name = os.path.split(path)
    return os.path.realpath(path) if os.path.islink(path) else os.path.join(resolved(directory), name)


def outermost(paths: Iterable[Path]) -> list[Path]:
    """The paths without those that lie inside another of them, sorted."""
    outer: list[Path] = []
    for path in sorted(set(paths)):
        if not any(path.is_relative_to(other) for other in outer):
            outer.append(path)
    return outer


def _skeleton() -> bytes:
    """A tar of empty directories, and this machine's links from / into /usr."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for name in (*_EMPTY, *(name for name in _SYSTEM if not Path("/", name).is_symlink())):
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(entry)
        for name in (name for name in _SYSTEM if Path("/", name).is_symlink()):
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, os.readlink(Path("/", name))
            tar.addfile(entry)
    return made.getvalue()
