"""The matrix of steps: its cells are faults, its campaign is theirs, and its page says what runs saw of each."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from fencepost.harness.api import step_names
from fencepost.harness.api.run import Run
from fencepost.harness.campaign.campaign import read
from fencepost.harness.cli.main import main
from fencepost.harness.matrix import campaign
from fencepost.harness.matrix.cells import ACTS, BY_NAME, GAPS, POINTS, Cell, all_cells, of_text
from fencepost.harness.matrix.crossing import possible_pairs
from fencepost.harness.matrix.crossings import crossings
from fencepost.harness.matrix.page import page
from fencepost.harness.matrix.picture import svg
from fencepost.harness.matrix.results import ABSENT, HELD, IMPOSSIBLE, UNEXERCISED, VIOLATED, results
from fencepost.nemesis.protocol import ProtocolStep

FILE = Path(__file__).parents[3] / "campaigns" / "matrix.toml"
CELL = Cell(gap="end-txn", point="before", act="kill")
THREE = [Cell(gap="end-txn", point="before", act=act) for act in ("kill", "freeze", "move")]


def test_there_are_two_hundred_and_ten_cells_and_each_is_named():
    cells = list(all_cells())
    assert len(cells) == len(set(cells)) == len(GAPS) * len(POINTS) * len(ACTS) == 210
    assert [of_text(str(cell)) for cell in cells] == cells
    assert of_text("end-txn/before") is None
    assert of_text("end-txn/before/dance") is None


@pytest.mark.parametrize("cell", [cell for cell in all_cells() if not cell.impossible], ids=str)
def test_each_possible_cell_is_a_fault(cell):
    fault = ProtocolStep(**cell.options())
    assert fault.cell == str(cell)
    assert fault.rule()["connection_of"] in ("client", "broker")


def test_cells_that_cannot_be_have_a_reason():
    reasons = {cell.impossible for cell in all_cells() if cell.impossible}
    assert len(reasons) == 3
    assert not CELL.impossible


def test_the_campaign_is_made_of_the_cells():
    assert FILE.read_text() == campaign.text(), (
        "make it again: python -m fencepost.harness.matrix.campaign > campaigns/matrix.toml"
    )


def test_the_campaign_has_a_fault_for_each_possible_cell():
    tests = read(FILE).tests
    planned = [choice.options["cell"] for test in tests for choice in test.nemesis]
    assert planned == [str(cell) for cell in all_cells() if not cell.impossible]


def run(verdict="valid", findings=(), receipt=None, cell=CELL):
    """A run with one fault, numbered 4, of a cell."""
    plan = {"run": "abc", "schedule": [{"id": 4, "kind": "protocol", "options": cell.options()}]}
    receipts = (receipt,) if receipt else ()
    document = {"verdict": verdict, "findings": list(findings)}
    return Run(directory=Path("abc"), plan=plan, verdict=document, read_receipts=lambda: receipts)


def struck(fired=True, effective=True, note=""):
    return {"id": 4, "effective": effective, "note": note, "evidence": {"fired": {"kind": "kill", "effective": fired}}}


def of_cell(*runs):
    return next(result for result in results(runs) if result.cell == CELL)


def test_a_cell_holds_when_its_fault_struck_in_a_valid_run():
    result = of_cell(run(receipt=struck()))
    assert (result.state, result.words) == (HELD, "held, 1 of 1 faults struck")


def test_a_forbidden_finding_beside_its_fault_violates_it():
    """One that is allowed, and one beside another fault, do not."""
    found = {"anomaly": "lost-write", "forbidden": True, "faults": [2, 4]}
    assert of_cell(run("invalid", [found], struck())).words == "violated, 1 of 1 faults struck: lost-write"
    assert of_cell(run("invalid", [{**found, "faults": [4, 50]}], struck())).state == VIOLATED  # 50: the one that it fired
    assert of_cell(run("invalid", [found], struck(fired=False))).state == VIOLATED  # by what was caught alone
    for other in ({**found, "forbidden": False}, {**found, "faults": [2, 50]}, {**found, "faults": []}):
        assert of_cell(run("invalid", [other], struck())).state == HELD


def test_of_several_faults_beside_a_finding_the_last_that_began_before_it_is_its_cause():
    plan = {"run": "abc", "schedule": [{"id": n, "kind": "protocol", "options": cell.options()} for n, cell in enumerate(THREE)]}
    receipts = [{**struck(), "id": number, "injected_ns": 100 * number} for number in range(3)]
    finding = {"anomaly": "lost-write", "forbidden": True, "faults": [0, 1, 2], "time": 150}
    made = Run(
        directory=Path("abc"), plan=plan, verdict={"verdict": "invalid", "findings": [finding]}, read_receipts=lambda: receipts
    )
    states = {result.cell: result.state for result in results([made])}
    assert [states[cell] for cell in THREE] == [HELD, VIOLATED, HELD]


def test_a_fault_without_effect_exercises_nothing():
    """Neither does one whose own fault had none, one whose time did not come, nor one in a run without a verdict."""
    assert of_cell(run(receipt=struck(effective=False, note="no EndTxn came"))).words == (
        "not exercised, 0 of 1 faults struck: no EndTxn came"
    )
    assert of_cell(run(receipt=struck(fired=False))).words == "not exercised, 0 of 1 faults struck: kill had no effect"
    unfired = {**struck(), "evidence": {}}
    assert of_cell(run(receipt=unfired)).words == "not exercised, 0 of 1 faults struck: kill was not fired"
    assert of_cell(run()).words == "not exercised, 0 of 1 faults struck: its time did not come"
    assert of_cell(run("unknown", receipt=struck())).state == UNEXERCISED


def test_what_no_run_planned_is_not_performed_and_what_cannot_be_is_not_possible():
    by_cell = {result.cell: result for result in results([run(receipt=struck())])}
    assert by_cell[Cell(gap="produce", point="late", act="kill")].state == ABSENT
    impossible = by_cell[Cell(gap="produce", point="before", act="late")]
    assert (impossible.state, impossible.words) == (IMPOSSIBLE, "not possible: late delivery is a point of its own")


def test_picture_and_page_have_every_cell_and_lead_to_the_reports():
    found = results([run("invalid", [{"anomaly": "lost-write", "forbidden": True, "faults": [4]}], struck())])
    picture = ElementTree.fromstring(svg(found))
    titles = [title.text for title in picture.iter("{http://www.w3.org/2000/svg}title")]
    assert [title.partition(":")[0] for title in titles[1:]] == [str(cell) for cell in all_cells()]
    text = page(found, crossings([]), {"abc": "file:///abc/report.html"})
    assert 'href="file:///abc/report.html#fault-4"' in text
    assert 'href="#cell-end-txn-before-kill"' in text
    assert f"<b>1 {VIOLATED}</b>" in text
    assert f"0 of the {len(possible_pairs())} pairs" in text
    assert "<li>gap produce with: " in text


def test_the_names_of_cells_are_those_that_a_fault_may_name():
    assert (tuple(BY_NAME), tuple(POINTS), tuple(ACTS)) == (step_names.GAPS, step_names.POINTS, step_names.ACTS)


def test_the_command_tells_what_was_seen(tmp_path, capsys):
    with pytest.raises(SystemExit) as left:
        main(["matrix", "--results", str(tmp_path), "--svg", str(tmp_path / "m.svg"), "--json"])
    document = json.loads(capsys.readouterr().out)
    assert (left.value.code, document["counts"][ABSENT], len(document["cells"])) == (0, 159, 210)
    assert (tmp_path / "m.svg").read_text().startswith("<svg")
    assert document["crossings"]["pairs"]["covered"] == 0
