"""`fencepost check`: a finished run, or a history from elsewhere, judged again."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from fencepost.harness.api import CampaignError
from fencepost.harness.api.errors import Exit
from fencepost.harness.api.run import Run, RunFile
from fencepost.harness.cli import completions, console
from fencepost.harness.cli.console import (
    DEFAULT_MASTER,
    RUN_HELP,
    Checkers,
    Conf,
    Json,
    MasterIfNeeded,
    Results,
    Texts,
    print_json,
    print_line,
)
from fencepost.harness.secrets import has_userinfo, mask

EXAMPLES = """\b
Examples:
  fencepost check latest
  fencepost check k3f9x2 --contract acks=all --json
  fencepost check jepsen/store/latest/history.edn
  fencepost check results/nightly/20261121T020000Z-k3f9x2 --spark-master spark://host:7077
  fencepost check hdfs://namenode:8020/runs/20261121T020000Z-k3f9x2"""
OURS, FOREIGN = 12, 50  # bytes of a record in our Parquet files, and in lines of text; at most as many as most files have
HISTORY_HELP = (
    RUN_HELP
    + " Or a history from elsewhere (docs/foreign-histories.md): our JSON lines or Parquet; Jepsen's EDN, JSON or history.txt; a"
    " workload.log of Redpanda's chaos tests; the record of `fencepost proxy`. Or the URL of a run's directory, or of a Parquet"
    " history, on a file system that Spark reads (docs/spark.md)."
)


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command(epilog=EXAMPLES)(check)


def check(
    run: Annotated[str, typer.Argument(metavar="RUN", help=HISTORY_HELP, autocompletion=completions.runs)],
    contract: Annotated[
        Texts,
        typer.Option(
            "--contract",
            metavar="KEY=VALUE",
            help="Judge by this instead of what was promised.",
            autocompletion=completions.contract,
        ),
    ] = None,
    checker: Checkers = None,
    results: Results = None,
    json_: Json = False,
    master: MasterIfNeeded = None,
    spark_conf: Conf = None,
) -> None:
    """Judge a finished run again from what it left on disk, or a history that fencepost did not record.

    Another contract than the run's own, or further checks, make another judgement: it lies in `judgements/` of the run's
    directory, and the run's own verdict stays as it is.

    Exit codes: 0 valid; 1 invalid; 2 unknown; 254 no such run, or one that cannot be read; 255 fencepost broke.
    """
    from fencepost.harness.cli.option_texts import checkers_of, contract_of, spark_conf_of
    from fencepost.harness.history.run_directory import open_run
    from fencepost.harness.memory.known import known_of
    from fencepost.harness.runs.store import results_root
    from fencepost.harness.system.blas import import_numpy_without_threads
    from fencepost.harness.system.deferred_pandas import defer_pandas

    own_checks = checkers_of(checker or ())
    if is_url(run) and has_userinfo(run):
        raise CampaignError(
            [f"{mask(run)}: user and password must not stand in an address, for plans and reports would show them"]
        )
    overlaid, conf = contract_of(contract or ()), spark_conf_of(spark_conf or ())
    root = results_root(results)
    display = console.display(to_stderr=json_)
    engine = console.engine(root, master or DEFAULT_MASTER, display.event, conf, known_of())
    try:
        recorded = None if is_url(run) else recorded_run(run, root, overlaid, own_checks)
        import_numpy_without_threads()
        if recorded is not None:
            engine.hold(recorded.directory)
            defer_pandas()
        if master or is_url(run) or _is_large(recorded, run):
            engine.start_spark(warm=False)
        if recorded is None:
            recorded = open_run(engine.fetch(run, overlaid) if is_url(run) else adopted(run, root, overlaid, engine.hold))
        verdict = engine.judge(recorded, overlaid or None, own_checks, last=True, here=master is None)
    finally:
        display.close()
        engine.close()
    if json_:
        print_json(verdict)
    else:
        print_line(f"{verdict['verdict']}: {verdict.get('reason', '')}")
        for text in verdict.get("weakened", []):
            print_line(f"  weakened: {text}")
        print_line(str(recorded.path(RunFile.REPORT)))
    raise typer.Exit({"valid": Exit.VALID, "invalid": Exit.INVALID}.get(verdict["verdict"], Exit.UNKNOWN))


def is_url(text: str) -> bool:
    """Return whether a text is the address of something that only Spark reaches; `file://` is of this machine."""
    return bool(re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", text)) and not text.startswith("file://")


def recorded_run(text: str, root: Path, contract: Mapping[str, str], checkers: Sequence[str] = ()) -> Run | None:
    """The run that `text` means, as it is to be judged; None for the path of a history. Raises CampaignError: no such run."""
    from fencepost.harness.history.results_folder import is_run
    from fencepost.harness.plugins.registry import shown
    from fencepost.harness.runs.judgements import judged_by
    from fencepost.harness.runs.store import find

    path = _path(text)
    try:
        there = bool(text.strip()) and path.exists()  # an empty path is the current directory
    except OSError as error:
        raise CampaignError([f"{shown(text)}: cannot be read: {error.strerror}"]) from error
    return None if there and not is_run(path) else judged_by(find(root, text and str(path)), contract, checkers)


def adopted(text: str, root: Path, contract: Mapping[str, str], hold: Callable[[Path], object]) -> Path:
    """A new run directory below `root`, in use from now on, for the history at `text`. Raises HistoryError: not understood."""
    from fencepost.harness.interop import adopt
    from fencepost.harness.runs.store import discard, new_run_dir, writable_root

    directory = new_run_dir(writable_root(root), "adopted", secrets.token_hex(3))
    hold(directory)
    try:
        adopt.adopt(_path(text), directory, contract)
    except BaseException:
        discard(directory)
        raise
    return directory


def _is_large(recorded: Run | None, text: str) -> bool:
    """True for a history that most likely needs Spark, so that it is started first."""
    from fencepost.harness.plugins import services

    size, of_record = (_size(Path(recorded.history)), OURS) if recorded else (_size(_path(text)), FOREIGN)
    return size > services.judge().most_records_here() * of_record


def _size(path: Path) -> int:
    """Bytes of a file; nothing where it cannot be asked, which reading it will say."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _path(text: str) -> Path:
    return Path(text.removeprefix("file://"))
