"""The worked example in the docstring of each check, read from there: the check finds what it says, and so does its slow twin.

`checkers/anomalies/__init__.py` says how an example is to be read.
"""

import inspect
import json
import re

import pyarrow.parquet as pq
import pytest
from support.histories import COMMITTED, write_history
from support.reference import TWINS, FlatHistory, by_records

from checkers.lawful_history import CONTRACT
from checkers.registry import installed_checks
from checkers.verdict.judge import judge
from harness.api import record_id
from harness.runs.directory import open_run

MS = 1_000_000
OUTCOMES = {"": "ok", "committed": "ok", "aborted": "fail", "unknown": "info"}
KINDS = {"txn": ("txn", "writer"), "poll": ("poll", "reader"), "final read": ("poll", "final"), "settle": ("settle", "harness")}
CHECKS = {check.name: check for check in installed_checks()[0] if check.name in TWINS}


class Example:
    """The example of one check, as operations in partitions, processes and a second of its own.

    records: the name and the offset in the example of each record and partition of the history.
    """

    def __init__(self, number, check):
        self.text = inspect.getdoc(check.function)
        self.topic, self.base, self.start = f"e{number}", number * 20, (1 + number) * 1_000 * MS
        self.ops, self.v, self.next_op, self.settled = [], {}, {}, {}
        head, *rows = [re.split(r"\s{2,}", line.strip()) for line in self._table()]
        self.partitions = head[3:-1]
        for row in rows:
            self._operation(*(row + [""] * (len(head) - len(row))))

    def _table(self):
        lines = self.text.splitlines()
        first = next(at for at, line in enumerate(lines) if re.match(r" +ms +process", line))
        last = next(at for at, line in enumerate(lines) if at > first and not line.strip())
        return lines[first:last]

    def _operation(self, ms, process, kind, *cells):
        begin, end = (int(at) if at else None for at in ms.split("-"))
        process = -1 if process == "harness" else self.base + int(process)
        number = self.next_op[process] = self.next_op.get(process, -1) + 1
        f, role = KINDS[kind]
        op = {"process": process, "slot": process, "op": number, "node": "c0", "role": role, "f": f, "final": role == "final"}
        op |= {"isolation": COMMITTED, "transactional_id": None, "intent": "commit" if f == "txn" else None}
        op |= {
            "type": OUTCOMES[cells[-1]],
            "time": self.start + begin * MS,
            "end": None if end is None else self.start + end * MS,
        }
        op |= {"decided": op["end"] if f == "txn" and op["type"] != "fail" else None, "errors": [], "strange": [], "detail": None}
        op["mops"] = []
        for partition, cell in zip(self.partitions, cells[:-1], strict=True):
            if kind == "settle":
                self.settled[self._own(partition)] = [int(offset) for offset in re.findall(r"\d+", cell)]
            else:
                self._records(op, self._own(partition), cell)
        if kind != "settle":
            self.ops.append(op)
        if kind == "final read":
            detail = json.dumps({self._own(partition): [0, 100, 100] for partition in self.partitions})
            self.next_op[process] += 1
            self.ops.append({**op, "op": number + 1, "f": "final-read", "time": op["end"], "detail": detail, "mops": []})

    def _own(self, partition):
        return f"{self.topic}-{partition.rpartition('-')[2]}"

    def _records(self, op, partition, cell):
        """`send a@5, b` and `read a@5, c@6` in the order of the words."""
        verb = ""
        for word in cell.replace(",", "").split():
            if word in ("send", "read"):
                verb = word
            elif word != "-":
                name, _, offset = word.partition("@")
                self._record(op, partition, verb, name, int(offset) if offset else None)

    def _record(self, op, partition, verb, name, offset):
        if verb == "send":
            v = self.v[name] = record_id(op["process"], op["op"], len(op["mops"]))
            began = op["time"] + 10 * (1 + len(op["mops"]))
            op["mops"].append((0, partition, v, offset, began, None if offset is None else began + 5))
        else:
            v = self.v.setdefault(name, record_id(self.base + 19, len(self.v), 0))  # of nobody, if it was not sent before
            op["mops"].append((1, partition, v, offset, None, op["end"]))

    def found(self):
        """What the text says is found: (sent, read or missing; record or partition; offset)."""
        (answer,) = re.findall(r"^Found: (.*?)\n\n", self.text, flags=re.MULTILINE | re.DOTALL)
        return {(role, name, int(offset)) for role, name, offset in re.findall(r"(sent|read|missing) ([\w-]+)@(\d+)", answer)}

    def as_found(self, findings):
        """Findings in the words of the text; without the row of a final read that returned nothing."""
        names = {v: name for name, v in self.v.items()}
        records = [record for one in findings for record in one["records"] if record["offset"] is not None]
        return {(one["role"], names.get(one["v"], one["partition"].replace(self.topic, "t")), one["offset"]) for one in records}


EXAMPLES = {name: Example(number, check) for number, (name, check) in enumerate(CHECKS.items())}


def with_settling(ops, settled):
    """Operations in the order of time, and the harness' last look at the partitions of some examples."""
    ops = sorted(ops, key=lambda op: op["time"])
    op = {"process": -1, "slot": -1, "op": 0, "node": None, "role": "harness", "f": "settle", "final": False, "isolation": None}
    op |= {"type": "info", "time": ops[-1]["time"] + MS, "end": ops[-1]["time"] + 2 * MS, "decided": None, "mops": []}
    op |= {"transactional_id": None, "intent": None, "errors": [], "strange": []}
    return [*ops, {**op, "detail": json.dumps({"partitions": settled, "bound_s": 30})}]


@pytest.fixture(scope="module")
def findings(spark, tmp_path_factory):
    """The findings in one history of all examples, which share nothing with each other; and the operations of that."""
    folder = tmp_path_factory.mktemp("examples")
    settled = {partition: offsets for one in EXAMPLES.values() for partition, offsets in one.settled.items()}
    ops = with_settling([op for one in EXAMPLES.values() for op in one.ops], settled)
    (folder / "plan.json").write_text(json.dumps({"contract": CONTRACT}))
    write_history(folder, ops)
    judge(open_run(folder), spark=spark)
    return pq.read_table(folder / "anomalies.parquet").to_pylist(), ops


def of_example(name, findings):
    """The findings of a check in the partitions of its own example."""
    topic = f"{EXAMPLES[name].topic}-"
    return [one for one in findings if one["anomaly"] == name and one["records"][0]["partition"].startswith(topic)]


@pytest.mark.parametrize("name", CHECKS)
def test_a_check_finds_in_its_example_what_its_docstring_says(findings, name):
    expected = EXAMPLES[name].found()
    assert expected
    assert EXAMPLES[name].as_found(of_example(name, findings[0])) == expected


@pytest.mark.parametrize("name", CHECKS)
def test_the_slow_twin_named_in_the_docstring_finds_the_same_in_the_example(findings, name):
    twin = TWINS[name]
    assert f"Slow twin: `{twin.__name__}` in tests/support/reference.py." in EXAMPLES[name].text
    found, ops = findings
    mine = by_records(of_example(name, found), ops)[name]
    others = {"mops": [], "f": "poll"}  # leaves the numbers of the operations as they are
    alone = [op if op in EXAMPLES[name].ops or op["f"] == "settle" else {**op, **others} for op in ops]
    assert mine == twin(FlatHistory(alone)), "the twin sees the operations of this example only"


def test_every_check_but_those_of_cycles_has_an_example():
    names = {check.name for check in installed_checks()[0] if not check.function.__module__.startswith("checkers.graph")}
    assert names == set(CHECKS) == set(TWINS)
