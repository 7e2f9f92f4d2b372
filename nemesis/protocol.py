"""Protocol: a fault at a step of Kafka's protocol, by the proxy before each broker (docs/proxy.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from random import Random
from typing import Annotated, Any, ClassVar, Literal

from fencepost.harness.api import Between, CampaignError, Catch, ClusterError, Interceptable, Receipt, Scalable, Wait
from fencepost.harness.api.bounds import demand_bounds
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
SHOWN = 50  # messages in a receipt
MOST = 1_000_000
DEFAULT = "hold", "EndTxn"  # where no act is given


@dataclass(frozen=True, kw_only=True)
class ProtocolStep:
    """Acts on requests, or answers, of one of Kafka's APIs; and, if asked to, strikes with another fault as soon as it has one.

    One of the acts names the API: `hold = "EndTxn"` (the default). Needs `proxy = true` of the cluster. `fire` names a fault that
    is injected at the moment of the first catch, with a receipt of its own; what is held goes on when it has struck, and nothing
    is held after that. Otherwise the rule ends with the fault, and what it holds then goes on. Evidence: the messages that were
    caught, when, and what became of each.
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
        if self.fire_options and not self.fire:
            raise ValueError("fire_options are those of `fire`, which names no fault")
        check_rule(self.rule())

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
            "late": {"then": self.then, **(until or {"delay_ms": self.delay_ms})},
            "repeat": {"count": self.copies},
            "error": {"code": self.code},
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
            struck = self._strike(cluster, number, catches)
        caught = tuple(dict.fromkeys(catch.node for catch in catches))
        evidence = {"number": number, "rule": self.rule(), "before": 0, "during": _shown(catches), **struck}
        note = "" if catches else f"no {self.on} of {self.what[1]} came within {self.catch_within_s:g} s"
        return Receipt(role=self.target, targets=caught or nodes, evidence=evidence, effective=bool(catches), note=note)

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


def check_rule(rule: Mapping[str, Any]) -> None:
    """Raise ValueError for a rule that the proxies would refuse."""
    try:
        rules.of_mapping(rule)
    except CampaignError as error:
        raise ValueError("; ".join(error.mistakes)) from None
    if wrong := list(names.mistakes(rule)):  # here the option that is the act names the API
        raise ValueError(
            "; ".join(f"{rule['act']}{text.removeprefix('api')}" if text.startswith("api:") else text for text in wrong)
        )


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
