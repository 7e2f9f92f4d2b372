"""Kafka's names of APIs and errors, so that a misspelt one shows where a rule is written, on machines without Java too.

`names.json` is made from Kafka itself, of all releases that the proxy runs with (`python -m fencepost.harness.proxy.names >
harness/proxy/names.json`). A proxy knows those of its own release, and checks them again.
"""

from __future__ import annotations

import difflib
import json
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("names.json")
RELEASES = ("3.8.0", "3.9.1", "4.0.0", "4.1.1", "4.3.0", "4.4.0")  # the file is made of
MOST_ALIKE = 3


@dataclass(frozen=True)
class Names:
    """Kafka's names.

    apis: API -> whether its answers have an error.
    errors: NONE and all others.
    """

    apis: Mapping[str, bool]
    errors: tuple[str, ...]


@cache
def known() -> Names:
    """The names of all releases that the proxy runs with."""
    document = json.loads(FILE.read_text())
    return Names(document["apis"], tuple(document["errors"]))


def mistakes(rule: Mapping[str, Any]) -> Iterator[str]:
    """What no release of Kafka knows of the names in a rule, each with its key and what may be meant."""
    names = known()
    for api in _texts(rule.get("api")):
        yield from _unknown("api", api, names.apis)
        if rule.get("act") == "error" and names.apis.get(api) is False:
            yield f"api: answers of {api} have no error; use act drop or lose"
    kind, _, api = str(rule.get("until", "")).partition(":")
    if kind in ("next", "answered"):
        yield from _unknown("until", api, names.apis, patterns=False)
    for api in rule.get("lower", ()):
        yield from _unknown("lower", api, names.apis, patterns=False)
    if code := rule.get("code"):
        yield from _unknown("code", str(code), names.errors, patterns=False)
    for error in _texts(rule.get("error")):
        yield from _unknown("error", error, names.errors)


def _unknown(key: str, name: str, known: Iterable[str], patterns: bool = True) -> Iterator[str]:
    if patterns and any(letter in name for letter in "*?"):
        plain = name.replace("[", "[[]")
        if not any(fnmatchcase(one, plain) for one in known):
            yield f"{key}: no name of Kafka's is like {name}"
    elif name not in known:
        what = "error" if key in ("code", "error") else "API"
        yield f"{key}: Kafka has no {what} {name}{_alike(name, list(known))}"


def _alike(name: str, known: Sequence[str]) -> str:
    """What may be meant: names that have the same letters in another case, that are alike, or that it is a part of."""
    lower = {one.lower(): one for one in reversed(known)}
    close = [lower[one] for one in difflib.get_close_matches(name.lower(), lower, MOST_ALIKE, 0.7)]
    inside = [one for one in known if name.lower() in one.lower()]
    alike = list(dict.fromkeys([*close, *inside]))[:MOST_ALIKE]
    return f"; did you mean {', '.join(alike)}?" if alike else ""


def _texts(value: Any) -> list[str]:
    values = value if isinstance(value, (list, tuple)) else [value]
    return [one for one in values if isinstance(one, str) and one]


def of_release(version: str) -> Names:
    """The names of a release, as its own jar has them. Needs Java, and the network once."""
    from fencepost.harness.fetching.java import java
    from fencepost.harness.proxy.jars import classpath

    argv = [java()[0], "-cp", classpath(version), "fencepost.proxy.Names"]
    document = json.loads(subprocess.run(argv, check=True, capture_output=True, text=True).stdout)
    return Names(document["apis"], tuple(document["errors"]))


def text() -> str:
    """The file made anew. An API's answers have an error if they have one in any release."""
    releases = [of_release(version) for version in RELEASES]
    apis = {api: any(one.apis.get(api) for one in releases) for release in releases for api in release.apis}
    errors = dict.fromkeys(error for release in releases for error in release.errors)
    return json.dumps({"apis": dict(sorted(apis.items())), "errors": sorted(errors)}, indent=1) + "\n"


if __name__ == "__main__":
    print(text(), end="")  # noqa: T201
