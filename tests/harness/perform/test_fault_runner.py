"""The host: strikes as planned, a receipt for everything, and nothing hurt left behind."""

import json
import threading
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest
from support.fault_schedule import FREE, KINDS, T0, S, Stage, known, planned

from fencepost.harness.api import CampaignError, ClusterError, Killable, Partitionable, Receipt, Skewable
from fencepost.harness.api.plans import Budget, FaultChoice
from fencepost.harness.perform.fault_runner import FaultRunner, in_words, plain, wait_until
from fencepost.harness.planning.schedule import draw
from fencepost.nemesis.testing import FakeClock, FakeCluster


def fault(inject=None, heal=None, needs_=()):
    """A stranger's fault made of two functions."""

    @dataclass(frozen=True)
    class Strange:
        needs: ClassVar[tuple[type, ...]] = needs_

        def inject(self, cluster, rng):
            return inject(cluster, rng) if inject else Receipt(effective=True)

        def heal(self, cluster, receipt):
            return heal(cluster, receipt) if heal else receipt

    return lambda injection: Strange()


def raises(error):
    def call(*_):
        raise error

    return call


def test_a_fault_is_written_when_it_strikes_and_again_when_it_is_healed():
    lines = Stage(planned(0, 3.0, target="leader:t-1")).play()
    first, second = lines
    assert (first["id"], first["kind"], first["role"], first["targets"]) == (0, "pause", "leader:t-1", ["n2"])
    assert (first["planned_ns"], first["injected_ns"], first["healed_ns"]) == (T0 + 3 * S, T0 + 3 * S, 0)
    assert second["healed_ns"] == T0 + 7 * S
    assert (second["effective"], second["evidence"], second["healing"]) == (
        True,
        {"before": {"n2": "S"}, "during": {"n2": "T"}, "pids": {"n2": 4002}},
        {"after": {"n2": "S"}, "pids": {"n2": 4002}},
    )


def test_ten_minutes_of_every_kind_leave_the_cluster_whole():
    nemeses = [FaultChoice(kind=kind, lane=kind[0]) for kind in KINDS]
    stage = Stage(*draw(nemeses, 600, 7))
    stage.play()
    assert len(stage.last()) > 150
    assert all(line["healed_ns"] for line in stage.last().values())
    assert stage.runner.stop() == []
    assert stage.cluster.whole()


def test_a_late_lane_keeps_its_pauses():
    """Healing the first takes ten seconds. The pauses of one and of twenty seconds that were planned are made all the same."""
    stage = Stage(planned(0, 1.0, "kill"), planned(1, 6.0, "pause"), planned(2, 30.0, "pause"))
    start = stage.cluster.start

    def slow_start(node):
        stage.clock.now_ns += 10 * S
        start(node)

    stage.cluster.start = slow_start
    stage.play()
    late, last = stage.last()[1], stage.last()[2]
    assert (late["planned_ns"], late["injected_ns"], late["healed_ns"]) == (T0 + 6 * S, T0 + 16 * S, T0 + 20 * S)
    assert last["injected_ns"] == T0 + 40 * S


def test_lanes_run_side_by_side():
    stage = Stage(planned(0, 1.0, target="broker:n1"), planned(1, 2.0, lane="other", target="broker:n2"), budget=FREE)
    stage.play(until_s=3)
    assert stage.runner.active() == ["pause n1 (broker:n1)", "pause n2 (broker:n2)"]
    stage.play()
    assert stage.runner.active() == []


def test_stop_heals_what_is_hurt_and_injects_nothing_more():
    stage = Stage(planned(0, 1.0, lasts_s=50.0), planned(1, 60.0))
    stage.play(until_s=5)
    assert not stage.cluster.whole()
    assert stage.runner.stop() == []
    assert stage.cluster.whole()
    assert list(stage.last()) == [0]
    assert stage.last()[0]["healed_ns"] == T0 + 5 * S


@pytest.mark.parametrize(("until_s", "since"), [(0.5, T0), (4, None), (6, None), (None, T0 + 11 * S)])
def test_it_is_quiet_from_the_last_healing_on_and_not_before(until_s, since):
    other = planned(1, 2.0, lane="other", lasts_s=9.0, target="broker:n2")
    stage = Stage(planned(0, 1.0, target="broker:n1"), other, budget=FREE)
    stage.play(until_s=until_s)
    assert stage.runner.quiet_since() == since


def test_a_second_stop_changes_nothing():
    stage = Stage(planned(0, 1.0, lasts_s=50.0))
    stage.play(until_s=5)
    stage.runner.stop()
    stage.runner.stop()
    assert len(stage.lines) == 2


def test_a_fault_that_its_busy_lane_never_reached_is_listed():
    """Nothing was tried, so there is no receipt; the third one's time had not come."""
    stage = Stage(planned(0, 1.0, lasts_s=50.0), planned(1, 3.0), planned(2, 90.0))
    stage.play(until_s=5)
    stage.runner.stop()
    assert sorted(stage.last()) == [0]
    assert stage.runner.not_reached() == [1]


def test_an_unavailable_fault_has_a_receipt_with_the_reason():
    cluster = FakeCluster()
    cluster.missing = {Partitionable: "user namespaces are forbidden"}
    stage = Stage(planned(0, 1.0, "isolate", target="leader"), planned(1, 2.0, "pause"), cluster=cluster)
    assert stage.runner.unavailable() == {0: "user namespaces are forbidden"}
    stage.play()
    never = stage.last()[0]
    assert (never["effective"], never["role"], never["injected_ns"], never["healed_ns"]) == (False, "leader", 0, 0)
    assert never["planned_ns"] == T0 + S
    assert never["note"] == "unavailable here, because user namespaces are forbidden"
    assert stage.last()[1]["effective"] is True


def test_a_fault_that_raises_is_a_receipt_and_the_run_goes_on():
    stage = Stage(planned(0, 1.0), planned(1, 9.0), make=fault(raises(ZeroDivisionError("oops"))))
    stage.play()
    assert [line["effective"] for line in stage.last().values()] == [False, False]
    assert stage.last()[0]["note"] == "inject failed: ZeroDivisionError: oops"


def test_a_fault_that_hurts_and_then_raises_is_healed_at_once():
    def hurt_then_raise(cluster, rng):
        cluster.pause("n1")
        raise ClusterError("the network went away")

    def heal(cluster, receipt):
        cluster.resume("n1")
        return replace(receipt, healing={"after": cluster.process_state("n1")})

    stage = Stage(planned(0, 1.0), make=fault(hurt_then_raise, heal))
    stage.play(until_s=1.5)
    assert stage.cluster.whole()
    line = stage.last()[0]
    assert (line["effective"], line["note"], line["healing"]) == (False, "inject failed: the network went away", {"after": "S"})


@pytest.mark.parametrize(("own", "by_s"), [({}, -60.0), ({"by_s": -61.0}, -61.0)])
def test_by_how_much_a_clock_was_set_is_in_the_receipt_whatever_the_fault_says(own, by_s):
    def skew(cluster, rng):
        cluster.skew("n1", 5.0)
        cluster.skew("n2", ahead_s=-60.0)
        cluster.skew("n1", 0.0)
        return Receipt(targets=("n2",), evidence=own, effective=True)

    stage = Stage(planned(0, 1.0), make=fault(skew, needs_=(Skewable,)))
    stage.play(until_s=1.5)
    assert stage.last()[0]["evidence"] == {"by_s": by_s}


def test_a_fault_that_sets_a_clock_and_then_raises_says_by_how_much():
    def skew_then_raise(cluster, rng):
        cluster.skew("n1", 60.0)
        raise KeyError("n1")

    stage = Stage(planned(0, 1.0), make=fault(skew_then_raise, needs_=(Skewable,)))
    stage.play(until_s=1.5)
    assert (stage.last()[0]["effective"], stage.last()[0]["evidence"]) == (False, {"by_s": 60.0})


def test_a_heal_that_raises_is_noted_beside_what_was_known():
    stage = Stage(planned(0, 1.0), make=fault(lambda *_: Receipt(effective=True, note="bit"), raises(OSError("no"))))
    stage.play()
    assert (stage.last()[0]["effective"], stage.last()[0]["note"]) == (True, "bit; not healed: heal failed: OSError: no")


def heals_later(*answers):
    """A heal that goes through these answers; an error is raised."""
    left = list(answers)

    def heal(cluster, receipt):
        answer = left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return replace(receipt, healing=answer)

    return heal


FAILURES = [
    (ClusterError("n1 is away"), "heal failed: n1 is away"),
    ({"after": {}, "left": ["n1", "n1>n2"]}, "n1, n1>n2"),
]


@pytest.mark.parametrize(("answer", "text"), FAILURES)
def test_a_fault_that_was_not_healed_stays_active_and_is_healed_again_at_the_end(answer, text):
    """Its receipt says so; the time of its healing is that of the second attempt."""
    stage = Stage(planned(0, 1.0), make=fault(lambda *_: Receipt(effective=True), heals_later(answer, {"after": {}})))
    stage.play(until_s=20)
    line = stage.last()[0]
    assert (line["healed_ns"], line["note"]) == (0, f"not healed: {text}")
    assert stage.runner.active() == ["pause"]
    stage.runner.stop()
    line = stage.last()[0]
    assert (line["healed_ns"], line["note"]) == (T0 + 20 * S, f"not healed at first: {text}")
    assert stage.runner.active() == []


@pytest.mark.parametrize(("answer", "text"), FAILURES)
def test_a_fault_that_nothing_heals_has_no_time_of_healing(answer, text):
    stage = Stage(planned(0, 1.0), make=fault(lambda *_: Receipt(effective=True), heals_later(answer, answer)))
    stage.play()
    stage.runner.stop()
    assert stage.last()[0]["healed_ns"] == 0
    assert stage.last()[0]["note"].endswith(f"not healed: {text}")


def test_the_nodes_of_a_fault_that_was_not_healed_count_as_hurt():
    def hurt(cluster, rng):
        cluster.pause("n1")
        return Receipt(targets=("n1",), effective=True)

    make = {0: fault(hurt, raises(ClusterError("no"))), 1: known}
    schedule = planned(0, 1.0), planned(1, 9.0, "kill", lane="b", target="broker:n2")
    stage = Stage(*schedule, make=lambda injection: make[injection.id](injection))
    stage.play()
    assert "over the test's budget" in stage.last()[1]["note"]


def test_what_another_fault_hurts_meanwhile_is_not_left():
    """n1 is dead again because another fault killed it, not because this one was not healed."""

    def heal(cluster, receipt):
        return replace(receipt, healing={"left": ["n1"]})

    make = {0: fault(lambda *_: Receipt(targets=("n1",), effective=True), heal), 1: known}
    schedule = planned(0, 1.0, lasts_s=4.0), planned(1, 2.0, "kill", lane="b", lasts_s=9.0, target="broker:n1")
    stage = Stage(*schedule, make=lambda injection: make[injection.id](injection))
    stage.play()
    assert (stage.last()[0]["healed_ns"], stage.last()[0]["note"]) == (T0 + 5 * S, "")


def test_a_fault_that_returns_no_receipt_has_a_note_that_says_so():
    stage = Stage(planned(0, 1.0), make=fault(lambda *_: None, lambda *_: True))
    stage.play()
    assert stage.last()[0]["note"] == "inject returned NoneType, not a Receipt; not healed: heal returned bool, not a Receipt"


def test_healing_adds_to_the_receipt_and_loses_nothing():
    """A heal that returns a bare receipt does not wipe out targets and evidence."""
    injected = Receipt(role="leader", targets=("n1",), evidence={"before": 1}, effective=True)
    stage = Stage(planned(0, 1.0), make=fault(lambda *_: injected, lambda *_: Receipt(healing={"after": 2})))
    stage.play()
    line = stage.last()[0]
    assert (line["role"], line["targets"], line["evidence"], line["healing"]) == ("leader", ["n1"], {"before": 1}, {"after": 2})
    assert line["effective"] is True


@pytest.mark.parametrize(
    ("strike", "struck_s"),
    [
        (lambda cluster: cluster.drop([("n1", "n2")]), 2),
        (lambda cluster: cluster.kill("n1"), 2),
        (lambda cluster: cluster.lose([("n1", "n2")], 0.5), 2),
        (lambda cluster: cluster.admin().elect(["t-0"]), 2),
        (lambda cluster: cluster.pid("n1"), 7),
    ],
)
def test_a_fault_has_struck_from_the_first_of_its_calls_that_hurt(strike, struck_s):
    """Not from when inject returns: what happens while it waits would seem to happen without a fault."""
    stages = []

    def inject(cluster, rng):
        stages[0].clock.now_ns += 1 * S
        strike(cluster)
        stages[0].clock.now_ns += 5 * S
        return Receipt(effective=True)

    stages.append(Stage(planned(0, 1.0), make=fault(inject), budget=FREE))
    stages[0].play()
    line = stages[0].last()[0]
    assert (line["injected_ns"] - T0, line["healed_ns"] - T0) == (struck_s * S, 11 * S)


STRUCK_NS, HEALED_NS = 101_000_000_000, 105_000_000_000  # by the clock of the stage


@pytest.mark.parametrize(("injected_ns", "healed_ns", "recorded"), [
    (STRUCK_NS, 103_000_000_000, (STRUCK_NS, 103_000_000_000)),
    (5, 6, (STRUCK_NS, HEALED_NS)),
    (HEALED_NS, 1 << 62, (STRUCK_NS, HEALED_NS)),
    (-1, "soon", (STRUCK_NS, HEALED_NS)),
    (1.5, STRUCK_NS - 1, (STRUCK_NS, HEALED_NS)),
])  # fmt: skip
def test_times_in_a_faults_own_receipt_are_recorded_where_they_are_possible(injected_ns, healed_ns, recorded):
    """A fault whose receipt says otherwise would have others blamed for what it did."""
    inject, heal = (lambda *_: Receipt(injected_ns=injected_ns)), (lambda _, r: replace(r, healed_ns=healed_ns))
    stage = Stage(planned(0, 1.0), make=fault(inject, heal))
    stage.play()
    line = stage.last()[0]
    assert (line["injected_ns"], line["healed_ns"]) == recorded
    assert (f"healed_ns ({healed_ns}) is no moment" in line["note"]) == (healed_ns != recorded[1])


def test_each_injection_draws_from_its_own_seed():
    drawn = []
    make = fault(lambda _, rng: drawn.append(rng.random()) or Receipt())
    Stage(planned(0, 1.0), planned(1, 9.0), make=make).play()
    Stage(planned(1, 1.0), make=make).play()
    assert drawn[0] != drawn[1] == drawn[2]


def test_a_pair_that_two_faults_cut_stays_cut_until_both_are_healed():
    stage = Stage(
        planned(0, 1.0, "isolate", lasts_s=4.0, target="broker:n1"),
        planned(1, 2.0, "isolate", lasts_s=9.0, lane="other", target="broker:n2"),
        budget=FREE,
    )
    stage.play(until_s=6)
    assert stage.cluster.closed() == {("n1", "n2"), ("n2", "n1"), ("n2", "n3"), ("n3", "n2")}
    assert "pairs cut by another fault as well stay cut" in stage.last()[0]["note"]
    assert len(stage.last()[0]["pairs"]) == 4
    stage.play()
    assert stage.cluster.whole()


def test_a_fault_that_mends_links_during_injection_leaves_other_faults_cuts():
    """While n1 is isolated its links flap: none of those that are cut for longer comes up in between."""
    cluster, open_between = FakeCluster(), []
    undrop = cluster.undrop
    cluster.undrop = lambda pairs: (undrop(pairs), open_between.append(cluster.probe([("n1", "n2"), ("n1", "c0")])))
    stage = Stage(
        planned(0, 1.0, "isolate", lasts_s=9.0, target="broker:n1"),
        planned(1, 2.0, "link-flap", lasts_s=1.0, lane="other", target="broker:n1", times=2, down_s=0, up_s=0),
        cluster=cluster,
    )
    stage.play(until_s=5)
    assert [(arrived["n1", "n2"], arrived["n1", "c0"]) for arrived in open_between] == [(False, True)] * 2
    stage.play()
    assert cluster.whole()


def test_every_breach_of_the_interface_is_named_before_anything_starts():
    class Useless:
        needs = (Killable,)

    with pytest.raises(CampaignError) as caught:
        Stage(planned(0, 1.0, "my:Useless"), planned(1, 2.0, "my:Useless"), make=lambda injection: Useless())
    assert caught.value.mistakes == [
        "my:Useless: Useless must be a frozen dataclass: its fields are the options",
        "my:Useless: Useless.inject(self, cluster, rng) is missing",
        "my:Useless: Useless.heal(self, cluster, receipt) is missing",
    ]


def test_a_receipt_that_cannot_be_written_is_reported_and_the_healing_goes_on():
    stage = Stage(planned(0, 1.0))
    stage.write = raises(OSError("disk full"))
    stage.runner = FaultRunner(stage.cluster, [planned(0, 1.0)], known, stage.write, stage.clock)
    stage.play()
    assert stage.runner.stop() == ["the receipt of fault 0 could not be written: disk full"] * 2
    assert stage.runner.unwritten == {0}
    assert stage.cluster.whole()


def test_threads_strike_and_stop_ends_them_at_once():
    """Real threads; the wait lets the first time pass at once and the second only when stopped."""
    cluster, lines, struck = FakeCluster(), [], threading.Event()

    def write(line):
        lines.append(line)
        struck.set()

    def wait(stopped, until_ns):
        return struck.is_set() and stopped.wait()

    runner = FaultRunner(cluster, [planned(0, 1.0, lasts_s=3600.0)], known, write, FakeClock(T0), wait)
    runner.start(T0)
    assert struck.wait(30)
    assert runner.active() == [f"pause {lines[0]['targets'][0]} (random)"]
    assert runner.stop() == []
    assert cluster.whole()
    assert len(lines) == 2


def test_a_lane_whose_fault_hangs_is_given_up_and_reported():
    release, hanging = threading.Event(), threading.Event()

    def hang(cluster, rng):
        hanging.set()
        release.wait()
        return Receipt()

    runner = FaultRunner(FakeCluster(), [planned(0, 0.0)], fault(hang), lambda line: None, wait=lambda stopped, until_ns: False)
    runner.start(T0)
    assert hanging.wait(30)
    assert runner.stop(within_s=0) == ["lane main did not end within 0 s of stopping; a fault hangs in inject or heal"]
    release.set()
    runner.stop()


def test_a_fault_that_was_given_up_hurts_nothing_any_more():
    """It has a receipt at once, which weakens the verdict; when it goes on after all, it is refused, and asked to heal."""
    release, hanging, healed, lines = threading.Event(), threading.Event(), threading.Event(), []

    def late(cluster, rng):
        cluster.pause("n1")
        hanging.set()
        release.wait()
        cluster.resume("n1")
        cluster.kill("n1")
        return Receipt(effective=True)

    def heal(cluster, receipt):
        cluster.resume("n1")
        healed.set()
        return receipt

    cluster = FakeCluster()
    runner = FaultRunner(cluster, [planned(0, 0.0)], fault(late, heal), lines.append, wait=lambda stopped, until_ns: False)
    runner.start(T0)
    assert hanging.wait(30)
    runner.stop(within_s=0)
    assert [(line["effective"], line["note"].partition(":")[0]) for line in lines] == [(False, "given up")]
    release.set()
    assert healed.wait(30)
    runner.stop()
    assert lines[-1]["healed_ns"]
    assert "was given up: it was still injecting" in lines[-1]["note"]
    assert cluster.whole()


def test_waiting_ends_when_the_time_is_over_or_when_stopped():
    stopped = threading.Event()
    assert wait_until(stopped, 0) is False
    stopped.set()
    assert wait_until(stopped, 1 << 62) is True


def test_any_evidence_is_turned_into_plain_json():
    evidence: dict[Any, Any] = {("n1", "n2"): True, 3: {1.5, None}, "path": ClusterError("x")}
    made = plain(evidence)
    assert (made["n1>n2"], set(made["3"]), made["path"]) == (True, {1.5, None}, "x")
    json.dumps(made)


def test_a_receipt_in_words_names_kind_targets_and_role():
    assert in_words(Receipt(kind="pause", targets=("n2",), role="leader:t-1")) == "pause n2 (leader:t-1)"
    assert in_words(Receipt(kind="halves", targets=("n1",))) == "halves n1"


def test_faults_that_strike_together_end_each_in_its_own_time():
    both = planned(0, 1.0, target="broker:n1", lasts_s=9.0), planned(1, 1.0, "kill", lasts_s=2.0, target="broker:n2")
    stage = Stage(*both, budget=FREE)
    stage.play(until_s=2)
    assert [stage.cluster.process_state("n1"), stage.cluster.pid("n2")] == ["T", None]
    stage = Stage(*both, budget=FREE)
    stage.play(until_s=4)
    assert (stage.cluster.process_state("n1"), stage.cluster.awake("n2")) == ("T", True)
    stage = Stage(*both, budget=FREE)
    stage.play()
    assert stage.cluster.whole()
    assert [stage.last()[id_]["healed_ns"] - T0 for id_ in (0, 1)] == [10 * S, 3 * S]


def test_a_pause_of_the_lane_begins_when_the_last_of_them_is_healed():
    stage = Stage(planned(0, 1.0, lasts_s=9.0), planned(1, 1.0, "kill", lasts_s=2.0), planned(2, 13.0), budget=FREE)
    stage.play()
    assert stage.last()[2]["injected_ns"] == T0 + 13 * S


def open_from(stage_time_s):
    """A transaction is open from then on; the clock is looked up in `clocks`, which a stage is put into."""
    clocks = []
    condition = lambda: ["c1"] if clocks[0].clock() >= T0 + stage_time_s * S else []  # noqa: E731
    return clocks, {"transaction-open": condition}


def test_a_strike_waits_for_its_condition_and_records_how_long():
    clocks, conditions = open_from(3)
    stage = Stage(replace(planned(0, 1.0), when="transaction-open"), conditions=conditions)
    clocks.append(stage)
    (line,) = stage.last_after_play()
    assert (line["effective"], line["injected_ns"]) == (True, T0 + 3 * S)
    assert line["evidence"]["when"] == {"condition": "transaction-open", "by": ["c1"], "waited_s": 2.0}
    assert line["healed_ns"] == T0 + 7 * S


def test_a_condition_that_does_not_come_true_leaves_a_receipt_without_effect():
    clocks, conditions = open_from(60)
    stage = Stage(replace(planned(0, 1.0), when="transaction-open"), planned(1, 9.0), conditions=conditions)
    clocks.append(stage)
    stage.play()
    assert stage.last()[0]["note"] == "not injected: no transaction-open within 10 s"
    assert (stage.last()[0]["effective"], stage.last()[1]["effective"]) == (False, True)


def test_an_unknown_condition_is_refused_before_anything_starts():
    with pytest.raises(CampaignError, match='when = "transaction-open": nobody can tell here'):
        Stage(replace(planned(0, 1.0), when="transaction-open"))


def test_a_fault_can_inject_another_one_which_has_a_receipt_of_its_own_and_counts_in_the_budget():
    """What the budget refuses is refused to the other one too; its answer tells the first."""
    answers = []

    def inject(cluster, rng):
        answers.append(cluster.strike_now("kill", {"target": "broker:n2"}, 1.0))
        answers.append(cluster.strike_now("pause", {"target": "broker:n1"}, 0.0))
        return Receipt(effective=True)

    def make(injection):
        return fault(inject)(injection) if injection.id == 0 else known(injection)

    stage = Stage(planned(0, 1.0, "strange"), make=make, budget=Budget(nodes=1))
    stage.play()
    assert answers == [True, False]
    assert {line["kind"]: line["effective"] for line in stage.last().values()} == {"strange": True, "kill": True, "pause": False}
    assert not stage.runner.stop()
    assert stage.cluster.whole()
