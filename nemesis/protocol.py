"""Protocol: a fault at a step of Kafka's protocol, by the proxy before each broker (docs/proxy.md)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from random import Random
from typing import Annotated, Any, ClassVar, Literal

from fencepost.harness.api import Between, CampaignError, Catch, ClusterError, Interceptable, Receipt, Scalable, Wait
from fencepost.harness.api.bounds import demand_bounds
from fencepost.harness.api.step_names import unknown_cell
from fencepost.harness.api.words import plural
from fencepost.harness.proxy import names, rules
from fencepost.nemesis.support import targets
from fencepost.nemesis.support.attempts import undo_on_error
from fencepost.nemesis.support.cluster_types import InterceptableCluster
from fencepost.nemesis.support.healing import healed
from fencepost.nemesis.support.no_effect import catch_no_effect, no_target_on_error
from fencepost.nemesis.support.waiting import poll_until

ACTS = ("hold", "delay", "drop", "lose", "late", "repeat", "error", "alter", "cut", "throttle")
NODE, ID, CLIENT = "{node}", "{transactional_id}", "{client}"  # in `fire_target`: of the message that was caught
RELEASE, FAILED, ENDED = "event:", "failed", "ended"
NARROWING = ("client_id", "transactional_id", "group", "topic", "partition", "state", "where", "nth", "connection_of")
SHOWN = 50  # messages in a receipt
MOST = 1_000_000
DEFAULT = "hold", "EndTxn"  # where no act is given
OF_ACTS: Mapping[str, tuple[str, ...]] = {  # options that only some acts have
    "until": ("hold", "late"),
    "at_most_ms": ("hold", "late"),
    "delay_ms": ("delay", "late"),
    "code": ("error",),
    "copies": ("repeat",),
    "set": ("alter",),
    "transform": ("alter",),
    "lower": ("alter",),
    "bytes_s": ("throttle",),
    "then": ("drop", "lose", "late"),
}


@dataclass(frozen=True, kw_only=True)
class ProtocolStep:
    """Acts on requests, or answers, of one of Kafka's APIs; and, if asked to, strikes with another fault as soon as it has one.

    One of the acts names the API: `hold = "EndTxn"` (the default). Needs `proxy = true` of the cluster. `fire` names a fault that
    is injected at the moment of the first catch, with a receipt of its own; what is held goes on when it has struck, and nothing
    is held after that, nor where nothing came in time. Otherwise the rule ends with the fault, and what it holds then goes on.
    Evidence: the messages that were caught, when, and what became of each.
    """

    needs: ClassVar[tuple[type, ...]] = (Interceptable,)

    hold: str = ""  # keep them until `until`
    delay: str = ""  # pass them on `delay_ms` later
    drop: str = ""  # do not pass requests on
    lose: str = ""  # do not deliver answers: the request was applied
    late: str = ""  # cut the client off, and deliver its request afterwards
    repeat: str = ""  # deliver requests `copies` times more
    error: str = ""  # answer with `code`; on = "answer": after the request was applied
    alter: str = ""  # change fields by `set`, or by `transform`
    cut: str = ""  # close the connection instead
    throttle: str = ""  # `bytes_s` for the connection from then on
    on: Literal["request", "answer"] = "request"  # what is caught
    until: str = ""  # what ends a hold: next:API, answered:API, closed (default: fire has struck, or at_most_ms is over)
    at_most_ms: Annotated[int, Between(1, 600_000)] = 30_000  # the longest time that anything is held
    delay_ms: Annotated[int, Between(0, 600_000)] = 0  # of delay and late
    code: str = ""  # Kafka's name of the error: NOT_COORDINATOR
    copies: Annotated[int, Between(1, 100)] = 1  # of repeat
    set: Mapping[str, Any] = field(default_factory=dict)  # path in Kafka's JSON of the body -> value: { committed = false }
    transform: Literal["", "reverse-aborted", "lower-api-versions"] = ""  # of alter
    lower: Mapping[str, int] = field(default_factory=dict)  # API -> the newest version that is offered, of lower-api-versions
    bytes_s: Annotated[int, Between(0, 100 * MOST)] = 0  # of throttle
    then: Literal["cut", "stall"] = "cut"  # what becomes of a connection whose message was dropped or lost
    client_id: str = ""  # only of these clients; * and ? stand for any text
    transactional_id: str = ""  # only of these
    group: str = ""  # only of these
    topic: str = ""  # only of these
    partition: Annotated[int, Between(-1, MOST)] = -1  # only of this one; -1: any
    peer: Literal["any", "client", "broker"] = "any"  # whether clients or other brokers send it
    state: Literal["", "fresh", "committed", "aborted", "fenced"] = (
        ""  # only where the id was in this state when the request came
    )
    where: Mapping[str, Any] = field(default_factory=dict)  # path in the body -> value that it must have: { committed = true }
    nth: Annotated[int, Between(0, MOST)] = 0  # only the n-th match; 0: every one
    times: Annotated[int, Between(0, MOST)] = 0  # at most so many; 0: no limit (with fire: 1)
    target: str = "all"  # the brokers before which it is caught
    cell: str = ""  # its place in the matrix of steps (docs/protocol-faults.md): end-txn/before/kill
    fire: str = ""  # another fault: kill
    fire_target: str = f"broker:{NODE}"  # its target; {node}, {client} and {transactional_id} are those of the message
    fire_options: Mapping[str, Any] = field(default_factory=dict)  # its other options
    fire_lasts_s: Annotated[float, Between(0, 86_400)] = 3.0  # how long it lasts
    catch_within_s: Wait = 10.0  # how long to wait for the first catch before the fault counts as without effect

    def __post_init__(self) -> None:
        demand_bounds(self)
        targets.check(self.target, targets.BROKERS)
        given = [act for act in ACTS if getattr(self, act)]
        if len(given) > 1:
            raise ValueError(f"{', '.join(given)} are given, and one fault does one of them; lanes put several side by side")
        if wrong := [*self._idle(), *self._unfilled(), *self._uncounted(), *rule_mistakes(self.rule())]:
            raise CampaignError(wrong)

    def _idle(self) -> Iterator[str]:
        """Options that are given, and of which the act makes nothing."""
        act = self.what[0]
        for option, acts in OF_ACTS.items():
            if act not in acts and self._differs(option):
                yield f"{option}: has no meaning with {act}; leave it out"
        for option in ("fire_target", "fire_options", "fire_lasts_s"):
            if not self.fire and self._differs(option):
                yield f"{option}: is of `fire`, which names no fault; give fire, or leave it out"
        if act == "late" and self.until and self._differs("delay_ms"):
            yield "delay_ms: act late needs it or until, and not both"
        if act == "late" and not self.until and self._differs("at_most_ms"):
            yield "at_most_ms: is the bound of until; leave it out beside delay_ms"
        if self.until.startswith("event:"):
            yield "until: nobody tells a run of an event; must be next:API, answered:API or closed"

    def _differs(self, option: str) -> bool:
        """True if an option has not its default."""
        declared = self.__dataclass_fields__[option]
        default = declared.default_factory() if callable(declared.default_factory) else declared.default
        return bool(getattr(self, option) != default)

    def _uncounted(self) -> Iterator[str]:
        """A cell for which no page would count it."""
        if self.cell and (text := unknown_cell(self.cell)):
            yield f"cell: {text}"

    def _unfilled(self) -> Iterator[str]:
        places = {NODE, ID, CLIENT}
        for name in re.findall(r"{[^}]*}?", self.fire_target):
            if name not in places:
                yield f"fire_target: {name} stands for nothing of a message; there are {', '.join(sorted(places))}"

    @property
    def what(self) -> tuple[str, str]:
        """The act, and the APIs of its messages."""
        return next(((act, str(getattr(self, act))) for act in ACTS if getattr(self, act)), DEFAULT)

    def rule(self) -> dict[str, Any]:
        """The rule for the proxy, as docs/proxy.md has it."""
        act, apis = self.what
        names = [name.strip() for name in apis.split(",")]
        on = "answer" if self.transform else self.on  # what is transformed are answers
        rule: dict[str, Any] = {"api": names[0] if len(names) == 1 else names, "act": act, "on": on}
        for name in ("client_id", "transactional_id", "group", "topic", "state", "where", "nth"):
            if value := getattr(self, name):
                rule[name] = value
        if self.partition >= 0:
            rule["partition"] = self.partition
        if self.peer != "any":
            rule["connection_of"] = self.peer
        if times := self.times or (1 if self.fire and not self.nth else 0):
            rule["times"] = times
        return {**rule, **self._of_act()}

    def _of_act(self) -> dict[str, Any]:
        """The options of the act."""
        until = {"until": self.until} if self.until else {}
        own: dict[str, dict[str, Any]] = {
            "hold": {"until": self.until or RELEASE + "release", "at_most_ms": self.at_most_ms},
            "delay": {"delay_ms": self.delay_ms},
            "drop": {"then": self.then},
            "lose": {"then": self.then},
            "late": {"then": self.then, **({**until, "at_most_ms": self.at_most_ms} if until else {"delay_ms": self.delay_ms})},
            "repeat": {"count": self.copies},
            "error": {"code": self.code} if self.code else {},
            "alter": {
                name: value for name, value in (("set", self.set), ("transform", self.transform), ("lower", self.lower)) if value
            },
            "throttle": {"bytes_s": self.bytes_s},
        }
        return own.get(self.what[0], {})

    def fired(self) -> tuple[str, Mapping[str, Any]] | None:
        """See `harness.api.FiresFault`."""
        if not self.fire:
            return None
        known = self.fire_target and not any(name in self.fire_target for name in (NODE, ID, CLIENT))
        return self.fire, {**self.fire_options, **({"target": self.fire_target} if known else {})}

    @catch_no_effect
    def inject(self, cluster: InterceptableCluster, rng: Random) -> Receipt:
        """Give the rule to the proxies, and wait for the first catch."""
        nodes = () if self.target == "all" else targets.find(self.target, cluster, rng)
        number = cluster.intercept(self.rule(), nodes)
        with undo_on_error(lambda: cluster.withdraw(number)):
            catches = poll_until(lambda: _acted(cluster.caught(number)), bool, self.catch_within_s)
            failed = [] if catches else cluster.caught(number)
            struck = self._strike(cluster, number, catches)
            if self.fire and not catches:  # what comes later is no occasion for a fault that nobody fires any more
                cluster.withdraw(number)
        caught = tuple(dict.fromkeys(catch.node for catch in catches))
        evidence = {"number": number, "rule": self.rule(), "before": 0, "during": _shown(catches), **struck}
        note = "" if catches else self._missed()
        if failed:
            note = f"{plural(len(failed), 'message')} came, and could not be acted on: {failed[-1].why}"
        note += f", so {self.fire} was not fired" if self.fire and not catches else ""
        return Receipt(role=self.target, targets=caught or nodes, evidence=evidence, effective=bool(catches), note=note)

    def _missed(self) -> str:
        """What did not come in time. Others of the API may have come, where more is asked for."""
        rule = self.rule()
        on, more = rule["on"], any(key in rule for key in NARROWING)
        return f"no {on} of {self.what[1]}{' that matches' * more} came within {self.catch_within_s:g} s"

    def _strike(self, cluster: InterceptableCluster, number: int, catches: Sequence[Catch]) -> dict[str, Any]:
        """Fire the other fault, then let go on what is held for it: at the other brokers, too, where more may have come."""
        if not self.fire or not catches:
            return {}
        target = _filled(self.fire_target, catches[0], cluster)
        options = {**self.fire_options, **({"target": target} if target else {})}
        struck = cluster.strike_now(self.fire, options, self.fire_lasts_s)
        over = {"after": _shown(cluster.withdraw(number))} if self.what[0] == "hold" and not self.until else {}
        return {"fired": {"kind": self.fire, "options": options, "effective": struck}, **over}

    def heal(self, cluster: InterceptableCluster, receipt: Receipt) -> Receipt:
        """Withdraw the rule; what it caught in the end decides whether it had an effect."""
        number = receipt.evidence.get("number")
        if number is None:
            return receipt
        replaced = cluster.replaced(number)
        left = _acted(cluster.withdraw(number))
        after = _shown(left) or receipt.evidence.get("after", [])  # the rule ended when another fault had struck
        if not after and not replaced:
            return receipt
        caught = max(len(left), len(after))
        notes = [f"{plural(caught, 'message')} caught", *_replaced(replaced)]
        if ended := [catch for catch in left if catch.state == ENDED]:
            where = ", ".join(dict.fromkeys(catch.node for catch in ended))
            notes.append(f"the proxy of {where} ended, and {plural(len(ended), 'message')} that it held went no further")
        nodes = tuple(dict.fromkeys(catch.node for catch in left)) or tuple(dict.fromkeys(catch["node"] for catch in after))
        struck = replace(receipt, targets=nodes, effective=True) if after else receipt
        again = {"replaced": replaced} if replaced else {}
        return healed(struck, {"caught": caught, "after": after, **again}, notes)


def _filled(target: str, catch: Catch, cluster: InterceptableCluster) -> str:
    """A target with what is known of a message. Raises NoEffect where nobody knows which client sent it."""
    filled = target.replace(NODE, catch.node).replace(ID, catch.transactional_id)
    if CLIENT not in filled:
        return filled
    given = {cluster.transactional_id(node): node for node in cluster.clients} if isinstance(cluster, Scalable) else {}
    with no_target_on_error(target):
        if not (node := given.get(catch.transactional_id)):
            raise ClusterError(f"nobody knows the client with the transactional id {catch.transactional_id or '(none)'}")
    return filled.replace(CLIENT, node)


def rule_mistakes(rule: Mapping[str, Any]) -> list[str]:
    """What the proxies of a run would refuse of a rule, or never meet, by the options of this fault that make it."""
    wrong = [*_refused(rule), *rules.unknown(rule), *_elsewhere(rule)]
    options = {"api": rule["act"], "count": "copies", "connection_of": "peer"}
    by_key = (mistake.partition(": ") for mistake in wrong)
    return [f"{options.get(key, key)}: {text}" for key, _, text in by_key]


def _refused(rule: Mapping[str, Any]) -> list[str]:
    try:
        rules.of_mapping(rule)
    except CampaignError as error:
        return error.mistakes
    return []


def _elsewhere(rule: Mapping[str, Any]) -> Iterator[str]:
    """APIs that brokers do not take, before which alone proxies stand in a run."""
    apis = names.known().apis
    for given in names.texts(rule["api"]):
        if (named := [api for name, api in apis.items() if names.matches(given, name)]) and not any(api.broker for api in named):
            yield f"api: {given} goes to controllers, and proxies stand before brokers alone; choose another request"


def _replaced(replaced: Mapping[str, bool]) -> list[str]:
    """What became of the rule where a proxy has ended."""
    words = {
        True: "the rule was put at the one started in its place",
        False: "the rule does not hold at the one started in its place",
    }
    return [f"the proxy of {node} ended, and {words[holds]}" for node, holds in replaced.items()]


def _acted(catches: Sequence[Catch]) -> list[Catch]:
    """The messages on which the rule could act."""
    return [catch for catch in catches if catch.state != FAILED]


def _shown(catches: Sequence[Catch]) -> list[dict[str, Any]]:
    """The first messages as plain JSON."""
    return [asdict(catch) for catch in catches[:SHOWN]]
