"""The prober on a real broker that it reaches by TLS and SASL alone, its codec, and its jar."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import external_kafka

from fencepost.clusters.kafka.distribution import fetch
from fencepost.clusters.probe.build import MESSAGES
from fencepost.clusters.probe.messages import Messages, UnknownMessage
from fencepost.clusters.probe.rows import ROWS
from fencepost.harness.api.errors import Exit
from fencepost.harness.api.plans import Choice
from fencepost.harness.api.services import ProbeResult
from fencepost.harness.conformance import probe_kit
from fencepost.harness.fetching import built_jars

END_TXN, PRODUCE = 26, 0
FIELDS = {"transactionalId": "x", "producerId": 1, "producerEpoch": 0, "committed": True}


def test_the_jar_was_built_from_the_sources_beside_it():
    assert MESSAGES.entries()[built_jars.SUMS].decode() == MESSAGES.sums().decode()
    assert int.from_bytes(MESSAGES.entries()["fencepost/Messages.class"][6:8], "big") == 44 + int(MESSAGES.release)


@pytest.mark.cluster
def test_messages_are_encoded_and_decoded_by_the_schemas_of_a_release(tmp_path: Path):
    with open(tmp_path / "log", "wb") as log, Messages(fetch("4.4.0"), log) as messages:
        old, new = messages.request(END_TXN, 0, FIELDS), messages.request(END_TXN, 5, FIELDS)
        assert old.body == b"\x00\x01x" + bytes(7) + b"\x01" + b"\x00\x00" + b"\x01"
        assert (old.flexible, new.flexible, new.plain_reply) == (False, True, False)
        assert messages.response(END_TXN, 0, bytes(4) + b"\x00\x30") == {"throttleTimeMs": 0, "errorCode": 48}
        assert messages.error(48) == "INVALID_TXN_STATE"
        topic = {"name": "t", "partitionData": [{"index": 0, "records": messages.batch(7000, 2, 5, "value")}]}
        body = messages.request(PRODUCE, 9, {"transactionalId": "x", "acks": -1, "timeoutMs": 5, "topicData": [topic]}).body
        assert (7000).to_bytes(8, "big") + (2).to_bytes(2, "big") + (5).to_bytes(4, "big") in body
        assert b"value" in body
        with pytest.raises(UnknownMessage, match="expected a string type"):
            messages.request(END_TXN, 0, {"transactionalId": None})
        assert messages.error(0) == "NONE", "an error ends nothing"


@pytest.mark.nightly
def test_a_cluster_of_somebody_elses_is_probed_through_its_login(tmp_path: Path, monkeypatch):
    """One broker of Kafka 4.4.0, so that no request can miss its coordinator."""
    monkeypatch.setenv("FENCEPOST_TEST_PASSWORD", external_kafka.PASSWORD)
    with external_kafka.started(tmp_path) as foreign:
        before = foreign.topics(), foreign.groups()
        events = []
        _, rows = probe_kit.probe(Choice(kind="external", options=foreign.options()), ["tv2"], events.append)
        assert (foreign.topics(), foreign.groups()) == before
    results = {row.number: row.result for row in rows}
    assert list(results) == [row.number for row in ROWS if "tv2" in row.profiles]
    assert results.pop("InitProducerId 1") is ProbeResult.UNREACHED
    assert results.pop("expiry") is ProbeResult.VIOLATED, "KAFKA-20785, fixed after 4.4.0"
    others = {number for number, result in results.items() if result not in (ProbeResult.MET, ProbeResult.DIFFERS)}
    brief = {row.number for row in ROWS if row.situation.startswith("the transaction is being committed")}
    assert {results[number] for number in others} <= {ProbeResult.UNREACHED}
    assert others <= brief, "markers may be written before the next request comes"
    assert set(results.values()) >= {ProbeResult.MET, ProbeResult.DIFFERS}
    assert probe_kit.exit_code(rows) is Exit.INVALID


@pytest.mark.nightly
def test_building_again_gives_the_same_jar(tmp_path: Path):
    """Fetches the compiler and the libraries."""
    MESSAGES.fetch(tmp_path)
    assert MESSAGES.build(tmp_path) == MESSAGES.entries()
