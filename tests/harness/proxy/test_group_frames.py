"""What the record has of groups and of the ids of topics."""

from __future__ import annotations

import struct

import pytest
from support.frames import METADATA, answer, request

pytestmark = pytest.mark.cluster  # it needs Kafka's jars, as brokers do
OFFSET_FETCH = 9
ID = bytes(range(16))
TEXT_OF_ID = "AAECAwQFBgcICQoLDA0ODw"
NO_TAGS = b"\0"


def few(*items):
    """A compact array."""
    return bytes([len(items) + 1]) + b"".join(items)


def short(value):
    """A compact text."""
    return bytes([len(value) + 1]) + value.encode()


def offset_fetch(correlation, *groups):
    """OffsetFetch of version 8 about partition 2 of topic `in`."""
    topics = few(short("in") + few(struct.pack(">i", 2)) + NO_TAGS)
    asked = few(*(short(group) + topics + NO_TAGS for group in groups))
    return request(OFFSET_FETCH, 8, correlation, NO_TAGS + asked + b"\x01" + NO_TAGS)


def told(correlation, **offsets):
    """Its answer: the offset of each group; below 0: an error."""
    answers = []
    for group, offset in offsets.items():
        place = struct.pack(">iqi", 2, offset, -1) + b"\0" + struct.pack(">h", 88 if offset < -1 else 0) + NO_TAGS
        answers.append(short(group) + few(short("in") + few(place) + NO_TAGS) + b"\0\0" + NO_TAGS)
    return answer(correlation, NO_TAGS + bytes(4) + few(*answers) + NO_TAGS)


def metadata(correlation):
    """Metadata of version 10 about all topics."""
    return request(METADATA, 10, correlation, NO_TAGS + b"\0\0\0\0" + NO_TAGS)


def topics(correlation, topic_id=ID):
    """Its answer: no broker, and topic `t` without partitions."""
    topic = b"\0\0" + short("t") + topic_id + b"\0" + few() + bytes(4) + NO_TAGS
    return answer(correlation, NO_TAGS + bytes(4) + few() + b"\0" + bytes(4) + few(topic) + bytes(4) + NO_TAGS)


def exchange(scene, *pairs):
    client, broker = scene.connection()
    for asked, answered in pairs:
        client.send(asked)
        broker.receive()
        broker.send(answered)
        assert client.receive() is not None
    return scene.lines()


def test_offsets_that_a_member_is_told(scene):
    asked, answered, _, refused = exchange(scene, (offset_fetch(1, "g"), told(1, g=17)), (offset_fetch(2, "g"), told(2, g=-2)))
    assert (asked["api"], asked["group"], asked["partitions"]) == ("OffsetFetch", "g", [{"topic": "in", "partition": 2}])
    assert (asked["body"]["requireStable"], [group["groupId"] for group in asked["body"]["groups"]]) == (True, ["g"])
    assert answered["partitions"] == [{"topic": "in", "partition": 2, "offset": 17, "error": "NONE"}]
    assert (refused["error"], refused["partitions"][0]["error"]) == ("UNSTABLE_OFFSET_COMMIT", "UNSTABLE_OFFSET_COMMIT")


def test_whose_offsets_they_are_where_several_groups_are_asked_for(scene):
    asked, answered = exchange(scene, (offset_fetch(1, "g", "h"), told(1, g=17, h=3)))
    assert [place["group"] for place in asked["partitions"]] == ["g", "h"]
    assert [(place["group"], place["offset"]) for place in answered["partitions"]] == [("g", 17), ("h", 3)]


def test_the_id_of_a_topic_is_recorded_when_it_is_new(scene):
    """And not each time that somebody asks; one without an id is none."""
    again = bytes(reversed(ID))
    some = [(metadata(number), topics(number, topic_id)) for number, topic_id in enumerate((ID, ID, bytes(16), again), 1)]
    lines = exchange(scene, *some)
    assert [line["api"] for line in lines if line["at"] == "request"] == ["Metadata"] * 2
    told = [line["partitions"] for line in lines if line["at"] == "answer"]
    assert told[0] == [{"topic": "t", "topic_id": TEXT_OF_ID}]
    assert told[1][0]["topic_id"] != TEXT_OF_ID
