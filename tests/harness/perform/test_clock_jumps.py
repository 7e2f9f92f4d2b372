"""Jumps of the machine's clock, and of hosts'."""

from fencepost.harness.api.clocks_ahead import ClockJump, clock_error_s, clocks_ahead, jumps_text
from fencepost.harness.perform.clock_jumps import ClockJumps
from fencepost.harness.system.wall_clock import WallClock

S = 1_000_000_000


class Clocks:
    """Both clocks of a machine, in ns; and what was told."""

    def __init__(self):
        self.monotonic, self.ahead, self.told, self.hosts = 5 * S, 1_700_000_000 * S, [], {"n1": [], "n2": []}
        clock = WallClock(lambda: self.monotonic + self.ahead, lambda: self.monotonic)
        self.jumps = ClockJumps.of(self, lambda jumps: self.told.append(list(jumps)))
        self.jumps.clock = clock

    def clock_jumps(self):
        return self.hosts

    def look(self, moved_s=0.0, after_s=2.0):
        self.monotonic += round(after_s * S)
        self.ahead += round(moved_s * S)
        self.jumps.look()


def test_a_clock_that_runs_or_is_slewed_has_not_jumped():
    clocks = Clocks()
    for moved_s in (0.0, 0.001, -0.2, 0.0):
        clocks.look(moved_s)
    clocks.look(after_s=600.0)
    assert clocks.told == []


def test_each_jump_is_told_once_with_its_time_and_direction():
    clocks = Clocks()
    clocks.look(1800.0)
    clocks.look()
    clocks.look(-9000.0)
    first, second = ClockJump(7 * S, 1800.0), ClockJump(11 * S, -9000.0)
    assert clocks.told == [[first], [first, second]]
    assert jumps_text(clocks.jumps.jumps) == "the machine's clock jumped by +1800 s, -9000 s"


def test_jumps_of_hosts_are_told_once_each_and_named():
    clocks = Clocks()
    clocks.hosts["n2"].append(7200.0)
    clocks.look()
    clocks.hosts["n1"] += [-3.0, 3.0]
    clocks.look(1800.0)
    clocks.look()
    assert clocks.told[0] == [ClockJump(7 * S, 7200.0, "n2")]
    assert clocks.told[1:] == [
        [*clocks.told[0], *(ClockJump(9 * S, by_s, "n1" if by_s != 1800.0 else "") for by_s in (1800.0, -3.0, 3.0))]
    ]
    assert jumps_text(clocks.jumps.jumps) == (
        "the machine's clock jumped by +1800 s; n1's clock jumped by -3 s, +3 s; n2's clock jumped by +7200 s"
    )


def test_one_jump_of_a_machine_with_several_nodes_is_one_error_of_its_clock():
    assert clock_error_s([], [ClockJump(S, 30.0, node) for node in ("", "n1", "n2")]) == 30.0


def test_clocks_that_jump_apart_are_wrong_by_both_jumps():
    assert clock_error_s([], [ClockJump(S, 30.0, "n1"), ClockJump(S, -20.0, "n2")]) == 50.0


def test_a_clock_that_a_fault_sets_ahead_and_one_that_is_set_behind_are_wrong_by_both():
    faults = [{"evidence": {"by_s": by_s}} for by_s in (60.0, -40.0, 30.0)]
    assert [clock_error_s(faults[:1]), clock_error_s(faults[1:2]), clock_error_s(faults)] == [60.0, 40.0, 100.0]


def test_brokers_wait_for_what_a_clock_had_stamped_before_it_jumped_back():
    jumps = [ClockJump(7 * S, 30.0), ClockJump(11 * S, -90.0)]
    assert [clock.over_ns for clock in clocks_ahead([], jumps)] == [7 * S, 101 * S]
    assert clock_error_s([{"evidence": {"by_s": -20}}], jumps) == 140.0
