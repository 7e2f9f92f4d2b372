"""Occasions: how often something occurred that may break a promise, and what a property says that had none."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.histories import STEP, History, answer, write_faults
from support.judging import judge_here

from fencepost.checkers.api import Occasion, run_check
from fencepost.checkers.contract.rules import FORBIDDEN, Rule
from fencepost.checkers.engine.registry import installed_checks
from fencepost.checkers.engine.validation import breaches
from fencepost.checkers.model.results import CheckResult
from fencepost.checkers.verdict.decision import JudgedProperty
from fencepost.checkers.verdict.occasions import beside
from fencepost.harness.api.history import STORED, schema
from fencepost.harness.api.occasions import OCCASIONS
from fencepost.harness.api.roles import STORE_OFFSETS
from fencepost.harness.api.values import Property

SECOND = 1_000_000_000
DATED = "2026-11-27T14:00:{s:06.3f}Z [x] [INFO] "
COORDINATOR = DATED + "t.C - [TransactionCoordinator id={n}] "
ELECTED = COORDINATOR + "Elected as the txn coordinator for partition 2 at epoch {e}\n"
INITIALISED = COORDINATOR + (
    "Initialized transactionalId fp-r-4 with producerId 7 and producer epoch {e} on partition __transaction_state-2\n"
)
STABILIZED = DATED + "g.G - [GroupCoordinator id=1] Stabilized group g generation 2 with 3 members.\n"
BUMPED = DATED + "g.G - [GroupId g] Bumped group epoch to 2 with metadata hash 1.\n"
FIRST = INITIALISED.format(s=0.5, n=1, e=0)
BEGAN_MS = 1795788000_000  # 2026-11-27T14:00:00Z


def held(**fields):
    return JudgedProperty("reprocessed", Rule(FORBIDDEN, "why"), fields.pop("verdict", Property.HELD), 5, **fields)


# --------------------------------------------------------------------------------------------------
# A property beside its occasions
# --------------------------------------------------------------------------------------------------
def test_a_property_that_held_and_had_no_occasion_says_so():
    prop = beside(held(reason="rare"), (Occasion.INSTANCE_DIED, Occasion.WORK_ABORTED), dict.fromkeys(Occasion, 0))
    assert prop.verdict is Property.WITHOUT_OCCASION
    assert prop.reason == "nothing occurred that could have broken it: no instance-died, no work-aborted; rare"
    assert prop.document()["occasions"] == {"instance-died": 0, "work-aborted": 0}


@pytest.mark.parametrize("count", [1, None], ids=["there was one", "nobody knows"])
def test_one_occasion_is_enough_and_one_that_is_not_known_leaves_the_answer(count):
    counts = {Occasion.INSTANCE_DIED: 0, Occasion.WORK_ABORTED: count}
    prop = beside(held(), (Occasion.INSTANCE_DIED, Occasion.WORK_ABORTED), counts)
    assert (prop.verdict, prop.reason) == (Property.HELD, "")
    assert prop.document()["occasions"]["work-aborted"] == count


@pytest.mark.parametrize("verdict", [Property.VIOLATED, Property.UNKNOWN, Property.NOT_EXERCISED])
def test_other_answers_stay(verdict):
    assert beside(held(verdict=verdict), (Occasion.INSTANCE_DIED,), {Occasion.INSTANCE_DIED: 0}).verdict is verdict


def test_a_check_that_needs_no_occasion_is_held_by_its_comparisons():
    prop = beside(held(), (), dict.fromkeys(Occasion, 0))
    assert prop.verdict is Property.HELD
    assert "occasions" not in prop.document()


def test_every_occasion_has_a_sentence_a_source_and_a_check():
    wanted = {occasion for check in installed_checks()[0] for occasion in check.occasions}
    assert wanted == set(Occasion)
    assert all(occasion.sentence.endswith(".") and occasion.source for occasion in Occasion)


def test_a_check_of_a_plug_in_names_occasions_of_the_vocabulary():
    @run_check("mine", occasions=("kill",))
    def mine(run):
        """A thing."""

    assert [text for text in breaches(mine) if "occasions must be a tuple of Occasion" in text and "instance-died" in text]


# --------------------------------------------------------------------------------------------------
# In a verdict
# --------------------------------------------------------------------------------------------------
@run_check("mine", occasions=(Occasion.TRANSACTION_ABORTED,), promise="mine")
def mine(run):
    """A thing."""
    return CheckResult(3)


def story(aborted=0, unanswered=0, died=0):
    """Transactions on one partition: one that is committed, and some that are not, or late, or never."""
    h = History()
    h.txn(0, {"t-0": [0]})
    for _ in range(aborted):
        h.txn(0, {"t-0": [None]}, "fail", intent="abort")
    for _ in range(unanswered):
        h.now += 3 * SECOND
        h.txn(0, {"t-0": [None]}, "info", decided=h.now, end=h.now + 2 * SECOND)
        h.now += 3 * SECOND
    for _ in range(died):
        h.txn(1, {"t-0": [None]}, "info", decided=None, end=None)
    h.final({"t-0": [0]})
    return h.ops


def test_counts_of_the_history_are_in_the_verdict(tmp_path):
    counts = judge_here(tmp_path, story(aborted=2, unanswered=1, died=3))["occasions"]
    assert set(counts) == set(OCCASIONS)
    assert {name: counts[name] for name in ("transaction-aborted", "commit-unanswered", "client-died")} == {
        "transaction-aborted": 2,
        "commit-unanswered": 1,
        "client-died": 3,
    }
    assert counts["leader-moved"] is counts["coordinator-moved"] is None, "there are no logs"


def test_a_green_run_says_how_much_of_it_nothing_could_have_broken(tmp_path):
    document = judge_here(tmp_path, story(), checks=[mine])
    assert answer(document, "mine")["verdict"] == "held without occasion"
    assert document["verdict"] == "valid"
    assert document["reason"] == (
        "0 properties held, none was violated, 1 held without occasion: nothing occurred that could have broken it"
    )
    assert answer(judge_here(tmp_path, story(aborted=1), checks=[mine]), "mine")["verdict"] == "held"


def test_receipts_are_counted_by_whom_they_struck(tmp_path):
    struck = {"kind": "kill", "injected_ns": SECOND, "healed_ns": 2 * SECOND, "effective": True}
    receipts = [
        {**struck, "id": 0, "targets": ["c2"]},
        {**struck, "id": 1, "targets": ["n1"]},
        {**struck, "id": 2, "targets": [], "pairs": ["c3>n2"]},
        {**struck, "id": 3, "targets": ["n1"], "effective": False},
        {**struck, "id": 4, "targets": ["n1"], "kind": "fence-producers"},
        {**struck, "id": 5, "targets": ["n1"], "kind": "revoke-acl"},
    ]
    write_faults(tmp_path, *receipts)
    counts = judge_here(tmp_path, story())["occasions"]
    assert (counts["client-struck"], counts["server-struck"]) == (2, 2), "no broker is hurt by what an operator asks it for"


@pytest.mark.parametrize(("sure", "count"), [([], None), ([True], 1), ([False], None)])
def test_a_fault_of_which_nobody_knows_whether_it_struck_is_no_occasion(tmp_path, sure, count):
    effects = [None, *sure]
    write_faults(
        tmp_path,
        *(
            {"id": i, "kind": "kill", "targets": ["n1"], "injected_ns": SECOND, "healed_ns": 2 * SECOND, "effective": effect}
            for i, effect in enumerate(effects)
        ),
    )
    counts = judge_here(tmp_path, story())["occasions"]
    assert (counts["client-struck"], counts["server-struck"]) == (0, count)


@pytest.mark.parametrize(
    ("least", "known", "sentence"),
    [
        (2, True, ""),
        (3, True, "transaction-aborted occurred 2 times, and the test demands 3"),
        (1, False, "how often leader-moved occurred is not known, and the test demands 1"),
    ],
)
def test_a_run_with_fewer_occasions_than_are_demanded_is_not_known_to_be_as_expected(tmp_path, least, known, sentence):
    demanded = {"transaction-aborted" if known else "leader-moved": least}
    document = judge_here(tmp_path, story(aborted=2), checks=[mine], at_least=demanded)
    assert (document["verdict"], document["expectation_met"]) == ("valid", None if sentence else True)
    assert document["shortfalls"] == ([sentence] if sentence else [])


# --------------------------------------------------------------------------------------------------
# Logs
# --------------------------------------------------------------------------------------------------
def stored(tmp_path, *rows):
    """Rows of `stored.parquet`: partition, offset, leader epoch, producer, epoch, ms after 14:00, kind; with their logs."""
    names = ("partition", "offset", "leader_epoch", "producer_id", "producer_epoch", "timestamp", "kind")
    heads = [(partition, 0, -1, -1, -1, -1 - BEGAN_MS, "log") for partition in sorted({row[0] for row in rows})]
    made = [{**dict(zip(names, row, strict=True)), "node": node} for node in ("n1", "n2") for row in (*heads, *rows)]
    made = [{**row, "timestamp": row["timestamp"] + BEGAN_MS} for row in made]
    pq.write_table(pa.Table.from_pylist(made, schema=schema(STORED)), tmp_path / "stored.parquet")


def log(tmp_path, node, *lines):
    folder = tmp_path / "logs" / node
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "server.log").write_text("".join(lines))


def test_a_coordinator_that_moved_is_counted_where_a_transaction_was_open(tmp_path):
    """The election of second 3 meets the transaction from 2 to 4; that of second 1 none, and the first is no move."""
    elections = [ELECTED.format(s=s, n=n, e=e) for s, n, e in ((0, 1, 0), (1, 2, 1), (3, 1, 2))]
    log(tmp_path, "n1", elections[0], FIRST, elections[2], elections[2])
    log(tmp_path, "n2", elections[1])
    stored(
        tmp_path,
        *[("t-0", 0, 0, 7, 0, 2000, "record"), ("t-0", 1, 0, 7, 0, 4000, "COMMIT")],
        *[("t-1", 0, 0, 7, 0, 2100, "record"), ("t-1", 1, 1, 7, 0, 4010, "COMMIT")],
        *[("t-1", 2, 1, 7, 1, 5000, "record"), ("t-1", 3, 1, 7, 1, 5010, "ABORT")],
    )
    counts = judge_here(tmp_path, story())["occasions"]
    assert (counts["coordinator-moved"], counts["leader-moved"], counts["transaction-aborted"]) == (1, 1, 1)
    assert counts["producer-fenced"] == 0


@pytest.mark.parametrize("column", [3, 4])
def test_a_table_without_the_producer_of_a_row_counts_nothing(tmp_path, column):
    rows = [["t-0", 0, 0, 7, 0, 2000, "record"], ["t-0", 1, 1, 7, 0, 2001, "ABORT"]]
    stored(tmp_path, *rows)
    assert judge_here(tmp_path, story())["occasions"]["leader-moved"] == 1
    rows[1][column] = None
    stored(tmp_path, *rows)
    assert judge_here(tmp_path, story())["occasions"]["leader-moved"] is None


@pytest.mark.parametrize(
    ("epochs", "count"),
    [
        ((0, 0, 0), 0),
        ((2, 2, 2), 0),
        ((0, 1, 3), 2),
        ((-1, -1, -1), None),
        ((-1, 0, 0), None),
        ((None,) * 3, None),
        ((-1, 0, 1), 1),
    ],
)
def test_a_leader_moved_where_its_epoch_grew_between_two_records(tmp_path, epochs, count):
    """An epoch of -1 (an older message format), or none, is not known: then nobody knows that no leader moved."""
    stored(tmp_path, *[("t-0", offset, epoch, 7, 0, 2000 + offset, "record") for offset, epoch in enumerate(epochs)])
    assert judge_here(tmp_path, story())["occasions"]["leader-moved"] == count


def test_what_was_deleted_may_have_been_an_occasion(tmp_path):
    """Retention took the beginning of a log: no leader change and no abort is left, and nobody knows whether there was one."""
    for begin, count in ((0, 0), (5, None)):
        rows = [("t-0", begin + at, 3, 7, 0, 2000 + at, kind) for at, kind in enumerate(("record", "COMMIT"))]
        stored(tmp_path, *rows, ("t-1", 0, 0, -1, -1, 2000, "record"))
        counts = judge_here(tmp_path, story())["occasions"]
        assert (counts["leader-moved"], counts["transaction-aborted"]) == (count, count)
    stored(
        tmp_path,
        *rows,
        ("t-1", 0, 0, -1, -1, 2000, "record"),
        ("t-1", 1, 1, 7, 1, 2001, "record"),
        ("t-1", 2, 1, 7, 1, 2002, "ABORT"),
    )
    counts = judge_here(tmp_path, story())["occasions"]
    assert (counts["leader-moved"], counts["transaction-aborted"]) == (1, 1)


def test_an_id_that_is_initialised_again_fences(tmp_path):
    log(tmp_path, "n1", FIRST, INITIALISED.format(s=3, n=1, e=1))
    assert judge_here(tmp_path, story())["occasions"]["producer-fenced"] == 1


@pytest.mark.parametrize(
    ("calls", "count"),
    [
        ([(0, 1, 2, "ok")], 0),
        ([(0, 1, 2, "ok"), (1, 3, 4, "ok"), (2, 5, 6, "ok")], 2),
        ([(0, 1, 4, "ok"), (1, 3, 5, "ok")], 1),  # one of the two is fenced, nobody knows which
        ([(0, 1, 2, "ok"), (0, 3, 4, "ok")], 0),
        ([(0, 1, 2, "ok"), (1, 3, 4, "info")], None),
        ([(0, 1, 2, "ok"), (1, 3, None, "info")], None),
        ([(0, 1, 2, "info")], 0),
    ],
)
def test_an_id_is_initialised_again_by_another_process(tmp_path, calls, count):
    h = History()
    for process, begin, end, type in calls:
        over = None if end is None else end * SECOND
        h.add(process, "initialise", type=type, transactional_id="id", time=begin * SECOND, end=over)
    h.now = 9 * SECOND
    h.txn(9, {"t-0": [0]})
    h.final({"t-0": [0]})
    assert judge_here(tmp_path, h.ops)["occasions"]["producer-fenced"] == count


def test_without_receipts_nobody_knows_whether_an_operator_fenced(tmp_path):
    h = History()
    h.add(0, "initialise", transactional_id="id")
    h.txn(0, {"t-0": [0]})
    h.final({"t-0": [0]})
    assert judge_here(tmp_path, h.ops, schedule=[{"id": 0}])["occasions"]["producer-fenced"] is None


@pytest.mark.parametrize(("unknown", "aborted", "count"), [(0, 0, 0), (1, 0, None), (1, 1, 1)])
def test_without_logs_a_transaction_of_unknown_outcome_may_have_been_aborted(tmp_path, unknown, aborted, count):
    counts = judge_here(tmp_path, story(aborted=aborted, unanswered=unknown))["occasions"]
    assert counts["transaction-aborted"] == count


def program(
    tmp_path, died_s, receipts=True, output="out-0", store=False, group="g", next_life=None, transactional=True, faults=()
):
    """An instance c4 that is killed at a second, its transaction of outputs from 2 to 4, aborted; looks say what time it is.

    store: whether it is a sink, which has stored what it has read; the transaction is a writer's then.
    next_life: it is not killed, but ends then, and is started again by this process.
    faults: what else is in receipts of c4, each with its second.
    transactional: else its output is a plain one, and the logs have no transaction at all.
    """
    h = History()
    h.now = 0
    looks = {"transactions": [], "open": [], "silent": [], "quiet_s": 9.0, "asked_ms": BEGAN_MS}
    h.add(-1, "list-transactions", isolation=None, role="harness", detail=json.dumps(looks))
    h.add(4, "instance", type="info", end=None, role="instance", slot=4)
    if next_life is not None:
        h.ops[-1].update(type="ok", end=died_s * SECOND)
        h.add(next_life, "instance", type="info", end=None, role="instance", slot=4, time=6 * SECOND)
    h.txn(0, {"in-0": [0]})
    declared = {
        "group": "g",
        "outputs": [1, 1],
        "output_partitions": ["out-0"],
        "ordered": False,
        "counts": False,
        "store": store,
    }
    h.final({"in-0": [0]})
    h.add(-1, "drain", isolation=None, role="harness", detail=json.dumps({**declared, "drained": True, "waited_s": 1.0}))
    rows = [{**op, "outputs": []} for op in h.ops]
    struck = {"kind": "kill", "targets": ["c4"], "effective": True, "id": 0, "healed_ns": 9 * SECOND}
    if receipts and next_life is None:
        more = [{**struck, "id": 1, "injected_ns": int(at_s * SECOND), **fault} for at_s, fault in faults]
        killed = {"evidence": json.dumps({"before": {"c4": 7}, "during": {"c4": None}})}
        write_faults(tmp_path, {**struck, "injected_ns": int(died_s * SECOND), **killed}, *more)
    elif receipts:
        write_faults(tmp_path)
    log(tmp_path, "n1", FIRST, STABILIZED.format(s=1), STABILIZED.format(s=3), BUMPED.format(s=5))
    stored(tmp_path, *[(output, 0, 0, 7, 0, 2000, "record"), (output, 1, 0, 7, 0, 4000, "ABORT")][: 1 + transactional])
    plan = {"prefix": "fp-r-", **({} if receipts else {"schedule": [{"id": 0, "kind": "kill"}]})}
    return judge_here(tmp_path, rows, {"application": "exactly-once"}, **plan)["occasions"]


@pytest.mark.parametrize(("died_s", "count"), [(3, 1), (1, 0), (5, 0)], ids=["inside", "before", "behind"])
def test_an_instance_that_died_counts_where_its_transaction_was_open(tmp_path, died_s, count):
    counts = program(tmp_path, died_s)
    assert (counts["instance-died"], counts["work-aborted"], counts["work-unanswered"]) == (count, 1, 0)
    assert counts["group-rebalanced"] == 2, "the one before the first output is how the group began"


@pytest.mark.parametrize(
    "fault",
    [
        {"kind": "latency"},
        {"targets": ["c4", "c5"], "evidence": json.dumps({"hit": ["c5"]})},
        {"effective": False},
        {"evidence": json.dumps({"before": {"c4": None}, "during": {"c4": None}})},
    ],
    ids=["its slow links", "aimed at and not hit", "without effect", "dead already"],
)
@pytest.mark.parametrize(("died_s", "count"), [(1, 0), (3, 1)])
def test_what_strikes_an_instance_that_is_dead_is_not_its_death(tmp_path, fault, died_s, count):
    later = 3 if died_s == 1 else 5
    assert program(tmp_path, died_s, faults=[(later, fault)])["instance-died"] == count


@pytest.mark.parametrize(("died_s", "count"), [(3, 0), (5, 1)], ids=["dead meanwhile", "alive"])
def test_work_is_superseded_where_a_group_is_rebalanced_inside_a_transaction_of_an_instance_that_lives(tmp_path, died_s, count):
    """The group is stabilised in second 3; in second 5, when the transaction is decided, it is again."""
    assert program(tmp_path, died_s)["work-superseded"] == count


@pytest.mark.parametrize(("told_s", "whose", "count"), [(3, 2, 1), (5, 2, 0), (3, 1, 0)], ids=["inside", "behind", "its own"])
def test_work_of_a_member_is_superseded_where_another_one_is_told_of_a_rebalance_meanwhile(tmp_path, told_s, whose, count):
    """Process 1 works from second 2 to 4."""
    h = History()
    h.txn(0, {"in-0": [0]})
    h.now = 2 * SECOND
    worked = h.ops[h.txn(1, {"out-0": [0]}, end=4 * SECOND)]
    worked["chains"] = [{"partition": "in-0", "offset": 0, "v": h.v("in-0", 0), "output": h.v("out-0", 0)}]
    told = json.dumps({"rebalances": [["assigned", ["in-0"]]]})
    h.add(whose, "poll", time=told_s * SECOND - STEP, end=told_s * SECOND, detail=told)
    h.final({"in-0": [0], "out-0": [0]})
    rows = [{"chains": [], **op} for op in h.ops]
    counts = judge_here(tmp_path, rows, {"consumption": "subscribed"})["occasions"]
    assert counts["work-superseded"] == count


@pytest.mark.parametrize(
    ("told", "count"),
    [
        ([(1, "assigned", "in-0"), (2, "assigned", "in-1")], 0),
        ([(1, "assigned", "in-0"), (2, "assigned", "in-0")], 1),  # process 1 died in between
        ([(1, "assigned", "in-0"), (1, "revoked", "in-0"), (2, "assigned", "in-0")], 2),
        ([(1, "assigned", "in-0"), (1, "assigned", "in-0")], 1),
    ],
)
def test_a_group_was_rebalanced_where_a_partition_was_taken_or_had_been_assigned_before(tmp_path, told, count):
    h = History()
    h.txn(0, {"in-0": [0]})
    for process, kind, partition in told:
        h.add(process, "poll", role="member", detail=json.dumps({"rebalances": [[kind, [partition]]]}))
    h.final({"in-0": [0]})
    assert judge_here(tmp_path, h.ops, {"consumption": "subscribed"})["occasions"]["group-rebalanced"] == count


@pytest.mark.parametrize("store", [False, True], ids=["program", "sink"])
@pytest.mark.parametrize(("next_life", "count"), [(4, 1), (9, 0)], ids=["ended by itself", "was to end"])
def test_an_instance_that_was_to_end_has_not_died(tmp_path, store, next_life, count):
    """As one that `scale` takes away: another worker starts it when it is to run again."""
    counts = program(tmp_path, 3, output="in-0" if store else "out-0", store=store, next_life=next_life)
    assert counts["instance-died"] == count
    assert store or counts["work-superseded"] == 1 - count


@pytest.mark.parametrize("group", ["g", STORE_OFFSETS], ids=["offsets in the group", "in the store"])
def test_what_a_sink_had_occasion_for_is_its_deaths_and_rebalances_since_the_first_input(tmp_path, group):
    counts = program(tmp_path, 1, output="in-0", store=True, group=group)
    assert {name: counts[name] for name in ("instance-died", "group-rebalanced")} == {"instance-died": 1, "group-rebalanced": 2}
    assert counts["work-aborted"] == counts["work-unanswered"] == counts["work-superseded"] == 0, "it has no transactions"


@pytest.mark.parametrize(("died_s", "count"), [(2.5, 1), (3.5, 0)])
def test_an_instance_without_transactions_died_at_work_within_a_second_after_an_output(tmp_path, died_s, count):
    counts = program(tmp_path, died_s, transactional=False)
    assert (counts["instance-died"], counts["work-aborted"], counts["work-superseded"]) == (count, 0, 0)


def test_without_receipts_nobody_knows_who_died(tmp_path):
    counts = program(tmp_path, 3, receipts=False)
    assert counts["instance-died"] is counts["work-superseded"] is None
    assert program(tmp_path, 3, receipts=False, output="in-0", store=True)["instance-died"] is None


def test_of_a_program_whose_outputs_lie_in_no_topic_nobody_knows_what_became_of_its_work(tmp_path):
    counts = program(tmp_path, 3, output="in-0")
    names = ("instance-died", "work-aborted", "work-unanswered", "work-superseded", "group-rebalanced")
    assert {counts[name] for name in names} == {None}
