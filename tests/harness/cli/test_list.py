"""`fencepost list`: which runs it shows, in which order, and what it says of a red one."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path

import pytest

from fencepost.harness.api import CampaignError
from fencepost.harness.cli import completions, main
from fencepost.harness.cli.list import planned_at, since_time
from fencepost.harness.memory import index
from fencepost.harness.memory.rows import RunRow

NOON = datetime(2026, 11, 25, 12, tzinfo=timezone.utc)
LOST = {"id": 1, "anomaly": "lost-write", "forbidden": True, "sentence": "Nobody read t-0@3."}
RED = {
    "verdict": "invalid",
    "expectation_met": False,
    "properties": [{"name": "lost-write", "verdict": "violated", "count": 1}],
    "unexpected": [{"name": "lost-write", "count": 1, "findings": [1]}],
    "findings": [LOST, {**LOST, "id": 2, "anomaly": "duplicate", "sentence": "as expected"}],
}
GREEN = {"verdict": "valid", "expectation_met": True}


def a_run(number: int, test: str, verdict: object = GREEN, campaign: str = "nightly", day: int = 20) -> Path:
    directory = Path(f"results/{campaign}/202611{day}T{number:06}Z-run{number:02}")
    directory.mkdir(parents=True)
    plan = {"run": f"run{number:02}", "campaign": campaign, "test": test, "created": f"2026-11-{day}T00:00:{number:02}+00:00"}
    (directory / "plan.json").write_text(json.dumps({**plan, "round": f"202611{day}T000000Z"}))
    if verdict:
        (directory / "verdict.json").write_text(json.dumps(verdict))
    return directory


@pytest.fixture
def call(tmp_path, monkeypatch, capsys):
    """Calls `fencepost list`; returns its exit code, standard output and standard error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FENCEPOST_RESULTS", raising=False)

    def listed(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as left:
            main.main(["list", *arguments])
        output = capsys.readouterr()
        return int(left.value.code or 0), output.out, output.err

    return listed


@pytest.fixture
def runs(call):
    """Six runs of four tests, in two campaigns, over three days. Two are red, one is not judged."""
    a_run(1, "steady")
    a_run(2, "torn[kafka=3.9.1]", day=21)
    a_run(3, "torn[kafka=4.4.0]", RED, day=21)
    a_run(4, "steady", campaign="other", day=22)
    a_run(5, "tornado", RED, day=22)
    a_run(6, "steady", None, day=22)
    return call


def ids(out: str) -> list[str]:
    return [line.split()[0] for line in out.splitlines()[1:] if ":" not in line.split()[0]]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((), "1 2 3 4 5 6"),
        (("--red",), "3 5 6"),
        (("--test", "torn"), "2 3"),
        (("--test", "torn[kafka=4.4.0]"), "3"),
        (("--test", "torn", "--test", "tornado"), "2 3 5"),
        (("--campaign", "other"), "4"),
        (("--since", "2026-11-21"), "2 3 4 5 6"),
        (("--since", "2026-11-22T00:00:05"), "5 6"),
        (("--anomaly", "lost-write"), "3 5"),
        (("--anomaly", "lost-write", "--anomaly", "duplicate"), "3 5"),
        (("--red", "--test", "torn", "--since", "2026-11-01", "--campaign", "nightly", "--anomaly", "lost-write"), "3"),
    ],
)
def test_options_choose_runs_and_the_newest_is_last(runs, options, expected):
    code, out, err = runs(*options)
    assert (code, ids(out), err) == (0, [f"run{int(number):02}" for number in expected.split()], "")
    assert [run["id"] for run in json.loads(runs(*options, "--json")[1])] == ids(out)


@pytest.mark.parametrize("options", [("--anomaly", "duplicate"), ("--since", "2026-12-01"), ("--campaign", "none")])
def test_that_no_run_is_asked_for_is_no_mistake(runs, options):
    code, out, _ = runs(*options)
    assert (code, out) == (0, "none of the 6 runs below results matches the options\n")
    assert json.loads(runs(*options, "--json")[1]) == []


def test_a_test_that_no_run_has_is_named_with_those_there_are(runs):
    code, _, err = runs("--test", "stedy", "--campaign", "nigtly")
    assert code == 0
    assert 'unknown test "stedy"; did you mean "steady"?' in err
    assert 'unknown campaign "nigtly"; did you mean "nightly"?' in err


def test_a_row_has_anomalies_and_path(runs):
    line = next(line for line in runs()[1].splitlines() if line.startswith("run03"))
    assert line.endswith("lost-write  results/nightly/20261121T000003Z-run03")
    assert "invalid, against expectation" in line


def test_among_forty_runs_the_red_one_shows_its_cause(call):
    for number in range(1, 40):
        a_run(number, "steady", day=20 + number % 3)
    a_run(40, "steady", RED, day=23)
    _, out, _ = call("--red")
    assert ids(out) == ["run40"]
    assert "run40: lost-write, fingerprint " in out
    assert ", new: Nobody read t-0@3." in out
    assert "as expected" not in out.splitlines()[-1]


def test_a_red_run_without_findings_shows_its_reason(call):
    a_run(1, "steady", {"verdict": "unknown", "reason": "nothing was compared"})
    a_run(2, "torn", {"verdict": "valid", "expectation_met": False, "expectation": "not found: torn-transaction"})
    a_run(3, "steady", None)
    assert call("--red")[1].splitlines()[-3:] == [
        "run01: nothing was compared",
        "run02: not found: torn-transaction",
        "run03: not judged",
    ]


def test_json_has_findings_with_their_fingerprints_and_standing(runs):
    red = next(run for run in json.loads(runs("--json")[1]) if run["id"] == "run05")
    assert (red["round"], red["red"], red["anomalies"]) == ("20261122T000000Z", True, ["lost-write"])
    [lost, _] = red["findings"]
    assert (lost["count"], lost["sentence"], lost["standing"], lost["seen"], lost["rounds"]) == (
        1,
        LOST["sentence"],
        "known",
        2,
        2,
    )
    assert len(lost["fingerprint"]) == 12
    assert red["directory"] == "results/nightly/20261122T000005Z-run05"


def test_a_run_with_known_findings_alone_is_not_red(call):
    known = {"unexpected_known": True, "met_without_unexpected": True, "known": "lost-write: KIP-98"}
    a_run(1, "steady", {**RED, **known})
    assert "invalid, as expected but for known findings" in call()[1]
    assert call("--red")[1] == "none of the 1 run below results matches the options\n"


def test_a_damaged_plan_and_a_damaged_index_are_sentences_and_the_others_are_listed(runs):
    (a_run(7, "steady") / "plan.json").write_text("{")
    Path("results", index.NAME).write_text("no database")
    code, out, err = runs()
    assert (code, len(ids(out))) == (0, 6)
    assert "run07: plan.json could not be read" in err
    assert f"results/{index.NAME}: is not used" in err
    assert "is not used" not in runs()[2]


# --------------------------------------------------------------------------------------------------
# Times
# --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("7d", "2026-11-18T12:00:00+00:00"),
        ("12h", "2026-11-25T00:00:00+00:00"),
        ("1.5d", "2026-11-24T00:00:00+00:00"),
        ("2w", "2026-11-11T12:00:00+00:00"),
        ("999999w", "0001-01-01T00:00:00+00:00"),
        ("2026-11-20", "2026-11-20T00:00:00+00:00"),
        ("2026-11-20T19:00", "2026-11-20T19:00:00+00:00"),
        ("2026-11-20T19:00:00+02:00", "2026-11-20T19:00:00+02:00"),
        ("20261120T190000Z", "2026-11-20T19:00:00+00:00"),
    ],
)
def test_a_time_is_a_day_a_moment_or_so_long_ago(text, moment):
    assert since_time(text, NOON) == datetime.fromisoformat(moment)


@pytest.mark.parametrize("text", ["yesterday", "7", "7x", "-3d", "", "2026-13-01", "d"])
def test_what_is_no_time_is_a_mistake_with_a_remedy(text, call):
    with pytest.raises(CampaignError, match="no time; write 2026-11-20, 2026-11-20T19:00, or 12h, 7d, 2w ago"):
        since_time(text)


def test_a_mistaken_time_is_254(call):
    code, _, err = call("--since", "yesterday")
    assert code == 254
    assert '--since "yesterday": no time' in err


def test_a_run_without_a_readable_time_has_that_of_its_directory():
    assert planned_at(RunRow(place="c/20261120T190000Z-abc", run="abc", created="soon")).hour == 19
    assert planned_at(RunRow(place="c/abc", run="abc")).year == 1


# --------------------------------------------------------------------------------------------------
# Completion
# --------------------------------------------------------------------------------------------------
class Context:
    params: dict[str, object] = {}


@pytest.mark.parametrize(
    ("column", "begun", "words"),
    [
        ("test", "t", ["torn[kafka=3.9.1]", "torn[kafka=4.4.0]", "tornado"]),
        ("campaign", "", ["nightly", "other"]),
        ("anomalies", "", ["lost-write"]),
        ("anomalies", "x", []),
    ],
)
def test_names_of_the_runs_are_completed(runs, column, begun, words):
    assert completions.of_runs(column)(Context(), begun) == words  # type: ignore[arg-type]


# --------------------------------------------------------------------------------------------------
# Nights
# --------------------------------------------------------------------------------------------------
def found(*anomalies: str) -> dict[str, object]:
    findings = [{**LOST, "id": number, "anomaly": name, "sentence": f"{name}!"} for number, name in enumerate(anomalies, 1)]
    return {**RED, "findings": findings, "unexpected": [{"name": name, "count": 1} for name in anomalies]}


def test_over_five_nights_a_new_bug_an_old_one_and_one_that_is_gone_are_told_apart(call):
    nights = [found("duplicate", "phantom"), found("duplicate"), GREEN, found("duplicate"), found("duplicate", "lost-write")]
    for number, verdict in enumerate(nights, 1):
        a_run(number, "steady", verdict, day=19 + number)
    assert [line.partition(", fingerprint ")[0] for line in call("--red", "--since", "2026-11-24")[1].splitlines()[2:]] == [
        "run05: duplicate",
        "run05: lost-write",
    ]
    runs = {run["id"]: run for run in json.loads(call("--json")[1])}
    standings = {finding["anomaly"]: finding["standing"] for run in runs.values() for finding in run["findings"]}
    assert standings == {"duplicate": "known", "phantom": "gone", "lost-write": "new"}
    duplicate = runs["run05"]["findings"][0]
    assert (duplicate["seen"], duplicate["rounds"], duplicate["since"]) == (4, 5, "2026-11-20")
    assert "known (on 4 of 5 rounds, since 2026-11-20): duplicate!" in call("--red")[1]
    assert "gone (on 1 of 5 rounds, since 2026-11-20; last seen 2026-11-20): phantom!" in call("--red")[1]
