"""The sink of two_phase.py, done wrong: after a death it forgets the transaction that the checkpoint has prepared.

fencepost run -w application --set 'command={python} {examples}/sinks/two_phase_wrong.py' --set instances=1 --set group= \
    --set quiet_s=15 -n kill,target=instance

Its new producer aborts that transaction, and it reads on from the checkpoint's offsets: what lies before them, and was not
committed yet, is lost (`unprocessed`).
"""

from __future__ import annotations

import sys
from typing import Any

import two_phase as right


def finish(_: dict[str, Any]) -> None:
    """Forget it."""


if __name__ == "__main__":
    right.finish = finish
    sys.exit(right.main())
