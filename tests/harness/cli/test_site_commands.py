"""`fencepost report --site`, `compare` and `serve`, as they are typed."""

from __future__ import annotations

import json
import socket
from datetime import date, timedelta

import pytest
from support.many_runs import finding, invalid, write_run

from fencepost.harness.cli import main
from fencepost.harness.memory.index import rows

FIRST, SECOND = "20261125T190000Z-aaaaaa", "20261126T190000Z-bbbbbb"


@pytest.fixture
def results(tmp_path, monkeypatch):
    root = tmp_path / "results"
    write_run(root, "nightly", FIRST)
    other = {"client": {"kind": "librdkafka", "version": "2.16.0", "producer": {"acks": "1"}}}
    verdict = {**invalid(finding()), "unexpected": [{"name": "lost-write", "count": 1}], "met_without_unexpected": True}
    write_run(root, "nightly", SECOND, plan=other, verdict=verdict)
    monkeypatch.setenv("FENCEPOST_RESULTS", str(root))
    monkeypatch.chdir(tmp_path)
    return root


@pytest.fixture
def fencepost(results, capsys):
    """Runs `fencepost` with arguments; returns its exit code, standard output and standard error."""

    def call(*arguments):
        with pytest.raises(SystemExit) as left:
            main.main([str(argument) for argument in arguments])
        output = capsys.readouterr()
        return left.value.code, output.out, output.err

    return call


def test_a_site_is_written_and_its_address_printed(fencepost, tmp_path):
    code, out, err = fencepost("report", "--site", "site")
    assert (code, err) == (0, "")
    assert out.splitlines() == ["site/index.html", "2 runs, 1 to look at; 7 files of runs copied, 0 unchanged"]
    assert (tmp_path / "site" / "index.html").is_file()
    code, out, _ = fencepost("report", "--site", "site", "--json")
    assert (code, json.loads(out)["files_unchanged"]) == (0, 7)
    _, out, _ = fencepost("report", "--site", "small", "--most-mib", 0)
    assert "2 reports left out for lack of room (--most-mib)" in out


def test_a_run_and_a_site_are_two_commands(fencepost):
    for arguments in (["report"], ["report", "latest", "--site", "site"]):
        code, _, err = fencepost(*arguments)
        assert code == 254
        assert "name a run, or --site DIR" in err


def test_a_directory_of_something_else_is_a_sentence(fencepost, results):
    code, _, err = fencepost("report", "--site", results)
    assert code == 254
    assert "no site of fencepost's" in err


def test_acknowledged_findings_are_not_red(fencepost, results, tmp_path):
    fingerprint = next(row.findings[0].fingerprint for row in rows(results) if row.findings)
    expires = date.today() + timedelta(days=9)
    (tmp_path / "known.toml").write_text(f'[[known]]\nfingerprint = "{fingerprint}"\nreason = "KAFKA-1"\nexpires = {expires}\n')
    assert "2 runs, 0 to look at" in fencepost("report", "--site", "site")[1]
    index = (tmp_path / "site" / "index.html").read_text()
    assert "2 runs, all as expected" in index
    assert f"acknowledged until {expires}: KAFKA-1" in index
    assert fencepost("report", "--site", "site", "--known", "nothing.toml")[0] == 254


def test_two_runs_are_compared(fencepost):
    code, out, _ = fencepost("compare", "aaaaaa", "bbbbbb")
    assert code == 0
    lines = [line.split() for line in out.splitlines()]
    assert ["settings", "client", "/", "producer", "/", "acks", "all", "1"] in lines
    assert not [line for line in lines if "Kafka" in line]
    assert lines[-1][-3:] == ["are", "alike", "(--all)"]
    assert "Kafka" in fencepost("compare", "aaaaaa", "bbbbbb", "--all")[1]
    document = json.loads(fencepost("compare", "aaaaaa", "bbbbbb", "--json")[1])
    assert {"part": "settings", "name": "client / producer / acks", "a": "all", "b": "1", "differs": True} in document["lines"]
    assert fencepost("compare", "aaaaaa", "nothing")[0] == 254


def test_a_port_in_use_is_a_sentence_with_the_remedy(fencepost):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, _, err = fencepost("serve", "--port", taken.getsockname()[1])
    assert code == 254
    assert "name another, or 0 for any that is free" in err
