"""Lawful histories, damaged in one way each: the checker must name that very anomaly and nothing else that is forbidden."""

import pyarrow.parquet as pq
import pytest
from support.histories import violated, write_history
from support.installed import INSTALLED, rule_of

from fencepost.checkers.contract.rules import INAPPLICABLE, full_contract
from fencepost.checkers.model.lawful_history import CONTRACT, write_lawful
from fencepost.checkers.verdict.judge import judge
from fencepost.harness.api import record_id
from fencepost.harness.api.evidence import Evidence
from fencepost.harness.history.run_directory import open_run


@pytest.fixture(scope="module")
def lawful(tmp_path_factory):
    """A lawful run of 100 transactions over 4 partitions."""
    folder = tmp_path_factory.mktemp("lawful")
    write_lawful(folder, transactions=100, seed=11)
    return folder


@pytest.fixture
def damaged(lawful, tmp_path):
    """Judge the lawful history after a damage was done to its operations; checks that something really was done."""

    def run(damage):
        ops = pq.read_table(lawful / "history.parquet").to_pylist()
        damage(ops)
        write_history(tmp_path, ops)
        (tmp_path / "plan.json").write_bytes((lawful / "plan.json").read_bytes())
        return judge(open_run(tmp_path), here=True)

    return run


def transactions(ops, type="ok", parts=2):
    """Transactions with records in at least so many partitions."""
    return [
        op for op in ops if op["f"] == "txn" and op["type"] == type and len({mop["partition"] for mop in op["mops"]}) >= parts
    ]


def unread(ops, lost):
    """Take records out of every poll."""
    for op in ops:
        op["mops"] = [mop for mop in op["mops"] if mop["kind"] == 0 or mop["v"] not in lost]


def polls(ops, isolation="read_committed"):
    return [op for op in ops if op["f"] == "poll" and op["isolation"] == isolation and op["mops"]]


def copy_of(ops, v):
    """A poll in which a record was read, and the read."""
    return next((op, mop) for op in polls(ops) for mop in op["mops"] if mop["v"] == v)


def end_of(ops, partition):
    """An offset beyond everything in a partition."""
    return max(mop["offset"] for op in ops for mop in op["mops"] if mop["partition"] == partition) + 100


def test_nothing_is_found_in_a_lawful_history(damaged):
    document = damaged(lambda ops: None)
    assert document["verdict"] == "valid"
    unheld = {row["name"] for row in document["properties"] if row["verdict"] != "held"}
    elsewhere = {name for name in unheld if rule_of(name, full_contract(CONTRACT)).judged == INAPPLICABLE}
    fenced = {"zombie-commit", "zombie-write"}  # no producer initialises here
    fenced |= {
        name for name, check in INSTALLED.items() if {Evidence.LOGS, Evidence.WIRE} & set(check.evidence.absence)
    }  # and no log was read
    unlisted = {"hanging-transaction", "misreported-transaction"}  # coordinators and leaders listed nothing here
    unlisted |= {"no-recovery", "delayed-read"}  # nor was there a fault, or a partition that took no records
    fenced |= {"wrong-error"}  # nor did a call fail
    assert unheld - elsewhere - fenced - unlisted == {"G1c-wr", "G1c-wr-process"}, "only time could close a cycle of wr edges"


def test_a_dropped_transaction_is_a_lost_write(damaged):
    """Every record of it is gone, so it is lost as a whole and not torn."""

    def drop(ops):
        unread(ops, {mop["v"] for mop in transactions(ops)[20]["mops"]})

    assert violated(damaged(drop)) == ["lost-write"]


def test_a_transaction_of_which_half_was_dropped_is_torn(damaged):
    def tear(ops):
        unread(ops, {transactions(ops)[20]["mops"][0]["v"]})

    assert violated(damaged(tear)) == ["lost-write", "torn-transaction"]


def test_a_repeated_record_is_a_duplicate(damaged):
    def repeat(ops):
        op, mop = copy_of(ops, transactions(ops)[20]["mops"][0]["v"])
        op["mops"].append({**mop, "offset": end_of(ops, mop["partition"])})

    assert violated(damaged(repeat)) == ["duplicate"]


def test_two_swapped_records_are_an_order_inversion(damaged):
    """Two records of one transaction and partition exchange their places; readers still read in the order of offsets."""

    def swap(ops):
        mine = [[mop for mop in op["mops"] if mop["partition"] == "t-0"] for op in transactions(ops)]
        first, second = next(mops for mops in mine if len(mops) == 2)
        places = {first["v"]: second["offset"], second["v"]: first["offset"]}
        others = {first["v"]: second["v"], second["v"]: first["v"]}
        for mop in [mop for op in ops for mop in op["mops"]]:
            if mop["kind"] == 0:
                mop["offset"] = places.get(mop["v"], mop["offset"])
            else:
                mop["v"] = others.get(mop["v"], mop["v"])

    assert violated(damaged(swap)) == ["order-inversion"]


def test_an_aborted_transaction_shown_is_an_aborted_read(damaged):
    """It is shown by the reader of the main phase only, so it is not a torn final read."""

    def show(ops):
        failed = transactions(ops, "fail")[3]
        reader = next(op for op in polls(ops) if not op["final"] and op["time"] > failed["end"])
        reader["mops"] += [{**mop, "kind": 1, "began": None, "ended": reader["end"]} for mop in failed["mops"]]

    assert violated(damaged(show)) == ["aborted-read"]


def test_a_record_shown_early_is_a_dirty_read(damaged):
    def hurry(ops):
        writer = transactions(ops)[20]
        _, mop = copy_of(ops, writer["mops"][0]["v"])
        mop["ended"] = writer["decided"] - 1

    assert violated(damaged(hurry)) == ["dirty-read"]


def test_a_record_moved_onto_another_is_an_inconsistent_offset(damaged):
    """Its acknowledgement names an offset at which everybody reads another record, though readers got it elsewhere."""

    def move(ops):
        sent = [mop for op in transactions(ops) for mop in op["mops"] if mop["partition"] == "t-1"]
        sent[20]["offset"] = sent[26]["offset"]

    assert violated(damaged(move)) == ["inconsistent-offset"]


def test_a_foreign_record_is_a_phantom(damaged):
    def invade(ops):
        op = polls(ops)[5]
        op["mops"].append({**op["mops"][0], "v": record_id(900, 1, 0), "offset": end_of(ops, op["mops"][0]["partition"])})

    assert violated(damaged(invade)) == ["phantom"]


def test_a_record_moved_to_another_partition_is_in_the_wrong_partition(damaged):
    def misplace(ops):
        record = next(mop for op in transactions(ops)[20:] for mop in op["mops"] if mop["partition"] == "t-1")
        beyond = end_of(ops, "t-2")
        for op in ops:
            for mop in op["mops"]:
                if mop["kind"] == 1 and mop["v"] == record["v"]:
                    mop.update(partition="t-2", offset=beyond)

    assert violated(damaged(misplace)) == ["wrong-partition"]


def test_a_stuck_last_stable_offset_is_a_stall(damaged):
    def stick(ops):
        settle = next(op for op in ops if op["f"] == "settle")
        settle.update(type="info", detail='{"partitions": {"t-0": [90000, 90001]}, "bound_s": 30}')

    assert violated(damaged(stick)) == ["lso-stall"]
