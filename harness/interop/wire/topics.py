"""Topics of a record that may have been deleted and made again under their name, and partitions of which records were deleted.

A topic has an id of its own (KIP-516). What says that there was another one: a second id; data behind a deletion; a creation
behind data. Where the record does not have the id from then on, also two batches at one offset, and a high watermark below what
had been read: with the same id that is a log that was cut off, which is judged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from fencepost.harness.interop.wire.batches import producer_of
from fencepost.harness.interop.wire.requests import NONE, Place, Seen

Batch = tuple[int, int, tuple[int, int] | None, int]  # first and last offset, producer, first sequence number
NOT_DELETED = frozenset({3, 17, 29, 44})  # codes of errors of DeleteTopics that leave the topic in place: unknown, invalid, ...


@dataclass(slots=True)
class Topics:
    """What a record says of its topics, as its requests come in order of time.

    ids, id_seen: their ids, and when one was last named (ns).
    data: when the first batch of a topic was appended or read (ns).
    gone: when a topic was first asked to be deleted, and it was not refused (ns).
    reasons: why a topic is another one.
    doubts: when, and how, offsets were given anew (ns).
    ends: the offset behind all that had been read of a partition, and when it was (ns).
    first: the lowest offset of a partition that is known of.
    shortened: partitions of which brokers have deleted records.
    """

    ids: dict[str, set[str]] = field(default_factory=dict)
    id_seen: dict[str, int] = field(default_factory=dict)
    data: dict[str, int] = field(default_factory=dict)
    gone: dict[str, int] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    doubts: dict[str, tuple[int, str]] = field(default_factory=dict)
    ends: dict[str, tuple[int, int]] = field(default_factory=dict)
    first: dict[str, int] = field(default_factory=dict)
    shortened: set[str] = field(default_factory=set)
    batches: dict[str, dict[Batch, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, requests: Iterable[Seen]) -> Topics:
        """What the requests of a record say."""
        made = cls()
        for seen in requests:
            made.take(seen)
        return made

    def take(self, seen: Seen) -> None:
        """Take one more request."""
        for topic, topic_id in seen.ids:
            self.ids.setdefault(topic, set()).add(topic_id)
            self.id_seen[topic] = max(seen.answered or seen.arrived, self.id_seen.get(topic, 0))
        match seen.api:
            case "DeleteTopics":
                for topic in self._deleted(seen):
                    self.gone.setdefault(topic, seen.arrived)
            case "CreateTopics":
                for topic in _created(seen):
                    if topic in self.data:
                        self.reasons.setdefault(topic, "it was created once more")
            case "Produce" | "Fetch" if seen.answered is not None:
                for partition, place in seen.answers.items():
                    if place.get("error", NONE) == NONE:
                        self._data(seen, seen.answered, partition, place)

    def _deleted(self, seen: Seen) -> Iterator[str]:
        """The topics that a request asks to be deleted, unless it was refused."""
        names = {topic_id: topic for topic, some in self.ids.items() for topic_id in some}
        asked = [*(seen.settings.get("topicNames") or ()), *(_name(topic, names) for topic in seen.settings.get("topics") or ())]
        answers = (seen.given or {}).get("responses") or ()
        refused = {_name(answer, names) for answer in answers if answer.get("errorCode") in NOT_DELETED}
        return (topic for topic in asked if topic and topic not in refused)

    def _data(self, seen: Seen, answered: int, partition: str, place: Place) -> None:
        """What an answer says of a partition."""
        topic, some = partition.rpartition("-")[0], [*_batches(seen, partition, place)]
        if some:
            self.data.setdefault(topic, answered)
            self.first[partition] = min(self.first.get(partition, some[0][0]), some[0][0])
            if seen.arrived > self.gone.get(topic, seen.arrived):
                self.reasons.setdefault(topic, "it was deleted, and there again")
        for batch in some:
            self.batches.setdefault(partition, {}).setdefault(batch, answered)
        if seen.api == "Fetch":
            self._fetched(seen, answered, partition, place, max((batch[1] + 1 for batch in some), default=0))

    def _fetched(self, seen: Seen, answered: int, partition: str, place: Place, end: int) -> None:
        known, when = self.ends.get(partition, (0, 0))
        high = place.get("high_watermark", -1)
        if 0 <= high < known and seen.arrived > when:
            self._doubt(partition, answered, "its high watermark went back")
        if end > known:
            self.ends[partition] = (end, answered)
        if place.get("log_start", -1) > self.first.get(partition, place.get("log_start", -1)):
            self.shortened.add(partition)

    def _doubt(self, partition: str, when: int, why: str) -> None:
        topic = partition.rpartition("-")[0]
        if when > self.doubts.get(topic, (-1, ""))[0]:
            self.doubts[topic] = (when, why)

    def again(self) -> Mapping[str, str]:
        """Topics that may be others under their name, with the reason."""
        for partition, some in self.batches.items():
            for when in _given_anew(some):
                self._doubt(partition, when, "its offsets were given anew")
        made = {topic: f"it has {len(some)} ids" for topic, some in self.ids.items() if len(some) > 1}
        for topic, (when, why) in self.doubts.items():
            if len(self.ids.get(topic, ())) != 1 or self.id_seen[topic] < when:
                made.setdefault(topic, f"{why}, and its id is not known from then on")
        return {**made, **self.reasons}


def _name(topic: Mapping[str, object], names: Mapping[str, str]) -> str:
    return str(topic.get("name") or names.get(str(topic.get("topicId")), ""))


def _created(seen: Seen) -> Iterator[str]:
    """Topics that a request has created."""
    if not seen.settings.get("validateOnly"):
        yield from (str(topic["name"]) for topic in (seen.given or {}).get("topics") or () if topic.get("errorCode") == 0)


def _batches(seen: Seen, partition: str, place: Place) -> Iterator[Batch]:
    """The batches that an answer appended or held, each where it lies. Of several in one Produce only the first is known."""
    if seen.api == "Fetch":
        heads = [head for head in place.get("batches") or () if "last_offset" in head]
        yield from ((head["base_offset"], head["last_offset"], producer_of(head), head["first_sequence"]) for head in heads)
        return
    base = place.get("base_offset", -1)
    for head in (seen.places.get(partition, {}).get("batches") or ())[:1]:
        if base >= 0 and head.get("records"):
            yield base, base + head["records"] - 1, producer_of(head), head.get("first_sequence", -1)


def _given_anew(some: Mapping[Batch, int]) -> Iterator[int]:
    """When the later one of two different batches that lie at one offset was seen (ns)."""
    reach, since = -1, 0
    for batch in sorted(some, key=lambda one: one[:2]):
        if batch[0] <= reach:
            yield max(some[batch], since)
        if batch[1] > reach:
            reach, since = batch[1], some[batch]


def without(seen: Seen, topics: Mapping[str, str]) -> Seen:
    """A request without what it says of some topics."""

    def kept(places: Mapping[str, Place]) -> dict[str, Place]:
        return {name: place for name, place in places.items() if name.rpartition("-")[0] not in topics}

    return replace(seen, places=kept(seen.places), answers=kept(seen.answers)) if topics else seen
