"""The card of an incident: what proves it, in order of time, and what surrounds it; and what it says where nobody knows."""

from __future__ import annotations

import json
import shutil
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import report_example as example

from fencepost.harness.api import record_id
from fencepost.harness.api.history import OPERATIONS, STORED, schema
from fencepost.harness.history.run_directory import open_run
from fencepost.harness.report import card_text, render
from fencepost.harness.report.documents import read
from fencepost.harness.report.incident_material import incidents_of
from fencepost.harness.report.model import page
from fencepost.harness.report.panels.findings import card_of
from fencepost.harness.report.record_reads import reads

MS = example.MS
AHEAD = 1_795_000_000_000_000_000
BEGAN_MS = 8_000  # of the torn transaction
V = [record_id(8, 5, seq) for seq in range(3)]


def utc_ms(at_ms):
    return (example.START + at_ms * MS + AHEAD) // MS


def dated(at_ms, level, logger, message):
    from fencepost.harness.report.wall_clock import date_of

    return f"{date_of(utc_ms(at_ms)).replace(' ', 'T')}Z [x] [{level}] {logger} - {message}\n"


LOG = {
    "n1": dated(0, "INFO", "s", "[Broker id=1] Leader t-0 with topic id Some(T) starts at leader epoch 0 from offset 0")
    + dated(BEGAN_MS + 300, "ERROR", "kafka.server.ReplicaManager", "Error processing append on t-0")
    + "org.apache.kafka.common.errors.OutOfOrderSequenceException: for producer 2002 at offset 7\n\tat x\n"
    + dated(BEGAN_MS + 60_000, "ERROR", "k.L", "much later"),
    "n2": dated(0, "INFO", "s", "[Broker id=2] Leader t-1 with topic id Some(T) starts at leader epoch 0 from offset 0")
    + dated(
        10,
        "INFO",
        "k.T",
        "[TransactionCoordinator id=2] Initialized transactionalId fp-8 with producerId 2002 and producer epoch 0"
        " on partition __transaction_state-1",
    )
    + dated(BEGAN_MS + 900, "WARN", "k.T", "TransactionalId: fp-8's state is COMPLETE_COMMIT")
    + dated(BEGAN_MS + 60_000, "INFO", "k.L", "on and on"),
    "n3": dated(0, "INFO", "k.L", "up") + dated(BEGAN_MS + 60_000, "INFO", "k.L", "down"),
}


def rows():
    sent = [
        {"kind": 0, "partition": f"t-{n % 2}", "v": v, "offset": None if n else 7, "began": example.START + (BEGAN_MS + n) * MS}
        | {"ended": None if n else example.START + (BEGAN_MS + 20) * MS}
        for n, v in enumerate(V)
    ]
    met = [example.error("commit", "_TIMED_OUT", -185, "Local: Timed out", BEGAN_MS + 800, retriable=True)]
    writer = {"transactional_id": "fp-8", "node": "c8"}
    reader = {"role": "reader", "f": "poll", "intent": None, "node": "c9"}
    final = {"role": "final", "final": True, "f": "final-read", "intent": None, "node": "c10", "isolation": "read_committed"}
    settled = {"partitions": {"t-0": [90, 91], "t-1": [80, 80]}}
    listed = {"open": [{"partition": "t-0", "offset": 7}, {"partition": "t-0", "offset": 30}], "asked_ms": 1}
    harness = {"role": "harness", "intent": None, "node": "harness"}
    return example.ordered(
        [
            example.op(8, 4, BEGAN_MS - 500, 400, **writer),
            example.op(
                8, 5, BEGAN_MS, 900, type="info", mops=sent, errors=met, decided=example.START + (BEGAN_MS + 30) * MS, **writer
            ),
            example.op(9, 0, 100, 50, mops=example.reads(140, [("t-0", 1, 99)]), **reader),
            example.op(9, 1, 9_000, 50, mops=example.reads(9_040, [("t-0", 7, V[0])]), **reader),
            example.op(9, 2, 9_500, 50, mops=example.reads(9_540, [("t-0", 7, V[0])]), **reader),
            example.op(10, 0, 30_000, 5, **final, detail=json.dumps({"t-0": [0, 90, 90], "t-1": [0, 80, 80]})),
            example.op(-1, 0, 8_500, 5, f="list-transactions", detail=json.dumps(listed), **harness),
            example.op(-1, 1, 29_000, 5, f="settle", detail=json.dumps(settled), **harness),
        ]
    )


def finding(made):
    index = next(row["index"] for row in made if (row["process"], row["op"]) == (8, 5))
    roles = ("read", "missing", "missing")
    records = [
        {"partition": f"t-{n % 2}", "offset": None if n else 7, "v": v, "operation": index, "role": roles[n]}
        for n, v in enumerate(V)
    ]
    row = {"partition": "t-0", "offset": 7, "leader_epoch": 0, "producer_id": 2002, "producer_epoch": 0, "sequence": 5}
    row |= {"timestamp": utc_ms(BEGAN_MS), "kind": "record", "v": V[0], "nodes": ["n1", "n2"]}
    document = {"id": 1, "anomaly": "torn-transaction", "forbidden": True, "sentence": "Torn.", "records": records, "faults": [3]}
    document |= {"operations": [index], "size": 3, "time": example.START + BEGAN_MS * MS}
    fates = [
        {"partition": "t-0", "v": V[0], "fate": "committed", "offset": 7, "marker": 9, "nodes": ["n1", "n2"]},
        {"partition": "t-1", "v": V[1], "fate": "aborted", "offset": 4, "marker": 70, "nodes": ["n1"]},
        {"partition": "t-1", "v": V[1], "fate": "absent", "offset": None, "marker": None, "nodes": ["n2"]},
        {"partition": "t-0", "v": V[2], "fate": "absent", "offset": None, "marker": None, "nodes": ["n1", "n2"]},
    ]
    return document | {"stored": {"nodes": ["n1", "n2"], "rows": [row], "absent": V[1:], "fates": fates}}


def a_run(folder, *, logs=LOG, lines=True, stored=True, plan=None, findings=None):
    made = rows()
    faults = [example.fault(3, "pause", 7.5, 1.0, targets=["n1"])]
    judged = example.verdict(made, faults, verdict="invalid", findings=findings or [finding(made)], test="torn")
    judged["properties"] = example.properties(9, torn_transaction={"verdict": "violated", "count": 1})
    example.write(folder, example.plan(test="torn", **(plan or {})), judged, made, faults, anomalies=1)
    for node, text in logs.items():
        (folder / "logs" / node).mkdir(parents=True)
        (folder / "logs" / node / "server.log").write_text(text, "utf-8")
    if lines:
        (folder / "history").mkdir()
        header = {"format": "fencepost-history", "version": 1, "time": example.START, "wall": example.START + AHEAD}
        (folder / "history" / "c0-0.jsonl").write_text(json.dumps(header) + "\n", "utf-8")
    if stored:
        pq.write_table(pa.Table.from_pylist(markers(), schema(STORED)), folder / "stored.parquet")
    return open_run(folder)


def markers():
    """A marker of the transaction before, one inside it, one of another producer, and two long after: the last decides."""
    row = {"leader_epoch": 0, "producer_id": 2002, "producer_epoch": 0, "sequence": -1, "kind": "COMMIT", "v": None}
    moments = [
        ("t-0", 5, -90, 2002),
        ("t-0", 9, 400, 2002),
        ("t-1", 9, 401, 2002),
        ("t-0", 10, 400, 7),
        ("t-0", 60, 50_000, 2002),
        ("t-1", 70, 20_000, 2002),
    ]
    late = {"kind": "ABORT", "producer_epoch": 1}
    return [
        {**row, "node": node, "partition": name, "offset": offset, "timestamp": utc_ms(BEGAN_MS + ms), "producer_id": producer}
        | (late if offset == 70 else {})
        for name, offset, ms, producer in moments
        for node in ("n1", "n2")
    ]


@pytest.fixture(scope="module")
def card(tmp_path_factory):
    return card_of(read(a_run(tmp_path_factory.mktemp("card") / "run")), 1)


# ---------------------------------------------------------------------------------------- what is known
def test_the_events_are_in_order_of_time_with_utc_beside_it(card):
    happened = [(event.kind, event.where, event.to) for event in card.events]
    assert happened == [
        ("fault", "n1", ""),
        ("context", "c8", ""),
        ("marker", "n2", "n1"),
        ("begin", "c8", ""),
        ("send", "c8", "n1"),
        ("send", "c8", "n2"),
        ("send", "c8", "n1"),
        ("call", "c8", "n2"),
        ("broker", "n1", ""),
        ("marker", "n2", "n1"),
        ("fault", "n1", ""),
        ("error", "c8", ""),
        ("end", "c8", ""),
        ("broker", "n2", ""),
        ("read", "c9", "n1"),
        ("marker", "n2", "n2"),
        ("end", "n1", ""),
        ("read", "c10", "n1"),
    ]
    begin = next(event for event in card.events if event.kind == "begin")
    assert begin.since == "7.900 s"  # the first operation began after 0.1 s
    assert begin.utc.endswith(f".{utc_ms(BEGAN_MS) % 1000:03}")


def test_reading_operations_are_shown_with_the_first_read_and_the_later_ones(card):
    first = next(event for event in card.events if event.kind == "read")
    assert first.text == "poll 1 of process 9 returns t-0@7 at read_committed: first read, 1 later read of the same"
    assert [op.title for op in card.operations] == ["txn (commit)", "poll"]
    assert card.events[-1].text.startswith(
        "final read at read_committed is over (t-0 to 90, t-1 to 80): it returned 0 of the 3 records"
    )


def test_a_final_read_of_outputs_has_returned_the_inputs_that_they_name(tmp_path):
    """An output names its input: it is no read of the input's own record."""
    made = rows()
    (final,) = [row for row in made if row["f"] == "final-read"]
    accused = finding(made)
    output = {**accused["records"][0], "partition": "t-0", "operation": final["index"], "role": "read"}
    card = card_of(read(a_run(tmp_path, findings=[{**accused, "records": [*accused["records"], output]}])), 1)
    assert ": it returned 1 of the 3 records (" in card.events[-1].text


def test_a_final_read_of_other_partitions_says_nothing_of_a_record(tmp_path):
    made = rows()
    accused = finding(made)
    elsewhere = [{**record, "partition": "u-0"} for record in accused["records"]]
    card = card_of(read(a_run(tmp_path, findings=[{**accused, "records": elsewhere}])), 1)
    assert not [event for event in card.events if event.text.startswith("final read")]


def test_an_offset_that_a_member_was_told_is_an_event(tmp_path):
    """A read of no record: when the answer came decides, against the call of commit."""
    made = rows()
    answered = next(row["index"] for row in made if (row["process"], row["op"]) == (9, 0))
    record = {"partition": "in-0", "offset": 21, "v": -1, "operation": answered, "role": "read"}
    odd = {**finding(made), "anomaly": "dirty-offset", "records": [record], "operations": [answered]}
    card = card_of(read(a_run(tmp_path, findings=[odd])), 1)
    assert "poll 0 of process 9 is answered in-0@21" in [event.text for event in card.events]


def test_a_stable_offset_below_the_high_watermark_is_an_event(card):
    assert "the last stable offset of t-0 is 90, its high watermark 91, after everything was healed" in [
        e.text for e in card.events
    ]


def test_the_brokers_that_led_and_coordinated_are_named_by_their_own_logs(card):
    facts = dict(card.facts)
    assert facts["Brokers"] == "n1 led t-0; n2 led t-1; n2 was the transaction coordinator"
    assert "transactional id fp-8; producer id and epoch 2002 / 0" in facts["Who"]


def test_brokers_lines_within_two_seconds_are_shown_with_what_they_name(card):
    assert [(line.node, line.level, line.names) for line in card.lines] == [
        ("n1", "ERROR", ("producer 2002", "partition t-0")),
        ("n2", "WARN", ("transactional id fp-8",)),
    ]
    assert card.lines[0].exception.startswith("org.apache.kafka.common.errors.OutOfOrderSequenceException")
    assert "TransactionalId: fp-8's state" in dict(card.facts)["Broker's line"]
    assert card.log_gaps == ()


def test_a_line_that_skips_a_marker_of_the_transaction_is_shown_whatever_its_level(tmp_path):
    """Within 30 s, and on every broker: whoever coordinates later skips it too. Those about other transactions are not."""
    text = (
        "Couldn't find leader endpoint for partitions Set(t-1) while trying to send transaction markers for {}, these partitions"
    )
    lines = "".join(
        dated(BEGAN_MS + later, "INFO", "k.M", text.format(name)) for later, name in ((9_000, "fp-80"), (9_500, "fp-8"))
    )
    run = a_run(tmp_path, logs={**LOG, "n3": LOG["n3"] + lines})
    card = card_of(read(open_run(run.directory)), 1)
    (line,) = [line for line in card.lines if line.node == "n3"]
    assert (line.level, line.names) == ("INFO", ("transactional id fp-8", "partition t-1"))
    assert text.format("fp-8") in dict(card.facts)["Broker's line"]


def test_lines_of_a_broker_whose_clock_a_fault_had_set_are_looked_for_by_that_clock(tmp_path):
    """The line has the broker's date, and stands where it belongs."""
    logs = {**LOG, "n2": LOG["n2"] + dated(BEGAN_MS + 30_000 + 850, "WARN", "k.T", "fp-8 by a clock 30 s ahead")}
    run = a_run(tmp_path, logs=logs)
    skew = example.fault(3, "clock-skew", 7.5, 10.0, targets=["n2"], evidence={"before": {"n2": 0}, "by_s": 30}, healing={})
    texts = [{**skew, "evidence": json.dumps(skew["evidence"]), "healing": "{}"}]
    pq.write_table(pa.Table.from_pylist(texts, pq.read_schema(tmp_path / "faults.parquet")), tmp_path / "faults.parquet")
    card = card_of(read(open_run(run.directory)), 1)
    (line,) = [line for line in card.lines if line.node == "n2"]
    assert (line.text, line.since) == ("fp-8 by a clock 30 s ahead", "8.750 s")
    assert "8.750 s" in [event.since for event in card.events if event.kind == "broker"]


def test_markers_are_those_of_the_transaction_s_producer_while_it_was_open(card):
    """And the last one before, which ended the transaction before; and what decided a record at last, with the next epoch."""
    assert [event.text for event in card.events if event.kind == "marker"] == [
        "COMMIT marker of producer 2002, epoch 0, in the logs: t-0@5",
        "COMMIT marker of producer 2002, epoch 0, in the logs: t-0@9, t-1@9",
        "ABORT marker of producer 2002, epoch 1, in the logs: t-1@70",
    ]
    assert [(row.place, row.kind, row.nodes) for row in card.stored.rows] == [
        ("t-0@5", "COMMIT", "n1, n2"),
        ("t-0@7", "record", "n1, n2"),
        ("t-0@9", "COMMIT", "n1, n2"),
        ("t-1@9", "COMMIT", "n1, n2"),
        ("t-1@70", "ABORT", "n1, n2"),
    ]


def test_each_record_says_what_the_logs_make_of_it(card):
    said = ["committed by the marker at offset 9", "n1: aborted by the marker at offset 70; n2: not there", "in no log"]
    assert [record.logs for record in card.records] == said
    assert ("In the logs", "of 3 records: 1 committed, 1 in no log, 1 not alike in all logs") in card.facts
    assert any(line.endswith(f"; in the logs: {said[1]}") for line in card_text.folded(card_text.lines(card), None))


def test_last_stable_offsets_and_high_watermarks_are_those_that_were_seen(card):
    first, second = card.positions
    assert (first.partition, first.stable, first.high) == ("t-0", "90", "91")
    assert [offset for _, offset in first.opened] == ["7"]
    assert [offset for _, offset in second.opened] == ["none open"]


def test_the_drawing_has_a_line_for_each_node_and_says_in_words_what_it_shows(card):
    drawn = card.drawing
    assert [lane.name for lane in drawn.lanes] == ["c8", "n1", "n2", "c9", "c10"]
    assert [lane.role for lane in drawn.lanes[:3]] == ["fp-8", "t-0", "coordinator, t-1"]
    assert "c8 to n1: t-0@7" in drawn.label
    assert "n1 to c9: t-0@7 read" in drawn.label
    assert all(0 <= step.x1 <= drawn.width and 0 <= step.x2 <= drawn.width and 0 < step.y < drawn.height for step in drawn.steps)


def test_a_fault_is_linked_to_its_receipt_and_a_promise_to_its_proposal(tmp_path):
    text = render(a_run(tmp_path)).read_text("utf-8")
    assert '<a href="#fault-3">pause n1, from' in text
    assert 'href="https://cwiki.apache.org/confluence/display/KAFKA/KIP-98+-+Exactly+Once' in text
    assert 'id="finding-1"' in text
    assert text.count('id="op-') == 2
    assert 'id="term-marker"' in text


def test_nothing_is_unknown_where_everything_was_recorded(card):
    assert card.unknown == ()


# ------------------------------------------------------------------------------------ what is not known
def test_without_logs_nobody_knows_who_led(tmp_path):
    """No broker is invented: the drawing's line is the leader of a partition."""
    card = card_of(read(a_run(tmp_path, logs={})), 1)
    assert "Brokers" not in dict(card.facts)
    assert card.lines == ()
    assert {lane.name for lane in card.drawing.lanes} >= {"leader of t-0", "leader of t-1", "coordinator"}
    assert any("no logs/n1/server.log" in sentence for sentence in card.log_gaps)


def test_without_the_history_s_files_no_line_can_be_placed(tmp_path):
    nothing = {name: value for name, value in finding(rows()).items() if name != "stored"}
    card = card_of(read(a_run(tmp_path, lines=False, findings=[nothing])), 1)
    assert (card.clock, card.lines) == ("", ())
    (tmp_path / "history.parquet").unlink()
    card = card_of(read(open_run(tmp_path)), 1)
    assert [sentence.split(":")[0] for sentence in card.unknown] == [
        "The history could not be read",
        "UTC is not known",
        "What the brokers' log segments hold here was not recorded.",
    ]


def test_an_adopted_history_says_that_it_has_neither_clock_nor_logs(tmp_path):
    card = card_of(read(open_run(example.foreign(tmp_path))), 1)
    assert dict(card.facts)["Who"] == "transaction 1 of process 0, to be committed: ok"
    assert card.clock == ""
    adopted = read(a_run(tmp_path / "adopted", plan={"source": {"path": "history.edn"}}))
    assert "a history from elsewhere has times of its own" in card_of(adopted, 1).unknown[0]


def test_a_run_without_receipts_says_that_its_faults_are_not_known(tmp_path):
    run = a_run(tmp_path)
    (tmp_path / "faults.parquet").unlink()
    assert "no receipts could be read" in card_of(read(open_run(run.directory)), 1).unknown[-1]


def test_the_log_segments_may_be_gone(tmp_path):
    """Markers are then not known, and the card is there."""
    card = card_of(read(a_run(tmp_path, stored=False)), 1)
    assert [event for event in card.events if event.kind == "marker"] == []


@pytest.mark.parametrize(
    "odd", [{}, {"records": [], "operations": [], "time": None}, {"operations": [10**9], "records": [{"v": -1}]}]
)
def test_a_finding_that_says_little_has_a_card(tmp_path, odd):
    run = a_run(tmp_path, findings=[{"id": 1, "anomaly": "odd", "forbidden": True, "sentence": "?", **odd}])
    assert card_of(read(run), 1).findings[0].sentence == "?"
    assert "Finding 1" in render(run).read_text("utf-8")


@pytest.mark.parametrize(
    "detail",
    ["[]", "{", '{"open": 7, "partitions": 3}', '{"open": [3, {"partition": "t-0", "offset": "x"}], "partitions": {"t-0": 1}}'],
)
def test_odd_answers_of_the_harness_break_nothing(tmp_path, detail):
    run = a_run(tmp_path)
    table = pq.read_table(tmp_path / "history.parquet").to_pylist()
    odd = [{**row, "detail": detail if row["node"] in ("harness", "c10") else row["detail"]} for row in table]
    pq.write_table(pa.Table.from_pylist(odd, pq.read_schema(tmp_path / "history.parquet")), tmp_path / "history.parquet")
    assert card_of(read(open_run(run.directory)), 1).facts


@pytest.mark.parametrize("column", [column.name for column in OPERATIONS if column.name != "index"])
def test_a_table_from_elsewhere_may_lack_any_value(tmp_path, column):
    """Every value of a column is null, and every inner value of a list."""
    run = a_run(tmp_path)
    table = pq.read_table(tmp_path / "history.parquet")
    for empty in (None, [dict.fromkeys(table.schema.field("mops").type.value_type.names)] if column == "mops" else None):
        odd = [{**row, column: empty} for row in table.to_pylist()]
        pq.write_table(pa.Table.from_pylist(odd, table.schema), tmp_path / "history.parquet")
        assert card_of(read(open_run(run.directory)), 1).findings


@pytest.mark.parametrize(
    "key", ["partition", "offset", "leader_epoch", "producer_id", "producer_epoch", "timestamp", "kind", "v", "nodes"]
)
def test_a_row_of_the_log_segments_may_lack_any_key(tmp_path, key):
    odd = finding(rows())
    odd["stored"]["rows"] = [{name: value for name, value in row.items() if name != key} for row in odd["stored"]["rows"]]
    assert card_of(read(a_run(tmp_path, findings=[odd])), 1).stored.rows


@pytest.mark.parametrize("key", ["partition", "offset", "v", "operation", "role"])
def test_a_record_of_a_finding_may_lack_any_key(tmp_path, key):
    odd = finding(rows())
    odd["records"] = [{name: value for name, value in record.items() if name != key} for record in odd["records"]]
    assert card_of(read(a_run(tmp_path, findings=[odd])), 1).findings


def test_hostile_lines_of_a_log_stay_text(tmp_path):
    evil = example.EVIL.replace("\n", " ").replace("\x00", "")
    logs = {"n1": LOG["n1"] + dated(BEGAN_MS + 100, "ERROR", "k.L", f"{evil} \x1b[2J fp-8 <b>") + f"a.b.Exception: {evil}\n"}
    text = render(a_run(tmp_path, logs={**LOG, **logs})).read_text("utf-8")
    assert "\x1b" not in text
    assert "<svg onload" not in text
    assert "<b>" in text
    assert "fp-8 &lt;b&gt;" in text


# ---------------------------------------------------------------------------------------------- the page
def test_findings_of_one_cause_are_one_card_and_keep_their_anchors(tmp_path):
    torn = finding(rows())
    aborted = {
        **torn,
        "id": 2,
        "anomaly": "aborted-read",
        "sentence": "Read.",
        "records": [{**r, "role": "sent"} for r in torn["records"]],
    }
    run = a_run(tmp_path, findings=[torn, aborted])
    shown = page(read(run))
    (card,) = shown.cards
    assert card.anomalies == (("torn-transaction", 1), ("aborted-read", 1))
    text = render(run).read_text("utf-8")
    assert ('id="finding-1"' in text, 'id="finding-2"' in text, text.count("<article")) == (True, True, 1)
    assert "2 findings in 1 incident" in text


def test_a_page_of_many_incidents_is_small(tmp_path):
    """Twenty in full, the others short: they name the command that shows all of it."""
    run = open_run(example.large(tmp_path, operations=5_000, between=70))
    text = render(run).read_text("utf-8")
    section = text[text.index('<section id="findings">') : text.index("</section>", text.index('<section id="findings">'))]
    assert len(section) < 700_000
    assert "fencepost show k3f9x2 60" in section
    assert section.count(' id="op-') == len(set(section.split(' id="op-'))) - 1


def test_terms_and_operations_have_an_anchor_each_once(tmp_path):
    import re

    text = render(a_run(tmp_path)).read_text("utf-8")
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    targets = set(re.findall(r'href="#((?:op|term|finding)-[^"]+)"', text))
    assert targets <= set(ids)


def test_the_incidents_of_a_run_without_a_history_are_by_senders(tmp_path):
    run = a_run(tmp_path)
    (tmp_path / "history.parquet").unlink()
    assert [incident.id for incident in incidents_of(read(open_run(run.directory)))] == [1]


# --------------------------------------------------------------------------------------------- the reads
def test_reads_of_records_are_found_in_every_row_group(tmp_path):
    run = read(a_run(tmp_path))
    met = reads(run.ops, V)
    assert [(read.operation, read.partition, read.offset) for read in met.of[V[0]]] == [
        (row["index"], "t-0", 7) for row in rows() if row["process"] == 9 and row["op"]
    ]
    assert set(met.of) == {V[0]}
    assert reads(None, V).whole is False
    assert reads(run.ops, [-1]).of == {}


def test_reads_that_were_not_brought_are_not_known(tmp_path):
    """Of a history on another file system the records of some operations are here."""
    data = read(a_run(tmp_path))
    remote = SimpleNamespace(**{**vars(data.run), "is_remote": True})
    assert reads(data.ops, V, whole=not remote.is_remote).whole is False


def test_a_card_needs_no_directory(tmp_path):
    """The material of a page may be read, and the directory be gone before it is drawn."""
    data = read(a_run(tmp_path / "run"))
    shutil.rmtree(tmp_path / "run" / "logs")
    shutil.rmtree(tmp_path / "run" / "history")
    assert card_of(data, 1).operations
