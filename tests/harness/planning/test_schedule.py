"""The schedule: a pure function of the choices, the length and the seed."""

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.harness.api import CampaignError
from fencepost.harness.api.plans import FaultChoice, Lane
from fencepost.harness.planning.schedule import draw, lanes

PAUSE = FaultChoice(kind="pause", options={"target": "leader"}, every_s=(3.0, 6.0), lasts_s=(2.0, 4.0))
KILL = FaultChoice(kind="kill", every_s=(10.0, 20.0), lasts_s=(1.0, 1.0))
CUT = FaultChoice(kind="cut-clients", every_s=(0.5, 1.5), lasts_s=(2.0, 5.0), lane="network")

# (id, at_s, lasts_s, kind, lane, seed) of [PAUSE, KILL, CUT], 20 seconds, seed 7: plans of old runs must stay replayable
GOLDEN = [
    (0, 0.879, 4.179, "cut-clients", "network", 3585434325524417),
    (1, 6.125, 4.751, "cut-clients", "network", 6061804484411688),
    (2, 11.888, 4.94, "cut-clients", "network", 131748789625642),
    (3, 16.131, 1.0, "kill", "main", 1304662117895759),
    (4, 17.647, 2.353, "cut-clients", "network", 238175142184724),
]


def test_the_same_seed_gives_the_same_schedule_on_every_machine():
    drawn = [
        (fault.id, fault.at_s, fault.lasts_s, fault.kind, fault.lane, fault.seed) for fault in draw([PAUSE, KILL, CUT], 20, 7)
    ]
    assert drawn == GOLDEN


def test_another_seed_gives_another_schedule():
    assert [fault.at_s for fault in draw([PAUSE], 60, 1)] != [fault.at_s for fault in draw([PAUSE], 60, 2)]


def test_a_lane_begins_with_a_pause_and_its_faults_never_overlap():
    drawn = draw([PAUSE], 600, 3)
    assert 3.0 <= drawn[0].at_s <= 6.0
    for before, after in itertools.pairwise(drawn):
        assert 3.0 - 0.001 <= after.at_s - (before.at_s + before.lasts_s) <= 6.0 + 0.001


def test_lanes_are_independent_timelines():
    """A lane's faults do not depend on there being another lane."""
    alone = [(fault.at_s, fault.lasts_s, fault.seed) for fault in draw([CUT], 60, 7)]
    together = [(fault.at_s, fault.lasts_s, fault.seed) for fault in draw([PAUSE, CUT, KILL], 60, 7) if fault.lane == "network"]
    assert together == alone


def test_a_longer_run_begins_like_the_shorter_one():
    shorter, longer = draw([PAUSE], 60, 7), draw([PAUSE], 120, 7)
    assert longer[: len(shorter) - 1] == shorter[:-1]


def test_the_faults_of_a_lane_are_drawn_at_random_each_with_its_own_lengths():
    drawn = draw([PAUSE, KILL], 3600, 7)
    counts = {kind: sum(fault.kind == kind for fault in drawn) for kind in ("pause", "kill")}
    assert min(counts.values()) > sum(counts.values()) * 0.4
    assert {fault.lasts_s for fault in drawn if fault.kind == "kill"} == {1.0}
    assert all(fault.options == {"target": "leader"} for fault in drawn if fault.kind == "pause")


def test_no_fault_starts_in_the_last_second_or_outlasts_the_end():
    drawn = [draw([FaultChoice(kind="pause", every_s=(1.0, 1.0), lasts_s=(1.0, 9.0))], 10, seed)[-1] for seed in range(100)]
    assert max(fault.at_s for fault in drawn) <= 9.0
    assert max(fault.at_s + fault.lasts_s for fault in drawn) == pytest.approx(10.0)


def test_ids_count_in_the_order_of_time():
    drawn = draw([CUT, PAUSE], 120, 7)
    assert [fault.id for fault in drawn] == list(range(len(drawn)))
    assert [fault.at_s for fault in drawn] == sorted(fault.at_s for fault in drawn)
    assert lanes([CUT, PAUSE, KILL]) == ["network", "main"]


def test_every_injection_has_a_seed_of_its_own_that_fits_a_double():
    seeds = [fault.seed for fault in draw([CUT, PAUSE], 600, 7)]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < 2**53 for seed in seeds)


def test_without_faults_or_time_the_schedule_is_empty():
    assert draw([], 60, 7) == []
    assert draw([PAUSE], 3, 7) == []


def test_all_wrong_ranges_are_reported():
    bad = [
        FaultChoice(kind="kill", every_s=(6.0, 3.0), lasts_s=(-1.0, 2.0)),
        FaultChoice(kind="pause", every_s=(0.0, 0.0), lasts_s=(0.0, 0.0)),
    ]
    with pytest.raises(CampaignError) as caught:
        draw(bad, 60, 7)
    assert caught.value.mistakes == [
        "nemesis[0].every_s: [6, 3] must hold the smaller number first",
        "nemesis[0].lasts_s: [-1, 2] begins before 0",
        "nemesis[1]: every_s and lasts_s together may fall below 0.1 s; a fault takes longer than that",
    ]


spans = st.tuples(st.floats(0.1, 30), st.floats(0, 30)).map(lambda pair: (pair[0], pair[0] + pair[1]))
choices = st.builds(FaultChoice, kind=st.sampled_from("ab"), every_s=spans, lasts_s=spans, lane=st.sampled_from("xyz"))


@given(st.lists(choices, max_size=5), st.floats(0, 300), st.integers())
def test_every_schedule_fits_the_run(nemeses, time_s, seed):
    drawn = draw(nemeses, time_s, seed)
    assert drawn == draw(nemeses, time_s, seed)
    assert all(0 < fault.at_s <= time_s - 1 and fault.at_s + fault.lasts_s <= time_s + 0.001 for fault in drawn)
    for lane in lanes(nemeses):
        mine = [fault for fault in drawn if fault.lane == lane]
        assert all(a.at_s + a.lasts_s <= b.at_s + 0.001 for a, b in itertools.pairwise(mine))


def test_a_lane_in_turn_repeats_its_faults_in_their_order():
    drawn = draw([PAUSE, KILL], 600, 7, {"main": Lane(order="in turn")})
    kinds = [fault.kind for fault in drawn]
    assert kinds == [kind for _, kind in zip(kinds, itertools.cycle(["pause", "kill"]), strict=False)]
    assert len(kinds) > 10


def test_faults_together_start_at_one_moment_and_last_for_their_own_times():
    both = [replace(PAUSE, together="storm"), replace(KILL, together="storm")]
    drawn = draw(both, 300, 7)
    pairs = list(zip(drawn[::2], drawn[1::2], strict=True))
    assert len(pairs) > 10
    for pause, kill in pairs:
        assert (pause.kind, kill.kind, pause.at_s) == ("pause", "kill", kill.at_s)
        assert pause.seed != kill.seed
    for (pause, kill), (after, _) in itertools.pairwise(pairs):
        end = max(pause.at_s + pause.lasts_s, kill.at_s + kill.lasts_s)
        assert 3.0 - 0.001 <= after.at_s - end <= 6.0 + 0.001


def test_other_faults_of_a_lane_come_between_those_together():
    drawn = draw([replace(PAUSE, together="a"), KILL, replace(PAUSE, kind="graceful-stop", together="a")], 3600, 7)
    groups = itertools.groupby(drawn, key=lambda fault: fault.at_s)
    moments = {at_s: tuple(fault.kind for fault in group) for at_s, group in groups}
    assert set(moments.values()) == {("pause", "graceful-stop"), ("kill",)}


QUIET = {"main": Lane(busy_s=(20.0, 30.0), quiet_s=(40.0, 50.0))}


def test_quiet_periods_come_between_busy_ones():
    """A pause of the lane is 6 s at most, so whatever is longer is a quiet period with the pauses around it."""
    drawn = draw([PAUSE], 3600, 7, QUIET)
    gaps = [after.at_s - before.at_s - before.lasts_s for before, after in itertools.pairwise(drawn)]
    quiet = [gap for gap in gaps if gap > 6.001]
    assert len(quiet) > 30
    assert all(40.0 <= gap <= 62.001 for gap in quiet)
    assert len(gaps) - len(quiet) > 2 * len(quiet)


def test_a_longer_run_with_quiet_periods_begins_like_the_shorter_one():
    shorter, longer = draw([PAUSE], 300, 7, QUIET), draw([PAUSE], 600, 7, QUIET)
    assert longer[: len(shorter) - 1] == shorter[:-1]


def test_a_fault_with_a_pause_longer_than_the_busy_period_is_still_scheduled():
    assert len(draw([KILL], 3600, 7, {"main": Lane(busy_s=(1.0, 1.0), quiet_s=(1.0, 1.0))})) > 50


@pytest.mark.parametrize(
    ("lane", "mistake"),
    [
        (Lane(order="backwards"), 'lanes.main.order: must be .*, not "backwards"'),
        (Lane(busy_s=(1.0, 2.0)), "lanes.main: busy_s and quiet_s go together"),
        (Lane(busy_s=(2.0, 1.0), quiet_s=(1.0, 1.0)), r"lanes.main.busy_s: must be \[lowest, highest\]"),
        (Lane(busy_s=(1.0, 1.0), quiet_s=(0.0, 1.0)), "lanes.main.quiet_s: .* above 0"),
    ],
)
def test_wrong_settings_of_a_lane_are_reported(lane, mistake):
    with pytest.raises(CampaignError, match=mistake):
        draw([PAUSE], 60, 7, {"main": lane})
