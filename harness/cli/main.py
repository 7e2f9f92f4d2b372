"""`fencepost ...`: the command line, and the only place that prints. Each command is a file of this folder, named in `COMMANDS`.

Heavy libraries are imported inside the commands, so that `--help` comes at once.
"""

from __future__ import annotations

import atexit
import gc
import os
import select
import sys
import traceback
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Annotated, Any, NoReturn

import typer

from fencepost.harness.api import CampaignError, HarnessError
from fencepost.harness.api.errors import Exit, UnwritableFile, exit_of, lack_of_machine
from fencepost.harness.api.words import plural
from fencepost.harness.cli.console import EXIT_CODES, err, print_json, print_line
from fencepost.harness.system.ending_signals import UNREAD, end_as_ctrl_c
from fencepost.harness.system.limits import raise_open_files

COMMANDS = (  # modules of this folder, in the order in which `--help` lists them
    "run", "campaign", "merge", "list", "show", "compare", "check", "selfcheck", "export", "report", "serve",
    "probe", "proxy", "matrix", "plugins", "doctor", "clean", "cluster", "client", "connect", "nemesis", "new", "example",
    "completion",
)  # fmt: skip
START = "\b\nStart with:\n  fencepost doctor\n  fencepost run --time 30\n  fencepost campaign smoke"
INTERRUPTED = 130
YOUNG_OBJECTS = 200_000  # between two garbage collections: with 700, as Python has it, they take a tenth of a short check
USAGE_ERROR: Any = typer.BadParameter.__bases__[0]  # click's own, or the one inside newer typers


def command_line(words: Sequence[str] = ()) -> Any:
    """The program with the command that these words call, or with all commands where the first word names none.

    To import all of them, with their options, takes a tenth of a second.
    """
    return _program(words[0]) if words and words[0] in COMMANDS else _program(*COMMANDS)


@cache
def _program(*commands: str) -> Any:
    app = typer.Typer(
        name="fencepost",
        help=f"Runs a real Kafka cluster, hurts it, and lets Spark decide whether exactly-once held.\n\n{START}\n\n{EXIT_CODES}",
        invoke_without_command=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        add_completion=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    )
    app.callback()(_root)
    for command in commands:
        import_module(f"fencepost.harness.cli.{command}").register(app)
    return typer.main.get_command(app)


def main(args: Sequence[str] | None = None) -> NoReturn:
    """The entry point of `fencepost`: runs a command, and turns what went wrong into sentences and an exit code.

    With --json the sentences are a JSON document on standard output as well: `{"exit": 254, "mistakes": [...]}`.
    """
    gc.set_threshold(YOUNG_OBJECTS)
    atexit.register(gc.freeze)  # nobody needs the memory then; to look for garbage in all of it takes a tenth of a short check
    raise_open_files()
    if args is None:  # the process is the command's own
        end_as_ctrl_c()
        sys.excepthook = _broken
    words = list(sys.argv[1:] if args is None else args)
    as_json = "--json" in words and words[0] != "nemesis"  # there it names a file
    try:
        code = command_line(words)(args=words, prog_name="fencepost", standalone_mode=False)
        if not isinstance(code, int | None):  # taken for 0 it would be a success
            raise TypeError(f"a command ended with {code!r} instead of an exit code")
    except CampaignError as error:
        _fail(error.mistakes, Exit.UNUSABLE, as_json, kind="errors" if isinstance(error, UnwritableFile) else "mistakes")
    except USAGE_ERROR as error:
        getattr(error, "show")()  # noqa: B009 - its type is known only when running
        if as_json:
            _answer([getattr(error, "format_message")()], Exit.UNUSABLE, "mistakes")  # noqa: B009
        raise SystemExit(int(Exit.UNUSABLE)) from error
    except (KeyboardInterrupt, typer.Abort):
        if as_json:
            _answer(["left by Ctrl-C, SIGTERM or SIGHUP"], INTERRUPTED)
        raise SystemExit(INTERRUPTED) from None
    except SystemExit as left:
        if left.code == 1 and isinstance(left.__context__, BrokenPipeError):  # click's way to leave; here 1 is a verdict
            _left_by(left.__context__)
        raise
    except Exception as error:  # noqa: BLE001 - a bug of ours must not look like the verdict `invalid`, whose code is 1
        _fail([_text(error)], exit_of(error), as_json)
    raise SystemExit(code or 0)


def _broken(*raised: Any) -> NoReturn:
    """Leave for what nobody has caught (an error of the interpreter without memory): Python's code for that, 1, is a verdict."""
    try:
        sys.__excepthook__(*raised)
        atexit._run_exitfuncs()
        sys.stdout.flush()
    finally:
        os._exit(Exit.HARNESS_BROKE)


def _root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and leave.")] = False,
) -> None:
    if version:
        from importlib.metadata import version as version_of

        print_line(f"fencepost {version_of('fencepost')}")
    elif context.invoked_subcommand is None:
        print_line(context.get_help())


def _left_by(broken: BrokenPipeError) -> NoReturn:
    """Leave for a pipe that nobody reads: that of our output, or another one, which is a bug of ours."""
    ours = select.poll()
    for descriptor in (1, 2):
        ours.register(descriptor, 0)
    if any(event & select.POLLERR for _, event in ours.poll(0)):
        raise SystemExit(UNREAD) from None
    _fail([_text(broken)], Exit.HARNESS_BROKE, as_json=False)


def _text(error: Exception) -> str:
    """An error in words: a sentence, unless it is a bug of ours."""
    if lack := lack_of_machine(error):
        return lack
    if not isinstance(error, HarnessError):
        return traceback.format_exc()
    return str(error) if error.exit is Exit.UNUSABLE else f"{type(error).__name__}: {error}"


def _answer(lines: Sequence[str], code: int, kind: str = "errors") -> None:
    """Print the mistakes or errors as JSON."""
    print_json({"exit": int(code), kind: list(lines)})


def _fail(lines: Sequence[str], code: Exit, as_json: bool, kind: str = "errors") -> NoReturn:
    """Say what was wrong, and leave. kind: `mistakes` in what was given, or `errors`."""
    if as_json:
        try:
            _answer(lines, code, kind)
        except OSError:  # the same lack: what could not be printed is not tried again at the end
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    for line in lines:
        err().print(line, soft_wrap=True)
    if kind == "mistakes":
        err().print(f"{plural(len(lines), 'mistake')}; nothing was started")
    raise SystemExit(int(code))


if __name__ == "__main__":
    main()
