"""Output of the commands: consoles, plain tables, JSON; and the options they share.

Texts are taken as they are, and none can control the terminal: `harness.visible_text` goes over whatever a console prints.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fencepost.harness.api import CampaignError
from fencepost.harness.cli import completions
from fencepost.harness.secrets import mask, without_secrets
from fencepost.harness.visible_text import visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from fencepost.harness.api.events import RunEvent
    from fencepost.harness.cli.display import Display
    from fencepost.harness.memory.known import Known
    from fencepost.harness.runs.sequence import Engine

EXIT_CODES = """Exit codes: 0 everything as expected (an anomaly that a test expects and finds counts as such); 1 against
expectation; 2 nobody knows whether it is as expected; 254 what was given, the cluster or this machine cannot be used;
255 fencepost itself broke (a bug, please report it); 130 left by SIGTERM, SIGHUP or
Ctrl-C twice (once: heal, collect, and judge what there is)."""
RUN_HELP = "A directory, a run's id or the beginning of one, or `latest`."

_LINE = 100_000  # columns: longer than any row
_SECRET = re.compile(r"(?i)secret|passw|token|credential|access[.]?key|account[.]?key")
_MASTER = re.compile(  # as Spark reads them (SparkContext.createTaskScheduler)
    r"local(\[(\*|[1-9][0-9]{0,3})(, *[0-9]+)?\])?|local-cluster\[ *[0-9]+ *, *[0-9]+ *, *[0-9]+ *\]"
    r"|spark://[^/:,\s]+:[0-9]{1,5}(,[^/:,\s]+:[0-9]{1,5})*|spark://\[[0-9a-fA-F:]+\]:[0-9]{1,5}|yarn|k8s://\S+"
)
Results = Annotated[
    Path | None,
    typer.Option("--results", help="Where runs land. Default: $FENCEPOST_RESULTS, else ./results.", show_default=False),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output; all else goes to standard error.")]


def spark_master(text: str | None) -> str | None:
    """A Spark master as it was given. Raises CampaignError when Spark knows no such kind of master."""
    if text is not None and not _MASTER.fullmatch(text):
        kinds = "local[*], local[2], spark://host:7077, yarn, k8s://https://host:443"
        raise CampaignError([f'--spark-master "{text}": no master of Spark; there are {kinds}'])
    return text


DEFAULT_MASTER = "local[*]"
Master = Annotated[str, typer.Option("--spark-master", help="The Spark that judges.", callback=spark_master)]
MasterIfNeeded = Annotated[
    str | None,
    typer.Option(
        "--spark-master",
        help="The Spark that judges. Default: none for at most 50,000 operations, which take less time than its start;"
        f" {DEFAULT_MASTER} for more, and where a check asks for it.",
        callback=spark_master,
        show_default=False,
    ),
]
Texts = list[str] | None
RunArgument = Annotated[str, typer.Argument(metavar="RUN", help=RUN_HELP, autocompletion=completions.runs)]
Checkers = Annotated[
    list[str] | None,
    typer.Option("--checker", metavar="MODULE:NAME[,KEY=VALUE...]", help="A check of yours, run beside the installed ones."),
]
Conf = Annotated[
    list[str] | None,
    typer.Option(
        "--spark-conf", metavar="KEY=VALUE", help="A setting of Spark, e.g. of its file systems. No secrets: they show."
    ),
]
KnownFile = Annotated[
    Path | None,
    typer.Option(
        "--known",
        metavar="FILE",
        help="Findings that are acknowledged. Default: known.toml beside the campaign, else in the working directory.",
        show_default=False,
    ),
]


def pairs(name: str, help_text: str) -> Any:
    """A repeatable option of the form KEY=VALUE."""
    return typer.Option(name, metavar="KEY=VALUE", help=help_text)


def out() -> Console:
    """Standard output, for the results of a command."""
    return _console(stderr=False)


def err() -> Console:
    """Standard error, for everything else when the output is JSON, and for mistakes."""
    return _console(stderr=True)


def demand_no_folder(option: str, file: Path | None) -> None:
    """Raises CampaignError for a folder in the place of a file, before anything is performed that is to be written there."""
    if file is not None and file.is_dir():
        raise CampaignError([f"{option} {file}: it is a folder; name a file"])


def print_line(text: str = "") -> None:
    """A line on standard output, never folded."""
    out().print(text, soft_wrap=True)


def print_text(text: str) -> None:
    """A text on standard output, exactly as it is: for programs."""
    sys.stdout.write(text.rstrip("\n") + "\n")
    sys.stdout.flush()


def print_json(document: Mapping[str, Any] | Sequence[Any]) -> None:
    """One JSON document on standard output, in ASCII: every other character is an escape."""
    sys.stdout.write(json.dumps(without_secrets(document), indent=1, default=str).replace("\x7f", "\\u007f") + "\n")
    sys.stdout.flush()


def given_options(context: typer.Context, leave_out: Sequence[str] = ()) -> list[str]:
    """The words of the options that were given on the command line, in the order in which the command declares them.

    Of a setting of Spark that may be a secret only the name is shown: `--spark-conf spark.x.password=***`.
    """
    words: list[str] = []
    for parameter in context.command.params:
        name = parameter.name or ""
        source = context.get_parameter_source(name)
        option = next((text for text in parameter.opts if text.startswith("--")), "")
        if not option or name in leave_out or source is None or source.name != "COMMANDLINE":
            continue
        value = context.params[name]
        for part in value if isinstance(value, list | tuple) else [value]:
            words += [option] if part is True else [option, _without_secret(option, str(part))]
    return words


def _without_secret(option: str, text: str) -> str:
    key, equals, _ = text.partition("=")
    return f"{key}=***" if option == "--spark-conf" and equals and _SECRET.search(key) else text


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table on standard output. In a pipe each row is a line, however long, without blanks at its end."""
    console = out()
    cells = [[visible(mask(cell)) for cell in row] for row in (head, *rows)]
    if not console.is_terminal and not any("\n" in cell for row in cells for cell in row):
        print_line("\n".join(_aligned(cells)))  # thousands of rows at once
        return
    made = table(head, rows)
    if console.is_terminal:
        console.print(made)
        return
    width = max(console.measure(made, options=console.options.update(max_width=_LINE)).maximum, 1)
    for line in console.render_lines(made, console.options.update(width=min(width, _LINE)), pad=False):
        print_line("".join(segment.text for segment in line).rstrip())


def _aligned(cells: Sequence[Sequence[str]]) -> Iterator[str]:
    """Rows of cells without line ends, as `table` aligns them."""
    from rich.cells import cell_len

    widths = [max(map(cell_len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        yield "  ".join(cell + " " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True)).rstrip()


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """Columns without lines between them."""
    from rich.table import Table
    from rich.text import Text

    made = Table(*head, box=None, pad_edge=False, header_style="bold")
    for row in rows:
        made.add_row(*(Text(visible(mask(cell))) for cell in row))
    return made


def display(to_stderr: bool) -> Display:
    """The display of progress: live on a terminal, lines elsewhere."""
    where = err() if to_stderr else out()
    if where.is_terminal:
        from fencepost.harness.cli.live_display import LiveDisplay

        return LiveDisplay(where)
    from fencepost.harness.cli.display import PlainDisplay

    return PlainDisplay(where)


def engine(
    results: Path,
    master: str,
    on_event: Callable[[RunEvent], None],
    spark_conf: Mapping[str, str] | None = None,
    known: Known | None = None,
) -> Engine:
    """The engine that performs and judges."""
    from fencepost.harness.memory.known import NOTHING_KNOWN
    from fencepost.harness.runs.runner import Runner

    return Runner(results=results, master=master, on_event=on_event, spark_conf=spark_conf, known=known or NOTHING_KNOWN)


def _console(stderr: bool) -> Console:
    """A console; wide where it is no terminal, so that logs are not folded."""
    from fencepost.harness.cli.safe_console import SafeConsole

    wide = None if (sys.stderr if stderr else sys.stdout).isatty() else int(os.environ.get("COLUMNS") or 160)
    return SafeConsole(stderr=stderr, markup=False, highlight=False, emoji=False, width=wide)
