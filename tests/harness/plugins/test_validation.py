"""Every kind of plug-in is looked at when it is loaded, and every breach says what to change."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest

from fencepost.harness.api import PlannedOperation, Reader, Role, TopicSpec, Writer
from fencepost.harness.plugins import registry
from fencepost.harness.plugins.validation import breaches, flaws, guess
from fencepost.workloads.transactions import Transactions

KINDS = [(group, name) for group in ("nemesis", "workload", "checker", "cluster", "client") for name in registry.names(group)]
SEND = PlannedOperation(f="send", mops=(("send", "t-0"),))


@pytest.mark.parametrize(("group", "name"), KINDS)
def test_every_built_in_plug_in_has_the_interface_of_its_kind(group, name):
    plug_in = registry.load(group, name)
    assert breaches(group, plug_in) == []
    assert guess(plug_in) == group


def test_the_workloads_that_come_with_fencepost_have_no_flaws():
    needed = {"application": {"command": "true"}, "stages": {"commands": ("true", "true")}}
    built_in = {name: registry.load("workload", name) for name in registry.names("workload")}
    assert not any(flaws("workload", workload(**needed.get(name, {}))) for name, workload in built_in.items())
    assert not flaws("workload", built_in["pipeline"](observers=1))


@dataclass(frozen=True, kw_only=True)
class Steady:
    """A sound workload, for damaging."""

    def topics(self):
        return {"t": TopicSpec(partitions=2)}

    def roles(self):
        return (Writer(),)

    def producer_settings(self):
        return {}

    def operations(self, role, partitions, rng):
        while True:
            yield PlannedOperation(f="send", mops=(("send", rng.choice(partitions)),))

    def perform(self, op, client, run):
        raise NotImplementedError


def damaged(**methods):
    """`Steady` with some methods replaced by functions of the same arguments, or by what they return."""
    made = {name: part if callable(part) else lambda *_, part=part: part for name, part in methods.items()}
    return type("Damaged", (Steady,), made)()


def test_a_sound_workload_has_no_breaches_and_no_flaws():
    assert breaches("workload", Steady) == []
    assert flaws("workload", Steady()) == []


class Scribe(Role):
    """A kind of role of which the harness knows nothing."""

    name = "scribe"


def endless(*planned):
    def operations(self, role, partitions, rng):
        while True:
            yield from planned

    return operations


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        ({"topics": {}}, "topics() must return at least one topic"),
        ({"topics": {"t": TopicSpec(partitions=0)}}, "t needs at least one partition"),
        ({"roles": [Writer()]}, "roles() must return a tuple of roles"),
        ({"roles": (Reader(),)}, "at least one role must be a writer"),
        ({"roles": (Writer(), Scribe())}, "Scribe is no kind of role; there are Writer, Member, Reader"),
        (
            {"roles": (Writer(), Reader(isolation="read_comitted"))},
            "Reader.isolation must be Isolation.COMMITTED, Isolation.UNCOMMITTED, not 'read_comitted'",
        ),
        ({"roles": (Writer(transactional="yes"),)}, "Writer.transactional must be of type bool, not 'yes'"),
        ({"producer_settings": None}, "producer_settings() must return a mapping"),
        ({"operations": [SEND] * 100}, "must be a generator (yield one PlannedOperation after the other), but returned list"),
        ({"operations": lambda *_: iter([SEND] * 3)}, "must never end, but ended after 3"),
        ({"operations": endless("send")}, "must yield PlannedOperation(f=..., mops=...), not 'send'"),
        ({"operations": endless(PlannedOperation(f="sned", mops=()))}, 'plans f = "sned"; the history knows'),
        ({"operations": endless(PlannedOperation(f="send", mops=(("send", "u-0"),)))}, "plans ('send', 'u-0')"),
        ({"operations": endless(PlannedOperation(f="txn", mops=()))}, "plans a transaction with intent = None"),
        (
            {"operations": endless(PlannedOperation(f="txn", mops=(), intent="commit"))},
            "say so in its role: Writer(transactional=True)",
        ),
        ({"roles": lambda _: 1 / 0}, "roles() raised ZeroDivisionError: division by zero; it must answer without a cluster"),
    ],
)
def test_a_flaw_of_a_workload_says_what_to_change(damage, sentence):
    texts = flaws("workload", damaged(**damage))
    assert any(sentence in text for text in texts), texts


def test_a_workload_that_draws_from_elsewhere_than_its_rng_is_found():
    def operations(self, role, partitions, rng):
        while True:
            yield PlannedOperation(f="send", mops=(("send", random.choice(partitions)),))

    (text,) = flaws("workload", damaged(operations=operations))
    assert text.endswith("must do the same again from the same seed: draw every choice from `rng`, and from nothing else")


def test_a_reader_that_writes_is_found():
    roles = (Writer(), Reader())
    (text,) = flaws("workload", damaged(roles=roles))
    assert 'plans f = "send" for a reader, which has no producer' in text


def test_a_class_says_what_it_lacks_and_which_parameters_are_wrong():
    class Odd(Transactions):
        def perform(self, op, client):
            raise NotImplementedError

    class Empty:
        """Nothing."""

    assert breaches("workload", Odd) == ["Odd.perform must take (self, op, client, run), not (self, op, client)"]
    frozen, lacks = breaches("workload", Empty)
    assert "Empty must be decorated with @dataclass(frozen=True, kw_only=True)" in frozen
    assert lacks.startswith("Empty is no workload: it lacks topics, roles, producer_settings, operations, perform")
    assert "lacks sandbox, missing, describe, up" in breaches("cluster", Empty)[1]
    version, capabilities = breaches("client", Empty)
    assert capabilities.startswith("Empty.capabilities must be a frozenset of names among transactions, ")
    sends = type("Sends", (), {"version": "1", "capabilities": frozenset({"transactions"})})
    (lacks,) = breaches("client", sends)
    assert "Empty.version must be a text" in version
    assert "lacks open, begin, send, flush, commit, abort, poll, ends, close (" in lacks


def test_a_function_is_no_workload():
    assert breaches("workload", len) == ["len is not a class; a workload is one (fencepost.harness.api.Workload)"]


def test_what_looks_like_nothing_is_of_no_kind():
    assert guess(len) == guess(dict) == ""
    assert breaches("import path", dict) == []
