"""The state of a program of somebody's own, judged from inside: its stores, their changelogs, and what the inputs make of them.

After KIP-129 and KIP-447: what a program keeps of an input is committed with its output and its offset. In the examples
`counted 1:2@5/7` is a record of a changelog, or a row of a store: of the key that the inputs of process 1 share, 2 inputs were
counted; `/7` is the producer's id. The docstring is the definition of the anomaly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from fencepost.checkers.anomalies.applications import NO_PROGRAM, NOT_DONE
from fencepost.checkers.api import run_check
from fencepost.checkers.contract.common_occasions import WORK
from fencepost.checkers.contract.common_rules import (
    COMPACTED,
    LOGGED_IN_PART,
    RETAINED,
    UNLESS_PRODUCER,
    UNLESS_PROGRAM,
    cut_off,
)
from fencepost.checkers.contract.needs import FINAL_COMMITTED, SENDS, SETTLING, Needs
from fencepost.checkers.contract.rules import ALLOWED, FORBIDDEN, Rule
from fencepost.checkers.model.findings import Finding
from fencepost.checkers.model.frames import pd
from fencepost.checkers.model.results import CheckResult, join_rows
from fencepost.checkers.model.values import NONE
from fencepost.checkers.pipeline.aborted_values import HiddenValues, differences_hidden
from fencepost.checkers.pipeline.applications import Application, has_application, input_places
from fencepost.checkers.pipeline.chains import rows_of
from fencepost.checkers.pipeline.source_log import STRANGE, unread_logs
from fencepost.checkers.pipeline.stores import COUNTED, LAST, REMOVED, ROLES, VALUES, StateStores, StoreCopy, has_stores
from fencepost.checkers.selfcheck.application_damages import ALTER_STORE, COUNT_IN_CHANGELOG
from fencepost.checkers.views.run_view import RunView
from fencepost.checkers.views.wording import FindingText
from fencepost.harness.api import record_ids
from fencepost.harness.api.occasions import Occasion
from fencepost.harness.api.promises import PROGRAM
from fencepost.harness.api.words import plural

NO_STORE = "no instance of a program dumped a state store (`stores`)"
NO_CHANGELOG = "no changelog of a program was read (`stores`)"
UNSAID = "it is not declared what the values of the program's stores say (`stored`)"
OPAQUE = "a changelog has records that cannot be read here"
FOREIGN = "the stores have no keys of inputs that were read back, below offsets that the group committed"


# --------------------------------------------------------------------------------------------------
# A store and its changelog
# --------------------------------------------------------------------------------------------------
def _explain_divergence(finding: Finding, text: FindingText) -> str:
    stores = text.run.shared(StateStores)
    copy = _copy_of(finding, stores)
    pairs = _differences(stores, copy)
    first = pairs.iloc[0]
    there = "nothing" if pd.isna(first["offset"]) else _worded(first["kind"], first["number"])
    record = "nothing"
    if not pd.isna(first["offset_log"]):
        record = f"{_worded(first['kind_log'], first['number_log'])}, {copy.changelog}@{int(first['offset_log'])}"
    where = f"its changelog, {copy.changelog} up to offset {copy.position}, in {plural(len(pairs), 'key')}"
    return (
        f"The {copy.role} copy of {copy.node} differs from {where}: of {first['name']} it has {there}, and the last committed "
        f"record of the changelog {record}."
    )


def _copy_of(finding: Finding, stores: StateStores) -> StoreCopy:
    mine = finding.records("read")[0].op
    return next(candidate for candidate in stores.copies if candidate.rows["op"].iloc[0] == mine)


def _differences_beyond(findings: Sequence[Finding], run: RunView) -> list[bool]:
    """True for each finding with a key of which the copy has no value that an aborted record of the changelog has."""
    stores = run.shared(StateStores)
    copies = [_copy_of(finding, stores) for finding in findings]
    return [not differences_hidden(stores, copy.changelog, copy.position, _differences(stores, copy)) for copy in copies]


def _worded(kind: str, number: float) -> str:
    """Words for a stored value."""
    if kind == REMOVED:
        return "a tombstone"
    if kind == COUNTED:
        return f"the count {int(number)}"
    if kind == LAST:
        return "the input {}|{}|{}".format(*record_ids.split_record_id(int(number)))
    return f"a value with the hash {int(number):012x}"


@run_check(
    "store-divergence",
    occasions=(Occasion.INSTANCE_DIED, Occasion.WORK_ABORTED, Occasion.GROUP_REBALANCED),
    promise=PROGRAM,
    rules=(
        UNLESS_PRODUCER,
        UNLESS_PROGRAM,
        *cut_off("records of a changelog may be gone, and what a store has of them not"),
        LOGGED_IN_PART,
        Rule(
            FORBIDDEN,
            "a state store has what its changelog makes of it: aborted writes are wiped, and it is restored from there (KIP-129)",
            {"application": "!at-least-once"},
        ),
        Rule(ALLOWED, "a program that promises its outputs at least once may have in a store what its changelog lacks"),
    ),
    evidence=Needs({SETTLING}, "not all copies of the stores, and not all changelogs, are known"),
    damages=(ALTER_STORE,),
    across=True,
    beyond_aborts=_differences_beyond,
    explain=_explain_divergence,
    needs=f"{NO_PROGRAM}, or {NO_STORE}",
)
def store_divergence(run: RunView) -> CheckResult:
    """A copy of a state store, active or standby, has another value of a key than the last committed record of its changelog.

    The changelog counts up to the position that the copy has reached: a standby that lags differs in nothing. A key whose last
    record is a tombstone is one that the copy must not have.

    compared: keys of copies. One cause: a copy.

    Example::

        ms   process  operation             t-0                                          outcome
        0-1  harness  read store standby 2  counted 1:1@1, counted 2:1@2
        2-3  harness  read log              counted 1:1@0/7, counted 2:2@1/7, COMMIT@2/7

    Found: read c2:t-0@0, read c2:t-0@2 and sent t-0@1. Here t-0 is of a changelog, and c2:t-0 its copy in an instance: its row 0
    says how far it has come.

    Slow twin: `store_divergences` in tests/support/application_reference.py.
    """
    if not has_stores(run):
        return CheckResult(0)
    stores = run.shared(StateStores)
    why = {copy.partition: stores.incomparable(copy) for copy in stores.copies}
    fit = [copy for copy in stores.copies if not why[copy.partition]]
    if not fit:
        return CheckResult(0, lacking=next(iter(why.values()), "") or stores.problem or NO_STORE)
    compared = sum(len(_pairs(stores, copy)) for copy in fit)
    diverging = [(copy, pairs) for copy in fit if len(pairs := _differences(stores, copy))]
    rows = [part for number, divergence in enumerate(diverging) for part in _divergence_rows(-2 - number, *divergence)]
    return CheckResult(compared, join_rows(*rows) if rows else {})


def _pairs(stores: StateStores, copy: StoreCopy) -> pd.DataFrame:
    """The keys of a copy, each with what its changelog has (columns with `_log`), without those of which a value says nothing."""
    log = stores.logs[copy.changelog]
    below = log[log["offset"] < copy.position]
    values = stores.values(below)
    both = copy.keys.merge(values[values["kind"] != REMOVED], on="name", how="outer", suffixes=("", "_log"))
    unknown = both["name"].isin(stores.undecided(below)) | (both["kind"] == STRANGE) | (both["kind_log"] == STRANGE)
    return both[~unknown].sort_values("name", ignore_index=True)


def _differences(stores: StateStores, copy: StoreCopy) -> pd.DataFrame:
    pairs = _pairs(stores, copy)
    return pairs[~((pairs["kind"] == pairs["kind_log"]) & (pairs["number"] == pairs["number_log"]))]


def _divergence_rows(cause: int, copy: StoreCopy, pairs: pd.DataFrame) -> Iterator[dict[str, object]]:
    when = int(copy.rows["end"].max())
    about = copy.rows[copy.rows["kind"].isin(ROLES)]
    own = copy.rows[copy.rows["offset"].isin(pairs["offset"].dropna()) & ~copy.rows["kind"].isin(ROLES)]
    yield rows_of(pd.concat([about, own]).assign(cause=cause, v=NONE, time=when), "read")
    logged = pairs[pairs["offset_log"].notna()]
    log = pd.DataFrame({"partition": logged["partition_log"], "offset": logged["offset_log"], "op": logged["op_log"]})
    yield rows_of(log.astype({"offset": np.int64, "op": np.int64}).assign(cause=cause, v=NONE, time=when), "sent")


# --------------------------------------------------------------------------------------------------
# A changelog and the inputs
# --------------------------------------------------------------------------------------------------
def _explain_wrong(finding: Finding, text: FindingText) -> str:
    judged = text.run.shared(WrongState)
    read, last = finding.records("read"), [*finding.records("sent"), *finding.records("missing")]
    row = judged.of(finding).iloc[0]
    inputs = "no visible input has this key" if not last else _inputs_worded(row, last[0].place)
    if not read:
        return f"The changelog {row['topic']} has nothing of the key {row['name']}, but {inputs}."
    verb = "is" if row["kind"] == REMOVED else "has"
    value = f"{verb} {_worded(row['kind'], row['number'])}"
    return f"The last committed record of the key {row['name']} in the changelog, {read[0].place}, {value}, but {inputs}."


def _values_beyond(findings: Sequence[Finding], run: RunView) -> list[bool]:
    """True for each finding of a value that nothing hidden in the logs explains."""
    judged, hidden = run.shared(WrongState), run.shared(HiddenValues)
    return [not all(hidden.explain(row) for _, row in judged.of(finding).iterrows()) for finding in findings]


def _inputs_worded(row: pd.Series, place: str) -> str:
    count = int(row["inputs"])
    return f"the group has committed {plural(count, 'input')} with this key, the last one {place}"


@run_check(
    "wrong-state",
    occasions=WORK,
    promise=PROGRAM,
    rules=(
        UNLESS_PRODUCER,
        UNLESS_PROGRAM,
        COMPACTED,
        RETAINED,
        *cut_off("inputs may be gone, and what the program's state has of them not"),
        LOGGED_IN_PART,
        Rule(
            FORBIDDEN,
            "what a program keeps of an input is committed with its offset or not at all (KIP-129)",
            {"application": "!at-least-once"},
        ),
        Rule(ALLOWED, "a program that promises its outputs at least once may have an input in its state twice"),
    ),
    evidence=Needs(
        {SENDS, FINAL_COMMITTED, SETTLING},
        "not all inputs, and not all changelogs, are known",
        {SENDS, FINAL_COMMITTED, SETTLING},
        "a line that is missing may hold an input, or the changelog's last record",
    ),
    damages=(COUNT_IN_CHANGELOG,),
    across=True,
    beyond_aborts=_values_beyond,
    gather=input_places,
    brief=has_application,
    explain=_explain_wrong,
    needs=f"{NO_PROGRAM}, or {NO_CHANGELOG}",
)
def wrong_state(run: RunView) -> CheckResult:
    """The last committed value of a key in a changelog is not what the inputs make of it that the program's group has committed.

    A value says how many inputs its key had, or which was the last one (`stored`). Counted are visible inputs below the group's
    offset; the copies of the stores are compared with the changelog (`store-divergence`).

    compared: keys of inputs, and of changelogs. One cause: a key of a changelog.

    Example::

        ms   process  operation     in-0            t-0                             out-0     outcome
        0-1  1        txn           send a@5, b@6   -                               -         committed
        2-3  3        final read    read a@5, b@6   -                               output a@0, b@1
        4-5  harness  drain 1 1     -               -                               -
        6-7  harness  read log      -               counted 1:3@4/7, COMMIT@5/7     -

    Found: read t-0@4 and sent b@6, for there are two inputs. Here t-0 is of a changelog.

    Slow twin: `wrong_states` in tests/support/application_reference.py.
    """
    if not (has_stores(run) and has_application(run)):
        return CheckResult(0)
    judged = run.shared(WrongState)
    unknown, lacking = unread_logs(run), judged.lacking
    if unknown or lacking:
        return CheckResult(0, lacking="" if unknown else lacking, unknown=unknown)
    if judged.table.empty:
        return CheckResult(0, lacking=FOREIGN)
    wrong = judged.table[judged.table["wrong"]].reset_index(drop=True)
    return CheckResult(len(judged.table), join_rows(*_wrong_rows(wrong)) if len(wrong) else {})


def _wrong_rows(wrong: pd.DataFrame) -> Iterator[dict[str, object]]:
    wrong = wrong.assign(cause=-2 - np.arange(len(wrong)), time=wrong["end"])
    recorded = wrong[wrong["offset"] != NONE]
    yield rows_of(recorded.assign(v=NONE), "read")
    last = wrong[wrong["input"] != NONE].assign(partition=lambda rows: rows["home"], offset=lambda rows: rows["input"])
    for role, rows in (
        ("sent", last[last["cause"].isin(recorded["cause"])]),
        ("missing", last[~last["cause"].isin(recorded["cause"])]),
    ):
        yield rows_of(rows, role)


class WrongState:
    """A row for each key of the changelogs, beside what its inputs make of it. Made once for a run (`RunView.shared`)."""

    def __init__(self, run: RunView) -> None:
        self.stores, self.program = run.shared(StateStores), run.shared(Application)
        logs = list(self.stores.logs.values())
        self.stored = pd.concat([self.stores.values(log) for log in logs]) if logs else pd.DataFrame()
        written = [log[log["kind"].isin(VALUES)] for log in logs]  # whatever became of it: it says what values mean
        self.written = pd.concat(written) if logs else pd.DataFrame()
        self.lacking = self._lacking()
        self.table = pd.DataFrame() if self.lacking else self._table()

    def _lacking(self) -> str:
        if self.written.empty:
            return NO_CHANGELOG
        if self.stores.opaque:
            return OPAQUE
        if not self.written["kind"].isin((COUNTED, LAST)).any():
            return UNSAID
        return NOT_DONE if self._inputs.empty else ""

    @property
    def _inputs(self) -> pd.DataFrame:
        """Inputs below the group's offsets, by partition and offset, with the text of their `name`, the key."""
        inputs = self.program.claimed
        v = inputs["v"].to_numpy()
        number = record_ids.key_number_of(v, int(self.program.outputs.declared.get("keys", 1)))
        parts = zip(inputs["partition"], record_ids.process_of(v), number, strict=True)
        return inputs.assign(name=["/".join(map(str, key)) for key in parts])

    def _table(self) -> pd.DataFrame:
        """A row for each key of each changelog: `topic`, `name`, the last record's `partition`, `offset` (NONE: there is none),
        `kind`, `number`, `op`, `end`; `inputs`, the `home`, offset (`input`) and `v` of the last one; whether it is `wrong`."""
        expected = _by_key(self._inputs)
        topics, those = (rows["partition"].map(_topic) for rows in (self.stored, self.written))
        tables = [_beside(topic, self.stored[topics == topic], expected) for topic in sorted(set(those))]
        table = pd.concat(tables, ignore_index=True)
        table = table[table["name"].str.rsplit("/", n=2).str[0].isin(self._judged) & (table["kind"] != STRANGE)]
        undecided = set().union(*(self.stores.undecided(log) for log in self.stores.logs.values()))
        drain, when = self.program.outputs.drain
        table = table.assign(op=table["op"].replace(NONE, drain), end=table["end"].replace(NONE, when))
        return table[~table["name"].isin(undecided)].assign(wrong=_is_wrong).reset_index(drop=True)

    @property
    def _judged(self) -> set[str]:
        """Partitions of the input that were read back, and of which the group's offset is known."""
        known = self.program.committed if self.program.outputs.declared["group"] else self._inputs["partition"]
        return self.program.read_back(set(known) - self.program.written)

    def of(self, finding: Finding) -> pd.DataFrame:
        """The key that a finding is about: in its changelog, or in all that have nothing of it."""
        (row, *_), here = finding.records("read") or finding.records("missing"), ("home", "input")
        if finding.records("read"):
            here = ("partition", "offset")
        absent = (self.table["offset"] == NONE) == (here[0] == "home")
        return self.table[(self.table[here[0]] == row.partition) & (self.table[here[1]] == row.offset) & absent]


def _topic(partition: str) -> str:
    return partition.rpartition("-")[0]


def _by_key(inputs: pd.DataFrame) -> pd.DataFrame:
    """The number of inputs of each key, and its last one."""
    last = inputs.drop_duplicates("name", keep="last").rename(columns={"partition": "home", "offset": "input"})
    return last.assign(inputs=last["name"].map(inputs["name"].value_counts()))


_ABSENT = {"partition": "", "offset": NONE, "kind": REMOVED, "number": NONE, "op": NONE, "end": NONE}
_NO_INPUT = {"home": "", "input": NONE, "v": NONE, "inputs": 0}


def _beside(topic: str, stored: pd.DataFrame, expected: pd.DataFrame) -> pd.DataFrame:
    """The rows of one changelog, a key each, beside its inputs."""
    both = stored.merge(expected, on="name", how="outer").fillna({**_ABSENT, **_NO_INPUT})
    numbers = dict.fromkeys(("offset", "number", "op", "end", "input", "v", "inputs"), np.int64)
    return both.astype(numbers).assign(topic=topic)


def _is_wrong(table: pd.DataFrame) -> pd.Series:
    """A tombstone, or no record, is right of a key without inputs."""
    kind = table["kind"]
    right = np.where(kind == COUNTED, table["number"] == table["inputs"], table["number"] == table["v"])
    return pd.Series(np.where(kind == REMOVED, table["inputs"] > 0, ~right), index=table.index).astype(bool)
