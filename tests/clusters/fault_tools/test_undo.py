"""What could not be undone is not forgotten: it is told, and the next attempt removes it. Rules here lie in a dictionary."""

from __future__ import annotations

import itertools
import sys

import pytest

from clusters.fault_tools.delay_process import DelayProcess
from clusters.fault_tools.link_table import LinkTable
from clusters.ssh.remote.host_rules import Rules
from clusters.ssh.remote.root_programs import ProgramError
from harness.api import ClusterError, Interrupted

THERE, BACK, ASIDE = ("n1", "n2"), ("n2", "n1"), ("n3", "n2")
PAIRS = [THERE, BACK, ASIDE]


class Kernel(LinkTable):
    """Rules and slownesses of every node; `failing` are the removals that fail, each once, with what they raise."""

    probe = measure = missing_capabilities = None

    def __init__(self, *failing):
        super().__init__()
        self.rules, self.slow_ones, self.failing, self._handles = {}, {}, list(failing), itertools.count(1)
        self.packets = 7

    def _add_rule(self, source, destination, share=1.0):
        handle = next(self._handles)
        self.rules[handle] = (source, destination)
        return handle

    def _refuse(self, pair):
        for failing in self.failing:
            if failing[0] == pair:
                self.failing.remove(failing)
                raise failing[1]

    def _delete_rule(self, keeper, handle):
        self._refuse(self.rules[handle])
        del self.rules[handle]

    def _counters(self, keeper):
        self._refuse(keeper)
        return dict.fromkeys(self.rules, (9, self.packets))

    def _delay_at(self, source, destination, number, **how):
        self.slow_ones[source, destination, number] = how

    def _undelay_at(self, source, destination, number):
        self._refuse((source, destination))
        del self.slow_ones[source, destination, number]
        return 9, 7


BUSY = ClusterError("nft: resource busy")


@pytest.mark.parametrize("trouble", [BUSY, OSError("nft: resource busy")])
def test_a_rule_that_was_not_removed_goes_with_the_next_attempt_and_the_others_go_at_once(trouble):
    for again in (lambda kernel: kernel.undrop(PAIRS), Kernel.undrop_all):
        kernel = Kernel((THERE, trouble))
        kernel.drop(PAIRS)
        with pytest.raises(ClusterError, match=r"^nft: resource busy$"):
            kernel.undrop(PAIRS)
        assert list(kernel.rules.values()) == [THERE]
        assert kernel.dropped_packets(PAIRS) == dict.fromkeys(PAIRS, 7)
        again(kernel)
        assert (kernel.rules, kernel.dropped_packets(PAIRS)) == ({}, dict.fromkeys(PAIRS, 7))


def test_a_node_that_cannot_count_keeps_nobody_else_cut_off():
    kernel = Kernel(("n2", BUSY))
    kernel.drop(PAIRS)
    with pytest.raises(ClusterError):
        kernel.undrop_all()
    assert sorted(kernel.rules.values()) == [THERE, ASIDE]
    kernel.undrop_all()
    assert kernel.rules == {}


def test_a_rule_that_stayed_does_not_count_for_the_next_fault():
    """It dropped for an earlier one; whoever drops the pair again begins at zero, with a rule of its own."""
    kernel = Kernel((THERE, BUSY))
    kernel.drop([THERE])
    with pytest.raises(ClusterError):
        kernel.undrop([THERE])
    kernel.drop([THERE])
    assert kernel.rules == {2: THERE}


def test_loss_and_delay_that_did_not_end_end_next_time_and_tell_what_all_pairs_counted():
    for begin, end in (("lose", "unlose"), ("slow", "unslow")):
        kernel = Kernel((THERE, BUSY))
        number = getattr(kernel, begin)(PAIRS, 0.5)
        with pytest.raises(ClusterError, match="resource busy"):
            getattr(kernel, end)(number)
        kernel.packets = 8
        assert getattr(kernel, end)(number)[BACK] == (9, 7)
        assert (kernel.rules, kernel.slow_ones, getattr(kernel, end)(number)) == ({}, {}, {})


def test_healing_everything_goes_on_after_what_stays_and_the_next_healing_ends_that():
    kernel = Kernel((THERE, BUSY), (BACK, BUSY), (ASIDE, BUSY))
    kernel.slow([THERE, BACK], delay_ms=9)
    kernel.lose([BACK, ASIDE], 0.5)
    kernel.drop([ASIDE, ("n3", "n1")])
    with pytest.raises(ClusterError):
        kernel.undrop_all()
    assert len(kernel.slow_ones) + len(kernel.rules) == 3
    kernel.undrop_all()
    assert (kernel.slow_ones, kernel.rules) == ({}, {})


def test_the_end_of_the_harness_is_no_trouble_with_a_rule():
    kernel = Kernel((THERE, Interrupted("the harness is gone")))
    kernel.drop(PAIRS)
    with pytest.raises(Interrupted):
        kernel.undrop_all()


PROGRAM = """
import json, sys
print("{}", flush=True)
for line in sys.stdin:
    print(json.dumps({"seen": 9, "dropped": 1, "told": line}), flush=True)
"""


class Held(DelayProcess):
    """A program that answers everything; `stays` is how many times its rule cannot be made or removed."""

    def __init__(self):
        super().__init__([sys.executable, "-c", PROGRAM])
        self.brought, self.stays, self.asked = set(), 0, []

    def _ask(self, **request):
        self.asked.append(request["do"])
        return super()._ask(**request)

    def _try(self):
        if self.stays:
            self.stays -= 1
            raise BUSY

    def _queue_packets(self, address):
        self._try()
        self.brought.add(address)

    def _unqueue_packets(self, address):
        self._try()
        self.brought.remove(address)


@pytest.fixture
def held():
    made = Held()
    yield made
    made.close()


def test_packets_are_spared_by_the_next_attempt_and_only_once(held):
    held.slow(1, "a", delay_ms=9)
    held.stays = 1
    with pytest.raises(ClusterError):
        held.unslow(1, "a")
    assert held.brought == {"a"}
    assert (held.unslow(1, "a"), held.brought, held.unslow(1, "a")) == ((9, 1), set(), (0, 0))


def test_what_could_not_be_slowed_slows_nothing_later(held):
    """The program forgets it too, or the next slowness of this address would wait for both."""
    held.stays = 1
    with pytest.raises(ClusterError):
        held.slow(1, "a", delay_ms=900)
    assert held.asked == ["slow", "unslow"]


class Table:
    """A table of rules in the place of nft; the calls named in `failing` fail, each once."""

    def __init__(self):
        self.rules, self.failing, self.calls = {"in": [], "out": []}, [], 0

    def _call(self):
        self.calls += 1
        if self.calls in self.failing:
            raise ProgramError("nft: resource busy")

    def add(self, rule):
        self._call()
        self.rules[rule["way"]].append(rule)

    def delete(self, way, index):
        self._call()
        del self.rules[way][index]


RULES = [{"way": "in", "do": "count"}, {"way": "in", "do": "drop"}, {"way": "out", "do": "drop"}]


def test_rules_on_a_host_that_were_not_removed_go_with_the_next_attempt():
    table = Table()
    rules = Rules(table)
    rules.add("1", RULES)
    table.failing = [5]
    with pytest.raises(ProgramError):
        rules.remove("1")
    rules.remove("1")
    assert table.rules == {"in": [], "out": []}


def test_rules_on_a_host_that_are_there_in_part_are_made_anew():
    """The third could not be made, nor the first two be taken back: the first cause is told."""
    table = Table()
    rules = Rules(table)
    table.failing = [3, 4]
    with pytest.raises(ProgramError):
        rules.add("1", RULES)
    assert len(table.rules["in"]) == 2
    rules.add("1", RULES)
    rules.add("1", RULES)
    assert table.rules == {"in": RULES[:2], "out": RULES[2:]}
