"""A store: directories of what was fetched, each complete or absent.

What is fetched comes into a temporary directory, is listed with checksums, and renamed. After that the network is not used again.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from fencepost.harness.api import ClusterError
from fencepost.harness.api.words import and_more
from fencepost.harness.fetching import manifest
from fencepost.harness.fetching.manifest import Manifest
from fencepost.harness.system import liveness

Progress = Callable[[str], None]


def cache_dir() -> Path:
    """The directory of everything fetched: FENCEPOST_CACHE, else `fencepost` under XDG_CACHE_HOME or ~/.cache."""
    if named := os.environ.get("FENCEPOST_CACHE"):
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fencepost"


@dataclass(frozen=True)
class Store:
    """The entries of a cache directory, by name.

    directory: the folder with a directory for each entry.
    title: the kind of entry in a sentence, before the name.
    command: fetches an entry anew, with `{}` for the name.
    """

    directory: Path
    title: str
    command: str

    def fetch(
        self,
        name: str,
        fill: Callable[[Path], None],
        progress: Progress = lambda _: None,
        repair: bool = False,
        anew: bool = False,
    ) -> Manifest:
        """The manifest of `name`, which `fill` puts into an empty directory when it is not there.

        repair: fill it anew when it is damaged; anew: in any case. Raises ClusterError when it is damaged or cannot be kept, and
        what `fill` raises.
        """
        entry, damage = self._present(name)
        if entry and not damage and not anew:
            return entry
        if damage and not repair:
            first = f"{damage[0]}{and_more(len(damage) - 1)}"
            text = f"{self.title} {name} in the cache is damaged: {first}. Fetch it anew: {self.command.format(name)}"
            raise ClusterError(text)
        with self._locked(progress):
            self._remove_leftovers()
            entry, damage = self._present(name)  # another process may have fetched it meanwhile
            if entry and not damage and not anew:
                return entry
            if damage:
                progress(f"{self.title} {name} in the cache is damaged: {'; '.join(damage)}")
            return self._fill(name, fill)

    def present(self, name: str) -> Manifest | None:
        """The manifest of what is there and undamaged."""
        entry, damage = self._present(name)
        return None if damage else entry

    def all(self) -> list[Manifest]:
        """The manifests of all that is complete; those that cannot be understood are left out."""
        names = sorted(path.parent.name for path in self.directory.glob(f"[!.]*/{manifest.MANIFEST}"))
        return [entry for name in names if (entry := self._read(name)[0])]

    def complete(self, name: str) -> Manifest | None:
        """The manifest of what is complete; None where there is none that can be understood."""
        return self._read(name)[0]

    def verify(self, name: str) -> list[str]:
        """Read every file again; what is wrong, one sentence each (empty: all as fetched)."""
        entry, damage = self._read(name)
        if damage:
            return damage
        return entry.damage(every=True) if entry else [f"{self.title} {name} is not in {self.directory}"]

    def _present(self, name: str) -> tuple[Manifest | None, list[str]]:
        entry, damage = self._read(name)
        return entry, damage or (entry.damage() if entry else [])

    def _read(self, name: str) -> tuple[Manifest | None, list[str]]:
        try:
            return manifest.read(self.directory / name), []
        except ClusterError as error:
            return None, [str(error)]

    def _fill(self, name: str, fill: Callable[[Path], None]) -> Manifest:
        made = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=self.directory))
        final = self.directory / name
        try:
            fill(made)
            manifest.of(made, name).write()
            made.chmod(0o755)
            if final.exists():  # of no use any more; its new name begins as that of a leftover
                final.rename(made.with_name(f"{made.name}-former"))
            made.rename(final)
        finally:
            self._remove_leftovers()
        written = manifest.read(final)
        assert written is not None
        return written

    @contextmanager
    def _locked(self, progress: Progress) -> Iterator[None]:
        """Hold the lock that lets a single fetch run at a time; it ends with its process."""
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            with ExitStack() as stack:
                waiting = f"waiting for another fetch of {self.title} to end: "
                stack.enter_context(liveness.alone(self.directory, waiting=lambda user: progress(waiting + user)))
                lock = stack.pop_all()
        except OSError as e:
            text = f"{self.title} cannot be kept in {self.directory}: {e.strerror}; name another place in FENCEPOST_CACHE"
            raise ClusterError(text) from e
        with lock:
            yield

    def _remove_leftovers(self) -> None:
        """Remove what fetches that were interrupted have left; safe under the lock."""
        for path in interrupted(self.directory):
            shutil.rmtree(path, ignore_errors=True)


def interrupted(directory: Path) -> list[Path]:
    """The directories of fetches into a store that were interrupted, or go on now."""
    return [path for path in directory.glob(".*-*") if path.is_dir()]
