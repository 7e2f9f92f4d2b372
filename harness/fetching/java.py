"""Finds a Java that can run Kafka and Ivy."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from functools import lru_cache
from pathlib import Path

from fencepost.harness.api import ClusterError
from fencepost.harness.system import programs

OLDEST = 17
_SYSTEM = ("/usr", "/bin", "/lib", "/lib64", "/etc")
_REMEDY = f"install a Java runtime {OLDEST} or newer (Debian, Ubuntu: sudo apt install openjdk-17-jre-headless) or set JAVA_HOME"


@lru_cache(maxsize=1)
def java() -> tuple[str, str]:
    """The `java` program of JAVA_HOME if that is set, else of PATH, and its version ("17.0.15").

    Raises ClusterError, with the remedy, when there is none or it is older than 17. A JAVA_HOME that is wrong is not passed over
    in silence: Spark and other programs would follow it.
    """
    home = os.environ.get("JAVA_HOME")
    program = str(Path(home) / "bin" / "java") if home else shutil.which("java") or ""
    version = _version(program) if program else ""
    if version and int(re.split(r"\D", version)[0]) >= OLDEST:
        return program, version
    seen = f"{program} is {'version ' + version if version else 'no working Java'}" if program else "no java in PATH"
    if home:
        raise ClusterError(f"JAVA_HOME = {home}: {seen}, and {OLDEST} or newer is needed: correct it, or unset it")
    raise ClusterError(f"no Java {OLDEST} or newer found ({seen}, JAVA_HOME not set): {_REMEDY}")


def directories(program: str) -> list[Path]:
    """The directories that a container needs of a Java, beyond the system's own."""
    home = Path(program).resolve().parents[1]
    return [*([] if str(home).startswith(_SYSTEM) else [home]), *_configuration(home)]


def _configuration(home: Path) -> list[Path]:
    """Directories in which a runtime's configuration lies, where it only has links to them: Debian's `/etc/java-17-openjdk`."""
    files = [path.resolve() for part in ("conf", "lib/security") for path in (home / part).rglob("*") if path.is_symlink()]
    return sorted({path.parent for path in files if path.exists() and not path.is_relative_to(home)})


def _version(program: str) -> str:
    """The version by `java -version`, or empty when it does not run."""
    try:
        done = programs.run([program, "-version"], 30)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    match = re.search(r'version "(?:1\.)?([0-9]+[^"]*)"', done.stderr + done.stdout)
    return match.group(1) if match else ""
