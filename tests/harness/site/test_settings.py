"""The settings of runs, flattened and bounded."""

from __future__ import annotations

from support.many_runs import write_run

from fencepost.harness.site import settings
from fencepost.harness.site.settings import MOST_SETTINGS, flattened, profiles, settings_of


def test_settings_are_the_leaves_of_the_plan_and_what_differs_in_each_run_is_no_difference(tmp_path):
    plan = {"run": "k3f9x2", "created": "now", "client": {"producer": {"transactional.id": "fp-k3f9x2-c1", "acks": "all"}}}
    shown = dict(flattened(plan))
    assert shown["client / producer / acks"] == "all"
    assert shown["client / producer / transactional.id"] == "fp-RUN-c1"
    assert "run" not in shown
    assert "created" not in shown
    assert dict(settings_of(write_run(tmp_path, "c", "20261125T190000Z-abcdef")))["cluster / description / kafka"] == "4.4.0"


def test_planned_faults_are_counted_by_kind_and_options():
    schedule = [
        {"kind": "kill", "options": {"target": "leader"}},
        {"kind": "kill", "options": {"target": "leader"}},
        {"kind": "pause"},
    ]
    assert dict(flattened({"schedule": schedule}))["planned faults"] == "3: 2 kill target=leader, 1 pause"


def test_odd_and_huge_plans_are_bounded(tmp_path):
    """A plan from elsewhere may hold anything."""
    assert len(flattened({"x": {str(number): "y" * 10_000 for number in range(5_000)}})) == MOST_SETTINGS
    assert all(len(value) <= 300 for _, value in flattened({"x": {"y": "z" * 10_000}, "k" * 900: 1}))
    assert flattened({"cluster": [], "schedule": "no list", "run": 7})
    directory = write_run(tmp_path, "c", "20261125T190000Z-abcdef")
    for text in ("[]", "{", "[" * 100_000, ""):
        (directory / "plan.json").write_text(text)
        assert settings_of(directory) is None


def test_lists_that_are_alike_are_there_once_and_unreadable_ones_are_marked(monkeypatch):
    one, other = (("a", "1"), ("b", "2")), (("a", "1"), ("b", "3"))
    packed = profiles([one, other, one, None])
    assert packed["of"] == [0, 1, 0, -1]
    assert packed["lists"] == [[0, 0, 1, 1], [0, 0, 1, 2]]
    assert (packed["names"], packed["values"]) == (["a", "b"], ["1", "2", "3"])
    monkeypatch.setattr(settings, "MOST_SIZE", 7)
    assert profiles([one, other, one])["of"] == [0, -2, 0]
