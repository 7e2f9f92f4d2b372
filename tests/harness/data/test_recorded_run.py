"""A run as data: documents as typed objects, tables as pandas data frames, the graph. No Spark session is needed."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import FrozenInstanceError

import pandas as pd
import pyarrow.parquet as pq
import pytest
from support import report_example
from support.judging import no_session
from support.recorded_run import record_run

import fencepost
from fencepost.checkers.service import SparkJudge
from fencepost.checkers.verdict.judge import judge
from fencepost.harness.api import CampaignError
from fencepost.harness.api.errors import HistoryError
from fencepost.harness.data import Finding, FindingRecord, RecordedRun
from fencepost.harness.graphs.model import KINDS
from fencepost.harness.history.run_directory import open_run, write_verdict
from fencepost.harness.memory.fingerprints import fingerprint

TIME = {"process", "realtime"}


@pytest.fixture(autouse=True)
def without_spark(monkeypatch):
    monkeypatch.setattr(SparkJudge, "start_session", no_session)


@pytest.fixture
def torn(tmp_path) -> RecordedRun:
    """Three torn transactions, three faults; nobody ever judged it by our checks."""
    return fencepost.open(report_example.torn(tmp_path / "torn"))


@pytest.fixture
def judged(tmp_path) -> RecordedRun:
    """A small run that was judged."""
    folder = record_run(tmp_path / "results" / "nightly" / "20261121T120000Z-lawful")
    run = fencepost.open(folder)
    run.history()
    write_verdict(folder, judge(open_run(folder), spark=no_session, here=True))
    return fencepost.open("latest", results=tmp_path / "results")


def test_the_package_is_light_until_a_run_is_opened():
    code = (
        "import sys, fencepost; print(*(n for n in sys.modules if n.split('.')[0] in ('pandas', 'pyspark', 'numpy', 'networkx')))"
    )
    code += "; print(*(n for n in sys.modules if n.startswith('fencepost.')))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split() == []


def test_a_run_is_opened_by_its_path_its_id_and_latest(judged, tmp_path):
    results = tmp_path / "results"
    by_path = fencepost.open(str(judged.directory))
    assert by_path.id == judged.id == fencepost.open(judged.id[:4], results).id
    assert by_path.directory == judged.directory
    assert repr(by_path) == f"<run {judged.id} in {judged.directory}: valid>"
    with pytest.raises(CampaignError, match='unknown run "nobody"'):
        fencepost.open("nobody", results)


def test_documents_are_as_the_run_has_them(torn):
    assert torn.plan["test"] == "torn"
    assert torn.verdict["verdict"] == "invalid"
    assert torn.verdict["counts"]["faults"] == 3


def test_findings_are_typed_and_frozen(torn):
    first = torn.findings[0]
    document = torn.verdict["findings"][0]
    assert isinstance(first, Finding)
    assert (first.id, first.anomaly, first.forbidden, first.faults, first.size) == (1, "torn-transaction", True, (1,), 4)
    assert first.operations == tuple(document["operations"])
    assert first.records[0] == FindingRecord(**document["records"][0])
    assert first.fingerprint == fingerprint(document, open_run(torn.directory))
    assert first.cycle is None
    with pytest.raises(FrozenInstanceError):
        first.id = 2  # type: ignore[misc]


def test_a_cycle_is_typed_and_what_a_check_adds_is_not_lost(tmp_path):
    folder = report_example.valid(tmp_path / "valid")
    verdict = json.loads((folder / "verdict.json").read_text())
    verdict["findings"][0]["of_mine"] = {"a": 1}
    (folder / "verdict.json").write_text(json.dumps(verdict))
    finding = fencepost.open(folder).findings[0]
    assert not finding.forbidden
    assert finding.more == {"of_mine": {"a": 1}}
    assert finding.cycle is not None
    assert finding.cycle.operations == finding.operations
    assert [(step.source, step.target, step.kind) for step in finding.cycle.steps] == [
        (*finding.operations, "ww"),
        (*reversed(finding.operations), "ww"),
    ]


def test_faults_are_typed_and_a_time_that_never_came_is_none(tmp_path):
    first, *_, last = fencepost.open(report_example.torn(tmp_path / "torn")).faults
    assert (first.id, first.kind, first.role, first.effective) == (0, "cut-clients", "clients", True)
    assert first.healed_ns - first.injected_ns == 2_400_000_000
    assert last.effective is False
    assert fencepost.open(report_example.unknown(tmp_path / "unknown")).faults[0].healed_ns is None


# --------------------------------------------------------------------------------------------------
# Tables
# --------------------------------------------------------------------------------------------------
def test_the_history_has_a_row_per_operation_and_no_number_loses_a_digit(torn):
    history = torn.history()
    stored = pq.read_table(torn.directory / "history.parquet")
    assert len(history) == len(stored)
    assert history["end"].dtype == pd.Int64Dtype()
    assert history["end"].isna().sum() == stored["end"].null_count
    assert history["time"].tolist() == stored["time"].to_pylist()
    assert "mops" not in history
    assert torn.origin_ns == min(stored["time"].to_pylist())


def test_lists_come_when_they_are_named(torn):
    errors = torn.history(["index", "errors"]).explode("errors").dropna()
    assert set(errors["errors"].str["name"]) >= {"_TIMED_OUT", "_TRANSPORT"}
    with pytest.raises(CampaignError, match="no column `error`; there are index"):
        torn.history(["error"])


def test_records_are_those_of_all_operations_in_order(torn):
    records = torn.records()
    mops = [
        (row["index"], ("sent", "polled")[mop["kind"]], mop["partition"], mop["v"])
        for row in pq.read_table(torn.directory / "history.parquet").to_pylist()
        for mop in row["mops"]
    ]
    assert list(records[["index", "kind", "partition", "v"]].itertuples(index=False, name=None)) == mops
    assert records["offset"].dtype == pd.Int64Dtype()


def test_a_history_without_records_has_an_empty_table_of_them(tmp_path):
    folder = report_example.write(tmp_path / "none", report_example.plan(), report_example.verdict([], []), [], [])
    assert fencepost.open(folder).records().empty


def test_every_table_of_a_judged_run(judged):
    assert len(judged.anomalies()) == len(judged.findings)
    assert list(judged.receipts()["id"]) == [fault.id for fault in judged.faults]


@pytest.mark.parametrize(
    ("method", "sentence"),
    [
        ("anomalies", r"anomalies.parquet is missing; judge the run with `fencepost check`"),
        ("stored", r"stored.parquet is missing; a run records it where"),
    ],
)
def test_a_missing_table_is_a_sentence_with_the_remedy(tmp_path, method, sentence):
    run = fencepost.open(report_example.empty(tmp_path / "empty"))
    with pytest.raises(HistoryError, match=sentence):
        getattr(run, method)()


def test_a_damaged_table_and_a_damaged_verdict_are_sentences(torn):
    (torn.directory / "history.parquet").write_bytes(b"PAR1")
    (torn.directory / "verdict.json").write_text("{")
    with pytest.raises(HistoryError, match=r"history.parquet could not be read"):
        torn.history()
    with pytest.raises(HistoryError, match=r"verdict.json could not be read"):
        fencepost.open(torn.directory).findings  # noqa: B018


def test_a_link_in_place_of_a_table_is_not_followed(torn, tmp_path):
    (torn.directory / "history.parquet").rename(tmp_path / "elsewhere.parquet")
    (torn.directory / "history.parquet").symlink_to(tmp_path / "elsewhere.parquet")
    with pytest.raises(HistoryError, match="links in this directory are not followed"):
        torn.history()


def test_a_history_on_another_file_system_is_for_spark(torn):
    plan = json.loads((torn.directory / "plan.json").read_text())
    (torn.directory / "plan.json").write_text(json.dumps(plan | {"history": "hdfs://namenode/history.parquet"}))
    with pytest.raises(HistoryError, match=r"at hdfs://namenode/history.parquet, which only Spark reads: use `.spark"):
        fencepost.open(torn.directory).history()


# --------------------------------------------------------------------------------------------------
# Graph
# --------------------------------------------------------------------------------------------------
def test_the_graph_has_every_operation_with_its_attributes(judged):
    graph = judged.graph()
    history = judged.history().set_index("index")
    assert sorted(graph) == sorted(history.index)
    for index, node in graph.nodes(data=True):
        assert (node["f"], node["type"], node["process"], node["time"]) == tuple(
            history.loc[index, ["f", "type", "process", "time"]]
        )
        assert ("end" in node) is not bool(pd.isna(history.loc[index, "end"]))
    counts = judged.records().groupby("kind").size()
    assert sum(sent for _, sent in graph.nodes(data="sent")) == counts["sent"]
    assert sum(polled for _, polled in graph.nodes(data="polled")) == counts["polled"]
    assert graph.graph == {"run": judged.id}


def test_edges_have_a_kind_and_those_of_records_a_partition(judged):
    kinds = {}
    for _, _, edge in judged.graph().edges(data=True):
        kinds.setdefault(edge["kind"], []).append(edge)
        assert ("partition" in edge) is (edge["kind"] not in TIME)
    assert {"ww", "wr", "process", "realtime"} <= kinds.keys() <= {*KINDS}
    assert all(edge["judged"] in (True, False) for edge in kinds["wr"])


def test_only_edges_of_some_kinds(judged):
    graph = judged.graph(kinds=["wr"])
    assert {kind for *_, kind in graph.edges(data="kind")} == {"wr"}
    assert len(graph) == len(judged.history())
    with pytest.raises(CampaignError, match='"wrr" is no kind of edge; there are ww, wr'):
        judged.graph(kinds=["wrr"])


def test_around_a_finding(torn):
    graph = torn.graph(finding=2)
    assert {op for op, inside in graph.nodes(data="in_finding") if inside} == set(torn.findings[1].operations)
    assert len(graph) < len(torn.history())
    assert set(torn.graph(finding=torn.findings[1], radius=0)) == set(torn.findings[1].operations)
    assert graph.graph == {"run": torn.id, "finding": 2, "radius": 1}


def test_a_graph_that_is_too_large_and_a_finding_that_is_not_there_are_sentences(torn):
    with pytest.raises(
        CampaignError, match=r"operations, more than 100: ask for what lies around a finding \(`graph\(finding=1\)`"
    ):
        torn.graph(most=100)
    with pytest.raises(CampaignError, match="no finding 9 in its verdict; there are 1, 2, 3"):
        torn.graph(finding=9)
