"""The commands that judge: `check`, `selfcheck`, `export`, `report`. No cluster is needed for any of them."""

from __future__ import annotations

import re
import secrets
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.api import CampaignError, Exit
from harness.cli import console
from harness.cli.console import Checkers, Conf, Json, Master, Results, Texts, pairs, say, say_json, table

CHECK_EXAMPLES = """\b
Examples:
  fencepost check latest
  fencepost check k3f9x2 --contract acks=all --json
  fencepost check jepsen/store/latest/history.edn
  fencepost check results/nightly/20261121T020000Z-k3f9x2 --spark-master spark://host:7077
  fencepost check hdfs://namenode:8020/runs/20261121T020000Z-k3f9x2"""
SELFCHECK_EXAMPLES = "\b\nExamples:\n  fencepost selfcheck\n  fencepost selfcheck latest --seed 7"
EXPORT_EXAMPLES = "\b\nExamples:\n  fencepost export latest --format jepsen-edn --out merge.edn"
RUN_HELP = "A directory, a run's id or the beginning of one, or `latest`."
HISTORY_HELP = (
    RUN_HELP
    + " Or a history from elsewhere: our JSON lines or Parquet, or Jepsen's EDN or JSON. Or the URL of a run's directory,"
    " or of a Parquet history, on a file system that Spark reads (docs/spark.md)."
)
Run = Annotated[str, typer.Argument(metavar="RUN", help=RUN_HELP)]


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    app.command(epilog=CHECK_EXAMPLES)(check)
    app.command(epilog=SELFCHECK_EXAMPLES)(selfcheck)
    app.command(epilog=EXPORT_EXAMPLES)(export)
    app.command()(report)


def check(
    run: Annotated[str, typer.Argument(metavar="RUN", help=HISTORY_HELP)],
    contract: Annotated[Texts, pairs("--contract", "Judge by this instead of what was promised.")] = None,
    checker: Checkers = None,
    results: Results = None,
    json_: Json = False,
    master: Master = "local[*]",
    spark_conf: Conf = None,
) -> None:
    """Judge a finished run again from what it left on disk, or a history that fencepost did not record.

    Exit codes: 0 valid; 1 invalid; 2 unknown; 254 no such run; 255 the harness broke.
    """
    from harness.cli.arguments import checkers_of, contract_of, spark_conf_of
    from harness.runs.store import results_root

    strange = checkers_of(checker or ())
    overlaid, conf = contract_of(contract or ()), spark_conf_of(spark_conf or ())
    root = results_root(results)
    display = console.display(to_stderr=json_)
    engine = console.engine(root, master, display.event, conf)
    try:
        engine.start_spark(warm=False)
        directory = engine.fetch(run, overlaid) if is_url(run) else run_or_history(run, root, overlaid)
        verdict = engine.judge(directory, overlaid or None, strange)
    finally:
        display.close()
        engine.close()
    if json_:
        say_json(verdict)
    else:
        say(f"{verdict['verdict']}: {verdict.get('reason', '')}")
        for text in verdict.get("weakened", []):
            say(f"  weakened: {text}")
        say(str(directory / "report.html"))
    raise typer.Exit({"valid": Exit.VALID, "invalid": Exit.INVALID}.get(verdict["verdict"], Exit.UNKNOWN))


def is_url(text: str) -> bool:
    """Whether a text is the address of something that only Spark reaches; `file://` is of this machine."""
    return bool(re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", text)) and not text.startswith("file://")


def run_or_history(text: str, root: Path, contract: Mapping[str, str]) -> Path:
    """The directory of the run that `text` means; a history from elsewhere becomes a new run directory below `root` first.

    Raises CampaignError (no such run) and HistoryError (nothing that is understood).
    """
    from harness.interop import adopt
    from harness.runs.store import find, new_run_dir

    path = Path(text.removeprefix("file://"))
    if not path.exists() or (path / "plan.json").is_file():
        return find(root, str(path))
    adopted = new_run_dir(root, "adopted", secrets.token_hex(3))
    try:
        adopt.adopt(path, adopted, contract)
    except BaseException:
        shutil.rmtree(adopted)
        raise
    return adopted


def selfcheck(
    run: Annotated[str | None, typer.Argument(metavar="[RUN]", help=RUN_HELP + " Without one: a generated history.")] = None,
    seed: Annotated[int, typer.Option(help="Decides what is damaged.")] = 0,
    results: Results = None,
    json_: Json = False,
    master: Master = "local[*]",
    spark_conf: Conf = None,
) -> None:
    """Prove that the checks can fail: plant one damage after the other in a clean history, and demand exactly its anomaly.

    Exit codes: 0 every damage was named; 1 one was missed or another was named; 254 no such run; 255 the harness broke.
    """
    from harness.cli.arguments import spark_conf_of
    from harness.history import merge
    from harness.plugins import registry
    from harness.runs.store import find, results_root

    conf = spark_conf_of(spark_conf or ())
    directory = find(results_root(results), run) if run else None
    if directory:
        merge.here(directory)
    spark = registry.load("fencepost.judge", "session")(master, conf=conf)
    try:
        rows: Sequence[Any] = registry.load("fencepost.judge", "selfcheck")(directory, spark, seed=seed)
    finally:
        spark.stop()
    if json_:
        say_json([vars(row) for row in rows])
    else:
        words = {True: "ok", False: "FAILED", None: "-"}
        cells = [(row.damage, ", ".join(row.expected), ", ".join(row.found), words[row.ok], row.note) for row in rows]
        console.out().print(table(("damage", "demanded", "found", "", "what was done"), cells))
        counts = {
            word: sum(row.ok is ok for row in rows)
            for ok, word in ((True, "as demanded"), (False, "failed"), (None, "not judged"))
        }
        say(", ".join(f"{count} {word}" for word, count in counts.items() if count))
    caught = any(row.ok for row in rows) and not any(row.ok is False for row in rows)
    raise typer.Exit(Exit.VALID if caught else Exit.INVALID)


def export(
    run: Run,
    format_: Annotated[str, typer.Option("--format", help="jepsen-edn or jepsen-json.")] = "jepsen-edn",
    to: Annotated[Path | None, typer.Option("--out", help="Where to; default: in the run's directory.")] = None,
    results: Results = None,
) -> None:
    """Write a run's history as Jepsen's own checker reads it, and print where it is."""
    from harness.history import merge
    from harness.interop.jepsen import export as exporting
    from harness.runs.store import find, results_root

    directory = find(results_root(results), run)
    if not merge.is_merged(directory):
        merge.merge(directory)
    target = to or directory / f"history.{format_.rpartition('-')[2]}"
    if not target.parent.is_dir():
        raise CampaignError([f"--out {target}: there is no directory {target.parent}"])
    lines = exporting.export(directory, format_, target)
    say(f"{target} ({lines} lines)")


def report(run: Run, results: Results = None) -> None:
    """Write a run's report again, and print where it is."""
    from harness.report import render
    from harness.runs.store import find, results_root

    say(str(render(find(results_root(results), run))))
