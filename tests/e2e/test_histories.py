"""Histories that fencepost did not record, through the command line.

The first test starts a process, as a person does; the others run the same command in this process, on a Spark that is warm.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.fencepost_command import answers, fencepost
from support.installed import DAMAGES, INSTALLED, UNDAMAGED, rule_of

from fencepost.checkers.contract.rules import INAPPLICABLE, full_contract
from fencepost.checkers.engine.registry import installed_checks
from fencepost.checkers.model.lawful_history import CONTRACT, write_lawful

CLEAN = (Path(__file__).parent / "data" / "clean.edn").read_text()


@pytest.fixture
def check(here, tmp_path):
    """Judge a history given as text; exit code and verdict."""

    def call(name: str, text: str, *arguments: str) -> tuple[int, dict]:
        path = tmp_path / name
        path.write_text(text)
        code, out, err = here("check", str(path), "--json", *arguments)
        assert out, err
        return code, json.loads(out)

    return call


def test_a_clean_history_of_jepsens_is_valid_whatever_its_file_is_called(tmp_path):
    path = tmp_path / "history.txt"
    path.write_text(CLEAN)
    code, out, err = fencepost(tmp_path / "results", "check", str(path), "--json")
    assert out, err
    document = json.loads(out)
    assert (code, document["verdict"]) == (0, "valid"), document["reason"]
    assert (answers(document)["duplicate"], answers(document)["wrong-partition"]) == ("held", "not exercised")


def test_a_duplicate_in_it_is_named_and_a_broken_line_is_left_out_and_reported(check):
    """Record 1 of key 5 is read a second time at offset 3; and one line is garbage."""
    damaged = CLEAN.replace("[:poll {5 [[0 1] [2 2]] 6", "[:poll {5 [[0 1] [2 2] [3 1]] 6")
    code, document = check("history.edn", damaged + "not a line at all\n")
    assert code == 1
    assert [name for name, answer in answers(document).items() if answer == "violated"] == ["duplicate"]
    assert [row["sentence"].partition(",")[0] for row in document["findings"] if row["forbidden"]] == [
        "Transaction 2 of process 0 sent one record (value 1) to 5"
    ]
    assert any("history.edn line 11" in text for text in document["weakened"])


def test_two_broken_lines_are_named_and_what_they_may_hide_is_not_judged(check):
    """The record whose send cannot be read is no phantom, and nothing is said to have held that the lines may have shown."""
    lines = CLEAN.splitlines(keepends=True)
    lines[0] = lines[0][:30] + "\n"
    lines[1] = "%&$\n"
    code, document = check("history.edn", "".join(lines))
    assert (code, document["verdict"]) == (2, "unknown"), document["reason"]
    assert {"history.edn line 1", "history.edn line 2"} <= {
        part for text in document["weakened"] for part in ("history.edn line 1", "history.edn line 2") if part in text
    }
    assert answers(document)["phantom"] == "unknown"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("".join(CLEAN.splitlines(keepends=True)[:1]), "nothing was compared"),
        ('{"type":"invoke","f":"poll","process":0,"value":[["poll"]]}\n', "nothing was compared"),
    ],
)
def test_a_history_that_shows_nothing_is_unknown_and_its_exit_code_is_2(check, text, why):
    code, document = check("history.edn", text)
    assert (code, document["verdict"]) == (2, "unknown")
    assert why in document["reason"]


def test_a_contract_with_a_wrong_name_is_refused_before_anything_is_read(here, tmp_path):
    path = tmp_path / "history.edn"
    path.write_text(CLEAN)
    code, _, err = here("check", str(path), "--contract", "akcs=all")
    assert code == 254
    assert "acks" in err
    code, _, err = here("check", str(path), "--contract", "acks=blub")
    assert (code, err.splitlines()[0]) == (254, '--contract acks: must be 0, 1 or all, not "blub"')


def test_a_contract_that_transactions_cannot_keep_is_refused(here, tmp_path):
    path = tmp_path / "history.edn"
    path.write_text(CLEAN)
    code, _, err = here("check", str(path), "--contract", "acks=1")
    assert code == 254
    assert 'transactional = "true" implies idempotence = "true", but idempotence = "false"' in err
    assert not list((tmp_path / "results").glob("*/*"))


def test_the_contract_can_be_named(check):
    damaged = CLEAN.replace("[:poll {5 [[0 1] [2 2]] 6", "[:poll {5 [[0 1] [2 2] [3 1]] 6")
    relaxed = ("--contract", "idempotence=false", "--contract", "transactional=false")
    code, document = check("history.edn", damaged, *relaxed)
    assert "duplicate" in {entry["name"] for entry in document["allowed"] if entry["verdict"] == "violated"}
    assert code != 1


def test_what_is_no_history_is_refused_with_what_is_understood(here, tmp_path):
    path = tmp_path / "shopping.txt"
    path.write_text("milk\nbread\n")
    code, _, err = here("check", str(path))
    assert code == 254
    assert "EDN" in err
    assert not list((tmp_path / "results").glob("*/*"))


def test_an_exported_run_comes_back_with_the_same_verdict(here, tmp_path):
    run_dir = tmp_path / "lawful"
    run_dir.mkdir()
    write_lawful(run_dir, transactions=300)
    target = tmp_path / "history.edn"
    code, out, err = here("export", str(run_dir), "--format", "jepsen-edn", "--out", str(target))
    assert code == 0, err
    assert str(target) in out.replace("\n", "")
    code, out, err = here("check", str(target), "--json")
    assert (code, json.loads(out)["verdict"]) == (0, "valid"), out + err


def test_the_checks_can_fail_and_selfcheck_proves_it(here, monkeypatch):
    """Each installed check was made to speak, and said only what it had to. Damages to pipelines have histories of their own."""
    monkeypatch.setattr("fencepost.checkers.selfcheck.selfcheck.GENERATED", 150)  # enough for every damage to have its place
    code, out, err = here("selfcheck", "--json")
    rows = json.loads(out)
    assert code == 0, out + err
    idle = {name for name in INSTALLED if rule_of(name, full_contract(CONTRACT)).judged == INAPPLICABLE} | UNDAMAGED
    elsewhere = {damage.name for damage in DAMAGES if damage.plant.__module__.endswith(".pipeline_damages")}
    planted = [row for row in rows if not set(row["expected"]) <= idle and row["damage"] not in elsewhere]
    assert [(row["damage"], row["note"]) for row in planted if row["ok"] is not True] == []
    assert {check.name for check in installed_checks()[0]} - idle <= {name for row in rows for name in row["anomalies"]}
