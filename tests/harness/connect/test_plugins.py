"""Plug-ins of Connect as somebody names them: a connector's own directory, the one that holds it, a jar; and mistakes."""

import zipfile

import pytest

from fencepost.harness.api import ConnectWorker
from fencepost.harness.connect.plugins import lost_plugins, plugin_path
from fencepost.harness.fetching import archives

NAME = "my.Source"


@pytest.fixture
def own(tmp_path):
    """A connector's own directory, as its archive unpacks to: several jars."""
    folder = tmp_path / "all" / "my-connector"
    folder.mkdir(parents=True)
    (folder / "driver.jar").write_bytes(b"no archive")
    with zipfile.ZipFile(folder / "connector.jar", "w") as jar:
        jar.writestr("my/Source.class", b"")
        jar.writestr("META-INF/services/org.apache.kafka.connect.source.SourceConnector", f"{NAME}  # it\n")
    return folder


def worker(*plugins, name=NAME):
    return ConnectWorker(version="4.3.0", ours=False, plugins=tuple(map(str, plugins)), classes=(name,))


def test_the_directory_that_holds_a_connectors_own_is_an_entry_as_it_is(own, tmp_path):
    assert plugin_path([str(own.parent)], tmp_path) == [str(own.parent)]
    assert plugin_path([str(own / "connector.jar")], tmp_path) == [str(own / "connector.jar")]


def test_a_connectors_own_directory_is_one_plugin_and_not_one_for_each_jar(own, tmp_path):
    (entry,) = plugin_path([str(own)], tmp_path)
    assert [path.resolve() for path in (tmp_path / "plugins").iterdir()] == [own]
    assert entry == str(tmp_path / "plugins")
    assert plugin_path([str(own)], tmp_path) == [entry], "in the next life, too"


@pytest.mark.parametrize("place", [lambda own: own, lambda own: own.parent, lambda own: own / "connector.jar"])
def test_a_connector_is_found_in_each_of_them(own, place):
    assert lost_plugins([worker(place(own))]) == []
    assert lost_plugins([worker(place(own), name="Source")]) == [], "Connect finds short names, too"


def test_mistakes_are_named_before_anything_is_started(own, tmp_path):
    (tmp_path / "empty").mkdir()
    assert lost_plugins([worker(tmp_path / "gone")]) == [f"workload.plugins: {tmp_path}/gone is not there"]
    assert "no jar is there" in lost_plugins([worker(tmp_path / "empty")])[0]
    (text,) = lost_plugins([worker(own, name="my.Sink")])
    assert text == f"workload.connector: no jar in {own} has the class my.Sink; they have my.Source"
    assert lost_plugins([ConnectWorker(version="4.3.0", plugins=("ours.jar",))]) == []


def test_an_archive_that_was_not_fetched_is_named_with_the_command(monkeypatch, tmp_path):
    monkeypatch.setenv("FENCEPOST_CACHE", str(tmp_path))
    (text,) = lost_plugins([worker(archives.directory_of("io.debezium:mine:3.2.0:tar.gz:plugin"))])
    assert text.endswith("is not there; fetch it once: fencepost connect plugin io.debezium:mine:3.2.0:tar.gz:plugin")
