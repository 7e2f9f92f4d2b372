"""`fencepost selfcheck`: the proof that the checks can fail."""

from __future__ import annotations

from contextlib import nullcontext
from functools import cache
from typing import Annotated

import typer

from fencepost.harness.api.bounds import MOST_EXACT
from fencepost.harness.api.errors import Exit
from fencepost.harness.cli import completions
from fencepost.harness.cli.console import (
    DEFAULT_MASTER,
    RUN_HELP,
    Checkers,
    Conf,
    Json,
    MasterIfNeeded,
    Results,
    print_json,
    print_line,
    print_table,
)
from fencepost.harness.system import liveness

EXAMPLES = "\b\nExamples:\n  fencepost selfcheck\n  fencepost selfcheck latest --seed 7\n  fencepost selfcheck --checker mine:gap"


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command(epilog=EXAMPLES)(selfcheck)


def selfcheck(
    run: Annotated[
        str | None,
        typer.Argument(metavar="[RUN]", help=f"{RUN_HELP} Without one: a generated history.", autocompletion=completions.runs),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=MOST_EXACT, help="Decides what is damaged.")] = 0,
    checker: Checkers = None,
    results: Results = None,
    json_: Json = False,
    master: MasterIfNeeded = None,
    spark_conf: Conf = None,
) -> None:
    """Prove that the checks can fail: plant one damage after the other in a clean history, and demand exactly its anomaly.

    Exit codes: 0 every damage was named; 1 one was missed or another was named; 254 no such run, or one
    that cannot be read; 255 fencepost broke.
    """
    from fencepost.harness.cli.option_texts import checkers_of, spark_conf_of
    from fencepost.harness.history import merge
    from fencepost.harness.plugins import services
    from fencepost.harness.plugins.check_options import load_check
    from fencepost.harness.runs.merging import merged
    from fencepost.harness.runs.store import find, results_root

    conf = spark_conf_of(spark_conf or ())
    own_checks = {path: load_check(path) for path in checkers_of(checker or ())}
    recorded = find(results_root(results), run) if run is not None else None
    if recorded:
        merge.demand_local(recorded)
    judge = services.judge()
    with liveness.hold(recorded.directory) if recorded else nullcontext():
        session = cache(lambda: judge.start_session(master or DEFAULT_MASTER, conf))
        try:
            rows = judge.selfcheck(merged(recorded) if recorded else None, session() if master else session, seed, own_checks)
        finally:
            if session.cache_info().currsize:
                session().stop()
    if json_:
        print_json([vars(row) for row in rows])
    else:
        words = {True: "ok", False: "FAILED", None: "-"}
        cells = [(row.damage, ", ".join(row.expected), ", ".join(row.anomalies), words[row.ok], row.note) for row in rows]
        print_table(("damage", "demanded", "found", "", "what was done"), cells)
        counts = {
            word: sum(row.ok is ok for row in rows)
            for ok, word in ((True, "as demanded"), (False, "failed"), (None, "not judged"))
        }
        print_line(", ".join(f"{count} {word}" for word, count in counts.items() if count))
    caught = any(row.ok for row in rows) and not any(row.ok is False for row in rows)
    raise typer.Exit(Exit.VALID if caught else Exit.INVALID)
