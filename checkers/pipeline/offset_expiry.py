"""Offsets that brokers may have forgotten: those of a group without members, after offsets.retention.minutes (KIP-211)."""

from __future__ import annotations

from fencepost.checkers.model.frames import pd
from fencepost.checkers.model.results import CheckResult
from fencepost.checkers.model.values import FOREVER
from fencepost.checkers.views.run_view import RunView

MADE_AGAIN = (
    "input records were processed again, later than brokers keep the offsets of a group (contract `offset_expiry`): the group "
    "may have had none, and begun anew"
)
FORGOTTEN = "was committed longer before than brokers keep the offsets of a group (contract `offset_expiry`): it may be forgotten"


def remembered_ns(run: RunView) -> int:
    """How long a group's offset is surely kept after its commit (ns)."""
    expiry = run.contract["offset_expiry"]
    return FOREVER if expiry == "none" else int(expiry) * 1_000_000


def unless_forgotten(result: CheckResult) -> CheckResult:
    """The result whose findings may all be of offsets that brokers have forgotten: unknown."""
    where, offset = result.rows["partition"][0], max(result.rows["offset"])
    return CheckResult(result.compared, unknown=f"{where}@{offset} {FORGOTTEN}")


def again_soon(run: RunView, outputs: pd.DataFrame) -> pd.Index:
    """Of input records with outputs of several operations (`v`, `op`) those that were processed again within that time."""
    times = (
        outputs[["v", "op"]].drop_duplicates().assign(time=lambda some: run.overview.time[run.overview.at(some["op"].to_numpy())])
    )
    apart = times.sort_values(["v", "time"]).groupby("v")["time"].diff()
    return pd.Index(times.loc[apart[apart < remembered_ns(run)].index, "v"].unique())
