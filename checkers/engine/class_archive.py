"""A class-data archive for Spark's driver: to read and verify classes takes the JVM half of the cold check of a small history.

The JVM of the first session on a machine writes the archive when it ends (JEP 350); later ones map it. Nothing depends on it: a
JVM that cannot use the archive goes on without it. One has up to 200 MB, and each installation its own, so those that nobody has
used for two weeks are removed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import time
from pathlib import Path

import pyspark

KEPT_S = 14 * 24 * 3600  # since an archive was last used
QUIET = "-Xlog:disable -Xlog:all=error:stderr"


def archive_options() -> str:
    """Options for the driver's JVM: use the archive, or make it at the end. None where there is no Java or no place for it."""
    java = _java()
    if java is None:
        return ""
    folder = _cache() / "spark"
    key = hashlib.sha256(f"{pyspark.__version__} {pyspark.__file__} {java} {java.stat().st_mtime_ns}".encode()).hexdigest()[:12]
    archive = folder / f"classes-{key}.jsa"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _adopt(archive)
    except OSError:
        return ""
    if archive.exists():
        with contextlib.suppress(OSError):  # it belongs to somebody else, or is gone
            os.utime(archive)
        return f"-XX:SharedArchiveFile={archive} {QUIET}"
    _remove_unused(folder)
    return f"-XX:ArchiveClassesAtExit={archive.with_suffix(f'.{os.getpid()}')} {QUIET}"


def _cache() -> Path:
    if chosen := os.environ.get("FENCEPOST_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fencepost"


def _java() -> Path | None:
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home) / "bin") if home else None)
    return Path(java).resolve() if java else None


def _adopt(archive: Path) -> None:
    """Take over the archive that the JVM of an ended session has written under its process id."""
    for made in archive.parent.glob(f"{archive.stem}.[0-9]*"):
        if _lives(int(made.suffix[1:])):
            continue
        with contextlib.suppress(FileNotFoundError):  # another session was faster
            os.replace(made, archive)


def _remove_unused(folder: Path) -> None:
    for archive in folder.glob("classes-*"):
        with contextlib.suppress(OSError):
            if time.time() - archive.stat().st_mtime > KEPT_S:
                archive.unlink()


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
