"""Kafka's own definitions of the settings of brokers and topics: names, types and bounds, as its release describes them.

The main classes that Kafka's documentation is made with print them (`kafka.server.KafkaConfig`, `LogConfig`). They are asked once
for each version and kept beside its jars; Java needs less than a second for both. A few settings that Kafka does not document
are known by name only.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from html import unescape
from pathlib import Path
from typing import Any

from fencepost.clusters.kafka.distribution import Distribution
from fencepost.harness.api.errors import MachineError
from fencepost.harness.system import programs

FILE = "settings.json"
BROKER, TOPIC = "broker", "topic"
_PROGRAMS: Mapping[str, tuple[str, ...]] = {  # the class moved between versions
    BROKER: ("kafka.server.KafkaConfig",),
    TOPIC: ("org.apache.kafka.storage.internals.log.LogConfig", "kafka.log.LogConfig"),
}
_ENTRY = re.compile(r'<h4><a id="([^"]+)"></a>.*?(?=<h4>|\Z)', re.S)
_ROW = re.compile(r"<th>([^<:]+):</th><td>(.*?)</td>", re.S)
_NAME_IN_CLASS = re.compile(rb"\x01(..)([a-z][a-z0-9]*(?:[._-][a-z0-9]+)+)", re.S)  # a constant: tag, length, text
_ASK_S = 60.0


@dataclass(frozen=True)
class Definition:
    """The definition of a setting.

    kind: Kafka's word (`int`, `list`, ...).
    values: the lawful values, in Kafka's words.
    broker: its name as a broker's setting, where it has one.
    """

    kind: str
    values: str = ""
    broker: str = ""


@dataclass(frozen=True)
class Definitions:
    """All settings of one version of Kafka; `others` are undocumented ones of brokers."""

    version: str
    broker: Mapping[str, Definition]
    topic: Mapping[str, Definition]
    others: frozenset[str]


def definitions(distribution: Distribution) -> Definitions:
    """The definitions of a version whose jars are there. Raises HarnessError when Kafka does not print them."""
    path = distribution.directory / FILE
    known = _cached_definitions(path, distribution.version, _changed_ns(path))
    if known is None:
        document = _ask(distribution)
        _keep(path, document)
        known = _from(distribution.version, document)
    return known


def known_names(kind: str, distributions: Sequence[Distribution]) -> list[str]:
    """Names of settings of `kind` (broker, topic), of the newest of these versions that was asked before; nothing is started."""
    for distribution in reversed(distributions):
        path = distribution.directory / FILE
        if known := _cached_definitions(path, distribution.version, _changed_ns(path)):
            return sorted(getattr(known, kind))
    return []


def _changed_ns(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def parsed(html: str) -> dict[str, Definition]:
    """The definitions in what one of Kafka's classes prints."""
    return {entry[1]: _definition(dict(_ROW.findall(entry[0]))) for entry in _ENTRY.finditer(html)}


def _definition(row: Mapping[str, str]) -> Definition:
    values, broker = (unescape(row.get(name, "")).strip() for name in ("Valid Values", "Server Default Property"))
    return Definition(row.get("Type", "string").strip(), values, "" if broker in ("null", "None") else broker)


def _ask(distribution: Distribution) -> dict[str, Any]:
    document: dict[str, Any] = {}
    for kind, classes in _PROGRAMS.items():
        known = parsed(_printed(distribution, classes))
        document[kind] = {name: [definition.kind, definition.values, definition.broker] for name, definition in known.items()}
    document["others"] = sorted(set(_names_in_classes(distribution)) - {*document[BROKER], *document[TOPIC]})
    return document


def _printed(distribution: Distribution, classes: tuple[str, ...]) -> str:
    failure = ""
    for name in classes:
        argv = distribution.command(name, (), heap_mb=128)
        try:
            done = programs.run(argv, _ASK_S)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise MachineError(f"Kafka {distribution.version} does not tell its settings: {error}") from error
        if done.returncode == 0 and "<h4>" in done.stdout:
            return done.stdout
        failure = (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[0]
    raise MachineError(f"Kafka {distribution.version} does not tell its settings: {failure}")


def _names_in_classes(distribution: Distribution) -> Iterator[str]:
    """The constants of the brokers' classes for settings that look like a setting's name."""
    for jar in distribution.jars:
        if not jar.startswith("kafka") or jar.startswith("kafka-clients"):
            continue
        with zipfile.ZipFile(distribution.directory / jar) as archive:
            for entry in archive.namelist():
                if "Config" in entry and entry.endswith(".class"):
                    constants = _NAME_IN_CLASS.findall(archive.read(entry))
                    yield from (name.decode() for length, name in constants if int.from_bytes(length, "big") == len(name))


@lru_cache(maxsize=32)
def _cached_definitions(path: Path, version: str, _changed: int) -> Definitions | None:
    """The definitions in the file, read once while it does not change; None when nothing in it can be used."""
    try:
        return _from(version, json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def _from(version: str, document: Mapping[str, Any]) -> Definitions:
    tables = [{name: Definition(*row) for name, row in document[kind].items()} for kind in (BROKER, TOPIC)]
    return Definitions(version, tables[0], tables[1], frozenset(document["others"]))


def _keep(path: Path, document: Mapping[str, Any]) -> None:
    """Complete or not at all; where nothing can be written it is asked again next time."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        partial.write_text(json.dumps(document), encoding="utf-8")
        partial.replace(path)
    except OSError:
        partial.unlink(missing_ok=True)
