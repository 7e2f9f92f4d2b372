"""Runs of several clients as one table: counted by client and faults, and nothing held that was not looked for."""

from __future__ import annotations

import dataclasses
import json

import pytest

from fencepost.harness.history.run_directory import open_run
from fencepost.harness.plugins import registry, services
from fencepost.harness.report import render_clients
from fencepost.harness.report.client_table import markdown, table, wilson

PROMISES = {
    "acknowledged is kept": ["lost-write", "false-ack"],
    "once only": ["duplicate"],
    "whole or not at all": ["torn-transaction"],
}


@pytest.fixture
def runs(tmp_path):
    """Makes runs of a client: a verdict for each of these answers (anomaly -> verdict), None for a run without one."""

    def made(client, *verdicts):
        for number, answers in enumerate(verdicts):
            folder = tmp_path / f"{client['kind'].replace('/', '_')}-{number}"
            folder.mkdir()
            plan = {"schema": 1, "run": folder.name, "test": f"cut[{number}]", "client": client, "topics": {}, "contract": {}}
            (folder / "plan.json").write_text(json.dumps(plan))
            if answers is not None:
                properties = [{"name": name, "verdict": verdict} for name, verdict in answers.items()]
                document = {"schema": 1, "verdict": "valid", "run": folder.name, "properties": properties}
                (folder / "verdict.json").write_text(json.dumps(document))
            yield open_run(folder)

    return made


JAVA = {"kind": "java@4.3.0", "version": "4.3.0", "driver": {"transactions": 2}}
KAFKAJS = {
    "kind": "kafkajs@2.2.4",
    "version": "2.2.4",
    "driver": {"transactions": 1},
    "readers": {"kind": "librdkafka", "version": "2"},
}


def test_every_anomaly_of_records_and_transactions_breaks_a_promise():
    """Cycles show no client's fault by themselves; the checks of outputs judge programs, those of sources connectors."""
    apart = {"phantom-output", "output-order", "torn-state", "store-divergence", "wrong-state", "vanished-output"}
    apart |= {"source-duplicate", "source-loss", "source-offset-torn", "source-offset-regression"}
    apart |= {"zombie-task", "unfenced-start", "config-topic-writer", "connect-promise"}
    ours = {name for name in registry.names("checker") if not name.startswith("G")} - apart
    named = [anomaly for anomalies in services.judge().promises().values() for anomaly in anomalies]
    assert sorted(named) == sorted(ours)


def test_each_client_is_counted_by_promise(runs, tmp_path):
    torn = {"torn-transaction": "violated", "lost-write": "held", "duplicate": "not exercised"}
    good = {"torn-transaction": "held", "lost-write": "held", "duplicate": "unknown"}
    rows = table([*runs(JAVA, good, good), *runs(KAFKAJS, torn, good, None)], tmp_path, PROMISES)
    assert [(row.client, row.protocol, row.runs, row.unjudged) for row in rows] == [
        ("java@4.3.0", "TV2", 2, 0),
        ("kafkajs@2.2.4, read by librdkafka 2", "TV1", 3, 1),
    ]
    java, kafkajs = rows
    whole = kafkajs.cells["whole or not at all"]
    assert (whole.violated, whole.held, whole.runs) == (1, 1, [("torn-transaction", "kafkajs@2.2.4-0/report.html")])
    assert whole.words == "violated 1 of 2 † (9% to 91%)"
    assert java.cells["acknowledged is kept"].words == "held 2 of 2 † (violated in at most 66%)"
    assert java.cells["once only"].words == "not exercised"
    assert "**violated 1 of 2 † (9% to 91%)**: torn-transaction" in markdown(rows, PROMISES)


def test_the_page_links_the_reports_and_stays_text(runs, tmp_path):
    (row,) = table(runs({**JAVA, "kind": "<b>"}, {"duplicate": "violated"}), tmp_path, PROMISES)
    render_clients([row, dataclasses.replace(row, profile="another")], tmp_path / "clients.html", PROMISES)
    text = (tmp_path / "clients.html").read_text()
    assert '<a href="&lt;b&gt;-0/report.html">duplicate</a>' in text
    assert "&lt;b&gt; 4.3.0" in text
    assert text.count("<h2>") == 3


@pytest.mark.parametrize(("successes", "count", "low", "high"), [(0, 3, 0.0, 0.56), (3, 3, 0.44, 1.0), (5, 10, 0.24, 0.76)])
def test_wilsons_interval(successes, count, low, high):
    """Known values, to two digits."""
    assert tuple(round(bound, 2) for bound in wilson(successes, count)) == (low, high)
