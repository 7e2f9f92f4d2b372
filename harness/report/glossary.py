"""Terms of Kafka's transactions as the page explains them, and links to the proposals (KIPs) that promise something.

A page has the terms that its cards use, and no others. Links to proposals are for readers: the page itself fetches nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from markupsafe import Markup, escape

from fencepost.harness.visible_text import visible

_WIKI = "https://cwiki.apache.org/confluence/display/KAFKA/"
_KIPS = {  # titles of Kafka's improvement proposals, as their addresses have them
    91: "+Provide+Intuitive+User+Timeouts+in+The+Producer",
    98: "+-+Exactly+Once+Delivery+and+Transactional+Messaging",
    101: "+-+Alter+Replication+Protocol+to+use+Leader+Epoch+rather+than+High+Watermark+for+Truncation",
    106: "+-+Change+Default+unclean.leader.election.enabled+from+True+to+False",
    129: "%3A+Streams+Exactly-Once+Semantics",
    279: "%3A+Fix+log+divergence+between+leader+and+follower+after+fast+leader+fail+over",
    320: "%3A+Allow+fetchers+to+detect+and+handle+log+truncation",
    360: "%3A+Improve+reliability+of+idempotent%2Ftransactional+producer",
    429: "%3A+Kafka+Consumer+Incremental+Rebalance+Protocol",
    447: "%3A+Producer+scalability+for+exactly+once+semantics",
    588: "%3A+Allow+producers+to+recover+gracefully+from+transaction+timeouts",
    618: "%3A+Exactly-Once+Support+for+Source+Connectors",
    664: "%3A+Provide+tooling+to+detect+and+abort+hanging+transactions",
    679: "%3A+Producer+will+enable+the+strongest+delivery+guarantee+by+default",
    875: "%3A+First-class+offsets+support+in+Kafka+Connect",
    890: "%3A+Transactions+Server-Side+Defense",
    966: "%3A+Eligible+Leader+Replicas",
}


@dataclass(frozen=True, kw_only=True)
class Term:
    """A term. words: the forms by which texts name it, as a regular expression."""

    id: str
    name: str
    words: str
    meaning: str


TERMS = (
    Term(
        id="lso",
        name="last stable offset (LSO)",
        words=r"last stable offsets?|LSO",
        meaning="The offset below which every transaction of a partition is decided. read_committed consumers read up to "
        "it, so one open transaction hides everything behind its first record.",
    ),
    Term(
        id="high-watermark",
        name="high watermark",
        words=r"high watermarks?",
        meaning="The offset below which all in-sync replicas of a partition have every record. Consumers read no further.",
    ),
    Term(
        id="marker",
        name="marker",
        words=r"(?:COMMIT |ABORT |control |commit |abort |transaction )?markers?",
        meaning="A control record, COMMIT or ABORT, which the coordinator writes into every partition of a transaction "
        "when it is decided. It has an offset and is returned to no consumer. It ends whatever its producer has "
        "open in the partition.",
    ),
    Term(
        id="producer-epoch",
        name="producer id and epoch",
        words=r"producer epochs?|producer ids?(?: and epochs?)?",
        meaning="The broker's names for an instance of a producer. The id stays with a transactional id; the epoch rises "
        "with each new instance, and since KIP-890 with each transaction. What comes with an older epoch is "
        "refused.",
    ),
    Term(
        id="leader-epoch",
        name="leader epoch",
        words=r"leader epochs?",
        meaning="The number of a partition's leader, one higher with each new leader. A replica whose log goes on in an "
        "older epoch is truncated to where its leader's log agrees.",
    ),
    Term(
        id="sequence-number",
        name="sequence number",
        words=r"sequence numbers?",
        meaning="The number of a record among those of its producer id and epoch in a partition, without a hole. By it a "
        "broker knows a retry, and refuses what would leave a gap.",
    ),
    Term(
        id="fencing",
        name="fencing",
        words=r"fenc(?:ing|ed|es?)|zombies?",
        meaning="The refusal of requests of an older instance of a transactional id (a zombie) once a newer one has initialised.",
    ),
    Term(
        id="coordinator",
        name="transaction coordinator",
        words=r"(?:transaction )?coordinators?",
        meaning="The broker that decides the transactions of a transactional id: the leader of the partition of "
        "__transaction_state to which its id is hashed.",
    ),
    Term(
        id="transactional-id",
        name="transactional id",
        words=r"transactional ids?",
        meaning="The name under which a producer initialises; it outlives the process, so that a successor fences its "
        "predecessor.",
    ),
    Term(
        id="read-committed",
        name="read_committed, read_uncommitted",
        words=r"read_(?:un)?committed",
        meaning="Isolation levels of consumers. read_committed returns records of committed transactions alone, and none "
        "behind the last stable offset; read_uncommitted returns everything up to the high watermark.",
    ),
    Term(
        id="final-read",
        name="final read",
        words=r"final reads?",
        meaning="fencepost's own reading of every partition from its start to its end, at both isolation levels, after "
        "everything was healed. A record that it does not return is missing.",
    ),
    Term(
        id="torn",
        name="torn transaction",
        words=r"torn|torn transactions?",
        meaning="A transaction some of whose records are visible to read_committed consumers and others are not.",
    ),
    Term(
        id="info",
        name="ok, fail, info",
        words=r"info",
        meaning="What is known of an operation: ok, it happened; fail, it surely did not; info, nobody knows (a commit "
        "without an answer).",
    ),
    Term(
        id="idempotence",
        name="idempotence",
        words=r"idempot(?:ence|ent)",
        meaning="The producer's promise that a retry is stored once, by sequence numbers. Without it an unanswered request "
        "that is sent again is stored twice.",
    ),
    Term(
        id="group-offset",
        name="group offset",
        words=r"group offsets?|committed offsets?|group's offsets?",
        meaning="The next record of a partition that a consumer group will read, as it was last committed; inside a "
        "transaction it is committed with the transaction, or not at all.",
    ),
    Term(
        id="isr",
        name="in-sync replicas (ISR)",
        words=r"in-sync replicas?|ISR|in sync",
        meaning="The replicas that have caught up with their leader; one of them succeeds it unless unclean elections are "
        "allowed.",
    ),
    Term(
        id="truncation",
        name="truncation, unclean election",
        words=r"truncat(?:ed|ion|es?)|unclean(?: leader)? elections?",
        meaning="A replica drops the end of its log when its leader's log does not have it. After an unclean election that "
        "may be acknowledged records.",
    ),
    Term(
        id="hanging",
        name="hanging transaction",
        words=r"hanging(?: transactions?)?",
        meaning="A transaction of a partition that no coordinator knows to be open, so that no timeout ends it (KIP-664).",
    ),
)
_BY_ID = {term.id: term for term in TERMS}
_NAMED = re.compile(
    r"(?P<kip>KIP-\d{1,4})|"
    + "|".join(f"(?P<{term.id.replace('-', '_')}>(?<![\\w.-])(?:{term.words})(?![\\w-]))" for term in TERMS)
)
_CODE = re.compile(r"(`[^`]*`)")


def kip_address(number: int) -> str:
    """The address of a proposal; the list of all where its title is not known here."""
    return f"{_WIKI}KIP-{number}{_KIPS[number]}" if number in _KIPS else f"{_WIKI}Kafka+Improvement+Proposals"


def explained(text: str, without: str = "") -> Markup:
    """Text in which proposals and the first mention of each term are links. What backticks enclose is code; all is escaped.

    without: the id of a term that is no link.
    """
    seen = {without}
    parts = _CODE.split(visible(text))
    made = [Markup("<code>{}</code>").format(part[1:-1]) if at % 2 else _linked(part, seen) for at, part in enumerate(parts)]
    return Markup("").join(made)


def _linked(text: str, seen: set[str]) -> Markup:
    made, start = Markup(), 0
    for match in _NAMED.finditer(text):
        made += escape(text[start : match.start()]) + _link(match, seen)
        start = match.end()
    return made + escape(text[start:])


def _link(match: re.Match[str], seen: set[str]) -> Markup:
    name, words = (match.lastgroup or "").replace("_", "-"), match[0]
    if name == "kip":
        return Markup('<a href="{}" rel="noreferrer">{}</a>').format(kip_address(int(words[4:])), words)
    if name in seen:
        return escape(words)
    seen.add(name)
    return Markup('<a class="term" href="#term-{}">{}</a>').format(name, words)


def used(texts: Iterable[str]) -> tuple[Term, ...]:
    """The terms that some texts use, and those that their meanings use, by name."""
    wanted, looked = list(texts), dict[str, Term]()
    while wanted:
        for match in _NAMED.finditer(_CODE.sub(" ", wanted.pop())):
            term = _BY_ID.get((match.lastgroup or "").replace("_", "-"))
            if term and term.id not in looked:
                looked[term.id] = term
                wanted.append(term.meaning)
    return tuple(sorted(looked.values(), key=lambda term: term.name.lower()))
