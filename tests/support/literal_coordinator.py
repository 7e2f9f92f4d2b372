"""A coordinator and leaders in memory, by the letter of KIP-98: what a prober asks, they answer. Each lie breaks one sentence."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace

from fencepost.clusters.probe.profiles import FIRST, PROFILES
from fencepost.clusters.probe.stage import Stage
from fencepost.clusters.probe.wire import Wire

NAMES = (
    "NONE",
    "INVALID_PRODUCER_ID_MAPPING",
    "INVALID_PRODUCER_EPOCH",
    "INVALID_TXN_STATE",
    "NOT_COORDINATOR",
    "INVALID_TRANSACTION_TIMEOUT",
    "DUPLICATE_SEQUENCE_NUMBER",
    "OUT_OF_ORDER_SEQUENCE_NUMBER",
)
NONE, MAPPING, EPOCH, STATE, NOT_HERE, TIMEOUT, DUPLICATE, GAP = range(len(NAMES))
HERE, ELSEWHERE = SimpleNamespace(host="n1", port=1), SimpleNamespace(host="n2", port=1)


@dataclass
class Transaction:
    """What the coordinator has of a transactional id."""

    producer_id: int
    epoch: int = 0
    state: str = "Empty"
    short: bool = False
    committing: int = 0  # requests until its markers are written
    sequences: dict[int, int] = field(default_factory=dict)


class Codes:
    """Error codes are places in `NAMES` here, and a batch is what it is made of."""

    def error(self, code):
        return NAMES[code]

    def batch(self, producer_id, epoch, sequence, value):
        return producer_id, epoch, sequence


class LiteralWire(Wire):
    """All requests of a prober, answered by one coordinator. lie: the name of a request whose rule is broken."""

    def __init__(self, lie: str = "") -> None:
        super().__init__(Codes(), "n1:1", {}, PROFILES[FIRST])
        object.__setattr__(self, "ids", {})
        object.__setattr__(self, "lie", lie)
        object.__setattr__(self, "others", {2: ELSEWHERE})

    def ask(self, place, name, version=None, /, **fields):
        return getattr(self, f"_{name}")(place, fields)

    def brokers(self):
        return {1: HERE, **self.others}

    def leader(self, topic, number):
        return HERE

    def coordinator(self, kind, key, anew=False):
        return HERE

    def described(self, transactional_id):
        known = self.ids[transactional_id]
        if known.short and known.state == "Ongoing":
            known.state, known.epoch = "CompleteAbort", known.epoch + 1
        self._advance(known)
        return {"transactionState": known.state, "producerId": known.producer_id, "producerEpoch": known.epoch}

    def _InitProducerId(self, place, fields):
        if place is ELSEWHERE and self.lie != "coordinator":
            return {"errorCode": NOT_HERE, "producerId": -1, "producerEpoch": -1}
        if fields["transactionTimeoutMs"] > 900_000 and self.lie != "timeout":
            return {"errorCode": TIMEOUT, "producerId": -1, "producerEpoch": -1}
        known = self.ids.get(fields["transactionalId"])
        if known is None:
            known = self.ids[fields["transactionalId"]] = Transaction(7000 if self.lie == "one id" else 7000 + len(self.ids))
        else:
            known.epoch += 0 if self.lie == "epoch" else 1
            known.state = "Ongoing" if self.lie == "leaves open" else "Empty"
        known.short = fields["transactionTimeoutMs"] <= 1000
        return {"errorCode": NONE, "producerId": known.producer_id, "producerEpoch": known.epoch}

    def _AddPartitionsToTxn(self, place, fields):
        names = {name.removeprefix("v3AndBelow"): value for name, value in fields.items()}
        own = {
            "transactionalId": names["TransactionalId"],
            "producerId": names["ProducerId"],
            "producerEpoch": names["ProducerEpoch"],
        }
        code = self._added(own, begins=True)
        return {"resultsByTopicV3AndBelow": [{"resultsByPartition": [{"partitionErrorCode": code}]}]}

    def _AddOffsetsToTxn(self, place, fields):
        return {"errorCode": self._added(fields, begins=self.lie == "offsets begin")}

    def _added(self, fields, begins):
        code = self._identified(fields, "add")
        known = self.ids.get(fields["transactionalId"])
        if code != NONE or known is None:
            return code
        if known.state == "PrepareCommit" or (known.state != "Ongoing" and not begins):
            self._advance(known)
            return STATE
        known.state = "Ongoing"
        return NONE

    def _EndTxn(self, place, fields):
        code = self._identified(fields, "end")
        if code != NONE:
            return {"errorCode": code}
        if fields["transactionalId"] not in self.ids:  # only a liar comes so far
            return {"errorCode": NONE}
        known, word = self.ids[fields["transactionalId"]], "Commit" if fields["committed"] else "Abort"
        if known.state == "Ongoing":
            known.state, known.committing = f"Prepare{word}", 1
            return {"errorCode": NONE}
        same = known.state == f"Complete{word}"
        self._advance(known)
        return {"errorCode": NONE if same or self.lie == "direction" else STATE}

    def _Produce(self, place, fields):
        producer_id, epoch, sequence = fields["topicData"][0]["partitionData"][0]["records"]
        known = next(each for each in self.ids.values() if each.producer_id == producer_id)
        code, offset = NONE, sequence
        if epoch < known.epoch and self.lie != "zombie record":
            code = EPOCH
        elif known.state != "Ongoing":
            code = STATE
        elif sequence < known.sequences.get(epoch, 0):
            code = DUPLICATE
        elif sequence > known.sequences.get(epoch, 0):
            code = NONE if self.lie == "gap" else GAP
        known.sequences[epoch] = sequence + 1
        return {"responses": [{"partitionResponses": [{"errorCode": code, "baseOffset": offset}]}]}

    def _TxnOffsetCommit(self, place, fields):
        code = EPOCH if fields["producerEpoch"] < self.ids[fields["transactionalId"]].epoch else NONE
        return {"topics": [{"partitions": [{"errorCode": code}]}]}

    def _identified(self, fields, request):
        known = self.ids.get(fields["transactionalId"])
        if known is None or known.producer_id != fields["producerId"]:
            return NONE if self.lie == f"{request} mapping" else MAPPING
        if known.epoch != fields["producerEpoch"] and self.lie != f"{request} epoch":
            return EPOCH
        return NONE

    def _advance(self, known):
        """Markers are written a request after the decision."""
        if known.state.startswith("Prepare"):
            known.committing -= 1
            if known.committing < 0:
                known.state = known.state.replace("Prepare", "Complete")


def stage(lie: str = "") -> Stage:
    return Stage(LiteralWire(lie), "t", 2, "p-", FIRST)
