"""The progress of a partition: as few events of a large partition as of a small one."""

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest

from fencepost.checkers.history.source import from_message
from fencepost.checkers.model.values import NONE
from fencepost.checkers.views import log, partition_progress

S = partition_progress.SECOND_NS


@dataclass
class Rows:
    """Columns of as many rows."""

    columns: dict

    def __getattr__(self, name):
        return self.columns[name]

    def __len__(self):
        return len(self.columns["offset"])


def drawn(rng, sends, reads, span):
    """A partition: some events at one time, some sends without an answer, reads of several processes, in order or not."""
    began = np.sort(rng.integers(0, span, sends)) // (S // 4) * (S // 4)
    ended = np.where(rng.random(sends) < 0.1, NONE, began + rng.integers(0, S, sends))
    offset = np.where(rng.random(sends) < 0.1, NONE, rng.permutation(sends))
    order = rng.permutation(sends) if rng.random() < 0.5 else slice(None)
    process = rng.integers(0, 3, reads).astype(np.int32)
    got = np.sort(rng.integers(0, span, reads)) // (S // 4) * (S // 4)
    flags = {"committed": rng.random(reads) < 0.9, "final": rng.random(reads) < 0.1}
    columns = {"process": process, "ended": got, "offset": rng.integers(0, sends, reads), **flags}
    return SimpleNamespace(
        partition="t-0",
        parts=None,
        sends=Rows({"began": began[order], "ended": ended[order], "offset": offset[order]}),
        reads=Rows(columns),
    )


def events(of):
    ((_, message),) = partition_progress.progress(of).to_driver
    rows = from_message(message).to_pylist()
    assert {row.pop("partition") for row in rows} == {"t-0"}
    return [tuple(row.values()) for row in rows]


@pytest.mark.parametrize("seed", range(40))
def test_the_events_of_a_large_partition_are_those_of_all_its_records(monkeypatch, seed):
    rng = np.random.default_rng(seed)
    partition = drawn(rng, int(rng.integers(1, 120)), int(rng.integers(0, 120)), int(rng.choice([1, 5, 300])) * S)
    every = events(partition)
    for many, rows in ((1, 1 << 20), (1, 7), (1, 30)):
        monkeypatch.setattr(partition_progress, "MANY", many)
        monkeypatch.setattr(log, "SLICE", rows)
        assert events(partition) == every


def test_of_a_second_the_first_and_the_last_event_stay_with_the_highest_offset():
    sends = Rows({"began": np.arange(5), "ended": np.array([10, 20, 30, S + 1, S + 2]), "offset": np.array([4, 9, 7, 8, 10])})
    nobody = Rows({name: np.empty(0, dtype=np.int64) for name in ("process", "ended", "offset")})
    nobody.columns |= {name: np.empty(0, dtype=np.bool_) for name in ("committed", "final")}
    acked = [
        (time, offset)
        for role, _, time, offset in events(SimpleNamespace(partition="t-0", parts=None, sends=sends, reads=nobody))
        if role
    ]
    assert acked == [(10, 4), (30, 9), (S + 1, 9), (S + 2, 10)]


def test_events_of_several_roles_are_never_one_run(monkeypatch):
    """Of a joined log each partition's events have a role of their own, and sends that never began have no time."""
    monkeypatch.setattr(partition_progress, "MANY", 1)
    nothing = np.full(4, NONE)
    roles, *_ = partition_progress._ends_of_runs(np.array([0, 0, 3, 3]), nothing, nothing, nothing)
    assert set(roles.tolist()) == {0, 3}
