"""Services of the other packages for the harness: an interface each, behind an entry point of the group `fencepost.service`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Protocol

from fencepost.harness.api.run import Run

Progress = Callable[[str], None]


# --------------------------------------------------------------------------------------------------
# Judging
# --------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class SelfcheckRow:
    """A line of the answer of a selfcheck.

    damage: the planted damage.
    expected: the anomalies that it must cause.
    anomalies: anomalies that are new beside the undamaged history, and the expected ones that are shown.
    ok: caught, and no forbidden anomaly beside it that is no consequence of it; False: missed, or a false alarm; None: the
        contract judges nothing of the kind, or no damage is known (`note` says why).
    note: the reason, in words; may be empty.
    """

    damage: str
    expected: tuple[str, ...]
    anomalies: tuple[str, ...]
    ok: bool | None
    note: str


@dataclass(frozen=True)
class AnomalyRules:
    """The declarations of a check, in words.

    anomaly: the name of its anomaly.
    promise: the promise of clients that the anomaly breaks.
    definition: the definition of the anomaly.
    rules: from the first that is tried to the last: whether the anomaly is then forbidden, allowed or inapplicable; the
        conditions on the contract, as `acks=1`; and the reason.
    absence: kinds of evidence without which `held` is unknown.
    presence: kinds of evidence without which a finding proves nothing.
    damages: the damages that a selfcheck plants for it.
    occasions: kinds of events of which one has to occur; none: whatever is compared is an occasion.
    """

    anomaly: str
    promise: str
    definition: str
    rules: tuple[tuple[str, str, str], ...]
    absence: tuple[str, ...]
    presence: tuple[str, ...]
    damages: tuple[str, ...]
    occasions: tuple[str, ...] = ()


@dataclass(frozen=True)
class GraphColumns:
    """The graph of a history, or a part of it (docs/graphs.md), as columns.

    operations: history indices, rising (an array of numpy).
    edges: an Arrow table: `source`, `target` (history indices), `kind` (`ww`, `wr`, `rw`, `lso`, `process`, `realtime`); null for
        the two kinds of time: `partition`, `low` and `high` (offsets of the records behind the edge, of several the first),
        `records` (how many there are), `group_offset` (it leads through an offset that a group committed), and of wr edges
        `judged` (their reader is judged as read_committed).
    """

    operations: Any
    edges: Any


class Judge(Protocol):
    """Judges histories on Spark. `session` is a SparkSession, `schema` an Arrow schema."""

    def import_spark(self) -> None:
        """Import all that `start_session` needs."""

    def start_session(self, master: str, conf: Mapping[str, str]) -> Any:
        """A session at a Spark master; conf: Spark's settings. Raises HarnessError when it does not start."""

    def warm(self, session: Any) -> None:
        """Make a session ready for its first history."""

    def judge(
        self,
        run: Run,
        session: Callable[[], Any],
        contract: Mapping[str, str] | None,
        more: Mapping[str, Any],
        here: bool = False,
    ) -> dict[str, Any]:
        """The verdict's document of a run whose history is merged; writes `anomalies.parquet`.

        session: makes the session, or waits for it, and is called late. here: a history that fits in memory is judged by this
        process and forks of it, and `session` is called only when a check asks for Spark's tables. contract: laid over the
        plan's. more: checks beside the installed ones, by import path, or why there is none. Raises HistoryError when the history
        cannot be read.
        """

    def graph(self, run: Run, session: Callable[[], Any], start: Sequence[int] | None, radius: int, most: int) -> GraphColumns:
        """The graph of a run whose history is merged: all of it, or the operations up to `radius` edges away from some.

        session: called when the history does not fit in memory. start: history indices; None: the whole graph. Edges of time
        that follow from others are left out. Raises CampaignError when more than `most` operations lie there, and HistoryError
        when the history cannot be read.
        """

    def most_records_here(self) -> int:
        """The number of sent and read records of a history, beyond which `judge` calls for a session in any case."""

    def selfcheck(
        self, run: Run | None, session: Callable[[], Any], seed: int, more: Mapping[str, Any] | None = None
    ) -> Sequence[SelfcheckRow]:
        """Plant one damage after the other in a run's history, or in a generated one, and demand its anomaly.

        session: makes the session; called when the history is long, or a check asks for Spark's tables.
        more: checks by import path, beside the installed ones.
        """

    def breaches(self, check: Any) -> list[str]:
        """Every way in which a check of a plug-in breaks the interface of a check."""

    def never_forbidden(self, anomaly: str, contract: Mapping[str, str]) -> str:
        """The reason why no finding of an anomaly can be against a contract; empty when some can."""

    def permits_more(self, contract: Mapping[str, str], above: Mapping[str, str]) -> bool:
        """Return whether some anomaly is judged otherwise when `above` is laid over a contract."""

    def promises(self) -> Mapping[str, Sequence[str]]:
        """The promises of clients, in words, each with the anomalies that break it; those of plug-ins come last."""

    def rules(self, checks: Sequence[Any] | None = None) -> Sequence[AnomalyRules]:
        """The rules, the needs and the damages of some checks, or of all that are installed; by promise."""

    def judged_under(self, contract: Mapping[str, str]) -> Sequence[str]:
        """Names of the anomalies that are judged under a full contract, forbidden or allowed: those that are applicable."""

    def fetch(self, session: Any, url: str, run_dir: Path, schema: Any) -> str:
        """Copy the small files of the run at `url` into `run_dir`; the address of its history, which has this schema.

        Raises CampaignError (nothing is there) and HistoryError (not reached, not understood).
        """

    def contents(self, session: Any, history: str) -> tuple[dict[str, int], list[str]]:
        """The number of operations of each f of a history on another file system, and its partitions."""

    def bring(self, session: Any, run: Run, columns: Sequence[str], shown: Callable[[Any], Any], records: Iterable[int]) -> None:
        """Write `operations.parquet`, and `values.parquet` if there are values, of a run on another file system.

        columns: what all operations get. shown: from a table of these to the positions of the operations that get every column.
        records: identities whose values are wanted besides. Raises HistoryError.
        """


# --------------------------------------------------------------------------------------------------
# Kafka and Docker on this machine
# --------------------------------------------------------------------------------------------------
class KafkaVersion(Protocol):
    """A version of Kafka in the cache; `jars`: each file name with its SHA-256."""

    @property
    def version(self) -> str: ...
    @property
    def directory(self) -> Path: ...
    @property
    def jars(self) -> Mapping[str, str]: ...


class KafkaCache(Protocol):
    """The versions of Kafka on this machine, and the Java that runs them."""

    def fetch(self, version: str, on_progress: Progress) -> KafkaVersion:
        """Fetch a version, unless it is there as it was fetched. Raises ClusterError."""

    def installed(self) -> Sequence[KafkaVersion]: ...

    def setting_names(self, kind: str) -> Sequence[str]:
        """Names of settings of `broker` or `topic`, of the newest version in the cache that has told them."""

    def damage(self, version: str) -> Sequence[str]:
        """Damage of a version in the cache, every file of which is read again; empty: none."""

    def directory(self) -> Path:
        """The directory of the versions, and of downloads that are under way."""

    def java(self) -> tuple[str, str]:
        """Java's path and version. Raises ClusterError when there is none that is new enough."""


class DockerImage(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def id(self) -> str: ...


class DockerLeftover(Protocol):
    """Resources of a run in Docker, as text.

    live: the run may still be going on, and `remove` refuses.
    user: the user whose run it is.
    """

    @property
    def live(self) -> bool: ...
    @property
    def user(self) -> str: ...
    def remove(self) -> None: ...


class DockerService(Protocol):
    """Docker on this machine, as far as runs use it."""

    def build_image(self, kafka: str, base: str, on_progress: Progress) -> DockerImage:
        """Build an image with the jars of a version of Kafka. Raises ClusterError."""

    def trouble(self) -> str:
        """The reason why there can be no cluster in Docker; empty when there can."""

    def images(self, kafka: str) -> Sequence[str]:
        """Images by which brokers of this version start without a registry. Raises ClusterError."""

    def leftovers(self) -> Sequence[DockerLeftover]:
        """Resources of any run in Docker now; none on a machine without Docker. Raises ClusterError: no answer."""


# --------------------------------------------------------------------------------------------------
# The protocol itself
# --------------------------------------------------------------------------------------------------
class ProbeResult(str, Enum):
    """The result of a row: the demanded answer; another one that a later KIP demands; a wrong one; none."""

    MET = "met"
    DIFFERS = "differs"
    VIOLATED = "violated"
    UNREACHED = "not reached"


@dataclass(frozen=True)
class ProbeRow:
    """An answer of a broker to a request, beside the one that is demanded (`fencepost probe`).

    number: the request and its step in KIP-98, or a name.
    profile: the versions of the requests: `first`, `tv1`, `tv2`.
    situation: when the answer is given.
    demanded: the answer by its source.
    source: the place of the sentence.
    answer: the answer; empty: the situation was not reached.
    result: what becomes of the comparison.
    reason: the KIP that changed it, or why it was not reached; may be empty.
    """

    number: str
    profile: str
    situation: str
    demanded: str
    source: str
    answer: str
    result: ProbeResult
    reason: str = ""


class Prober(Protocol):
    """Compares the answers of brokers with KIP-98, by requests of its own."""

    def profiles(self) -> Mapping[str, str]:
        """The versions of requests by their names, each with its meaning."""

    def obtain(self, version: str, on_progress: Progress) -> str:
        """Fetch the schemas of messages that fit brokers of a version (empty: not known); the release they are of.

        Raises ClusterError.
        """

    def probe(
        self,
        release: str,
        bootstrap: str,
        settings: Mapping[str, Any],
        topic: tuple[str, int],
        prefix: str,
        profiles: Sequence[str],
        directory: Path,
        on_row: Callable[[ProbeRow], None],
    ) -> None:
        """Play every row with each of these profiles.

        release: what `obtain` returned. settings: of clients, secrets resolved. topic: its name and its number of partitions.
        prefix: of transactional ids, and of the group. directory: for logs. Raises ClusterError when no broker answers.
        """
