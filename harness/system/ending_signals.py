"""Signals by which others end a command: SIGTERM, and SIGHUP, which comes when the terminal is closed.

SIGHUP that is ignored when the command starts stays ignored: `nohup` asked for that.
"""

from __future__ import annotations

import signal

UNREAD = 128 + signal.SIGPIPE  # the exit code of a command whose output nobody reads any more, as of one that SIGPIPE ends
ENDING = (signal.SIGTERM, signal.SIGHUP)


def heeded() -> tuple[signal.Signals, ...]:
    """Those of them that this process has to heed."""
    return tuple(number for number in ENDING if signal.getsignal(number) is not signal.SIG_IGN)


def end_as_ctrl_c() -> None:
    """Let them end this process as Ctrl-C does, so that it tidies up after itself: KeyboardInterrupt in the main thread."""
    for number in heeded():
        signal.signal(number, signal.default_int_handler)
