"""Packed records back to sorted arrays: which read returned which send."""

import numpy as np
import pytest

from fencepost.checkers.history.packing import packed
from fencepost.checkers.history.scan import COLUMNS_OF, OWN, READS, SENDS, SHARED, PackedPart
from fencepost.checkers.model.values import NONE, FinalRead, Resets, Settings
from fencepost.checkers.testing import PartitionBuilder
from fencepost.checkers.views import log as logs
from fencepost.checkers.views.assembly import sorted_log, unpack_log
from fencepost.harness.api import record_id


def sends_of_reads(sent, read) -> list[int]:
    """For each read, in order of offset, the position of its send in order of identity; both as pairs (v, offset)."""
    columns = [_columns(side, rows) for side, rows in ((SENDS, sent), (READS, read))]
    return sorted_log("t-0", *columns, FinalRead(), Settings(), Resets()).reads.send.tolist()


def _columns(side, rows):
    columns = {name: np.zeros(len(rows), dtype=np.int64) for name in COLUMNS_OF[side]}
    for name, at in (("v", 0), ("offset", 1)):
        columns[name] = np.array([row[at] for row in rows], dtype=np.int64)
    return columns


def searched(sent, read) -> list[int]:
    """The same by looking through a list."""
    identities = sorted(v for v, _ in sent)
    by_offset = sorted(read, key=lambda pair: pair[1])
    return [identities.index(v) if v in identities else NONE for v, _ in by_offset]


def test_a_read_at_the_acknowledged_offset_matches_its_send():
    assert sends_of_reads([(7, 10), (5, 11)], [(7, 10), (5, 11), (7, 10)]) == [1, 1, 0]


def test_a_read_at_another_offset_matches_its_send():
    assert sends_of_reads([(7, 10), (5, 11)], [(5, 10), (7, 11), (7, 3), (5, 99), (5, NONE)]) == [0, 1, 0, 1, 0]


def test_a_read_of_an_unsent_record_matches_no_send_even_at_an_acknowledged_offset():
    assert sends_of_reads([(7, 10)], [(8, 10), (8, 11)]) == [NONE, NONE]


def test_without_sends_no_read_matches():
    assert sends_of_reads([], [(1, 0)]) == [NONE]


def test_of_two_sends_of_one_identity_a_read_matches_the_first():
    assert sends_of_reads([(7, 10), (7, 11)], [(7, 10), (7, 11)]) == [0, 0]


@pytest.mark.parametrize("highest_offset", [5, 60, 2**62])  # offsets: shared, mostly distinct, far apart
@pytest.mark.parametrize("slice_", [3, 1 << 21])
def test_reads_match_the_sends_that_a_plain_search_finds(highest_offset, slice_, monkeypatch):
    monkeypatch.setattr(logs, "SLICE", slice_)
    for seed in range(50):
        rng = np.random.default_rng(seed)
        sent, read = (
            list(zip(rng.integers(0, 40, n).tolist(), rng.integers(NONE, highest_offset, n).tolist(), strict=True))
            for n in rng.integers(0, 40, 2)
        )
        read += [(v, offset) for v, offset in sent if rng.random() < 0.7]
        assert sends_of_reads(sent, read) == searched(sent, read)


@pytest.mark.parametrize("sent", [0, 3])
def test_the_identities_of_reads_are_those_that_were_read_also_where_they_were_not_sent(sent):
    partition = PartitionBuilder()
    known = [partition.send(offset=2 * number) for number in range(sent)]
    read = [*known, record_id(9, 9, 9), -5, *known]
    for offset, v in enumerate(read):
        partition.read(v, offset)
    reads = partition.log().reads
    assert reads.v.tolist() == read
    for which in (slice(1, 3), reads.offset > 1, np.array([len(read) - 1, 0, 1]), [1]):
        assert reads.identities(which).tolist() == np.array(read)[which].tolist()
    assert reads.unsent_v.tolist() == read[sent : sent + 2]


def _part(side, *rows):
    """Records (v, offset) as one part, each of an operation of its own."""
    columns = _columns(side, rows)
    shared = [np.ones(len(rows), dtype=np.int64), *(columns[name] for name in SHARED[side])]
    return PackedPart(side, packed(shared), packed([columns[name] for name in OWN[side]]))


@pytest.mark.parametrize("threads", [1, 2])
def test_a_read_without_offset_gets_that_of_its_acknowledgement_whichever_part_it_is_in(threads):
    parts = [_part(SENDS, (5, 10), (7, 11)), _part(READS, (5, 10), (5, 10)), _part(READS, (5, 10), (7, -1001), (9, NONE))]
    log = unpack_log("t-0", parts, FinalRead(), Settings(), threads=threads)
    assert log.reads.offset.tolist() == [NONE, 10, 10, 10, 11]
    assert log.reads.v.tolist() == [9, 5, 5, 5, 7]


@pytest.mark.parametrize(
    "identities",
    [
        [record_id(place % 2, place, 0) for place in range(6)],  # in order within each process
        [record_id(place % 2, 6 - place, 0) for place in range(6)],
        [record_id(1, 5, 0)] * 3,
        [1 << 60, record_id(1, 2, 0), 1 << 62, 7, 1 << 60],  # some that name no process of ours
        [3, -1, 5, -7, 3],
    ],
)
def test_sends_are_in_the_order_of_their_identities_whatever_order_they_came_in(identities):
    sent = [(v, place) for place, v in enumerate(identities)]
    columns = (_columns(SENDS, sent), _columns(READS, []))
    sends = sorted_log("t-0", *columns, FinalRead(), Settings(), Resets()).sends
    assert list(zip(sends.v.tolist(), sends.offset.tolist(), strict=True)) == sorted(sent)
