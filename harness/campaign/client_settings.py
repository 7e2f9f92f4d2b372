"""Settings of librdkafka, judged by librdkafka itself before anything starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from fencepost.harness.api.words import did_you_mean
from fencepost.harness.campaign.setting_names import SETTINGS
from fencepost.harness.system.client_settings import OBJECTS, passive

OURS = {"bootstrap.servers", "metadata.broker.list", "transactional.id", "group.id"}  # decided by the harness


def refused_settings(kind: str, settings: Mapping[str, str], beneath: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Settings of a `producer` or `consumer` that librdkafka itself refuses: pairs of a key and its own words.

    A client is made from each setting alone, to judge its name and value; then from all of them laid over each of those
    `beneath`, to find what cannot stand together. No broker is named, so no connection is made, and nothing that a setting names
    is loaded, run or read (`harness.system.client_settings`).
    """
    settings = passive(settings)
    alone = {key: _refusal(kind, {key: value}) for key, value in settings.items()}
    wrong = [
        (key, f"librdkafka says: {text}{_suggested(kind, key, text)}")
        for key, text in alone.items()
        if text and "Failed to create" not in text
    ]
    if wrong:
        return wrong
    together = dict.fromkeys(_refusal(kind, {**passive(some), **settings}) for some in beneath)
    return [("", f"librdkafka says: {text}") for text in together if text]


def _suggested(kind: str, key: str, text: str) -> str:
    """`; did you mean "acks"?` for a name that librdkafka does not know."""
    return did_you_mean(key, SETTINGS[kind]) if key not in SETTINGS[kind] and "No such configuration" in text else ""


def _refusal(kind: str, settings: Mapping[str, Any]) -> str:
    """The reason why librdkafka makes no client of these settings; empty when it does."""
    return _refusal_of(kind, tuple(sorted(settings.items())))


@lru_cache(maxsize=1000)
def _refusal_of(kind: str, items: tuple[tuple[str, Any], ...]) -> str:
    """`_refusal`, once for each: tests of a campaign have most settings in common."""
    settings = dict(items)
    if objects := sorted(settings.keys() & set(OBJECTS)):
        return f"{', '.join(objects)} takes an object of Python, which no campaign can give"
    import confluent_kafka

    try:
        if kind == "producer":
            confluent_kafka.Producer({**settings, "log_level": 0})
        else:
            confluent_kafka.Consumer({"group.id": "fencepost-check", **settings, "log_level": 0}).close()
    except confluent_kafka.KafkaException as error:
        return str(error.args[0].str()).strip()
    except (TypeError, ValueError, AttributeError) as error:  # a callback that is a text
        return str(error)
    return ""
