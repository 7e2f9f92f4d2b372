"""Findings of one cause are one incident, and two causes stay two."""

from __future__ import annotations

import pytest

from fencepost.harness.api import record_id
from fencepost.harness.report.incidents import Incident, Written, incidents

WRITES = {10: Written(8, 5), 11: Written(8, 6), 12: Written(3, 0)}
SENDERS = {written: index for index, written in WRITES.items()}


def record(role, operation, process=8, number=5, partition="t-0", offset=7, **fields):
    v = record_id(process, number, 0)
    return {"partition": partition, "offset": offset, "v": v, "operation": operation, "role": role} | fields


def finding(number, anomaly, *records, **fields):
    operations = sorted({each["operation"] for each in records})
    return {"id": number, "anomaly": anomaly, "operations": operations, "records": list(records), "time": number} | fields


def grouped(*findings, writes=WRITES):
    return [[each["id"] for each in incident.findings] for incident in incidents(findings, writes)]


def torn(number, operation, process, op):
    missing = record("missing", operation, process, op, partition="t-1", offset=None)
    return finding(number, "torn-transaction", missing, record("read", operation, process, op))


def aborted_read(number, operation, process, op, reader=90):
    return finding(number, "aborted-read", record("sent", operation, process, op), record("read", reader, process, op))


def test_a_torn_transaction_and_the_aborted_reads_of_it_are_one_incident():
    """As in the recorded run `torn`: findings 6 and 7 accuse transaction 22 of process 5."""
    (incident,) = incidents([torn(6, 10, 8, 5), aborted_read(7, 10, 8, 5)], WRITES)
    assert (incident.id, incident.anomalies) == (6, ("torn-transaction", "aborted-read"))
    assert (incident.accused, incident.operations) == ((Written(8, 5),), (10, 90))


def test_two_transactions_of_one_producer_stay_apart():
    assert grouped(torn(1, 10, 8, 5), torn(2, 11, 8, 6)) == [[1], [2]]


def test_two_transactions_read_by_one_poll_stay_apart():
    """The final read proves most findings; it is the cause of none."""
    assert grouped(aborted_read(1, 10, 8, 5, reader=90), aborted_read(2, 12, 3, 0, reader=90)) == [[1], [2]]


def test_incidents_come_in_the_order_of_their_first_findings():
    assert grouped(torn(1, 10, 8, 5), torn(2, 12, 3, 0), aborted_read(3, 10, 8, 5)) == [[1, 3], [2]]


def test_a_finding_about_two_transactions_joins_the_findings_about_each():
    """One truncation lost records of both."""
    lost = finding(3, "lost-write", record("missing", 10, 8, 5), record("missing", 12, 3, 0))
    assert grouped(torn(1, 10, 8, 5), torn(2, 12, 3, 0), lost) == [[1, 2, 3]]


def test_what_was_overrun_is_accused_and_not_what_was_read():
    overrun = finding(1, "lso-overrun", record("sent", 10, 8, 5), record("read", 90, 3, 0, offset=9))
    assert grouped(overrun, torn(2, 12, 3, 0)) == [[1], [2]]


def test_an_unprocessed_input_accuses_the_transaction_that_processed_it():
    """It misses an output that nobody sent: the record is the input, and its sender did nothing wrong."""
    missed = [record("read", 10, 3, 0, partition="in-0"), record("missing", 90, 3, 0, partition="in-0")]
    offset = finding(2, "torn-offset", record("sent", 10, v=-1, partition="in-0", offset=8), record("read", 91, v=-1))
    assert grouped(finding(1, "unprocessed", *missed), offset, torn(3, 12, 3, 0)) == [[1, 2], [3]]


def stall(number, partition, process, op):
    place = {"partition": partition, "offset": 82}
    stored = {"nodes": ["n1"], "rows": [{**place, "kind": "record", "v": record_id(process, op, 0)}]}
    return finding(number, "lso-stall", record("missing", 99, v=-1, **place), stored=stored)


def test_stalls_at_records_of_one_transaction_are_one_incident():
    """As in the recorded control of hanging transactions: one look, four partitions, two transactions."""
    three = [stall(1, "t-0", 8, 5), stall(2, "t-1", 8, 5), stall(3, "t-2", 3, 0)]
    assert grouped(*three) == [[1, 2], [3]]
    assert incidents(three, WRITES)[0].accused == (Written(8, 5),)


def test_stalls_at_records_that_are_not_known_stay_apart():
    unknown = [finding(n, "lso-stall", record("missing", 99, v=-1, partition=f"t-{n}", offset=82)) for n in range(2)]
    assert grouped(*unknown) == [[0], [1]]


def cycle(number, *vertices):
    edges = [{"from": a, "to": b, "kind": "wr", "why": ""} for a, b in zip(vertices, (*vertices[1:], vertices[0]), strict=True)]
    return finding(number, "G1c-wr", record("sent", vertices[0]), cycle={"vertices": list(vertices), "edges": edges})


def test_a_cycle_is_its_own_incident():
    """Also where a transaction on it is torn."""
    assert grouped(torn(1, 10, 8, 5), cycle(2, 10, 12)) == [[1], [2]]


def test_two_cycles_of_the_same_operations_are_one_incident():
    assert grouped(cycle(1, 10, 12), cycle(2, 12, 10), cycle(3, 10, 11)) == [[1, 2], [3]]


def test_clients_that_do_not_recover_are_an_incident_each():
    dead = [finding(n, "no-recovery", record("missing", 10 + n, partition="", v=-1, offset=None)) for n in range(2)]
    assert grouped(*dead) == [[0], [1]]


def test_strange_records_at_one_place_are_one_incident():
    strange = record("read", 90, v=-2, offset=30)
    assert grouped(finding(1, "phantom", strange), finding(2, "inconsistent-offset", strange, record("read", 91, v=-2))) == [
        [1, 2]
    ]


def test_without_a_history_findings_are_joined_by_the_senders_of_their_records():
    assert grouped(torn(1, 10, 8, 5), aborted_read(2, 10, 8, 5), stall(3, "t-0", 8, 5), writes=None) == [[1, 2], [3]]


@pytest.mark.parametrize("writes", [WRITES, None])
def test_findings_that_say_nothing_are_incidents(writes):
    """Of a verdict of an older fencepost, or a damaged one."""
    assert grouped({"id": 1}, {"id": 2, "records": [{}], "operations": []}, writes=writes) == [[1], [2]]


def test_the_time_of_an_incident_is_that_of_its_earliest_finding():
    assert Incident(({"id": 1, "time": None}, {"id": 2, "time": 9}, {"id": 3, "time": 4})).time == 4
    assert Incident(({"id": 1, "time": None},)).time is None


def test_findings_of_many_operations_are_joined():
    """A hundred of each of twenty anomalies, each of 200 operations, all of one cause."""
    writes = {index: Written(0, index) for index in range(400)}
    many = [finding(n, "lost-write", *(record("missing", (n + k) % 400) for k in range(200))) for n in range(2_000)]
    assert len(incidents(many, writes)) == 1
