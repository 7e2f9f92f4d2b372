"""The worked example in the docstring of each check, read from there: the check finds what it says, and so does its slow twin.

`checkers/anomalies/__init__.py` says how an example is to be read.
"""

import json

import pyarrow.parquet as pq
import pytest
from support import (
    application_reference,
    connect_reference,
    fencing_reference,
    hanging_reference,
    pipeline_reference,
    source_reference,
)
from support.histories import write_history
from support.history_tables import with_settling
from support.reference import TWINS, FlatHistory, by_records
from support.worked_examples import Example

from fencepost.checkers.engine.registry import installed_checks
from fencepost.checkers.model.lawful_history import CONTRACT
from fencepost.checkers.verdict.judge import judge
from fencepost.harness.api.evidence import Evidence
from fencepost.harness.api.promises import ACYCLIC
from fencepost.harness.history.run_directory import open_run

ALL_TWINS = {**TWINS, **fencing_reference.TWINS, **pipeline_reference.TWINS, **hanging_reference.TWINS}
OF_LOGS = {
    check.name for check in installed_checks()[0] if {Evidence.LOGS, Evidence.WIRE} & set(check.evidence.absence)
}  # test_epochs.py, test_logs.py, test_wire.py
OTHERWISE = {*OF_LOGS, "no-recovery", "delayed-read"}  # by receipts: test_recovery.py, test_delayed_reads.py
CHECKS = {check.name: check for check in installed_checks()[0] if check.name in ALL_TWINS}


EXAMPLES = {name: Example(number, check) for number, (name, check) in enumerate(CHECKS.items())}


@pytest.fixture(scope="module")
def findings(tmp_path_factory):
    """The findings in one history of all examples, which share nothing with each other; and the operations of that."""
    folder = tmp_path_factory.mktemp("examples")
    settled = {partition: offsets for example in EXAMPLES.values() for partition, offsets in example.settled.items()}
    ops = with_settling([op for example in EXAMPLES.values() for op in example.ops], settled)
    (folder / "plan.json").write_text(json.dumps({"contract": {**CONTRACT, "consumption": "recorded"}}))
    write_history(folder, ops)
    judge(open_run(folder), here=True)
    return pq.read_table(folder / "anomalies.parquet").to_pylist(), ops


def of_example(name, findings):
    """The findings of a check in the partitions of its own example."""
    topic = f"{EXAMPLES[name].topic}-"
    return [row for row in findings if row["anomaly"] == name and row["records"][0]["partition"].startswith(topic)]


@pytest.mark.parametrize("name", CHECKS)
def test_a_check_finds_in_its_example_what_its_docstring_says(findings, name):
    expected = EXAMPLES[name].expected()
    assert expected
    assert EXAMPLES[name].as_worded(of_example(name, findings[0])) == expected


@pytest.mark.parametrize("name", CHECKS)
def test_the_slow_twin_named_in_the_docstring_finds_the_same_in_the_example(findings, name):
    twin = ALL_TWINS[name]
    assert f"Slow twin: `{twin.__name__}` in tests/{twin.__module__.replace('.', '/')}.py." in EXAMPLES[name].text
    rows, ops = findings
    own = of_example(name, rows)
    mine = _in_form(name, own, ops)
    others = {"mops": [], "chains": [], "offsets": [], "f": "poll"}  # leaves the numbers of the operations as they are
    alone = [op if op in EXAMPLES[name].ops or op["f"] == "settle" else {**op, **others} for op in ops]
    history = pipeline_reference.PipelineHistory(alone) if name in pipeline_reference.TWINS else FlatHistory(alone)
    assert mine == twin(history), "the twin sees the operations of this example only"


def _in_form(name, own, ops):
    """Findings in the form of their twin's answer."""
    if name in pipeline_reference.TWINS:
        return pipeline_reference.by_records(own)[name]
    if name in hanging_reference.TWINS:
        return hanging_reference.by_records(own)[name]
    return by_records(own, ops)[name] if name in TWINS else {record["v"] for row in own for record in row["records"]}


def test_every_check_but_those_of_cycles_has_an_example():
    names = {check.name for check in installed_checks()[0] if check.promise != ACYCLIC}
    assert set(CHECKS) == set(ALL_TWINS)
    elsewhere = {*application_reference.TWINS, *source_reference.TWINS, *connect_reference.TWINS}  # test_applications.py, ...
    assert names - OTHERWISE == {*CHECKS, *elsewhere}
