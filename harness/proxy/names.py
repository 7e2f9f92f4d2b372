"""Kafka's names of APIs, errors and fields, so that a misspelt one shows where a rule is written, on machines without Java too.

`names.json` is made from Kafka itself, of all releases that the proxy runs with (`python -m fencepost.harness.proxy.names >
harness/proxy/names.json`). A proxy knows those of its own release, and checks them again.
"""

from __future__ import annotations

import difflib
import json
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("names.json")
RELEASES = ("3.8.0", "3.9.1", "4.0.0", "4.1.1", "4.3.0", "4.4.0")  # the file is made of
MOST_ALIKE = 3
LONGEST = 100  # letters of a name for which another may be meant
ALIKE = 0.65  # how alike two names are of which one may be the other misspelt (`difflib`)


@dataclass(frozen=True)
class Api:
    """An API, of all versions.

    broker: whether brokers take it; else controllers alone do.
    newest: its newest version.
    request, answer: the fields of each as Kafka's JSON names them: a mapping of names for a structure, a list of one
        element for a list, else the name of a type, such as `int16`.
    """

    broker: bool
    newest: int
    request: Mapping[str, Any]
    answer: Mapping[str, Any]


@dataclass(frozen=True)
class Names:
    """Kafka's names.

    apis: those of APIs.
    errors: NONE and all others, with their numbers.
    """

    apis: Mapping[str, Api]
    errors: Mapping[str, int]


@cache
def known() -> Names:
    """The names of all releases that the proxy runs with."""
    return _of_document(json.loads(FILE.read_text()))


def _of_document(document: Mapping[str, Any]) -> Names:
    return Names({name: Api(**api) for name, api in document["apis"].items()}, document["errors"])


def mistakes(rule: Mapping[str, Any]) -> Iterator[str]:
    """What no release of Kafka knows of the names of APIs and errors in a rule, each with its key and what may be meant."""
    names = known()
    for api in texts(rule.get("api")):
        yield from _unknown("api", api, names.apis)
    kind, _, api = str(rule.get("until", "")).partition(":")
    if kind in ("next", "answered"):
        yield from _unknown("until", api, names.apis, patterns=False)
    lower = rule.get("lower")
    for api, version in lower.items() if isinstance(lower, Mapping) else ():
        yield from _unknown("lower", api, names.apis, patterns=False)
        if api in names.apis and isinstance(version, int) and version > names.apis[api].newest:
            yield f"lower: {api} has no version {version}; the newest is {names.apis[api].newest}"
    errors = [name for name in names.errors if name != "NONE"]
    if code := rule.get("code"):
        yield from _unknown("code", str(code), errors, patterns=False)
    for error in texts(rule.get("error")):
        yield from _unknown("error", error, errors)


def _unknown(key: str, name: str, known: Iterable[str], patterns: bool = True) -> Iterator[str]:
    what = "error" if key in ("code", "error") else "API"
    if patterns and is_pattern(name):
        if not any(matches(name, one) for one in known):
            yield f"{key}: Kafka has no {what} like {name}"
    elif name not in known:
        none = {"code": "; name an error", "error": "; where = {errorCode = 0} is of answers without one"}
        yield f"{key}: Kafka has no {what} {name}{none[key] if name == 'NONE' and what == 'error' else alike(name, known)}"


def is_pattern(name: str) -> bool:
    """True if a name stands for several, by `*` or `?`."""
    return "*" in name or "?" in name


def matches(pattern: str, name: str) -> bool:
    """True if a name is what a text with `*` and `?` stands for."""
    return fnmatchcase(name, pattern.replace("[", "[[]"))


def alike(name: str, known: Iterable[str]) -> str:
    """What may be meant: names that have the same letters in another case, that are alike, or that it is a part of."""
    if not 0 < len(name) <= LONGEST:
        return ""
    known = list(known)
    lower = {one.lower(): one for one in reversed(known)}
    close = [lower[one] for one in difflib.get_close_matches(name.lower(), lower, MOST_ALIKE, ALIKE)]
    inside = [one for one in known if name.lower() in one.lower()]
    found = list(dict.fromkeys([*close, *inside]))[:MOST_ALIKE]
    return f"; did you mean {', '.join(found)}?" if found else ""


def texts(value: Any) -> list[str]:
    """The texts of a value that is one, or a list of them."""
    values = value if isinstance(value, (list, tuple)) else [value]
    return [one for one in values if isinstance(one, str) and one]


def of_release(version: str) -> Names:
    """The names of a release, as its own jar has them. Needs Java, and the network once."""
    from fencepost.harness.fetching.java import java
    from fencepost.harness.proxy.jars import classpath

    argv = [java()[0], "-cp", classpath(version), "fencepost.proxy.Names"]
    return _of_document(json.loads(subprocess.run(argv, check=True, capture_output=True, text=True).stdout))


def text() -> str:
    """The file made anew: what any of the releases has."""
    apis: dict[str, Api] = {}
    errors: dict[str, int] = {}
    for release in map(of_release, RELEASES):
        errors |= release.errors
        for name, api in release.apis.items():
            apis[name] = joined(apis[name], api) if name in apis else api
    rows = ",\n".join(f"  {json.dumps(name)}: {json.dumps(asdict(api))}" for name, api in sorted(apis.items()))
    return f'{{"apis": {{\n{rows}\n}},\n"errors": {json.dumps(dict(sorted(errors.items())), indent=1)}\n}}\n'


def joined(one: Api, other: Api) -> Api:
    """What either of two releases has of an API."""
    request, answer = _joined(one.request, other.request), _joined(one.answer, other.answer)
    return Api(one.broker or other.broker, max(one.newest, other.newest), request, answer)


def _joined(one: Any, other: Any) -> Any:
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        both = {name: _joined(one[name], other[name]) for name in one if name in other}
        return {**one, **other, **both}
    if isinstance(one, list) and isinstance(other, list):
        return [_joined(one[0], other[0])]
    return other


if __name__ == "__main__":
    print(text(), end="")  # noqa: T201
