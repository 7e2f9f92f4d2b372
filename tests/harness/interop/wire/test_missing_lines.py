"""Lines and rows that are missing in a record: seen by their numbers. What they may have said is unknown, and accuses nobody."""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest
from support.histories import violated
from support.wire_records import Record, as_text, got, marker, numbered

from fencepost.checkers.verdict.judge import judge
from fencepost.harness.api.run import RunFile
from fencepost.harness.api.wire import ROWS, NodeRecord, with_nodes, with_numbers
from fencepost.harness.history.run_directory import open_run
from fencepost.harness.interop.adopt import adopt
from fencepost.harness.proxy import record as proxy_record
from fencepost.harness.proxy.process import SPAN


def story(record=None, producer=(7, 0)):
    """Transactions that are committed, aborted, committed; a group's offsets; a reader, and a late one."""
    record = (record or Record()).initialise(producer=producer)
    for first, offset, commit in ((0, 0, True), (2, 3, False), (4, 6, True)):
        record.add(producer).produce(first, offset, producer).produce(first + 1, offset + 1, producer)
        record.ask("TxnOffsetCommit", group="g", partitions=[{"topic": "in", "partition": 0, "offset": 5 + first}],
            given={"partitions": [{"topic": "in", "partition": 0}]}, body={"memberId": "m", "generationId": 3},
            transactional_id="a", producer_id=producer[0], producer_epoch=producer[1])  # fmt: skip
        record.end(commit, producer)
    record.ask("OffsetFetch", 9, group="g", partitions=[{"topic": "in", "partition": 0}], body={"groups": [{"memberId": "m"}]},
        given={"partitions": [{"topic": "in", "partition": 0, "offset": 9}]})  # fmt: skip
    kinds = [(0, 0), (1, 1), None, (2, 3), (3, 4), None, (4, 6), (5, 7), None]
    batches = [marker(at, "ABORT" if at == 5 else "COMMIT", producer) if pair is None else got(*pair, producer)
        for at, pair in enumerate(kinds)]  # fmt: skip
    for connection in (9, 10):
        record.fetch(0, batches[:5], aborted=[[7, 3]], log_start=0, connection=connection)
        record.fetch(5, batches[5:], log_start=0, connection=connection).fetch(9, log_start=0, connection=connection)
    return record


def judged(folder, run=None):
    run = run or folder.parent / f"run-{folder.name}"
    run.mkdir()
    adopt(folder, run, {"offset_commits": "recorded"})
    return judge(open_run(run), here=True)


def written(folder, lines, name="proxy"):
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.jsonl").write_text(as_text(lines))
    return folder


def unknown_for(verdict, why):
    """Nothing is found, nothing is said to have held that rests on the record, and the reason is told."""
    assert (verdict["verdict"], violated(verdict)) == ("unknown", [])
    assert any(why in text for text in verdict["weakened"]), verdict["weakened"]


WHOLE = numbered(story().lines)
SHOWN = next(at for at, line in enumerate(WHOLE) if line.get("api") == "Produce") + 2  # lines up to which nothing is judged


def test_the_whole_record_is_valid(tmp_path):
    verdict = judged(written(tmp_path / "record", WHOLE))
    assert (verdict["verdict"], violated(verdict), verdict["weakened"]) == ("valid", [], [])


@pytest.mark.parametrize(
    ("size", "step"), [(1, 9), (2, 4), *(pytest.param(size, 1, marks=pytest.mark.nightly) for size in (1, 2, 5))]
)
def test_no_missing_line_accuses_or_goes_unnoticed(tmp_path, size, step):
    """Each line, each pair of lines (a request and its answer), each five, taken out of the middle."""
    for at in range(SHOWN, len(WHOLE) - size, step):
        verdict = judged(written(tmp_path / str(at), WHOLE[:at] + WHOLE[at + size :]))
        unknown_for(verdict, f"missing behind line number {at - 1}")


def test_no_missing_end_accuses_or_goes_unnoticed(tmp_path):
    for at in range(SHOWN, len(WHOLE), 7):
        unknown_for(judged(written(tmp_path / str(at), WHOLE[:at])), "it has no last line")


def test_a_line_that_is_torn_at_the_end(tmp_path):
    folder = written(tmp_path / "record", WHOLE[:-2])
    with open(folder / "proxy.jsonl", "a") as file:
        file.write(json.dumps(WHOLE[-2])[:40])
    unknown_for(judged(folder), "it has no last line")


def test_what_was_found_before_the_gap_stays(tmp_path):
    """A batch of the aborted transaction, which a reader was given although no answer lists the transaction."""
    record = Record().initialise().transaction([(0, 0), (1, 1)], commit=False)
    record.fetch(0, [got(0, 0), got(1, 1), marker(2, "ABORT")]).fetch(3)
    lines = numbered(record.initialise(producer=(7, 1)).transaction([(0, 3)], producer=(7, 1)).lines)
    for number, kept in enumerate((lines, lines[:-3] + lines[-1:], lines[:-4])):
        verdict = judged(written(tmp_path / str(number), kept))
        assert (verdict["verdict"], "aborted-read" in violated(verdict)) == ("invalid", True)


def test_the_number_of_lines_contradicts_the_last_one(tmp_path):
    lines = [*WHOLE[:-1], {**WHOLE[-1], "lines": len(WHOLE) + 4}]
    unknown_for(judged(written(tmp_path / "record", lines)), "its last line says that there are")


@pytest.mark.parametrize("turned", [lambda lines: [*lines[:9], lines[8], *lines[9:]], lambda lines: [*lines, lines[4]]])
def test_a_line_that_is_there_twice_refuses_the_record(tmp_path, turned):
    with pytest.raises(Exception, match="is there twice, or was moved"):
        judged(written(tmp_path / "record", turned(WHOLE)))


def test_lines_with_and_without_numbers_refuse_the_record(tmp_path):
    lines = [*WHOLE[:5], {key: value for key, value in WHOLE[5].items() if key != "line"}, *WHOLE[6:]]
    with pytest.raises(Exception, match="several records"):
        judged(written(tmp_path / "record", lines))


def test_lines_of_an_older_proxy_are_judged_and_it_is_said_that_gaps_are_not_seen(tmp_path):
    verdict = judged(written(tmp_path / "record", story().lines))
    assert verdict["verdict"] == "valid"
    (text,) = verdict["weakened"]
    assert "no numbers" in text


# --------------------------------------------------------------------------------------------------
# Answers
# --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("api", sorted({line["api"] for line in WHOLE if "api" in line}))
def test_an_answer_that_is_gone_without_numbers(tmp_path, api):
    """A later one of the same connection shows that it was there: what became of its request is not known."""
    record = story().ask("FindCoordinator")
    lines, number = record.lines, next(line["n"] for line in record.lines if line.get("api") == api)
    folder = written(tmp_path / "record", [line for line in lines if (line["at"], line["n"]) != ("answer", number)])
    unknown_for(judged(folder), f"1 answer is missing, to {api} number {number} at n1")


def unanswered(line):
    return [line, {"at": "lost", "n": line["n"], "why": "rule 1"}]


def test_an_answer_that_never_was_is_not_missing(tmp_path):
    """It was lost by a rule, or the connection has none behind it; a Produce with acks=0 has none at all."""
    record = story()
    last = record.lines[-2]
    lines = [*record.lines[:-2], *unanswered(last)]
    record.produce(0, None, (-1, -1), transactional=False, acks=0, connection=3).fetch(9, connection=3)
    verdict = judged(written(tmp_path / "record", numbered([*lines, *record.lines[-3:]])))
    assert verdict["verdict"] == "valid"
    assert not any("answer" in text for text in verdict["weakened"])


# --------------------------------------------------------------------------------------------------
# Contents
# --------------------------------------------------------------------------------------------------
UNREAD = [
    ("EndTxn", "committed", 3),
    ("EndTxn", "producer_epoch", 3),
    ("EndTxn", "transactional_id", 3),
    ("AddPartitionsToTxn", "producer_id", 3),
    ("AddPartitionsToTxn", "producer_id", 5),
    ("TxnOffsetCommit", "group", 3),
    ("Produce", "partitions", 14),
    ("InitProducerId", "transactional_id", 6),
]


@pytest.mark.parametrize(("api", "lacking", "version"), UNREAD)
def test_a_request_that_does_not_say_what_it_asks_for(tmp_path, api, lacking, version):
    """The proxy could not read it: it may have decided any transaction."""
    lines = [dict(line) for line in story().initialise("b", (8, 0)).lines]
    last = [line for line in lines if line.get("api") == api][-1]
    last |= {lacking: None, "version": version}
    unknown_for(judged(written(tmp_path / "record", numbered(lines))), f"a request ({api}) does not say what it asks for")


@pytest.mark.parametrize(("api", "name"), [("EndTxn", "answered_ns"), ("Produce", "returned_ns"), ("Fetch", "answered_ns")])
def test_times_that_contradict_one_another(tmp_path, api, name):
    lines = [dict(line) for line in story().lines]
    at = [number for number, line in enumerate(lines) if line.get("api") == api][-1] + 1
    lines[at][name] = 5
    unknown_for(judged(written(tmp_path / "record", numbered(lines))), "1 request was answered, or passed on, before it came")


# --------------------------------------------------------------------------------------------------
# Proxies that ended
# --------------------------------------------------------------------------------------------------
def halves():
    """The story by one proxy, and once more by one that was started in its place."""
    first, second = story(), Record()
    second.now, second.number = first.now + 1000, SPAN
    return first.lines, [{**line, "correlation": 1} if line["at"] == "request" else line for line in story(second, (8, 0)).lines]


@pytest.mark.parametrize("killed", [True, False])
def test_a_proxy_that_was_started_again(tmp_path, killed):
    one, two = halves()
    lines = numbered(one)
    written(tmp_path / "record", lines[:-1] if killed else lines)
    folder = written(tmp_path / "record", numbered(two, first=SPAN), "proxy-2")
    unknown_for(judged(folder), "another one took its place")


def test_of_two_proxies_the_record_of_the_first_is_missing(tmp_path):
    with pytest.raises(Exception, match="the record of the proxy before it is missing"):
        judged(written(tmp_path / "record", numbered(halves()[1], first=SPAN), "proxy-2"))


def test_of_two_proxies_the_file_of_the_first_is_empty(tmp_path):
    folder = written(tmp_path / "record", [], "n1")
    with pytest.raises(Exception, match="its file is empty"):
        judged(written(folder, numbered(halves()[1], first=SPAN), "n1-2"))


def test_a_proxy_of_older_lines_that_was_started_again(tmp_path):
    one, two = halves()
    folder = written(tmp_path / "record", one, "n1")
    unknown_for(judged(written(folder, two, "n1-2")), "another one took its place")


# --------------------------------------------------------------------------------------------------
# Tables
# --------------------------------------------------------------------------------------------------
def table(folder, change):
    lines = written(folder / "lines", WHOLE)
    made = with_nodes(with_numbers(proxy_record.read(lines)), {"n1": NodeRecord()})
    alone = folder / "alone"
    alone.mkdir()
    pq.write_table(change(made), alone / RunFile.WIRE)
    return alone


def without(number):
    return lambda table: table.filter([row != number for row in table["row"].to_pylist()])


def test_no_missing_row_accuses_or_goes_unnoticed(tmp_path):
    rows = len(proxy_record.read(written(tmp_path / "lines", WHOLE)))
    for number in range(6, rows, 5):
        folder = tmp_path / str(number)
        folder.mkdir()
        unknown_for(judged(table(folder, without(number))), f"number {number}")


def no_count(table):
    return table.replace_schema_metadata({key: text for key, text in table.schema.metadata.items() if key != ROWS})


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda table: table.slice(0, len(table) - 4), "rows at its end are missing"),
        (lambda table: no_count(table.slice(0, len(table) - 4)), "does not say how many rows it had"),
        (no_count, "does not say how many rows it had"),
    ],
)
def test_a_table_whose_end_is_missing(tmp_path, change, why):
    unknown_for(judged(table(tmp_path, change)), why)


def test_a_whole_table_is_valid(tmp_path):
    verdict = judged(table(tmp_path, lambda table: table))
    assert (verdict["verdict"], verdict["weakened"]) == ("valid", [])


def test_a_table_of_an_older_run_is_judged_and_it_is_said_that_gaps_are_not_seen(tmp_path):
    verdict = judged(table(tmp_path, lambda table: no_count(table.drop_columns(["row"]))))
    assert verdict["verdict"] == "valid"
    assert any("no numbers" in text for text in verdict["weakened"])
