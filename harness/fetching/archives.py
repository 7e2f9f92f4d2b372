"""Archives of Maven's central repository with a directory of files, as Connect's connectors are published: unpacked, and kept.

Coordinates are Maven's: `GROUP:ARTIFACT:VERSION[:EXTENSION[:CLASSIFIER]]`.
"""

from __future__ import annotations

import re
import shutil
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from fencepost.harness.api import CampaignError, ClusterError
from fencepost.harness.fetching import maven
from fencepost.harness.fetching.store import Store, cache_dir

_COORDINATES = re.compile(r"[\w.-]+:[\w.-]+:[\w.-]+(?::(?:jar|zip|tar\.gz)(?::[\w.-]+)?)?")
_MOST_FILES, _MOST_BYTES = 5000, 2 << 30  # of an archive


def is_coordinates(text: str) -> bool:
    """Return whether a text is Maven's coordinates of an archive, and no path."""
    return bool(_COORDINATES.fullmatch(text))


def directory_of(coordinates: str) -> Path:
    """The directory of an archive's files in the cache, whether it is there or not."""
    return _store().directory / _name(coordinates)


def fetch(coordinates: str, progress: Callable[[str], None] = lambda _: None, ivy: maven.Ivy | None = None) -> Path:
    """The directory of an archive's files, from the cache or else from Maven's central repository.

    Raises CampaignError for what is no such archive, ClusterError when it cannot be fetched or the cache is damaged.
    """
    if not is_coordinates(coordinates):
        raise CampaignError(
            [f'"{coordinates}" is no archive: GROUP:ARTIFACT:VERSION[:EXTENSION[:CLASSIFIER]], with jar, zip or tar.gz']
        )

    def fill(directory: Path) -> None:
        progress(f"fetching {coordinates} from Maven's central repository")
        archive = maven.fetch_archive(coordinates, directory, ivy)
        if archive.suffix != ".jar":
            _unpack(archive, directory)
            archive.unlink()

    return _store().fetch(_name(coordinates), fill, progress, repair=True).directory


def _store() -> Store:
    return Store(cache_dir() / "connect-plugins", "the archive", "fencepost connect plugin {}")


def _name(coordinates: str) -> str:
    return coordinates.replace(":", "_")


def _unpack(archive: Path, directory: Path) -> None:
    """The plain files of an archive, at their places below a directory. Raises ClusterError for any other place."""
    try:
        for number, (name, size, content) in enumerate(_files(archive)):
            place = PurePosixPath(name)
            if place.is_absolute() or ".." in place.parts or number >= _MOST_FILES or size > _MOST_BYTES:
                raise ClusterError(f"{archive.name}: {name!r} is no file of a connector; nothing of it is used")
            target = directory / place
            target.parent.mkdir(parents=True, exist_ok=True)
            with content, target.open("xb") as file:
                shutil.copyfileobj(content, file)
    except (OSError, tarfile.TarError, zipfile.BadZipFile) as error:
        raise ClusterError(f"{archive.name} cannot be unpacked: {error}") from error


def _files(archive: Path) -> Iterator[tuple[str, int, IO[bytes]]]:
    """Each plain file of an archive: its name, size and content."""
    if archive.suffix == ".zip":
        with zipfile.ZipFile(archive) as files:
            for entry in (entry for entry in files.infolist() if not entry.is_dir()):
                yield entry.filename, entry.file_size, files.open(entry)
        return
    with tarfile.open(archive) as tar:
        for member in tar:
            content = tar.extractfile(member) if member.isreg() else None
            if content:
                yield member.name, member.size, content
