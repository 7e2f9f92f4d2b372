"""The user's command after a round that was not as expected (`on_red`): it gets the summary on its standard input.

It is part of a campaign file or of the command line, which are the user's own; a round's record, which may come from elsewhere,
has no command.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from fencepost.harness.api.words import plural
from fencepost.harness.rounds.folders import JUNIT, SUMMARY, RoundRecord
from fencepost.harness.rounds.summary import summary
from fencepost.harness.secrets import mask
from fencepost.harness.system.programs import run
from fencepost.harness.visible_text import visible

SHELL = "/bin/sh"
TIMEOUT_S = 60.0
WORDS = 500  # letters of its output that are shown


def run_on_red(command: str, record: RoundRecord) -> str:
    """Run the command in a process group of its own, to its end or for a minute; a sentence on its failure, empty for none."""
    try:
        ended = run([SHELL, "-c", command], TIMEOUT_S, env=environment(record), merged=True, given=_summary(record))
    except subprocess.TimeoutExpired:
        return (
            f"on_red: the command has not ended within {plural(int(TIMEOUT_S), 'second')}, and was ended: {visible(command, '')}"
        )
    except OSError as error:
        return f"on_red: the command cannot be run: {error.strerror or error}"
    if ended.returncode == 0:
        return ""
    words = visible(mask(ended.stdout.strip()[-WORDS:]), "\n")
    return f"on_red: the command ended with {ended.returncode}: {visible(command, '')}" + (f"\n{words}" if words else "")


def environment(record: RoundRecord) -> dict[str, str]:
    """The variables of the command: those of this process, and what it may look at."""
    return {
        **os.environ,
        "FENCEPOST_CAMPAIGN": record.round.campaign,
        "FENCEPOST_ROUND": record.round.round,
        "FENCEPOST_EXIT": str(record.round.exit),
        "FENCEPOST_RESULTS": _absolute(record.folder.parent),
        "FENCEPOST_ROUND_FOLDER": _absolute(record.directory),
        "FENCEPOST_SUMMARY": _absolute(record.directory / SUMMARY),
        "FENCEPOST_JUNIT": _absolute(record.directory / JUNIT),
    }


def _absolute(path: Path) -> str:
    return os.path.abspath(path)


def _summary(record: RoundRecord) -> str:
    return mask(summary(record.round, record.folder))
