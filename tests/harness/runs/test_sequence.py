"""One run after another, and what all of them come to."""

from __future__ import annotations

import errno
import signal

import pytest
from support.fake_engine import FakeEngine

from fencepost.harness.api import CampaignError, HarnessError
from fencepost.harness.api.errors import Exit, NotBegun, UnwritableFile, lack_of_machine
from fencepost.harness.api.plans import Test
from fencepost.harness.campaign.campaign import PlannedRun
from fencepost.harness.cli import jobs
from fencepost.harness.runs import runner
from fencepost.harness.runs.sequence import RunResult, RunSequence, by_test, exit_code


def perform(tmp_path, *tests, events=None):
    """Perform tests given as (name, expectation, ...), each as often as it has expectations; the results and the engine."""
    seen = events if events is not None else []
    engine = FakeEngine(results=tmp_path, on_event=lambda event: sequence.on_event(event))
    sequence = RunSequence(engine, seen.append, lambda: None, clock=lambda: 0.0)
    plan = [
        PlannedRun(Test(name=name, expect=(expect,), repeat=times), seed, "fencepost ...")
        for name, expect, times in tests
        for seed in range(times)
    ]
    return sequence.run_all(plan), engine


def code(tmp_path, *tests):
    return exit_code(perform(tmp_path, *tests)[0])


def test_exit_code_is_0_when_all_is_as_expected_a_live_bug_included(tmp_path):
    assert code(tmp_path, ("valid", "valid", 1), ("torn", "torn-letter", 1)) is Exit.VALID


def test_exit_code_is_1_for_an_unexpected_anomaly(tmp_path):
    assert code(tmp_path, ("valid", "valid", 1), ("torn", "valid", 1)) is Exit.INVALID


def test_exit_code_is_1_when_the_expected_anomaly_is_not_found(tmp_path):
    assert code(tmp_path, ("valid", "torn-letter", 1)) is Exit.INVALID


def test_exit_code_is_1_for_another_anomaly_than_the_expected_one(tmp_path):
    assert code(tmp_path, ("lost", "torn-letter", 1)) is Exit.INVALID


def test_exit_code_is_2_when_a_run_could_not_be_judged(tmp_path):
    assert code(tmp_path, ("valid", "valid", 1), ("unknown", "valid", 1)) is Exit.UNKNOWN
    assert code(tmp_path, ("unknown", "torn-letter", 1)) is Exit.UNKNOWN


def test_exit_code_is_1_where_each_run_says_met_and_one_found_what_nobody_expected():
    """A verdict that contradicts itself is no success."""
    document = {"verdict": "invalid", "expectation_met": True, "unexpected": [{"name": "lost", "count": 1, "findings": [1]}]}
    results = [RunResult(planned=PlannedRun(Test(name="t", expect=("torn",)), 1, ""), verdict=document)]
    assert exit_code(results) is Exit.INVALID


def test_exit_code_of_several_runs_is_that_of_the_gravest(tmp_path):
    assert code(tmp_path, ("unknown", "valid", 1), ("torn", "valid", 1)) is Exit.INVALID
    assert code(tmp_path, ("torn", "valid", 1), ("broken", "valid", 1)) is Exit.UNUSABLE
    assert code(tmp_path, ("torn", "valid", 1), ("broken", "valid", 1), ("bug", "valid", 1)) is Exit.HARNESS_BROKE


def test_a_repeated_test_that_must_be_valid_must_be_so_every_time(tmp_path):
    assert code(tmp_path, ("valid+valid+torn", "valid", 3)) is Exit.INVALID
    assert code(tmp_path, ("valid", "valid", 3)) is Exit.VALID


def test_a_repeated_test_that_must_show_a_bug_must_show_it_once_and_no_other(tmp_path):
    assert code(tmp_path, ("valid+torn+valid", "torn-letter", 3)) is Exit.VALID
    assert code(tmp_path, ("valid", "torn-letter", 3)) is Exit.INVALID
    assert code(tmp_path, ("valid+torn+lost", "torn-letter", 3)) is Exit.INVALID


def test_a_repeat_that_shows_a_part_of_what_is_expected_is_not_unexpected():
    """Of two expected anomalies one run found one; the other run both, or both and a third that is not expected."""

    def result(met, *violated, unexpected=()):
        properties = [{"name": name, "verdict": "violated", "count": 1} for name in violated]
        named = [{"name": name, "count": 1, "findings": [1]} for name in unexpected]
        document = {"verdict": "invalid", "expectation_met": met, "properties": properties, "unexpected": named}
        return RunResult(planned=PlannedRun(Test(name="two", expect=("early", "late alone")), 1, ""), verdict=document)

    part, whole = result(False, "early"), result(True, "early", "late")
    more = result(False, "early", "late", "other", unexpected=["other"])
    assert exit_code([part, whole]) is Exit.VALID
    assert exit_code([part, part]) is Exit.INVALID
    assert exit_code([whole, more]) is Exit.INVALID
    assert (part.unexpected, more.unexpected) == ([], ["other"])


def test_a_run_whose_expectation_is_undecided_is_unknown():
    """Also when what was expected was found."""

    def result(name, verdict, met, expect="early", unexpected=()):
        named = [{"name": anomaly, "count": 1, "findings": [1]} for anomaly in unexpected]
        document = {"verdict": verdict, "expectation_met": met, "properties": [], "unexpected": named}
        return RunResult(planned=PlannedRun(Test(name=name, expect=(expect,)), 1, ""), verdict=document)

    undecided, met, unmet = result("a", "invalid", None), result("b", "invalid", True), result("c", "valid", False)
    assert [repeat.undecided for repeat in (undecided, met, unmet)] == [True, False, False]
    assert exit_code([undecided, met]) is Exit.UNKNOWN
    assert exit_code([undecided, unmet]) is Exit.INVALID
    assert exit_code([undecided, result("a", "invalid", True)]) is Exit.VALID, "one test, repeated: shown once is enough"
    absent = result("a", "valid", False)
    assert exit_code([undecided, absent]) is Exit.UNKNOWN, "the undecided one may have shown it"
    assert exit_code([undecided, absent, result("a", "invalid", False, unexpected=["other"])]) is Exit.INVALID
    valid = [result("a", *one, expect="valid") for one in (("unknown", None), ("invalid", False))]
    assert exit_code(valid[:1]) is Exit.UNKNOWN
    assert exit_code(valid) is Exit.INVALID, "one violation is enough"


def test_a_run_that_was_not_performed_may_have_shown_what_its_test_expects():
    def result(met, unexpected=(), expect="early"):
        named = [{"name": anomaly, "count": 1, "findings": [1]} for anomaly in unexpected]
        document = {"verdict": "invalid", "expectation_met": met, "properties": [], "unexpected": named}
        return RunResult(planned=PlannedRun(Test(name="a", expect=(expect,)), 1, ""), verdict=document)

    assert exit_code([result(False)]) is Exit.INVALID
    assert exit_code([result(False)], {"a"}) is Exit.UNKNOWN
    assert exit_code([result(False)], {"b"}) is Exit.INVALID
    assert exit_code([result(True)], {"a"}) is Exit.UNKNOWN, "another run may show what is not expected"
    assert exit_code([result(False, ["other"])], {"a"}) is Exit.INVALID
    assert exit_code([result(False, expect="valid")], {"a"}) is Exit.INVALID


def test_a_cluster_that_does_not_start_costs_its_own_run_only(tmp_path):
    results, engine = perform(tmp_path, ("broken", "valid", 1), ("valid", "valid", 1))
    assert [result.error for result in results] == ["n2 did not answer within 60 s; start it again", ""]
    assert [step[0] for step in engine.log if isinstance(step, tuple)] == ["prepare", "prepare", "judge"]


def test_a_bug_of_ours_costs_its_own_run_only_and_shows_its_traceback(tmp_path):
    events = []
    results, _ = perform(tmp_path, ("bug", "valid", 1), ("valid", "valid", 1), events=events)
    assert [result.error for result in results] == ["KeyError: 'oops'", ""]
    assert any("Traceback" in event.get("text", "") for event in events)


def test_spark_starts_beside_the_workload_and_only_once(tmp_path):
    _, engine = perform(tmp_path, ("valid", "valid", 2))
    assert engine.log[:3] == [("prepare", "valid", 0), "perform", "start_spark"]
    assert engine.log.count("start_spark") == 1


def test_a_run_that_was_stopped_is_judged_and_the_rest_is_left(tmp_path):
    engine = FakeEngine(results=tmp_path, on_event=lambda event: None)
    engine.request_stop("Ctrl-C")
    sequence = RunSequence(engine, lambda event: None, lambda: None)
    plan = [PlannedRun(Test(name=name), 1, "") for name in ("endless", "valid")]
    [result] = sequence.run_all(plan)
    assert result.verdict["verdict"] == "valid"


def test_a_run_that_was_stopped_before_its_workload_began_is_none(tmp_path):
    class Starting(FakeEngine):
        def perform(self, run_dir):
            (run_dir / "logs").mkdir()
            (run_dir / "logs" / "n1.log").write_text("starting")
            raise NotBegun("stopped before the workload began")

    events = []
    sequence = RunSequence(Starting(results=tmp_path, on_event=print), events.append, lambda: None)
    results = sequence.run_all([PlannedRun(Test(name="valid"), seed, "") for seed in (1, 2)])
    assert (results, exit_code(results), sequence.stopping) == ([], Exit.UNKNOWN, True), "whoever asked: no other run begins"
    assert list(tmp_path.iterdir()) == []
    assert events[-1]["text"] == "stopped before the workload began"


def test_a_hang_up_that_is_ignored_stays_ignored(tmp_path):
    """`nohup fencepost campaign ... &` goes on when its terminal is closed."""
    sequence = RunSequence(FakeEngine(results=tmp_path, on_event=print), lambda _: None, lambda: None)
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        for block in (sequence.interruptible(), jobs._signals_for([])):
            with block:
                assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
                assert callable(signal.getsignal(signal.SIGTERM))
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_mistake_that_shows_only_when_a_run_begins_costs_that_run_only(tmp_path):
    class Refusing(FakeEngine):
        def prepare(self, test, *, seed, command, round=""):
            if seed == 2:
                raise CampaignError(["no such thing"])
            return super().prepare(test, seed=seed, command=command, round=round)

    sequence = RunSequence(Refusing(results=tmp_path, on_event=print), lambda _: None, lambda: None)
    results = sequence.run_all([PlannedRun(Test(name="valid"), seed, "") for seed in (1, 2, 3)])
    assert [result.error for result in results] == ["", "no such thing", ""]
    assert exit_code(results) is Exit.UNUSABLE


def test_a_run_of_which_nothing_was_performed_leaves_no_directory(tmp_path):
    results, _ = perform(tmp_path, ("absent", "valid", 1))
    assert [(result.error, result.run_dir, result.exit) for result in results] == [
        ("no Java 17 or newer found", None, Exit.UNUSABLE)
    ]
    assert list(tmp_path.iterdir()) == []


def test_what_a_broken_run_has_recorded_stays(tmp_path):
    results, _ = perform(tmp_path, ("broken", "valid", 1))
    assert (results[0].run_dir / "logs" / "n2" / "server.log").exists()


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device", "/run/history/c0-0.jsonl"),
        OSError(errno.EMFILE, "Too many open files"),
        BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable"),
        RuntimeError("can't start new thread"),
        MemoryError(),
    ],
)
def test_what_the_machine_lacks_is_a_sentence_and_no_bug(tmp_path, error):
    class Lacking(FakeEngine):
        def perform(self, run_dir):
            raise error

    events = []
    sequence = RunSequence(Lacking(results=tmp_path, on_event=events.append), events.append, lambda: None)
    [result] = sequence.run_all([PlannedRun(Test(name="valid"), 1, "")])
    assert (result.error, result.exit, result.run_dir) == (lack_of_machine(error), Exit.UNUSABLE, None)
    assert not any("Traceback" in event.get("text", "") for event in events)


def test_every_error_of_the_performer_that_is_no_bug_keeps_its_exit_code():
    """The performer says the kind of its error; what it does not say so is taken for a bug of ours."""
    kinds = [CampaignError, *HarnessError.__subclasses__(), UnwritableFile]
    unusable = {kind.__name__ for kind in kinds if kind.exit is Exit.UNUSABLE}
    assert {name for name, broken in runner._BROKEN.items() if broken.exit is Exit.UNUSABLE} == unusable


def test_a_full_disk_is_named_beside_an_error_that_does_not_say_so(tmp_path, monkeypatch):
    assert runner._full_disk(tmp_path) == ""
    monkeypatch.setattr(runner, "_LITTLE", 1 << 62)
    assert f"the disk of {tmp_path} is full" in runner._full_disk(tmp_path)
    assert runner._full_disk(tmp_path / "gone") == ""


def test_the_runs_of_a_test_belong_together_wherever_they_stand():
    """A round that went on has the runs of a test in several places."""
    results = [RunResult(planned=PlannedRun(Test(name=name), 1, "")) for name in ("a", "b", "a")]
    assert [[run.planned.test.name for run in runs] for runs in by_test(results)] == [["a", "a"], ["b"]]
