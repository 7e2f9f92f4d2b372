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
    "group positions": ("a member reads on at the group's offsets, and at the start of partitions without any", ("groups",)),
    "commit offsets": ("offsets outside transactions are committed as they are given", ("groups", "offset-commits")),
    "leave": ("what was sent is delivered first, and another member gets the partitions at once", ("groups", "leave")),
}
COMMITS = 20
READ_AHEAD = 60  # records from which a member reads one at a time, so that its client holds others when partitions move
SLOWLY_S = 8.0  # for which it does so: a driver with a buffer of its own may ask its client only when that is empty
POLL_S = 0.5  # as readers of workloads ask: some clients do not get to join within a shorter poll
ON = "read each partition that was assigned, on from where the group stands"
MOVED = "return no record of a partition after its revocation was told; drop what was fetched of it"
TELL = "tell every assignment and every revocation as an event `rebalanced`; in `leave`, leave the group"


class UntoldError(Flaw):
    """The first member of a group was told no partition."""


class Member:
    """A member of a group, and the partitions that it was told."""

    def __init__(self, client: Client) -> None:
        self.client, self.partitions, self.read = client, set[str](), list[Polled]()
        self._told = set[str]()  # its partitions at any time of the poll that is under way
        self._ever = set[str]()  # those that it had at any time
        client.subscribe([GROUP_TOPIC], self._rebalanced)

    def _rebalanced(self, event: Rebalance) -> None:
        change = self.partitions.update if event.kind == "assigned" else self.partitions.difference_update
        change(event.partitions)
        self._told |= self.partitions
        self._ever |= self.partitions

    def poll(self, limit: int = 1000) -> None:
        """Poll once. Raises Flaw for a record of a partition that was not its own at any time of the poll."""
        self._told = set(self.partitions)
        read = self.client.poll(POLL_S, limit)
        foreign = [record for record in read if record.partition not in self._told]
        text = f"a member that is told {sorted(self.partitions)} reads {foreign and foreign[0].partition}"
        demand(not foreign, text, MOVED if foreign and foreign[0].partition in self._ever else TELL)
        self.read += read


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

    def story_group_positions(self) -> str:
        return _joined_at_last(self._group_positions)

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
            self._fill(READ_AHEAD, GROUP_TOPIC)
            self._await_first(members[0])
            members.append(Member(other))
            self._await_shares(members, "after the second one has joined, ", slowly_s=SLOWLY_S)
            values = self._fill(30, GROUP_TOPIC)
            self._await_read(members, values)
            shares = " and ".join(str(len(member.partitions)) for member in members)
        return f"{shares} partitions, {len(values)} records"

    def _await_first(self, member: Member) -> None:
        """Poll for one record. Raises Flaw at the deadline."""
        deadline = time.monotonic() + READ_S
        while not member.read:
            member.poll(1)
            demand(time.monotonic() < deadline, f"a member that has all partitions reads nothing for {READ_S:.0f} s", ON)

    def _await_shares(self, members: Sequence[Member], when: str = "", slowly_s: float = 0.0) -> None:
        """Poll until each member has partitions, none two have, and together they have all. Raises Flaw at the deadline.

        slowly_s: for so long each poll asks for one record.
        """
        began = time.monotonic()
        deadline = began + READ_S
        while not _shared(members):
            for member in members:
                member.poll(1 if time.monotonic() < began + slowly_s else 1000)
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
                missing -= {record.value for record in member.read}
            text = f"{len(missing)} of {len(values)} records do not come within {READ_S:.0f} s"
            demand(time.monotonic() < deadline, text, ON)
        times = sum(record.value in set(values) for member in members for record in member.read)
        demand(times == len(values), f"{len(values)} records are read {times} times", "return each record once")

    def _group_positions(self) -> str:
        """The group stands in the middle of one partition and at the end of another; of the third one nothing is committed."""
        group, admin = self._name(), self._cluster.admin()
        middle, nothing, end = GROUP_PARTITIONS
        self._fill(30, GROUP_TOPIC)
        known = admin.end_offsets(GROUP_PARTITIONS, Isolation.COMMITTED)
        begins = {middle: known[middle] // 2, nothing: 0, end: known[end]}
        with self._group_observer(group) as own:
            own.commit_offsets({middle: begins[middle], end: begins[end]}, CALL_S)
        self._fill(6, GROUP_TOPIC)
        ends = admin.end_offsets(GROUP_PARTITIONS, Isolation.COMMITTED)
        with self._client(self._member_settings(group)) as client:
            member = Member(client)
            self._await_shares([member])
            self._await_ends(member, begins, ends)
        return f"{len(member.read)} records: on from {begins[middle]}, from the start, and {ends[end] - begins[end]} new ones"

    def _await_ends(self, member: Member, begins: Mapping[str, int], ends: Mapping[str, int]) -> None:
        """Poll until a member has read from some offsets to others. Raises Flaw for records before, between or after them."""
        deadline, wanted = time.monotonic() + READ_S, sum(ends.values()) - sum(begins.values())
        while True:
            for partition in GROUP_PARTITIONS:
                read = [record.offset for record in member.read if record.partition == partition]
                expected = list(range(begins[partition], ends[partition]))[: len(read)]
                where = "where the group stands" if begins[partition] else "of which nothing is committed, and which begins"
                text = f"of {partition}, {where} at {begins[partition]} of {ends[partition]}, a member reads {_span(read)}"
                demand(read == expected, text, ON)
            if len(member.read) >= wanted:
                return
            text = f"{len(member.read)} of {wanted} records come within {READ_S:.0f} s"
            demand(time.monotonic() < deadline, text, ON)
            member.poll()

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


def _span(offsets: Sequence[int]) -> str:
    """`nothing`, `3`, `3 to 9`, or with gaps and repetitions `3, 4, 7, ...`."""
    if not offsets:
        return "nothing"
    if list(offsets) == list(range(offsets[0], offsets[0] + len(offsets))):
        return f"{offsets[0]} to {offsets[-1]}" if len(offsets) > 1 else f"{offsets[0]}"
    at = next(number for number, offset in enumerate(offsets) if offset != offsets[0] + number)
    return f"{', '.join(str(offset) for offset in offsets[max(0, at - 2) : at + 1])}, ..."


def _shared(members: Sequence[Member]) -> bool:
    """Whether each member has partitions, none two have, and together they have all."""
    told = [partition for member in members for partition in member.partitions]
    return all(member.partitions for member in members) and sorted(told) == sorted(GROUP_PARTITIONS)
