"""Archives of Maven's central repository: coordinates, what is unpacked, and what is refused."""

import io
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

from fencepost.harness.api import CampaignError, ClusterError
from fencepost.harness.fetching import archives

DEBEZIUM = "io.debezium:debezium-connector-postgres:3.2.0.Final:tar.gz:plugin"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("FENCEPOST_CACHE", str(tmp_path))


def publishing(name, write):
    """A resolver that puts a file, written by a function, where it was asked for; the recipes that it got."""
    recipes = []

    def ivy(recipe, destination, cache):
        recipes.append(Path(recipe).read_text())
        write(Path(destination) / name)
        return subprocess.CompletedProcess([], 0, "", "")

    return ivy, recipes


def tar_of(names):
    def write(path):
        with tarfile.open(path, "w:gz") as tar:
            for name in names:
                member = tarfile.TarInfo(name)
                member.size = 3
                tar.addfile(member, io.BytesIO(b"jar"))

    return write


def test_an_archive_is_fetched_by_its_coordinates_and_unpacked_once():
    name = "debezium-connector-postgres-3.2.0.Final-plugin.tar.gz"
    ivy, recipes = publishing(name, tar_of(["debezium/a.jar", "debezium/b.jar"]))
    directory = archives.fetch(DEBEZIUM, ivy=ivy)
    assert directory == archives.directory_of(DEBEZIUM)
    assert sorted(path.name for path in directory.rglob("*.jar")) == ["a.jar", "b.jar"]
    assert not list(directory.glob("*.tar.gz"))
    assert 'm:classifier="plugin"' in recipes[0]
    assert 'transitive="false"' in recipes[0]
    assert archives.fetch(DEBEZIUM, ivy=None) == directory


def test_a_zip_is_unpacked_and_a_jar_is_not():
    def write(path):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("mine/x.jar", b"jar")

    assert list(archives.fetch("g:mine:1:zip", ivy=publishing("mine-1.zip", write)[0]).rglob("x.jar"))
    assert list(archives.fetch("g:mine:1", ivy=publishing("mine-1.jar", write)[0]).glob("mine-1.jar"))


@pytest.mark.parametrize("name", ["../evil.jar", "/evil.jar"])
def test_an_archive_that_leads_elsewhere_is_not_used(name):
    with pytest.raises(ClusterError, match="is no file of a connector"):
        archives.fetch("g:mine:1:tar.gz", ivy=publishing("mine-1.tar.gz", tar_of([name]))[0])


@pytest.mark.parametrize("text", ["mine", "/path/to:mine", "g:a", "g:a:1:exe", 'g:a:1"/><x'])
def test_what_are_no_coordinates_is_refused(text):
    assert not archives.is_coordinates(text)
    with pytest.raises(CampaignError, match="is no archive"):
        archives.fetch(text)
