"""Plug-ins of Connect: directories and jars as somebody names them, and as a worker's `plugin.path` wants them.

A worker takes each directory *in* a directory of `plugin.path`, and each jar there, as one plug-in with a class loader of its own
(`PluginUtils`, KIP-146). A connector's own directory, which holds its jars, would become as many plug-ins as it has jars.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from fencepost.harness.api import ConnectWorker
from fencepost.harness.api.words import and_more
from fencepost.harness.fetching import archives

FOLDER = "plugins"  # in a worker's directory: links to connectors' own directories
_SERVICES = ("source.SourceConnector", "sink.SinkConnector")
_MOST_LISTED = 6


def plugin_path(plugins: Sequence[str], directory: Path) -> list[str]:
    """The entries of `plugin.path` for some directories and jars.

    A connector's own directory becomes a link in `directory`, which is an entry then. Raises OSError.
    """
    own = [Path(path) for path in plugins if _is_own(Path(path))]
    entries = [path for path in plugins if Path(path) not in own]
    for number, path in enumerate(own):
        folder = directory / FOLDER
        folder.mkdir(exist_ok=True)
        link = folder / f"{number}-{path.name}"
        link.unlink(missing_ok=True)
        link.symlink_to(path.resolve(), target_is_directory=True)
    return [*entries, *([str(directory / FOLDER)] if own else [])]


def _is_own(path: Path) -> bool:
    """Return whether a directory is a connector's own: it holds jars, as a connector's archive unpacks to."""
    return path.is_dir() and any(path.glob("*.jar"))


def lost_plugins(workers: Iterable[ConnectWorker]) -> list[str]:
    """The mistakes in what some workers are to load, a sentence each: nothing there, no jar, no such class."""
    known = dict.fromkeys((worker.plugins, worker.classes) for worker in workers if not worker.ours)
    return [text for plugins, classes in known for text in _mistakes(plugins, classes)]


def _mistakes(plugins: Sequence[str], classes: Sequence[str]) -> Iterator[str]:
    if gone := [path for path in plugins if not Path(path).exists()]:
        yield from (f"workload.plugins: {path} is not there{_remedy(path)}" for path in gone)
        return
    jars = [jar for path in plugins for jar in _jars(Path(path))]
    places = ", ".join(plugins)
    if not jars:
        yield (
            f"workload.plugins: {places}: no jar is there; name the directory with the connector's jars, the one that holds it, "
            "or a jar"
        )
        return
    for name in classes:
        if "." in name and not any(_holds(jar, name) for jar in jars):
            yield f"workload.connector: no jar in {places} has the class {name}; {_offered(jars)}"


def _remedy(path: str) -> str:
    """How to fetch what is not there, where it is an archive of the cache."""
    place = Path(path)
    fetched = place.parent == archives.directory_of("a:b:1").parent
    return f"; fetch it once: fencepost connect plugin {place.name.replace('_', ':')}" if fetched else ""


def _jars(path: Path) -> list[Path]:
    """The jars that a worker finds by an entry: those of the directory and of the directories in it."""
    if path.is_file():
        return [path]
    return sorted({*path.glob("*.jar"), *path.glob("*/*.jar"), *path.glob("*/*/*.jar")})


def _holds(jar: Path, name: str) -> bool:
    return f"{name.replace('.', '/')}.class" in _names(jar)


def _names(jar: Path) -> frozenset[str]:
    with suppress(OSError, zipfile.BadZipFile), zipfile.ZipFile(jar) as archive:
        return frozenset(archive.namelist())
    return frozenset()


def _offered(jars: Iterable[Path]) -> str:
    """The connectors that jars say they have, in words."""
    offered = sorted({name for jar in jars for name in _declared(jar)})
    if not offered:
        return "they name no connectors"
    return f"they have {', '.join(offered[:_MOST_LISTED])}{and_more(len(offered) - _MOST_LISTED, ', and ')}"


def _declared(jar: Path) -> Iterator[str]:
    """The classes of connectors in a jar's list of services."""
    with suppress(OSError, zipfile.BadZipFile, KeyError), zipfile.ZipFile(jar) as archive:
        for kind in _SERVICES:
            entry = f"META-INF/services/org.apache.kafka.connect.{kind}"
            if entry in archive.namelist():
                lines = archive.read(entry).decode("utf-8", "replace").splitlines()
                yield from (name for line in lines if (name := line.partition("#")[0].strip()))
