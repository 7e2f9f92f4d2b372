"""Producers beside a slot's own: opened late, numbered like processes of the slot, recorded by the worker."""

from __future__ import annotations

import threading

import pytest

from fencepost.harness.api import CallError, Outcome, PlannedOperation
from fencepost.harness.perform.rivals import OpenedLate, SlotRivals
from fencepost.harness.perform.worker import Slot
from fencepost.workloads.testing import FakeClient, error

INITIALISE = PlannedOperation(f="initialise", mops=())


def test_the_first_initialise_opens_the_client_and_the_next_ones_do_not():
    client = FakeClient()
    late = OpenedLate(client)
    late.initialise(1.0)
    late.initialise(1.0)
    late.begin()
    assert client.calls == ["open", "initialise", "begin"]


def test_a_client_that_does_not_open_is_opened_by_the_next_initialise():
    client = FakeClient({"open": [error("open")]})
    late = OpenedLate(client)
    with pytest.raises(CallError):
        late.initialise(1.0)
    late.initialise(1.0)
    assert [call for call in client.calls if call in ("open", "initialise")] == ["open", "open"]


def test_a_client_that_cannot_be_initialised_anew_is_opened_again():
    """A driver that died, for example."""
    client = FakeClient({"initialise": [error("initialise", fatal=True)]})
    late = OpenedLate(client)
    late.initialise(1.0)
    with pytest.raises(CallError):
        late.initialise(1.0)
    late.initialise(1.0)
    assert [call for call in client.calls if call in ("open", "initialise")] == ["open", "initialise", "open"]


def test_there_is_one_rival_for_a_suffix_with_a_process_and_operations_of_its_own():
    slot, performed, begun, threads = Slot(index=1, slots=4, process=1), [], [], set()
    made = []

    def begin(suffix):
        begun.append(suffix)
        return slot.further()

    def perform(op, client):
        performed.append((op.process, op.number))
        threads.add(threading.current_thread())
        return Outcome.OK

    rivals = SlotRivals(lambda suffix, settings: made.append((suffix, dict(settings))) or FakeClient(), begin, perform)
    for suffix, settings in (("", {}), ("", {}), ("-other", {"acks": "1"})):
        rivals(suffix, settings).perform(INITIALISE)
    assert made == [("", {}), ("-other", {"acks": "1"})]
    assert (begun, performed) == (["", "-other"], [(5, 0), (5, 1), (9, 0)])
    assert (len(threads), threading.current_thread() in threads) == (2, False), "drivers die with the thread that started them"


def test_a_slot_goes_on_behind_the_numbers_of_its_rivals():
    slot = Slot(index=1, slots=4, process=1)
    assert (slot.further(), slot.process) == (5, 1)
    assert (slot.renew(), slot.process) == (9, 9)
