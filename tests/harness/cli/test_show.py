"""`fencepost show`: a run's verdict with its incidents, and the card of a finding, in a terminal and as JSON."""

from __future__ import annotations

import json
import re

import pytest
from support import report_example as example

from fencepost.harness.cli import main
from fencepost.harness.report.card_text import folded


@pytest.fixture
def fencepost(capsys, monkeypatch):
    """Runs `fencepost show` with arguments; returns its exit code, standard output and standard error."""

    def call(*arguments):
        with pytest.raises(SystemExit) as left:
            main.main(["show", *map(str, arguments)])
        output = capsys.readouterr()
        return left.value.code, output.out, output.err

    monkeypatch.delenv("COLUMNS", raising=False)
    return call


def changed(folder, **fields):
    path = folder / "verdict.json"
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | fields), "utf-8")
    return folder


def test_a_run_is_its_verdict_why_and_a_line_for_each_incident(fencepost, tmp_path):
    code, out, _ = fencepost(example.torn(tmp_path))
    lines = out.splitlines()
    assert code == 0
    assert lines[0] == "torn: invalid, as expected"
    assert "transactions of" in lines[1]
    assert "  weaker than it looks: 1 of 3 faults had no effect" in lines
    incidents = [line for line in lines if "torn-transaction: The transaction of process" in line]
    assert [line.split()[0] for line in incidents] == ["1", "2", "3"]
    assert lines[-2:] == [
        "card:   fencepost show k3f9x2 1",
        "again:  fencepost campaign campaigns/first.toml --only steady --seed 7",
    ]


def test_what_reason_and_expectation_both_say_is_said_once(fencepost, tmp_path):
    _, out, _ = fencepost(changed(example.torn(tmp_path), reason="duplicate (7 findings)", expectation="duplicate (7 findings)"))
    assert out.count("duplicate (7 findings)") == 1


def test_a_valid_run_has_no_incident(fencepost, tmp_path):
    _, out, _ = fencepost(example.valid(tmp_path))
    assert out.startswith("steady: valid, as expected\n")
    assert "8 findings that the settings permit, and that decide nothing: " in out
    assert "card:" not in out


def test_a_finding_is_its_card(fencepost, tmp_path):
    code, out, _ = fencepost(example.torn(tmp_path), 1)
    assert code == 0
    assert out.startswith("Finding 1: torn-transaction, at ")
    for part in ("Forbidden because", "In order of time", "Records", "Operations that prove it", "_TIMED_OUT (-185), retriable"):
        assert part in out
    assert "#1 cut-clients 12 nodes → n1" in out
    assert "Not known          UTC is not known" in out


def test_findings_of_one_cause_have_one_card(fencepost, tmp_path):
    first, *_ = json.loads((example.torn(tmp_path) / "verdict.json").read_text("utf-8"))["findings"]
    changed(tmp_path, findings=[first, {**first, "id": 2, "anomaly": "lost-write"}])
    assert "With it: lost-write (2)." in fencepost(tmp_path)[1]
    _, out, _ = fencepost(tmp_path, 2)
    assert out.startswith("Finding 1: torn-transaction")
    assert "Finding 2: lost-write" in out


def test_a_permitted_finding_can_be_shown(fencepost, tmp_path):
    _, out, _ = fencepost(example.valid(tmp_path), 8)
    assert "Finding 8: G0" in out
    assert "(permitted)" in out
    assert "Permitted because  legal in Kafka" in out


@pytest.mark.parametrize(("number", "there"), [(99, "its verdict has findings 1 to 3"), (0, "findings 1 to 3")])
def test_a_number_of_no_finding_says_which_there_are(fencepost, tmp_path, number, there):
    code, out, err = fencepost(example.torn(tmp_path), number)
    assert (code, out) == (254, "")
    assert f"has no finding {number}: " in err
    assert there in err


def test_a_finding_of_a_run_without_findings(fencepost, tmp_path):
    code, _, err = fencepost(example.unknown(tmp_path), 1)
    assert code == 254
    assert "its verdict has no finding" in err


def test_what_is_no_number_is_a_mistake(fencepost, tmp_path):
    assert fencepost(example.torn(tmp_path), "first")[0] == 254


def test_a_run_that_was_not_judged_says_what_to_do(fencepost, tmp_path):
    (example.torn(tmp_path) / "verdict.json").unlink()
    code, _, err = fencepost(tmp_path)
    assert code == 254
    assert "judge the run first: fencepost check" in err


def test_json_has_the_incidents_and_the_path_of_the_report(fencepost, tmp_path):
    document = json.loads(fencepost(example.torn(tmp_path), "--json")[1])
    assert (document["verdict"], document["expectation_met"]) == ("invalid", True)
    assert [[finding["id"] for finding in incident["findings"]] for incident in document["incidents"]] == [[1], [2], [3]]
    assert document["incidents"][0]["accused"][0].keys() == {"process", "number"}
    assert document["report"] == str(tmp_path / "report.html")


def test_json_of_a_finding_is_its_card_without_drawings(fencepost, tmp_path):
    card = json.loads(fencepost(example.torn(tmp_path), 1, "--json")[1])
    assert card["findings"][0]["anomaly"] == "torn-transaction"
    assert [operation["outcome"] for operation in card["operations"]] == ["ok", "ok"]
    assert card.keys().isdisjoint({"drawing", "cycles"})
    assert {fault["id"] for fault in card["faults"]} == {1}


def test_mistakes_are_json_too(fencepost, tmp_path):
    code, out, _ = fencepost(example.torn(tmp_path), 99, "--json")
    assert (code, json.loads(out)["exit"]) == (254, 254)


def test_nothing_of_a_run_controls_the_terminal(fencepost, tmp_path, monkeypatch):
    """Neither in a pipe nor in a narrow terminal."""
    folder = example.hostile(tmp_path)
    for arguments in ([], [1], ["--json"], [1, "--json"]):
        _, out, _ = fencepost(folder, *arguments)
        assert re.findall("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\ud800-\udfff]", out) == []


def test_lines_are_whole_in_a_pipe_and_fold_in_a_terminal():
    lines = [("  Who  ", "transaction five of process eight " * 4), ("", ""), ("  n1  ", "short")]
    whole = list(folded(lines, None))
    assert whole[0] == ("  Who  " + "transaction five of process eight " * 4).rstrip()
    narrow = list(folded(lines, 50))
    assert all(len(line) <= 50 for line in narrow)
    assert narrow[1].startswith("       transaction") or narrow[1].startswith("       ")
    assert narrow[-2:] == ["", "  n1  short"]


def test_a_terminal_narrower_than_any_text_still_shows_it():
    (first, *rest) = folded([("  a very long beginning of a line  ", "word " * 30)], 20)
    assert first.startswith("  a very long beginning")
    assert "".join(rest).count("word") >= 20


def test_an_escape_is_as_wide_as_it_is_shown():
    """A text is escaped before it is folded, so that no escape is torn apart by a width."""
    assert list(folded([("", "\x1b" * 10)], None)) == ["\\u001b" * 10]


def test_a_run_completes_the_numbers_of_its_findings(tmp_path):
    from types import SimpleNamespace

    from fencepost.harness.cli.completions import findings

    example.large(tmp_path / "large", operations=5_000, between=70)
    context = SimpleNamespace(params={"run": str(tmp_path / "large"), "results": tmp_path})
    assert findings(context, "")[:3] == ["1", "2", "3"]
    assert findings(context, "4")[:2] == ["4", "40"]
    assert findings(SimpleNamespace(params={"run": "nothing", "results": tmp_path}), "") == []


def test_the_width_of_the_terminal_is_used(fencepost, tmp_path, monkeypatch):
    from fencepost.harness.cli import show

    monkeypatch.setattr(show, "out", lambda: type("Terminal", (), {"is_terminal": True, "width": 60})())
    _, out, _ = fencepost(example.torn(tmp_path), 1)
    assert max(map(len, out.splitlines())) <= 60
