"""`fencepost export`: which file a format gets, and what cannot be asked."""

from __future__ import annotations

import gzip
import json

import networkx as nx
import pytest
from support import report_example

from fencepost.harness.api.verdict_schema import schema_text
from fencepost.harness.cli import main


@pytest.fixture
def torn(tmp_path, monkeypatch):
    """A run in the results here."""
    monkeypatch.chdir(tmp_path)
    return report_example.torn(tmp_path / "results" / "first" / "20261121T020000Z-k3f9x2")


@pytest.fixture
def command(capsys):
    def perform(*words):
        with pytest.raises(SystemExit) as ended:
            main.main([str(word) for word in words])
        captured = capsys.readouterr()
        return ended.value.code, captured.out, captured.err

    return perform


@pytest.mark.parametrize(
    ("options", "file", "counted"),
    [
        ((), "history.edn", "lines"),
        (("--format", "jepsen-json"), "history.json", "lines"),
        (("--format", "perfetto"), "trace.json", "events"),
        (("--format", "graphml"), "graph.graphml", "nodes and edges"),
        (("--format", "graphml", "--finding", "2"), "finding-2.graphml", "nodes and edges"),
    ],
)
def test_each_format_has_its_file_in_the_runs_directory(command, torn, options, file, counted):
    code, out, _ = command("export", "latest", *options)
    assert code == 0
    assert out.startswith(f"results/first/20261121T020000Z-k3f9x2/{file} (")
    assert out.endswith(f" {counted})\n")
    assert (torn / file).stat().st_size > 100


def test_a_file_of_the_users_packed_by_its_name(command, torn, tmp_path):
    assert command("export", "latest", "--format", "perfetto", "--out", "trace.json.gz")[0] == 0
    assert json.loads(gzip.decompress((tmp_path / "trace.json.gz").read_bytes()))["traceEvents"]
    assert (
        command("export", "latest", "--format", "graphml", "--finding", "1", "--radius", "0", "--out", "one.graphml.gz")[0] == 0
    )
    assert len(nx.read_graphml(tmp_path / "one.graphml.gz")) == 2
    assert command("export", "latest", "--out", "history.edn.gz")[0] == 0
    assert gzip.decompress((tmp_path / "history.edn.gz").read_bytes()).startswith(b"{:type :invoke")


def test_the_schema_needs_no_run(command):
    code, out, _ = command("export", "--schema")
    assert (code, json.loads(out)) == (0, json.loads(schema_text()))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--format", "dot"), 'unknown format "dot". There are: jepsen-edn, jepsen-json, perfetto, graphml'),
        (("--format", "prefetto"), 'unknown format "prefetto"; did you mean "perfetto"? There are: jepsen-edn'),
        (("--finding", "1"), "--finding 1: only for --format graphml; jepsen-edn has the whole run"),
        (("--format", "graphml", "--finding", "9"), "no finding 9 in its verdict; there are 1, 2, 3"),
        (("--format", "perfetto", "--out", "nowhere/trace.json"), "there is no directory nowhere"),
        (
            ("--format", "graphml", "--finding", "1", "--out", "/dev/full"),
            "/dev/full: cannot be written: No space left on device",
        ),
    ],
)
def test_what_cannot_be_done_is_a_sentence(command, torn, options, sentence):
    code, _, err = command("export", "latest", *options)
    assert code == 254
    assert sentence in err


def test_a_graph_that_is_too_large_says_what_to_do(command, torn, monkeypatch):
    monkeypatch.setattr("fencepost.harness.data.graphml_export.MOST_OPERATIONS", 100)
    code, _, err = command("export", "latest", "--format", "graphml")
    assert code == 254
    assert "--finding 1" in err
    assert not (torn / "graph.graphml").exists()
