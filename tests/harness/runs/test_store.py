"""The places of runs, and the search for them."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import pytest

from fencepost.harness.api import CampaignError
from fencepost.harness.api.evidence import Manifest
from fencepost.harness.api.plans import Test
from fencepost.harness.history.run_directory import write_manifest
from fencepost.harness.runs import store
from fencepost.harness.system import liveness

NOON = datetime(2026, 11, 21, 12, 0, tzinfo=timezone.utc)


def a_run(root, run_id, campaign="nightly", created="2026-11-21T12:00:00Z", verdict=None):
    directory = root / campaign / f"20261121T120000Z-{run_id}"
    directory.mkdir(parents=True)
    plan = {"run": run_id, "campaign": campaign, "test": "steady", "created": created}
    (directory / "plan.json").write_text(json.dumps(plan))
    if verdict:
        (directory / "verdict.json").write_text(json.dumps(verdict))
    return directory


def test_a_run_directory_is_named_by_campaign_time_and_id(tmp_path):
    assert store.new_run_dir(tmp_path, "nightly", "k3f9x2", NOON) == tmp_path / "nightly" / "20261121T120000Z-k3f9x2"
    assert store.new_run_dir(tmp_path, Test(name="alone"), "k3f9x3", NOON).parent.name == "alone"
    assert store.new_run_dir(tmp_path, Test(name="a", campaign="c"), "k3f9x4", NOON).is_dir()


def test_a_name_with_slashes_and_brackets_stays_one_directory_below_the_root(tmp_path):
    directory = store.new_run_dir(tmp_path, "../steady[acks=1]/..", "k3f9x2", NOON)
    assert directory.parent.parent == tmp_path
    assert directory.parent.name == "steady-acks-1"


def test_two_runs_of_one_id_at_one_time_never_share_a_directory(tmp_path):
    store.new_run_dir(tmp_path, "nightly", "k3f9x2", NOON)
    with pytest.raises(FileExistsError):
        store.new_run_dir(tmp_path, "nightly", "k3f9x2", NOON)


def test_results_go_to_the_given_folder_else_where_the_environment_says(monkeypatch):
    monkeypatch.setenv("FENCEPOST_RESULTS", "/somewhere")
    assert store.results_root(Path("here")) == Path("here")
    assert store.results_root() == Path("/somewhere")
    monkeypatch.delenv("FENCEPOST_RESULTS")
    assert store.results_root() == Path("results")


def test_runs_are_listed_oldest_first_judged_or_not(tmp_path):
    a_run(tmp_path, "bbbbbb", created="2026-11-21T13:00:00Z")
    a_run(tmp_path, "aaaaaa", verdict={"verdict": "valid", "expectation_met": True})
    assert [(run.id, run.verdict) for run in store.list_runs(tmp_path)] == [
        ("aaaaaa", {"verdict": "valid", "expectation_met": True}),
        ("bbbbbb", {}),
    ]


def test_a_directory_without_a_readable_plan_is_no_run(tmp_path):
    a_run(tmp_path, "aaaaaa")
    (a_run(tmp_path, "cccccc") / "plan.json").write_text("{")
    (tmp_path / "nightly" / "notes").mkdir()
    assert [run.id for run in store.list_runs(tmp_path)] == ["aaaaaa"]


def test_a_run_is_found_by_path_id_beginning_or_as_the_latest(tmp_path):
    first = a_run(tmp_path, "k3f9x2")
    last = a_run(tmp_path, "m22222", created="2026-11-22T00:00:00Z")
    assert store.find(tmp_path, str(first)).directory == first
    assert store.find(tmp_path, "k3f9x2").directory == first
    assert store.find(tmp_path, "k3").directory == first
    assert store.find(tmp_path, "latest").directory == last


def test_a_run_that_is_still_performed_is_not_the_latest_and_is_refused_by_its_id(tmp_path):
    """Its history has not been concluded, which would be taken for damage."""
    ended = a_run(tmp_path, "k3f9x2")
    going_on = a_run(tmp_path, "m22222", created="2026-11-22T00:00:00Z")
    with liveness.hold(going_on):
        assert store.find(tmp_path, "latest").directory == ended
        for text in ("m22222", str(going_on)):
            with pytest.raises(CampaignError, match='run "m22222" is still being performed or judged'):
                store.find(tmp_path, text)
        manifest = Manifest(run="m22222", slots=1, complete=False, files=())
        write_manifest(going_on, manifest)  # as from the start of a run
        assert store.find(tmp_path, "latest").directory == ended
        write_manifest(going_on, replace(manifest, complete=True))
        assert store.find(tmp_path, "latest").directory == going_on
        (going_on / "manifest.json").unlink()
        (going_on / "history.parquet").touch()  # an adopted history has this alone
        assert store.find(tmp_path, "latest").directory == going_on
        (going_on / "history.parquet").unlink()
    assert store.find(tmp_path, "latest").directory == going_on  # killed: nobody performs it


def test_an_ambiguous_or_unknown_run_is_refused_with_the_runs_there_are(tmp_path):
    a_run(tmp_path, "k3f9x2")
    a_run(tmp_path, "k3f9x3")
    with pytest.raises(CampaignError, match='"k3" may mean 2 runs: k3f9x2, k3f9x3'):
        store.find(tmp_path, "k3")
    with pytest.raises(CampaignError, match='unknown run "k3f9x9"; did you mean "k3f9x'):
        store.find(tmp_path, "k3f9x9")


@pytest.mark.parametrize("text", ["", " "])
def test_no_name_means_no_run(tmp_path, text):
    """A variable of a shell that is not set: the only run there is begins so."""
    a_run(tmp_path, "k3f9x2")
    with pytest.raises(CampaignError, match="the run has no name"):
        store.find(tmp_path, text)


def test_latest_misspelt_is_suggested(tmp_path):
    a_run(tmp_path, "k3f9x2")
    with pytest.raises(CampaignError, match='unknown run "lastest"; did you mean "latest"'):
        store.find(tmp_path, "lastest")


def test_a_path_that_is_no_run_is_refused_as_a_path(tmp_path):
    a_run(tmp_path, "k3f9x2")
    with pytest.raises(CampaignError, match=r'"results/nobody": there is no such file or directory; a run is named by'):
        store.find(tmp_path, "results/nobody")
    with pytest.raises(CampaignError, match="is no run's directory"):
        store.find(tmp_path, str(tmp_path))


@pytest.mark.parametrize("text", ["cccccc", "cccc", "20261121"])
def test_a_run_whose_plan_is_damaged_is_named_with_the_reason_however_it_is_selected(tmp_path, text):
    a_run(tmp_path, "aaaaaa").rename(tmp_path / "nightly" / "whole-aaaaaa")
    damaged = a_run(tmp_path, "cccccc")
    (damaged / "plan.json").write_text("{")
    with pytest.raises(CampaignError, match=rf"{damaged.name}: plan\.json could not be read"):
        store.find(tmp_path, text)


def test_an_id_that_begins_another_is_still_itself(tmp_path):
    whole = a_run(tmp_path, "k3")
    a_run(tmp_path, "k3f9x3")
    assert store.find(tmp_path, "k3").directory == whole


def test_no_run_is_found_below_a_root_without_runs(tmp_path):
    with pytest.raises(CampaignError, match="there are no runs below"):
        store.find(tmp_path / "nowhere", "latest")
