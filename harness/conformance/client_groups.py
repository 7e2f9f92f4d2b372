"""The stories of consumer groups with more than one member: rebalances, former members, offsets outside transactions, the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from fencepost.harness.api import CallError, Client, ClientSettings, Isolation, Outgoing, Polled, Rebalance
from fencepost.harness.conformance.client_fixture import (
    CALL_S,
    GROUP_PARTITIONS,
    GROUP_TOPIC,
    READ_S,
    TOPIC,
    TRANSACTIONAL,
    ClientFixture,
    Deliveries,
    Flaw,
    demand,
    fresh_values,
    refusal,
)
from fencepost.harness.conformance.client_repetition import IDEMPOTENT

IN_GROUPS: Mapping[str, tuple[str, tuple[str, ...]]] = {  # story: what must be seen, and the capabilities that it needs
    "rebalance": ("two members of a group are told different partitions, together all, and read those", ("groups",)),
    "former member": (
        "offsets that name a member of a former generation are refused",
        ("transactions", "groups", "offsets-in-transactions"),
    ),
    "commit offsets": ("offsets outside transactions are committed as they are given", ("groups", "offset-commits")),
    "leave": ("what was sent is delivered first, and another member gets the partitions at once", ("groups", "leave")),
}
COMMITS = 20
POLL_S = 0.5  # as readers of workloads ask: some clients do not get to join within a shorter poll
TELL = "tell every assignment and every revocation as an event `rebalanced`; in `leave`, leave the group"


class UntoldError(Flaw):
    """The first member of a group was told no partition."""


class Member:
    """A member of a group, and the partitions that it was told."""

    def __init__(self, client: Client) -> None:
        self.client, self.partitions, self.read = client, set[str](), list[Polled]()
        client.subscribe([GROUP_TOPIC], self._rebalanced)

    def _rebalanced(self, event: Rebalance) -> None:
        change = self.partitions.update if event.kind == "assigned" else self.partitions.difference_update
        change(event.partitions)

    def poll(self) -> None:
        self.read += self.client.poll(POLL_S)


class GroupStories(ClientFixture):
    """Plays the stories of groups."""

    def _member_settings(
        self, group: str, producer: Mapping[str, Any] | None = None, transactional: bool = False
    ) -> ClientSettings:
        name = self._name()
        identity = {"transactional_id": name} if transactional else {}
        return self._settings(producer, Isolation.COMMITTED, name=name, shared_group=group, **identity)

    def story_rebalance(self) -> str:
        return _joined_at_last(self._rebalance)

    def story_former_member(self) -> str:
        return _joined_at_last(self._former_member)

    def story_commit_offsets(self) -> str:
        return _joined_at_last(self._commit_offsets)

    def story_leave(self) -> str:
        return _joined_at_last(self._leave)

    def _rebalance(self) -> str:
        group = self._name()
        with self._client(self._member_settings(group)) as one, self._client(self._member_settings(group)) as other:
            members = [Member(one)]
            self._await_shares(members)
            members.append(Member(other))
            self._await_shares(members, "after the second one has joined, ")
            values = self._fill(30, GROUP_TOPIC)
            self._await_read(members, values)
            shares = " and ".join(str(len(member.partitions)) for member in members)
        return f"{shares} partitions, {len(values)} records"

    def _await_shares(self, members: Sequence[Member], when: str = "") -> None:
        """Poll until each member has partitions, none two have, and together they have all. Raises Flaw at the deadline."""
        deadline = time.monotonic() + READ_S
        while not _shared(members):
            for member in members:
                member.poll()
            told = " and ".join(f"{sorted(member.partitions)}" for member in members)
            text = f"{when}the members of a group are told {told}, for {READ_S:.0f} s"
            if time.monotonic() > deadline and not (when or any(member.partitions for member in members)):
                raise UntoldError(text, TELL)
            demand(time.monotonic() < deadline, text, TELL)

    def _await_read(self, members: Sequence[Member], values: Sequence[bytes]) -> None:
        """Poll until these have been read. Raises Flaw for a record that another member has, or that does not come."""
        deadline, missing = time.monotonic() + READ_S, set(values)
        for member in members:
            member.read.clear()
        while missing:
            for member in members:
                member.poll()
                foreign = [record for record in member.read if record.partition not in member.partitions]
                text = f"a member that is told {sorted(member.partitions)} reads {foreign and foreign[0].partition}"
                demand(not foreign, text, TELL)
                missing -= {record.value for record in member.read}
            text = f"{len(missing)} of {len(values)} records do not come within {READ_S:.0f} s"
            demand(time.monotonic() < deadline, text, "read each partition that was assigned, on from where the group stands")
        times = sum(record.value in set(values) for member in members for record in member.read)
        demand(times == len(values), f"{len(values)} records are read {times} times", "return each record once")

    # -- offsets ----------------------------------------------------------------------------------
    def _former_member(self) -> str:
        group = self._name()
        with self._client(self._member_settings(group, TRANSACTIONAL, True)) as one, self._group_observer(group) as own:
            members = [Member(one)]
            self._await_shares(members)
            former = one.group()
            with self._client(self._member_settings(group)) as other:
                members.append(Member(other))
                self._await_shares(members)
                error = self._offsets_of(one, former, 7)
                known = own.committed(GROUP_PARTITIONS, CALL_S)
                names = sorted(set(former) - {"group_id"}) if isinstance(former, dict) else []
                if error is None and not names:
                    return "`group` names no member, and offsets of a former generation are committed"
                seen = f"`group` named {', '.join(names)} before a rebalance, and offsets with it are committed after it"
                change = "give the client the member and the generation that `group` gave, not the group's name alone"
                demand(error and 7 not in known.values(), seen, change)
        return f"{error}"

    def _offsets_of(self, client: Client, group: Any, offset: int) -> CallError | None:
        """Commit an offset in a transaction, with this group metadata: the error, after which nothing is open."""
        client.begin()
        client.send(Outgoing(topic=TOPIC, partition=0, value=b"former"), lambda _: None)
        offsets = dict.fromkeys(GROUP_PARTITIONS, offset)
        error = refusal(lambda: client.send_offsets(offsets, group, CALL_S), lambda: client.commit(CALL_S))
        if error is not None and not error.fatal:
            refusal(lambda: client.abort(CALL_S))
        return error

    def _commit_offsets(self) -> str:
        rng, group, expected = Random(0), self._name(), dict[str, int | None].fromkeys(GROUP_PARTITIONS)
        with self._client(self._member_settings(group)) as client, self._group_observer(group) as own:
            self._await_shares([Member(client)])
            for number in range(1, COMMITS + 1):
                some = rng.sample(GROUP_PARTITIONS, rng.randint(1, len(GROUP_PARTITIONS)))
                offsets = {partition: rng.randrange(1, 1_000_000) for partition in some}
                client.commit_offsets(offsets, CALL_S)
                expected.update(offsets)
                known = {reader: one.committed(GROUP_PARTITIONS, CALL_S) for reader, one in (("own", own), ("driver", client))}
                for reader, at in known.items():
                    text = f"after {number} commits {READERS[reader]} is answered {dict(at)}, not {expected}"
                    demand(at == expected, text, "commit what you are given, before you answer")
        return f"{COMMITS} commits"

    # -- the end ----------------------------------------------------------------------------------
    def _leave(self) -> str:
        group, values, deliveries = self._name(), fresh_values("leave", 6), Deliveries()
        producer = IDEMPOTENT if "idempotence" in self.capabilities else None
        with self._client(self._member_settings(group, producer)) as one, self._client(self._member_settings(group)) as other:
            self._await_shares([Member(one)])
            for number, value in enumerate(values if producer else ()):
                one.send(Outgoing(topic=TOPIC, partition=number % 2, value=value), deliveries.of(number))
            one.leave(CALL_S)
            self._await_shares([Member(other)], "after the only other one has left, ")
        if producer:
            self._missing(deliveries, values, self._observed())
        return "the other member has all partitions"


def _joined_at_last(play: Callable[[], str]) -> str:
    """Play a story with groups, and once more where its first member was told nothing.

    A client that leads its group before it knows the topic gives nobody a partition (kafka-python 3.0.12, now and then).
    """
    try:
        return play()
    except UntoldError:
        return play()


READERS = {"own": "the harness' own client", "driver": "the driver"}


def _shared(members: Sequence[Member]) -> bool:
    """Whether each member has partitions, none two have, and together they have all."""
    told = [partition for member in members for partition in member.partitions]
    return all(member.partitions for member in members) and sorted(told) == sorted(GROUP_PARTITIONS)
