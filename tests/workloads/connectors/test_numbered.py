"""The built connector: it is what its sources say, and its page names it."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path
from zipfile import ZipFile

import pytest

from fencepost.harness.fetching import built_jars
from fencepost.workloads.connectors import build

NUMBERED = build.connector("numbered")
SERVICE = "META-INF/services/org.apache.kafka.connect.source.SourceConnector"


def test_the_jar_was_built_from_the_sources_beside_it():
    """Whoever changes a source builds the jar again; no compiler is needed to see that."""
    assert NUMBERED.entries()[built_jars.SUMS].decode() == NUMBERED.sums().decode()


def test_every_source_has_its_class_for_java_11():
    files = NUMBERED.entries()
    for source in (name for name in NUMBERED.sources() if name.endswith(".java")):
        content = files[f"fencepost/{source.removesuffix('.java')}.class"]
        assert content[:4] == bytes.fromhex("cafebabe")
        assert int.from_bytes(content[6:8], "big") == 44 + int(build.RELEASE)


def test_the_service_file_names_the_connector():
    files = NUMBERED.entries()
    assert files[SERVICE].decode().split() == ["fencepost.NumberedSource"]
    assert "fencepost/NumberedSource.class" in files


def test_the_page_has_the_jars_checksum_and_every_key():
    page = (build.HERE / "README.md").read_text()
    assert hashlib.sha256(NUMBERED.jar.read_bytes()).hexdigest() in page
    assert built_jars.COMPILER in page
    assert build.API in page
    settings = NUMBERED.sources()["Settings.java"].decode()
    keys = [line.split('"')[1] for line in settings.splitlines() if "static final String" in line]
    own = {"task", "tasks", "supported", "unsupported", "null"}
    assert [key for key in keys if key not in own and f"| `{key}` |" not in page] == []


def test_a_jar_is_the_same_whenever_it_is_written(tmp_path: Path):
    built_jars.write(tmp_path / "again.jar", NUMBERED.entries())
    with ZipFile(tmp_path / "again.jar") as again, ZipFile(NUMBERED.jar) as jar:
        assert [(member.filename, member.date_time, member.CRC) for member in again.infolist()] == [
            (member.filename, member.date_time, member.CRC) for member in jar.infolist()
        ]


@pytest.mark.nightly
def test_building_again_gives_the_same_jar(tmp_path: Path):
    """Fetches the compiler and Connect's API."""
    NUMBERED.fetch(tmp_path)
    assert NUMBERED.build(tmp_path) == NUMBERED.entries()


@pytest.mark.nightly
@pytest.mark.skipif(not shutil.which("javac"), reason="a JDK compiles it (apt install default-jdk-headless)")
def test_the_sources_need_nothing_of_a_java_after_11(tmp_path: Path):
    """The compiler of `build` sees the classes of whichever Java runs it; a JDK knows those of 11."""
    NUMBERED.fetch(tmp_path)
    api = ":".join(map(str, tmp_path.glob("*.jar")))
    sources = sorted(map(str, NUMBERED.directory.glob("*.java")))
    argv = ["javac", "--release", build.RELEASE, "-Xlint:all", "-Werror", "-cp", api, "-d", str(tmp_path / "classes"), *sources]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
