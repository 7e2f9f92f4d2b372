"""Fetching Kafka with a fake resolver: complete or absent, once, and clear about refusals."""

import json
import os
import subprocess
import sys
import threading
import time

import pytest
from support.processes import has_ended

from fencepost.clusters.kafka import distribution
from fencepost.harness.api import CampaignError, ClusterError
from fencepost.harness.fetching import manifest
from fencepost.harness.fetching.java import java
from fencepost.harness.runs import leftovers


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("FENCEPOST_CACHE", str(tmp_path))
    return tmp_path


class Ivy:
    """Writes two jars, or fails after the first."""

    def __init__(self, fails_with=None):
        self.fails_with, self.calls = fails_with, 0

    def __call__(self, recipe, destination, cache):
        self.calls += 1
        version = recipe.read_text().partition('name="kafka_2.13" rev="')[2].partition('"')[0]
        (destination / "slf4j-simple-1.7.36.jar").write_text("logger")
        if isinstance(self.fails_with, BaseException):
            raise self.fails_with
        if self.fails_with is None:
            (destination / f"kafka_2.13-{version}.jar").write_text("broker " + version)
        return subprocess.CompletedProcess([], 1 if self.fails_with else 0, self.fails_with or "", "")


def names(directory):
    return sorted(path.name for path in directory.iterdir())


def test_a_fetched_version_is_complete_and_is_not_fetched_again(cache):
    """The second call finds it in the cache; nothing of the first is left beside it."""
    ivy, heard = Ivy(), []
    first = distribution.fetch("4.3.0", heard.append, ivy)
    assert sorted(first.jars) == ["kafka_2.13-4.3.0.jar", "slf4j-simple-1.7.36.jar"]
    assert distribution.fetch("4.3.0", heard.append, ivy) == first
    assert ivy.calls == 1
    assert heard == ["fetching Kafka 4.3.0 from Maven's central repository"]
    assert names(cache / "kafka") == [".lock", "4.3.0"]


@pytest.mark.parametrize("end", ["half a download", KeyboardInterrupt()])
def test_a_fetch_that_fails_or_is_interrupted_leaves_nothing(cache, end):
    """One jar had arrived already; a later fetch starts from nothing and succeeds."""
    with pytest.raises((ClusterError, KeyboardInterrupt)):
        distribution.fetch("4.3.0", ivy=Ivy(end))
    assert names(cache / "kafka") == [".lock"]
    assert distribution.installed() == []
    assert distribution.fetch("4.3.0", ivy=Ivy()).version == "4.3.0"


def test_leftovers_of_a_killed_fetch_are_removed_by_the_next(cache):
    """SIGKILL runs no cleanup; the next fetch holds the lock and so may remove them."""
    half = cache / "kafka" / ".4.1.1-abc"
    half.mkdir(parents=True)
    (half / "kafka_2.13-4.1.1.jar").write_text("half")
    distribution.fetch("4.3.0", ivy=Ivy())
    assert names(cache / "kafka") == [".lock", "4.3.0"]


def test_jars_are_compared_before_each_use_and_fetched_anew_on_demand(cache):
    """A changed jar is found by its time, or its size; `fencepost cluster fetch` repairs, a run does not."""
    ivy, heard = Ivy(), []
    fetched = distribution.fetch("4.3.0", ivy=ivy)
    jar = fetched.directory / "kafka_2.13-4.3.0.jar"
    jar.write_text("broker 4.9.9")
    with pytest.raises(ClusterError, match=r"in the cache is damaged: .*kafka_2.*Fetch it anew: fencepost cluster fetch 4\.3\.0"):
        distribution.fetch("4.3.0", ivy=ivy)
    assert distribution.fetch("4.3.0", heard.append, ivy, repair=True) == fetched
    assert "is damaged" in heard[0]
    assert (ivy.calls, jar.read_text()) == (2, "broker 4.3.0")
    assert names(cache / "kafka") == [".lock", "4.3.0"]
    jar.unlink()
    with pytest.raises(ClusterError, match=r"kafka_2\.13-4\.3\.0\.jar is missing"):
        distribution.fetch("4.3.0", ivy=ivy)


def test_a_jar_is_read_again_only_when_its_size_or_time_is_another(monkeypatch):
    """A copied cache has other times: it is read once, and the times are noted. A manifest of an older version has none."""
    fetched = distribution.fetch("4.3.0", ivy=Ivy())
    read = []
    monkeypatch.setattr(manifest, "sha256", lambda path, real=manifest.sha256: read.append(path.name) or real(path))
    assert distribution.fetch("4.3.0") == fetched
    assert read == []
    os.utime(fetched.directory / "slf4j-simple-1.7.36.jar", (1, 1))
    assert distribution.fetch("4.3.0") == distribution.fetch("4.3.0") == fetched
    assert read == ["slf4j-simple-1.7.36.jar"]
    known = json.loads((fetched.directory / "manifest.json").read_text())
    (fetched.directory / "manifest.json").write_text(json.dumps({"version": "4.3.0", "jars": known["files"]}))
    assert distribution.fetch("4.3.0") == distribution.fetch("4.3.0") == fetched
    assert sorted(read) == ["kafka_2.13-4.3.0.jar", *["slf4j-simple-1.7.36.jar"] * 2]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"jars": 3}', '{"version": "4.3.0", "jars": {"../x.jar": "0"}}'])
def test_a_manifest_that_cannot_be_understood_is_one_sentence_and_repaired_on_demand(text):
    fetched = distribution.fetch("4.3.0", ivy=Ivy())
    (fetched.directory / "manifest.json").write_text(text)
    with pytest.raises(ClusterError, match=r"is damaged: .*manifest\.json cannot be understood"):
        distribution.fetch("4.3.0", ivy=Ivy())
    assert distribution.installed() == []
    assert distribution.fetch("4.3.0", ivy=Ivy(), repair=True) == fetched


FETCH = """
import sys
from pathlib import Path
from fencepost.clusters.kafka import distribution
from fencepost.harness.fetching import maven
maven.java = lambda: (sys.argv[1], "17")
distribution.fetch("4.3.0")
"""
SLOW_JAVA = "#!/bin/sh\necho $$ > {place}/pid\nexec sleep 600\n"


def test_a_fetch_that_is_killed_takes_its_ivy_along_and_the_next_one_succeeds(cache, tmp_path):
    java = tmp_path / "java"
    java.write_text(SLOW_JAVA.format(place=tmp_path))
    java.chmod(0o755)
    pid = tmp_path / "pid"
    with subprocess.Popen([sys.executable, "-c", FETCH, str(java)]) as fetch:
        assert until(lambda: pid.exists() and pid.read_text().strip())
        fetch.kill()
    assert has_ended(int(pid.read_text()))
    assert [download.directory.name.startswith(".4.3.0-") for download in leftovers.downloads()] == [True]
    assert distribution.fetch("4.3.0", ivy=Ivy()).version == "4.3.0"
    assert names(cache / "kafka") == [".lock", "4.3.0"]


def test_two_fetches_at_once_fetch_once(cache):
    """The second hears whom it waits for."""
    first, heard = Ivy(), []
    going, go_on = threading.Event(), threading.Event()

    def slow(*arguments):
        going.set()
        assert go_on.wait(120)
        return first(*arguments)

    thread = threading.Thread(target=distribution.fetch, args=("4.3.0", lambda _: None, slow))
    thread.start()
    assert going.wait(120)
    second = threading.Thread(target=distribution.fetch, args=("4.3.0", heard.append, first))
    second.start()
    assert until(lambda: heard)
    assert heard[0].startswith("waiting for another fetch of Kafka to end: ")
    assert f"process {os.getpid()} on" in heard[0]
    go_on.set()
    thread.join()
    second.join()
    assert first.calls == 1


def until(condition, within_s=120):
    deadline = time.monotonic() + within_s
    while not (seen := condition()) and time.monotonic() < deadline:
        time.sleep(0.01)
    return seen


def test_an_unknown_version_is_named_with_the_known_ones():
    """The resolver's own words, without its banner."""
    output = ":: problems summary ::\n\t\tmodule not found: org.apache.kafka#kafka_2.13;9.9.9\n"
    with pytest.raises(CampaignError) as refused:
        distribution.fetch("9.9.9", ivy=Ivy(output))
    text = str(refused.value)
    assert "Kafka 9.9.9: there is no such version (module not found: org.apache.kafka#kafka_2.13;9.9.9)" in text
    assert "3.2.0, 3.9.1, 4.1.1, 4.2.0, 4.3.0" in text
    assert "problems summary" not in text


def test_a_repository_out_of_reach_says_nothing_about_the_version():
    output = "Host far.example not found. url=https://far.example/x\n\t\tmodule not found: org.apache.kafka#kafka_2.13;4.3.0\n"
    with pytest.raises(ClusterError, match=r"could not be fetched: Host far\.example not found"):
        distribution.fetch("4.3.0", ivy=Ivy(output))


@pytest.mark.parametrize("version", ["../../x", "254", "", "4.3", "4.3.0/..", "4.3.0-rc1", "2.8.1", "latest"])
def test_what_is_no_version_never_becomes_a_path(version, cache):
    with pytest.raises(CampaignError):
        distribution.fetch(version, ivy=Ivy())
    assert not (cache / "kafka").exists()


def test_installed_lists_versions_in_their_order():
    """4.10 comes after 4.3."""
    for version in ("4.10.0", "3.9.1", "4.3.0"):
        distribution.fetch(version, ivy=Ivy())
    assert [d.version for d in distribution.installed()] == ["3.9.1", "4.3.0", "4.10.0"]


def test_verify_finds_changed_and_missing_jars():
    """Every jar is read again and compared with what was fetched."""
    fetched = distribution.fetch("4.3.0", ivy=Ivy())
    assert distribution.verify("4.3.0") == []
    (fetched.directory / "kafka_2.13-4.3.0.jar").write_text("something else")
    (fetched.directory / "slf4j-simple-1.7.36.jar").unlink()
    changed, gone = distribution.verify("4.3.0")
    assert "kafka_2.13-4.3.0.jar is not what was fetched" in changed
    assert gone.endswith("slf4j-simple-1.7.36.jar is missing")
    assert "is not in" in distribution.verify("1.0.0")[0]


def test_a_cache_that_cannot_be_written_is_an_error_with_a_remedy(tmp_path, monkeypatch):
    """A file stands where the directory should be."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FENCEPOST_CACHE", str(tmp_path / "file"))
    with pytest.raises(ClusterError, match="FENCEPOST_CACHE"):
        distribution.fetch("4.3.0", ivy=Ivy())


def fake_java(directory, version):
    program = directory / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2024-01-01' >&2\n")
    program.chmod(0o755)
    return str(program)


@pytest.fixture
def no_java(monkeypatch, tmp_path):
    java.cache_clear()
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    yield tmp_path
    java.cache_clear()


def test_a_missing_java_is_an_error_with_the_package_to_install(no_java):
    """Neither JAVA_HOME nor PATH has one."""
    with pytest.raises(ClusterError, match=r"no java in PATH.*apt install openjdk-17"):
        java()


def test_a_java_that_is_too_old_is_an_error_with_its_version(no_java, monkeypatch):
    """Java 8 calls itself 1.8; Kafka 4 needs 17."""
    fake_java(no_java / "jdk8", "1.8.0_400")
    monkeypatch.setenv("JAVA_HOME", str(no_java / "jdk8"))
    with pytest.raises(ClusterError, match=r"is version 8\.0_400.*17 or newer"):
        java()


@pytest.mark.parametrize("wrong", ["absent", "old", "file", "silent", "odd"])
def test_a_wrong_java_home_is_an_error_although_path_has_a_java(no_java, monkeypatch, wrong):
    """Spark and the programs of the drivers follow it, whatever we found."""
    fake_java(no_java / "jdk17", "17.0.1")
    monkeypatch.setenv("PATH", str(no_java / "jdk17" / "bin") + ":/bin")
    home = no_java / wrong
    if wrong == "old":
        fake_java(home, "11.0.2")
    elif wrong == "file":
        home.write_text("")
    elif wrong == "silent":
        fake_java(home, "\udcff".encode("utf-8", "surrogateescape").decode("latin-1"))
    elif wrong == "odd":
        fake_java(home, "seventeen")
    monkeypatch.setenv("JAVA_HOME", str(home))
    with pytest.raises(ClusterError, match=rf"JAVA_HOME = {home}: .*17 or newer is needed"):
        java()
    from fencepost.harness.cli import machine

    examined = machine.java()
    assert (examined.ok, machine.possible([examined]), "JAVA_HOME" in examined.text) == (False, False, True)


def test_an_early_release_of_java_has_its_version(no_java, monkeypatch):
    program = fake_java(no_java / "jdk", "22-ea")
    monkeypatch.setenv("JAVA_HOME", str(no_java / "jdk"))
    assert java() == (program, "22-ea")


def test_java_home_is_preferred_to_path(no_java, monkeypatch):
    """A person who sets JAVA_HOME means it."""
    expected = fake_java(no_java / "jdk21", "21.0.2")
    monkeypatch.setenv("JAVA_HOME", str(no_java / "jdk21"))
    monkeypatch.setenv("PATH", str(no_java / "jdk17" / "bin") + ":/bin")
    fake_java(no_java / "jdk17", "17.0.1")
    assert java() == (expected, "21.0.2")
