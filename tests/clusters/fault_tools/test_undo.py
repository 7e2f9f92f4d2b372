"""An undo that fails raises, and the next attempt repeats it. The rules here are entries of a dictionary."""

from __future__ import annotations

import itertools
import sys

import pytest

from fencepost.clusters.fault_tools.delay_process import DelayProcess
from fencepost.clusters.fault_tools.link_table import LinkTable
from fencepost.clusters.ssh.remote.host_rules import Rules
from fencepost.clusters.ssh.remote.root_programs import ProgramError
from fencepost.harness.api import ClusterError
from fencepost.harness.api.errors import Interrupted

THERE, BACK, ASIDE = ("n1", "n2"), ("n2", "n1"), ("n3", "n2")
PAIRS = [THERE, BACK, ASIDE]


class Kernel(LinkTable):
    """Rules and delays of every node; `failing` are the deletions that fail, each once, with what they raise."""

    probe = measure = missing_capabilities = None

    def __init__(self, *failing):
        super().__init__()
        self.rules, self.delays, self.failing, self._handles = {}, {}, list(failing), itertools.count(1)
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
        self.delays[source, destination, number] = how

    def _undelay_at(self, source, destination, number):
        self._refuse((source, destination))
        del self.delays[source, destination, number]
        return 9, 7


BUSY = ClusterError("nft: resource busy")


@pytest.mark.parametrize("trouble", [BUSY, OSError("nft: resource busy")])
def test_after_a_failed_deletion_the_other_rules_are_deleted_and_the_next_undrop_tries_again(trouble):
    for again in (lambda kernel: kernel.undrop(PAIRS), Kernel.undrop_all):
        kernel = Kernel((THERE, trouble))
        kernel.drop(PAIRS)
        with pytest.raises(ClusterError, match=r"^nft: resource busy$"):
            kernel.undrop(PAIRS)
        assert list(kernel.rules.values()) == [THERE]
        assert kernel.dropped_packets(PAIRS) == dict.fromkeys(PAIRS, 7)
        again(kernel)
        assert (kernel.rules, kernel.dropped_packets(PAIRS)) == ({}, dict.fromkeys(PAIRS, 7))


def test_a_node_without_counters_does_not_keep_other_nodes_dropped():
    kernel = Kernel(("n2", BUSY))
    kernel.drop(PAIRS)
    with pytest.raises(ClusterError):
        kernel.undrop_all()
    assert sorted(kernel.rules.values()) == [THERE, ASIDE]
    kernel.undrop_all()
    assert kernel.rules == {}


def test_a_rule_that_was_not_deleted_is_replaced_by_the_next_drop():
    """It counted for an earlier fault; the new rule counts from zero."""
    kernel = Kernel((THERE, BUSY))
    kernel.drop([THERE])
    with pytest.raises(ClusterError):
        kernel.undrop([THERE])
    kernel.drop([THERE])
    assert kernel.rules == {2: THERE}


def test_a_loss_or_delay_that_did_not_end_ends_with_the_next_call_with_the_counts_of_all_pairs():
    for begin, end in (("lose", "unlose"), ("slow", "unslow")):
        kernel = Kernel((THERE, BUSY))
        number = getattr(kernel, begin)(PAIRS, 0.5)
        with pytest.raises(ClusterError, match="resource busy"):
            getattr(kernel, end)(number)
        kernel.packets = 8
        assert getattr(kernel, end)(number)[BACK] == (9, 7)
        assert (kernel.rules, kernel.delays, getattr(kernel, end)(number)) == ({}, {}, {})


def test_healing_goes_on_after_a_failure_and_the_next_healing_ends_the_rest():
    kernel = Kernel((THERE, BUSY), (BACK, BUSY), (ASIDE, BUSY))
    kernel.slow([THERE, BACK], delay_ms=9)
    kernel.lose([BACK, ASIDE], 0.5)
    kernel.drop([ASIDE, ("n3", "n1")])
    with pytest.raises(ClusterError):
        kernel.undrop_all()
    assert len(kernel.delays) + len(kernel.rules) == 3
    kernel.undrop_all()
    assert (kernel.delays, kernel.rules) == ({}, {})


def test_an_interrupt_is_raised_and_not_collected_as_a_failure():
    kernel = Kernel((THERE, Interrupted("the harness is gone")))
    kernel.drop(PAIRS)
    with pytest.raises(Interrupted):
        kernel.undrop_all()


PROGRAM = """
import json, sys
print("{}", flush=True)
for line in sys.stdin:
    print(json.dumps({"seen": 9, "dropped": 1, "request": line}), flush=True)
"""


class ScriptedDelays(DelayProcess):
    """A program that answers every request; `failures` is how many times its rule cannot be made or deleted."""

    def __init__(self):
        super().__init__([sys.executable, "-c", PROGRAM])
        self.queued, self.failures, self.requests = set(), 0, []

    def _ask(self, **request):
        self.requests.append(request["do"])
        return super()._ask(**request)

    def _try(self):
        if self.failures:
            self.failures -= 1
            raise BUSY

    def _queue_packets(self, address):
        self._try()
        self.queued.add(address)

    def _unqueue_packets(self, address):
        self._try()
        self.queued.remove(address)


@pytest.fixture
def delays():
    made = ScriptedDelays()
    yield made
    made.close()


def test_after_a_failed_rule_deletion_the_next_unslow_deletes_the_rule_once(delays):
    delays.slow(1, "a", delay_ms=9)
    delays.failures = 1
    with pytest.raises(ClusterError):
        delays.unslow(1, "a")
    assert delays.queued == {"a"}
    assert (delays.unslow(1, "a"), delays.queued, delays.unslow(1, "a")) == ((9, 1), set(), (0, 0))


def test_a_delay_whose_rule_failed_is_removed_from_the_program(delays):
    """Else the next delay of this address would add to it."""
    delays.failures = 1
    with pytest.raises(ClusterError):
        delays.slow(1, "a", delay_ms=900)
    assert delays.requests == ["slow", "unslow"]


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


def test_host_rules_that_were_not_removed_are_removed_by_the_next_attempt():
    table = Table()
    rules = Rules(table)
    rules.add("1", RULES)
    table.failing = [5]
    with pytest.raises(ProgramError):
        rules.remove("1")
    rules.remove("1")
    assert table.rules == {"in": [], "out": []}


def test_host_rules_that_are_there_in_part_are_made_again():
    """The third rule failed, and so did the removal of the first two: the first error is raised."""
    table = Table()
    rules = Rules(table)
    table.failing = [3, 4]
    with pytest.raises(ProgramError):
        rules.add("1", RULES)
    assert len(table.rules["in"]) == 2
    rules.add("1", RULES)
    rules.add("1", RULES)
    assert table.rules == {"in": RULES[:2], "out": RULES[2:]}
