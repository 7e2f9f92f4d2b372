"""The Java client, kafka-clients of any release from 2.5 on, as a driver. A Java runtime is enough: a compiler is fetched too."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar
from zipfile import ZipFile

from fencepost.harness.api import ClusterError
from fencepost.harness.fetching import maven, tools
from fencepost.harness.fetching.java import OLDEST, directories, java

SOURCES = Path(__file__).parents[1] / "drivers" / "java"
FIRST = (2, 5)  # the first with consumer group metadata in transactions (KIP-447), which the driver is written for
MAIN, REHEARSAL = "fencepost.Driver", "rehearsal"
COMPILER, JSON, LOG = "3.38.0", "2.10.1", "1.7.36"  # the newest compiler that runs on Java 17; without further dependencies
JAR, CLASSES = "driver.jar", "classes.jsa"

MEMORY = ("-Xmx192m", "-Xss512k", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")  # some ten at once on a small machine
QUIET = (  # standard output belongs to frames, also when the JVM itself has something to say
    "-XX:+IgnoreUnrecognizedVMOptions",
    "-XX:+DisplayVMOutputToStderr",
    "-Xlog:disable",
    "-Xlog:all=error:stderr",
    "-XX:-UsePerfData",
    "-XX:+ExitOnOutOfMemoryError",
)
LOGGING = (
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    # warns of each attempt that is made again: with transactions of KIP-890 that is the first one of most
    "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.clients.producer.internals.Sender=error",
)


class Java:
    """Family `java`: each version of kafka-clients on Maven's central repository from 2.5 on.

    After a failed call (`client.recovery`): the same call again after a timeout, else an abort, by the javadoc of KafkaProducer.
    """

    default: ClassVar[str] = "4.4.0"
    versions: ClassVar[str] = "every release of kafka-clients from 2.5.0 on"

    def refusal(self, version: str) -> str:
        match = re.fullmatch(r"(\d+)\.(\d+)\.\d+(?:[.-][\w.-]+)?", version)
        if match is None:
            return f'"{version}" is no version of kafka-clients; one is {self.default}'
        if (int(match[1]), int(match[2])) < FIRST:
            return f"kafka-clients {version} lacks transactions with groups (KIP-447); 2.5.0 is the first that can be driven"
        return ""

    def missing(self, built: bool = False) -> str:
        try:
            java()
        except ClusterError as error:
            return str(error)
        return ""

    def sources(self) -> Sequence[Path]:
        return [SOURCES]

    def download(self, version: str, directory: Path, progress: Callable[[str], None]) -> None:
        wanted = [
            ("org.apache.kafka", "kafka-clients", version),
            ("org.slf4j", "slf4j-simple", LOG),
            ("com.google.code.gson", "gson", JSON),
            ("org.eclipse.jdt", "ecj", COMPILER),
        ]
        maven.fetch(f"kafka-clients {version}", wanted, directory, hint=f"There is {self.versions}")

    def build(self, version: str, library: Path, directory: Path) -> None:
        """Compile the sources into a jar, and archive the client's classes, which saves a third of the start's processor time."""
        self._compile(version, library, directory)
        self._archive(version, library, directory)

    def command(self, version: str, library: Path, built: Path) -> Sequence[str]:
        archive = built / CLASSES
        shared = (f"-XX:SharedArchiveFile={archive}", "-Xshare:auto") if archive.exists() else ()
        return (*_jvm(), *shared, *LOGGING, "-cp", f"{_class_path(library)}:{built / JAR}", MAIN)

    def reads(self) -> Sequence[Path]:
        return directories(java()[0])

    def _compile(self, version: str, library: Path, directory: Path) -> None:
        classes = directory / "classes"
        compiler = [java()[0], *MEMORY[2:], "-jar", str(next(library.glob("ecj-*.jar")))]
        options = [f"-{OLDEST}", "-nowarn", "-proc:none", "-encoding", "UTF-8", "-cp", _class_path(library), "-d", str(classes)]
        tools.run([*compiler, *options, str(SOURCES)], f"compiling the driver for kafka-clients {version}")
        with ZipFile(directory / JAR, "w") as jar:
            for path in sorted(classes.rglob("*.class")):
                jar.write(path, path.relative_to(classes))
        shutil.rmtree(classes)

    def _archive(self, version: str, library: Path, directory: Path) -> None:
        """Write the archive of the library's classes; a JVM that cannot make one starts without it.

        The driver's own jar is left out: the archive names the path of each jar, and this directory is not at its place yet.
        """
        loaded, archive = directory / "classes.list", directory / CLASSES
        path = _class_path(library)
        rehearsal = [*_jvm(), *LOGGING, f"-XX:DumpLoadedClassList={loaded}", "-cp", f"{path}:{directory / JAR}", MAIN, REHEARSAL]
        dump = [*_jvm(), "-Xshare:dump", f"-XX:SharedClassListFile={loaded}", f"-XX:SharedArchiveFile={archive}", "-cp", path]
        try:
            tools.run(rehearsal, f"listing the classes of kafka-clients {version}")
            tools.run(dump, f"archiving the classes of kafka-clients {version}")
        except tools.ToolError:
            archive.unlink(missing_ok=True)
        loaded.unlink(missing_ok=True)


def _jvm() -> tuple[str, ...]:
    return (java()[0], *MEMORY, *QUIET)


def _class_path(library: Path) -> str:
    """The library's jars; the compiler is none of the driver's."""
    return ":".join(str(path) for path in sorted(library.glob("*.jar")) if not path.name.startswith("ecj-"))
