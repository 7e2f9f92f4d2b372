"""Rules of the proxy: which messages, and what happens to them. `docs/proxy.md` is their reference.

Names of APIs, errors and fields are those of the release of Kafka that the proxy runs with, so the proxy checks these itself;
`unknown` says what no release has that is known here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any

from fencepost.harness.api import CampaignError
from fencepost.harness.proxy import fields as message_fields
from fencepost.harness.proxy import names

Texts = str | Sequence[str]
TRANSFORMS = {"reverse-aborted": "Fetch", "lower-api-versions": "ApiVersions"}
OPTIONS: Mapping[str, tuple[str, ...]] = {  # the options of each act
    "record": (),
    "delay": ("delay_ms",),
    "hold": ("until", "at_most_ms"),
    "drop": ("then",),
    "lose": ("then",),
    "late": ("then", "until", "delay_ms", "at_most_ms"),
    "repeat": ("count",),
    "error": ("code",),
    "alter": ("set", "transform", "lower"),
    "cut": (),
    "throttle": ("bytes_s",),
}
_NEEDED = {"delay": "delay_ms", "hold": "until", "error": "code", "throttle": "bytes_s"}
_OF_REQUESTS = ("drop", "late", "repeat")
_LEAST = {"delay_ms": 0, "at_most_ms": 1, "count": 1, "nth": 1, "times": 1, "bytes_s": 1}
_LONG, _MONTH_MS = (1 << 63) - 1, 31 * 24 * 3600 * 1000
_MOST = {"delay_ms": _MONTH_MS, "at_most_ms": _MONTH_MS, "count": 1000}
_WORDS = {
    "act": tuple(OPTIONS),
    "on": ("request", "answer"),
    "then": ("cut", "stall"),
    "connection_of": ("any", "client", "broker"),
    "transform": tuple(TRANSFORMS),
}
STATES = ("fresh", "committed", "aborted", "fenced")
_MAPPINGS = ("where", "set", "lower")
_TEXTS = ("api", "client_id", "transactional_id", "group", "topic", "node", "error")
_NUMBERS = {"partition": (1 << 31) - 1, "producer_id": _LONG}  # each with the highest
_ENDS = ("drop", "late", "error", "cut")  # acts after which later rules do not see the message
_MATCH = ("client_id", "transactional_id", "group", "topic", "partition", "node", "producer_id", "where", "error", "state")


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A rule. What is None was not given. Raises CampaignError with all that is wrong, each with its key and the remedy."""

    act: str
    name: str | None = None
    api: Texts | None = None
    on: str | None = None
    client_id: Texts | None = None
    transactional_id: Texts | None = None
    group: Texts | None = None
    topic: Texts | None = None
    partition: int | Sequence[int] | None = None
    node: Texts | None = None
    producer_id: int | Sequence[int] | None = None
    where: Mapping[str, Any] | None = None
    error: Texts | None = None
    state: Texts | None = None
    nth: int | None = None
    times: int | None = None
    connection_of: str | None = None
    delay_ms: int | None = None
    until: str | None = None
    at_most_ms: int | None = None
    then: str | None = None
    count: int | None = None
    code: str | None = None
    set: Mapping[str, Any] | None = None
    transform: str | None = None
    lower: Mapping[str, int] | None = None
    bytes_s: int | None = None
    _given: tuple[str, ...] = field(init=False, repr=False, compare=False, default=())

    def __post_init__(self) -> None:
        object.__setattr__(self, "_given", tuple(key for key in KEYS if getattr(self, key) is not None))
        if mistakes := [*_mistakes(self)]:
            raise CampaignError(mistakes)

    def gives(self, key: str) -> bool:
        """True if a key was given."""
        return key in self._given

    def document(self) -> dict[str, Any]:
        """The rule as the proxy takes it: what was given."""
        return {key: getattr(self, key) for key in self._given}


KEYS = tuple(one.name for one in fields(Rule) if one.init)


def of_mapping(given: Mapping[str, Any]) -> Rule:
    """A rule of a TOML table or a JSON object. Raises CampaignError."""
    if not isinstance(given, Mapping):
        raise CampaignError(["a rule is a table of keys and values"])
    mistakes = [f"{key}: there is no such key{names.alike(str(key), sorted(KEYS))}" for key in given if key not in KEYS]
    if "act" not in given:
        raise CampaignError([*mistakes, f"act: is missing; one of {', '.join(OPTIONS)}"])
    try:
        rule = Rule(**{key: value for key, value in given.items() if key in KEYS})
    except CampaignError as error:
        mistakes += error.mistakes
    if mistakes:
        raise CampaignError(mistakes)
    return rule


def unknown(rule: Mapping[str, Any]) -> list[str]:
    """What a rule says that no release of Kafka has in such a message: it could never act, or not on all that it names."""
    return [*names.mistakes(rule), *message_fields.mistakes(rule, TRANSFORMS)]


def of_file(document: Mapping[str, Any], file: str, check: Callable[[Mapping[str, Any]], Sequence[str]] = unknown) -> list[Rule]:
    """The rules of a file's tables `[[rule]]`. Raises CampaignError naming file, rule and key.

    check: what else is wrong with a rule.
    """
    mistakes = [f"{file}: {key}: there is no such key; rules are tables [[rule]]" for key in document if key != "rule"]
    rules: list[Rule] = []
    tables = document.get("rule", [])
    if not isinstance(tables, list) or not tables:
        raise CampaignError([*mistakes, f"{file}: has no rule; write tables [[rule]]"])
    for number, table in enumerate(tables, 1):
        named = table.get("name") if isinstance(table, Mapping) else None
        name = named if isinstance(named, str) and named else f"rule {number}"
        try:
            rules.append(of_mapping(table))
            wrong = [*check(table)]
        except CampaignError as error:
            wrong = [*error.mistakes, *(check(table) if isinstance(table, Mapping) else ())]
        mistakes += [f"{file}: {name}: {mistake}" for mistake in wrong]
    given = [rule.name for rule in rules if rule.name]
    mistakes += [
        f"{file}: {name}: name: is given twice; choose another" for name in sorted({n for n in given if given.count(n) > 1})
    ]
    if mistakes:
        raise CampaignError(mistakes)
    if hidden := [f"{file}: {mistake}" for mistake in contradictions(rules)]:
        raise CampaignError(hidden)
    return rules


def contradictions(rules: Sequence[Rule]) -> Iterator[str]:
    """The rules, each with its name, that can never act, as an earlier one has every message that they match."""
    for number, rule in enumerate(rules, 1):
        for earlier, other in enumerate(rules[: number - 1], 1):
            if hides(other, rule):
                name = other.name or f"rule {earlier}"
                yield (
                    f"{rule.name or f'rule {number}'}: act: never happens, as {name} before it has every message that it"
                    f" matches (act {other.act}); put it before {name}, or narrow {name}"
                )
                break


def hides(earlier: Rule, later: Rule) -> bool:
    """True if a rule leaves nothing to act on to a later one, whatever comes."""
    answers = _on(earlier) == "answer", _on(later) == "answer"
    acts = (*_ENDS, "lose") if answers in ((True, True), (False, True)) else _ENDS
    if earlier.act not in acts or earlier.gives("nth") or earlier.gives("times") or answers == (True, False):
        return False
    if earlier.gives("where") and answers == (False, True):  # the one is about the request, the other about its answer
        return False
    peer = earlier.connection_of in (None, "any", later.connection_of)
    return peer and _names_all(earlier, later) and all(_as_wide(key, earlier, later) for key in _MATCH if earlier.gives(key))


def _on(rule: Rule) -> str:
    return "answer" if rule.transform else rule.on or "request"


def _names_all(earlier: Rule, later: Rule) -> bool:
    """True if each API of a rule is one of an earlier one."""
    wide = names.texts(earlier.api)
    asked = [TRANSFORMS[later.transform]] if later.transform else names.texts(later.api)
    return not wide or (bool(asked) and all(any(one == api or names.matches(one, api) for one in wide) for api in asked))


def _as_wide(key: str, earlier: Rule, later: Rule) -> bool:
    one, other = getattr(earlier, key), getattr(later, key)
    if key == "where":
        return isinstance(other, Mapping) and all(path in other and other[path] == value for path, value in one.items())
    return other is not None and {*_listed(other)} <= {*_listed(one)}


def _listed(value: Any) -> Sequence[Any]:
    return value if isinstance(value, (list, tuple)) else [value]


# --------------------------------------------------------------------------------------------------
# Checks
# --------------------------------------------------------------------------------------------------
def _mistakes(rule: Rule) -> Iterator[str]:
    wrong = [*_kinds(rule)]
    yield from wrong
    keys = {text.partition(":")[0] for text in wrong}
    if "act" not in keys:
        yield from (text for text in _of_act(rule) if text.partition(":")[0] not in keys)


def _of_act(rule: Rule) -> Iterator[str]:
    yield from _keys(rule)
    yield from _contradictions(rule)
    if rule.act == "late":
        yield from _lateness(rule)
    if rule.act == "alter":
        yield from _alteration(rule)


def _kinds(rule: Rule) -> Iterator[str]:
    """What has a value that the key cannot have."""
    for key in KEYS:
        value = getattr(rule, key)
        if value is None:
            continue
        if key in _WORDS and not (isinstance(value, str) and value in _WORDS[key]):
            yield f"{key}: must be one of {', '.join(_WORDS[key])}{names.alike(str(value), _WORDS[key])}"
        elif key in _LEAST and not (_is_whole(value) and _LEAST[key] <= value <= _MOST.get(key, _LONG)):
            most = f" and at most {_MOST[key]}" if key in _MOST else ""
            yield f"{key}: must be a whole number of at least {_LEAST[key]}{most}"
        elif key in _MAPPINGS and not (isinstance(value, Mapping) and value):
            yield f"{key}: must be a mapping that is not empty"
        elif key in _TEXTS and not _are(value, lambda one: isinstance(one, str) and bool(one)):
            yield f"{key}: must be a text, or a list of texts, each any of them"
        elif key == "state" and not _are(value, lambda one: one in STATES):
            yield f"state: must be one of {', '.join(STATES)}, or a list of them"
        elif key in _NUMBERS and not _are(value, partial(_is_within, _NUMBERS[key])):
            yield f"{key}: must be a whole number from 0 to {_NUMBERS[key]}, or a list of them"
        elif key in ("name", "code") and not (isinstance(value, str) and value):
            yield f"{key}: must be a text"
        elif key == "until" and not _is_until(value):
            yield "until: must be event:NAME, next:API or answered:API with Kafka's name of an API, or closed"


def _keys(rule: Rule) -> Iterator[str]:
    options = {option for options in OPTIONS.values() for option in options}
    for key in rule.document():
        if key in options and key not in OPTIONS[rule.act]:
            yield f"{key}: has no meaning with act {rule.act}; leave it out"
    if rule.act in _NEEDED and not rule.gives(_NEEDED[rule.act]):
        yield f"{_NEEDED[rule.act]}: act {rule.act} needs it"


def _contradictions(rule: Rule) -> Iterator[str]:
    if rule.gives("nth") and rule.gives("times"):
        yield "nth: is one match and times many; leave out one"
    if rule.gives("error") and rule.on != "answer":
        yield "error: only answers have one; add on = answer"
    if rule.act == "delay" and rule.delay_ms == 0:
        yield "delay_ms: 0 delays nothing; give a longer time"
    if rule.on == "answer" and rule.act in _OF_REQUESTS:
        yield f"on: act {rule.act} is of requests{'; act lose is what drops an answer' * (rule.act == 'drop')}"


def _lateness(rule: Rule) -> Iterator[str]:
    if rule.gives("until") == rule.gives("delay_ms"):
        yield "delay_ms: act late needs it or until, and not both"
    if rule.gives("delay_ms") and rule.gives("at_most_ms"):
        yield "at_most_ms: is the bound of until; leave it out beside delay_ms"
    if rule.until == "closed" and rule.then != "stall":
        yield "until: the connection is closed at once; add then = stall, or use delay_ms"


def _alteration(rule: Rule) -> Iterator[str]:
    if rule.gives("set") == rule.gives("transform"):
        yield "set: act alter needs it or transform, and not both"
    only = TRANSFORMS.get(str(rule.transform))
    if only and (rule.api not in (None, only, [only]) or rule.on == "request"):
        yield f"transform: {rule.transform} is of answers of {only}; leave out api and on"
    if rule.gives("lower") != (rule.transform == "lower-api-versions"):
        yield "lower: belongs to transform = lower-api-versions; give both or neither"
    for name, version in rule.lower.items() if isinstance(rule.lower, Mapping) else ():
        if not _is_whole(version) or version < 0:
            yield f"lower: {name} must have a version, a whole number"


def _is_until(value: Any) -> bool:
    kind, colon, name = value.partition(":") if isinstance(value, str) else ("", "", "")
    return value == "closed" or (bool(colon and name) and kind in ("event", "next", "answered") and "/" not in name)


def _is_within(most: int, value: Any) -> bool:
    return _is_whole(value) and 0 <= value <= most


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _are(value: Any, fits: Any) -> bool:
    values = value if isinstance(value, (list, tuple)) else [value]
    return bool(values) and all(fits(one) for one in values)
