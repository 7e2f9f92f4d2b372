"""Tables as TOML gives them: read, merged, varied by a matrix, and named by the keys of their values."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fencepost.harness.api import CampaignError
from fencepost.harness.plugins.toml_value import toml

MOST_BYTES = 1 << 20  # of a campaign file
Keys = tuple[str | int, ...]  # ("nemesis", 0, "target")

# Tables whose keys are settings of Kafka: dots belong to the key, quoted or not.
SETTINGS_TABLES: tuple[tuple[str, ...], ...] = (
    ("topic",),
    ("client", "producer"),
    ("client", "consumer"),
    ("cluster", "settings"),
)


def read_toml(path: Path) -> tuple[dict[str, Any], str]:
    """The table in the file `path`, and its text. Raises CampaignError: not readable, not UTF-8, not TOML (with its line)."""
    text = _text_of(path)
    try:
        return dict(toml.loads(text)), text
    except toml.TOMLDecodeError as error:
        at_end = f"{error}".replace("at end of document", f"at line {text.count(chr(10)) + 1}, the end of the file")
        raise CampaignError([f"{path}: is not TOML: {at_end}"]) from error
    except RecursionError as error:
        raise CampaignError([f"{path}: is not TOML that can be read: lists or tables lie too deep within each other"]) from error
    except ValueError as error:  # a number of thousands of digits
        raise CampaignError([f"{path}: is not TOML that can be read: {error}"]) from error


def _text_of(path: Path) -> str:
    try:
        if path.exists() and not path.is_file():
            raise CampaignError([f"{path}: cannot be read: it is no file"])
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise CampaignError([f"{path}: is larger than {MOST_BYTES >> 20} MiB; is it a campaign?"])
        return content.decode("utf-8")
    except (OSError, ValueError) as error:
        if isinstance(error, UnicodeDecodeError):
            raise CampaignError([f"{path}: is not UTF-8 text: {error}"]) from error
        raise CampaignError([f"{path}: cannot be read: {getattr(error, 'strerror', error)}"]) from error


def at_point(test: Mapping[str, Any], point: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The table of one combination of the matrix, and the keys that lead nowhere in it."""
    table, nowhere = copied(test), []
    for key, value in point.items():
        if not _put(table, matrix_keys(key), value):
            nowhere.append(key)
    labels = ",".join(_label(key, value) for key, value in point.items())
    if labels and isinstance(table.get("name"), str):
        table["name"] = f"{table['name']}[{labels}]"
    return table, nowhere


def matrix_keys(key: str) -> Keys:
    """`cluster.kafka` -> ("cluster", "kafka"); `nemesis[0].target` -> ("nemesis", 0, "target"); a setting keeps its dots."""
    for table in SETTINGS_TABLES:
        prefix = ".".join(table) + "."
        if key.startswith(prefix):
            return (*table, key[len(prefix) :])
    return tuple(int(part) if re.fullmatch(r"[0-9]{1,6}", part) else part for part in re.split(r"[.\[]", key.replace("]", "")))


def _put(table: Any, keys: Keys, value: Any) -> bool:
    """Set `value` at `keys`, making tables on the way; return whether that could be done."""
    for key in keys[:-1]:
        if isinstance(key, str) and isinstance(table, dict):
            table = table.setdefault(key, {})
        elif isinstance(key, int) and isinstance(table, list) and key < len(table):
            table = table[key]
        else:
            return False
    if not _fits(table, keys[-1]):
        return False
    table[keys[-1]] = value
    return True


def _fits(table: Any, key: str | int) -> bool:
    """True if a value can be set under this key."""
    if isinstance(key, int):
        return isinstance(table, list) and key < len(table)
    return isinstance(table, dict)


def _label(key: str, value: Any) -> str:
    if isinstance(value, list):
        return (
            "+".join(str(entry.get("kind", "?")) if isinstance(entry, dict) else str(entry) for entry in value) or f"{key}=none"
        )
    if isinstance(value, dict) and "kind" in value:
        return str(value["kind"])
    text = json.dumps(value) if isinstance(value, bool) else str(value)
    last = str(matrix_keys(key)[-1])
    return text if last in ("kafka", "kind") else f"{last}={text}"


def flat_settings(table: Mapping[str, Any]) -> dict[str, Any]:
    """`table` with unquoted dotted settings (`min.insync.replicas = 2`, which TOML nests) put back into one key."""
    copy = copied(table)
    for keys in SETTINGS_TABLES:
        parent: Any = copy
        for key in keys[:-1]:
            parent = parent.get(key, {}) if isinstance(parent, dict) else {}
        if isinstance(parent, dict) and isinstance(parent.get(keys[-1]), dict):
            parent[keys[-1]] = dict(_flat(parent[keys[-1]]))
    return copy


def _flat(table: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    pairs: list[tuple[str, Any]] = []
    for key, value in table.items():
        pairs += _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else [(prefix + key, value)]
    return pairs


def copied(table: Mapping[str, Any]) -> dict[str, Any]:
    """A deep copy of tables and lists; values are shared."""
    return {key: _copy(value) for key, value in table.items()}


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return copied(value)
    return [_copy(entry) for entry in value] if isinstance(value, list) else value


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """`above` laid over `below`: tables merge deeply, lists and values are replaced."""
    result = copied(below)
    for key, value in above.items():
        both = isinstance(value, dict) and isinstance(result.get(key), dict)
        result[key] = merged(result[key], value) if both else _copy(value)
    return result


def place_in_file(keys: Keys, where: Keys, own: Mapping[str, Any], defaults: Mapping[str, Any], point: Mapping[str, Any]) -> Keys:
    """The path in the file of the value at `keys` of a test: in the test (at `where`), in its matrix, or in the defaults."""
    for key in point:
        if matrix_keys(key) == keys[: len(matrix_keys(key))]:
            return (*(where if key in own.get("matrix", {}) else ("defaults",)), "matrix", key)
    inherited = _holds(defaults, keys) and not _holds(own, keys)
    return (*(("defaults",) if inherited else where), *keys)


def _holds(table: Any, keys: Keys) -> bool:
    for key in keys:
        there = key in table if isinstance(table, dict) else isinstance(table, list) and isinstance(key, int) and key < len(table)
        if not there:
            return False
        table = table[key]
    return True


def as_text(value: Any) -> str:
    """A setting's value as Kafka writes it: `true`, not `True`."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def written(keys: Keys) -> str:
    """A path of keys as TOML writes it: `.nemesis[0].target`."""
    parts = []
    for key in keys:
        if isinstance(key, int):
            parts.append(f"[{key}]")
        else:
            plain = re.fullmatch(r"[A-Za-z0-9_-]+(\[\d+\])*", key)
            parts.append(
                f".{key}" if plain else f".{json.dumps(key if len(key) <= 100 else f'{key[:80]}...', ensure_ascii=False)}"
            )
    return "".join(parts)
