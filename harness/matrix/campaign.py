"""The campaigns of the matrix: `python -m fencepost.harness.matrix.campaign > campaigns/matrix.toml`.

That of its crossings: `python -m fencepost.harness.matrix.campaign crossed > campaigns/matrix-crossed.toml`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from fencepost.harness.matrix import crossed
from fencepost.harness.matrix.cells import GAPS, Gap, all_cells
from fencepost.harness.matrix.toml_text import PATIENCE, table

HEAD = """\
# Every kind of fault at every step of a transaction's protocol, by the proxy before each broker (docs/protocol-faults.md): a test
# for each step, with a fault for each point in it and each act. `fencepost matrix` shows what was held, and what violated.
# Made from fencepost/harness/matrix/cells.py; make it again: python -m fencepost.harness.matrix.campaign > campaigns/matrix.toml
name = "matrix"
seed = 340

[defaults]
time_s = {time_s}

[defaults.cluster]
kind = "local"
proxy = true
"""
CELL_S = 7.0  # a fault, its pause, and the start of a broker that was killed


def text() -> str:
    """The campaign file."""
    cells = [cell for cell in all_cells() if not cell.impossible]
    most = max(sum(cell.gap == gap.name for cell in cells) for gap in GAPS)
    tests = [_test(gap, [cell.options() for cell in cells if cell.gap == gap.name]) for gap in GAPS]
    return "\n".join([HEAD.format(time_s=round(most * CELL_S)), *tests])


def _test(gap: Gap, faults: list[dict[str, Any]]) -> str:
    lines = [f"# {gap.sentence[0].upper()}{gap.sentence[1:]}.", "[[test]]", f'name = "{gap.name}"']
    if len(faults) < 10:
        lines.append(f"time_s = {round(len(faults) * CELL_S)}")
    without = ['without = "send_offsets"'] if gap.workload == "fencing" else []  # not every client can
    lines += ["", "[test.workload]", f'kind = "{gap.workload}"', *without, ""]
    lines += ["[test.client]", f"consumer = {table(PATIENCE)}", ""] if gap.workload == "pipeline" else []
    lines += ["[test.lanes.main]", 'order = "in turn"', ""]
    return "\n".join([*lines, *(line for options in faults for line in _fault(options))])


def _fault(options: Mapping[str, Any]) -> list[str]:
    own = {"kind": "protocol", **options, "every_s": [0.3, 0.6], "lasts_s": [2.0, 3.0], "catch_within_s": 4}
    return ["[[test.nemesis]]", *(f"{name} = {table(value)}" for name, value in own.items()), ""]


if __name__ == "__main__":
    sys.stdout.write(crossed.text() if "crossed" in sys.argv else text())
