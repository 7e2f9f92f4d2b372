"""A run as a value: the content of its directory, read once (`harness.history.run_directory.open_run`, docs/run-directory.md).

Judging, reporting, listing, exporting and removing take it. Missing and damaged files are part of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, TypedDict

from msgspec import Meta

from fencepost.harness.api.beneath import regular, write_json
from fencepost.harness.api.errors import CampaignError, HistoryError
from fencepost.harness.api.evidence import Gap, GapKind, HistoryFile, Manifest
from fencepost.harness.api.files import Checksum, checksum
from fencepost.harness.api.history import Column, demand_columns
from fencepost.harness.api.recovery import RecoveryPlan

MOST_PARTITIONS = 1_000_000  # of a topic, in a plan: more than any cluster has, and few enough to be counted


class RunFile:
    """The names of the files in a run's directory."""

    PLAN = "plan.json"
    LINES = "history"  # the directory of the writers' lines
    FAULT_LINES = "faults.jsonl"  # in that directory
    HISTORY = "history.parquet"
    PRESENT = "present.parquet"  # the same without what lay in topics that were deleted, where there were any
    RECEIPTS = "faults.parquet"
    MANIFEST = "manifest.json"
    DAMAGE = "damage.json"
    LEFT_BEHIND = "left.json"
    VERDICT = "verdict.json"
    ANOMALIES = "anomalies.parquet"
    VALUES = "values.parquet"
    STORED = "stored.parquet"
    WIRE = "wire.parquet"
    WIRE_LINES = "wire"  # the directory of the lines that proxies wrote
    OPERATIONS = "operations.parquet"
    REPORT = "report.html"
    SUMMARY = "summary.md"
    JUDGEMENTS = "judgements"  # the directory of other judgements than the run's own
    LOGS = "logs"  # the directory of what brokers, workers and the harness wrote


MOST_BYTES = {  # of each file that is read as a whole: several times what the longest run writes
    RunFile.PLAN: 8 << 20,
    RunFile.MANIFEST: 32 << 20,
    RunFile.DAMAGE: 8 << 20,
    RunFile.LEFT_BEHIND: 1 << 20,
    RunFile.VERDICT: 16 << 20,
    RunFile.RECEIPTS: 64 << 20,
}
_JUDGED = (  # what a judgement writes
    RunFile.VERDICT,
    RunFile.ANOMALIES,
    RunFile.REPORT,
    RunFile.SUMMARY,
    RunFile.OPERATIONS,
)


# --------------------------------------------------------------------------------------------------
# The plan
# --------------------------------------------------------------------------------------------------
class SecondClusterDescription(TypedDict, total=False):
    brokers: Sequence[str]
    broker_settings: Mapping[str, Any]


class ClusterDescription(TypedDict, total=False):
    """The provider's description of the cluster: Kafka's version, jars with checksums, the brokers' settings, and more."""

    jars: Mapping[str, Any]
    broker_settings: Mapping[str, Any]
    eligible_leaders: bool
    second: SecondClusterDescription
    services: Mapping[str, str]


class ClusterPlan(TypedDict, total=False):
    kind: str
    options: Mapping[str, Any]
    description: ClusterDescription


class WorkloadPlan(TypedDict, total=False):
    kind: str
    options: Mapping[str, Any]


class ClientPlan(TypedDict, total=False):
    """The clients of a run. Settings are the workload's, with the test's laid over them.

    kind: the client library.
    version: the library and its release.
    producer: settings of the producers.
    consumer: settings of the consumers.
    members: settings of consumers that are members of a group of the workload.
    driver: the driver, of a client in a process of its own; None: the client runs in the worker's process.
    readers: the client of the processes that only read; None: the same client.
    recovery: what follows a commit or an abort that failed (`RECOVERIES`).
    """

    kind: str
    version: str
    producer: Mapping[str, Any]
    consumer: Mapping[str, Any]
    members: Mapping[str, Any]
    driver: DriverPlan | None
    readers: ReadersPlan | None
    recovery: str


class ReadersPlan(TypedDict, total=False):
    kind: str
    version: str
    driver: DriverPlan | None


class DriverPlan(TypedDict, total=False):
    """A driver as it is started (docs/client-drivers.md).

    command: its command line.
    reads: directories that its process needs to see.
    checksum: checksum of the driver.
    client: the client library and its release.
    runtime: the language runtime and its release.
    capabilities: names of `CAPABILITIES`.
    transactions: the newest version of the transaction protocol that its library has; None: not known.
    """

    command: Sequence[str]
    reads: Sequence[str]
    checksum: str
    client: str
    runtime: str
    capabilities: Sequence[str]
    transactions: int | None


class ConnectPlan(TypedDict, total=False):
    """A version of Kafka Connect.

    directory: the directory of its jars.
    java: the Java that runs it.
    jars: the name of each jar, with its SHA-256.
    fencing_s: seconds that a round of zombie fencing may take by the settings of its workers.
    """

    directory: str
    java: str
    jars: Mapping[str, str]
    fencing_s: float


class TopicPlan(TypedDict, total=False):
    partitions: Annotated[int, Meta(ge=0, le=MOST_PARTITIONS)]
    replication: Any  # a number; None in an adopted history
    settings: Mapping[str, str]
    cluster: str  # the Kafka cluster that has it; without: the one that is judged


class InjectionPlan(TypedDict, total=False):
    """A planned fault (`harness.api.plans.Injection`)."""

    id: int
    at_s: float
    lasts_s: float
    kind: str
    options: Mapping[str, Any] | None
    lane: str
    seed: int
    when: str


class Plan(TypedDict, total=False):
    """`plan.json`: everything that is decided before a run starts. A plan from elsewhere may lack any key."""

    schema: int
    run: str
    prefix: str
    campaign: str
    round: str  # the performance of the campaign: its time of start (UTC)
    test: str
    seed: int | None
    created: str
    command: str
    fencepost: str
    expect: Sequence[str]
    tolerate: Sequence[str]
    checkers: Sequence[str]
    time_s: float
    rate: float
    cluster: ClusterPlan
    workload: WorkloadPlan
    client: ClientPlan
    connect: Mapping[str, ConnectPlan]  # versions of Kafka Connect that are run
    topics: Mapping[str, TopicPlan]
    contract: Mapping[str, str]
    overridden: Mapping[str, str]
    derived: Mapping[str, str]  # what the settings give where the contract differs, since 0.2
    nemesis: Sequence[str]  # the kinds of faults that the test plans; those that were drawn from them are in the schedule
    schedule: Sequence[InjectionPlan]
    budget: Mapping[str, Any]
    at_least: Mapping[str, int]
    recovery: RecoveryPlan
    unavailable: Mapping[str, str]
    machine: Mapping[str, Any]
    manifest: bool  # whether the run writes a manifest
    history: str  # where the history lies when that is another file system
    source: Mapping[str, Any]  # of an adopted history: its path, its format, and what was counted in it


# --------------------------------------------------------------------------------------------------
# The run
# --------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Problem:
    """A file of a run's directory that is missing, or that cannot be read.

    file: its name.
    reason: the reason, in words.
    missing: it is not there.
    """

    file: str
    reason: str
    missing: bool = False

    def __str__(self) -> str:
        return f"{self.file} is missing" if self.missing else f"{self.file} could not be read ({self.reason})"

    @property
    def remedy(self) -> str:
        """The remedy, in words."""
        if self.file in _MERGED:
            return _MERGED_AGAIN if self.missing else f"remove it: {_MERGED_AGAIN}"
        return _REMEDIES.get(self.file, "remove it")


def table_problem(path: Path, columns: Sequence[Column], written: Checksum | None = None) -> Problem | None:
    """The problem of a Parquet table in a run's directory that should have these columns; None when there is none, as far as its
    head tells.

    written: its checksum when it was written, if that is known.
    """
    return _table_problem(path.parent, path.name, columns, written)


def _table_problem(directory: Path, file: str, columns: Sequence[Column], written: Checksum | None) -> Problem | None:
    path = directory / file
    try:
        regular(directory, file)
        demand_columns(path, columns)
        if written and checksum(path) != tuple(written):
            raise OSError("it is not as it was written: its checksum is another")
    except FileNotFoundError as error:
        return Problem(path.name, str(error), missing=True)
    except OSError as error:
        return Problem(path.name, error.strerror or str(error))
    return None


_MERGED = (RunFile.HISTORY, RunFile.RECEIPTS, RunFile.DAMAGE)
_MERGED_AGAIN = "`fencepost check` merges it again from the lines in `history/`; without these, check the original history again"
_REMEDIES = {
    RunFile.LINES: "put the folder itself there, with its files, as the run left it",
    RunFile.PLAN: "put it back from where the run was performed; without it `fencepost check` can judge only the history, as one "
    "from elsewhere: name its `history/` or `history.parquet`",
    RunFile.VERDICT: "judge the run with `fencepost check`",
    RunFile.ANOMALIES: "judge the run with `fencepost check`",
    RunFile.STORED: "a run records it where its cluster shows its files (docs/run-directory.md): put it back from where the run "
    "was performed, or perform it again",
    RunFile.WIRE: "a run records it where proxies lie between clients and brokers (docs/wire.md): put it back from where the run "
    "was performed, or perform it again",
}


Receipts = Sequence[Mapping[str, Any]]


def write_left_behind(directory: Path, sentences: Iterable[str]) -> None:
    """Write what a run could not remove from a cluster that is not ours, a sentence each with the remedy."""
    write_json(directory, RunFile.LEFT_BEHIND, {"left": list(sentences)})


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run's directory as it was when it was opened. Tables (Parquet) stay in their files; `path` names them.

    directory: its directory.
    plan: the plan; empty when there is none that can be read (`problems` says why).
    manifest: the files that belong to the history; None when there is none that can be read.
    gaps: the gaps of the history, as merging or adopting found them.
    merged: the names of the files that were merged; None: that was not noted.
    checksums: checksums of the tables when they were written, as far as they were noted.
    left_behind: things that could not be removed from a cluster that is not ours, a sentence each with the remedy.
    verdict: the verdict's document; empty when there is none that can be read.
    problems: by file, the reason why one of these documents is not there or cannot be read.
    judgement: the name of another judgement than the run's own, whose verdict this is; empty: the run's own.
    read_roster: reads `roster`, at its first use.
    read_receipts: reads `receipts`, at its first use.
    """

    directory: Path
    plan: Plan = field(default_factory=Plan)
    manifest: Manifest | None = None
    gaps: tuple[Gap, ...] = ()
    merged: tuple[str, ...] | None = None
    checksums: Mapping[str, Checksum] = field(default_factory=dict)
    left_behind: tuple[str, ...] = ()
    verdict: Mapping[str, Any] = field(default_factory=dict)
    problems: Mapping[str, Problem] = field(default_factory=dict)
    judgement: str = ""
    read_roster: Callable[[], tuple[HistoryFile, ...]] = tuple
    read_receipts: Callable[[], Receipts | Problem] = tuple

    def __str__(self) -> str:
        return str(self.directory)

    def place(self, file: str) -> str:
        """The place of a file of the run (`RunFile`) beneath its directory; for files that a judgement writes, in that of this
        judgement."""
        return f"{RunFile.JUDGEMENTS}/{self.judgement}/{file}" if self.judgement and file in _JUDGED else file

    def path(self, file: str) -> Path:
        """The path of a file of the run: to name it, or to open it once it is known to be regular (`harness.api.beneath`)."""
        return self.directory / self.place(file)

    def with_judgement(self, name: str, verdict: Mapping[str, Any] | None = None, problem: Problem | None = None) -> Run:
        """The run with another judgement of it: the verdict's document, or what is wrong with it."""
        problems = {file: known for file, known in self.problems.items() if file != RunFile.VERDICT}
        return replace(
            self, judgement=name, verdict=verdict or {}, problems=problems | ({RunFile.VERDICT: problem} if problem else {})
        )

    def lacks(self, file: str) -> bool:
        """True if a document is missing: the plan, the damage, what was left behind, or the verdict."""
        problem = self.problems.get(file)
        return problem is not None and problem.missing

    def demand_readable(self, file: str) -> None:
        """Raises HistoryError for a document that is there and cannot be read."""
        if file in self.problems and not self.lacks(file):
            raise HistoryError(self.sentence(self.problems[file]))

    def demand_plan(self) -> None:
        """Raises CampaignError for a run whose plan is missing or cannot be read: it is not known what it promised."""
        if RunFile.PLAN in self.problems:
            raise CampaignError([self.sentence(self.problems[RunFile.PLAN])])

    def table_problem(self, file: str, columns: Sequence[Column]) -> Problem | None:
        """The problem of a table of this run: of its head, or that it is not as it was when it was merged."""
        return _table_problem(self.directory, self.place(file), columns, self.checksums.get(file))

    def demand_table(self, file: str, columns: Sequence[Column]) -> None:
        """Raises HistoryError for a table that is missing or damaged, or lacks one of these columns in its type."""
        if problem := self.table_problem(file, columns):
            raise HistoryError(self.sentence(problem))

    def demand_regular(self, file: str) -> None:
        """Raises HistoryError when no regular file lies in a file's place, but something else: to open that may take for ever."""
        try:
            regular(self.directory, self.place(file))
        except FileNotFoundError:
            return
        except OSError as error:
            raise HistoryError(self.sentence(Problem(file, error.strerror or str(error)))) from error

    def sentence(self, problem: Problem) -> str:
        """A problem with a file of this run, and the remedy."""
        return f"{self}: {problem}; {problem.remedy}"

    def judged(self, verdict: Mapping[str, Any]) -> Run:
        """The run with the verdict that was just written."""
        problems = {file: problem for file, problem in self.problems.items() if file != RunFile.VERDICT}
        return replace(self, verdict=verdict, problems=problems)

    @property
    def id(self) -> str:
        return str(self.plan.get("run", self.directory.name.rpartition("-")[2]))

    @property
    def campaign(self) -> str:
        return str(self.plan.get("campaign", ""))

    @property
    def test(self) -> str:
        return str(self.plan.get("test", ""))

    @property
    def created(self) -> str:
        """The moment of planning, in ISO 8601; empty when the plan does not say."""
        return str(self.plan.get("created", ""))

    @property
    def contract(self) -> Mapping[str, str]:
        """The contract of the run, as far as its plan says."""
        return self.plan.get("contract") or {}

    @property
    def logs(self) -> Path | None:
        """The table of what the brokers' logs held; None where the one that is there does not belong to the run."""
        surplus = any(gap.file == RunFile.STORED and gap.kind is GapKind.SURPLUS for gap in self.gaps)
        return None if surplus else self.path(RunFile.STORED)

    @property
    def wire(self) -> Path | None:
        """The table of the requests on the wire; None where the one that is there does not belong to the run."""
        surplus = any(gap.file == RunFile.WIRE and gap.kind is GapKind.SURPLUS for gap in self.gaps)
        return None if surplus else self.path(RunFile.WIRE)

    @property
    def is_remote(self) -> bool:
        """True if the history lies on another file system, which only Spark reads."""
        return bool(self.plan.get("history"))

    @property
    def history(self) -> str:
        """The address of the merged history: a URL when it is remote, else a path."""
        return str(self.plan.get("history") or self.path(RunFile.HISTORY))

    @cached_property
    def roster(self) -> tuple[HistoryFile, ...]:
        """The files of the workers' and the harness's lines that are there, by name."""
        return self.read_roster()

    @cached_property
    def receipts(self) -> Receipts | Problem:
        """The faults' receipts, each with its evidence; or why there are none that can be read."""
        return self.read_receipts()

    def known_receipts(self) -> Receipts:
        """The faults' receipts; none when their file is missing. Raises HistoryError when it cannot be read."""
        if not isinstance(self.receipts, Problem):
            return self.receipts
        if self.receipts.missing:
            return ()
        raise HistoryError(self.sentence(self.receipts))
