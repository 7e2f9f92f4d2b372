"""Arrays in files that the kernel maps: the same values, no memory of the process's own, and no file that stays."""

from __future__ import annotations

import resource
import time
from contextlib import contextmanager
from threading import Barrier, Thread

import numpy as np
import pytest
from support.open_files import open_files

from fencepost.harness.system import array_files
from fencepost.harness.system.array_files import SMALL, ArrayFiles, Arrays, Growing, ReusedFiles

LARGE = 2 * SMALL // 8  # values of 64 bits


def resident(values) -> int:
    """KiB of an array that are in this process's memory."""
    start, size = values.__array_interface__["data"][0], 0
    with open("/proc/self/smaps") as maps:
        inside = False
        for line in maps:
            first = line.split()[0]
            if "-" in first:
                low, high = (int(bound, 16) for bound in first.split("-"))
                inside = low <= start < high
            elif inside and first == "Rss:":
                size += int(line.split()[1])
    return size


@pytest.fixture(params=[ArrayFiles, ReusedFiles])
def arrays(tmp_path, request) -> ArrayFiles:
    return request.param(tmp_path)


@pytest.mark.parametrize("kind", [np.int64, np.int32, np.int8, np.bool_])
def test_an_array_in_a_file_has_the_same_values_and_is_read_only(arrays, kind, monkeypatch):
    monkeypatch.setattr(array_files, "SMALL", 1)
    monkeypatch.setattr(array_files, "TAKEN_AT_ONCE", 1000)
    values = np.random.default_rng(1).integers(0, 2, 5000).astype(kind)
    positions = np.argsort(values, kind="stable")
    for stored, wanted in (
        (arrays.stored(values), values),
        (arrays.stored(values[::2]), values[::2]),
        (arrays.taken(values, positions), values[positions]),
    ):
        assert stored.dtype == wanted.dtype
        assert np.array_equal(stored, wanted)
        assert not stored.flags.writeable
        with pytest.raises(ValueError, match="read-only"):
            stored[0] = 1


def test_of_a_tuple_each_large_array_goes_to_a_file(arrays):
    large, small = np.arange(LARGE), np.arange(10)
    stored = arrays.stored((large, small, 7, None))
    assert isinstance(stored, tuple)
    assert np.array_equal(stored[0], large)
    assert stored[0] is not large
    assert stored[1] is small
    assert stored[2:] == (7, None)


def test_what_lies_in_a_file_is_not_written_again(arrays):
    stored = arrays.stored(np.arange(LARGE))
    assert arrays.stored(stored) is stored
    part = stored[5:]
    assert arrays.stored(part) is part


def test_no_file_has_a_name_and_none_outlives_its_array(tmp_path):
    arrays = ArrayFiles(tmp_path)
    stored = [arrays.stored(np.arange(LARGE)) for _ in range(3)]
    assert not list(tmp_path.iterdir())
    assert len(open_files(tmp_path)) == 3
    del stored
    assert open_files(tmp_path) == []


@contextmanager
def full_disk():
    """A real write beyond the first MiB of a file fails."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (SMALL, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def in_parts(values, size=1000):
    return (values[start : start + size] for start in range(0, len(values), size))


def test_an_array_for_which_the_disk_has_no_room_stays_in_memory(arrays):
    values = np.arange(LARGE)
    with full_disk():
        assert arrays.stored(values) is values
        assert np.array_equal(arrays.taken(values, values[::-1]), values[::-1])
        joined = arrays.joined(lambda: in_parts(values), LARGE, np.int64)
        assert np.array_equal(joined, values)
        assert joined.flags.writeable
    assert type(arrays)(arrays.folder / "gone").stored(values) is values
    assert arrays.stored(values) is not values


@pytest.mark.parametrize("count", [0, 10, LARGE])
def test_parts_are_joined_in_the_type_that_is_asked_for(arrays, count):
    values = np.arange(count)
    for kind in (np.int64, np.int32):
        joined = arrays.joined(lambda: in_parts(values), count, kind)
        assert joined.dtype == kind
        assert np.array_equal(joined, values)
        assert joined.flags.writeable == (joined.nbytes < SMALL)


@pytest.mark.parametrize("count", [0, 10, LARGE])
def test_a_growing_array_has_all_values_that_came(tmp_path, count):
    values = np.arange(count)
    growing = Growing(ArrayFiles(tmp_path), count, np.int64)
    for part in in_parts(values):
        growing.append(part)
    grown = growing.array()
    assert np.array_equal(grown, values)
    assert len(open_files(tmp_path)) == (count == LARGE)
    del grown
    assert open_files(tmp_path) == []


def test_a_growing_array_goes_on_in_memory_when_the_disk_is_full(tmp_path):
    values = np.arange(LARGE)
    growing = Growing(ArrayFiles(tmp_path), LARGE, np.int64)
    with full_disk():
        for part in in_parts(values):
            growing.append(part)
    assert np.array_equal(growing.array(), values)
    assert open_files(tmp_path) == []
    nowhere = Growing(ArrayFiles(tmp_path / "gone"), LARGE, np.int64)
    nowhere.append(values)
    assert np.array_equal(nowhere.array(), values)


def test_the_place_of_an_array_that_is_gone_is_used_again(tmp_path):
    with ReusedFiles(tmp_path) as arrays:
        first, second = (arrays.stored(np.arange(LARGE) + number) for number in range(2))
        size = (tmp_path / "arrays-0").stat().st_size
        for number in range(5):
            del first
            first = arrays.stored(np.arange(LARGE) - number)
            assert (first[0], first[-1], second[0], second[-1]) == (-number, LARGE - 1 - number, 1, LARGE)
        assert (tmp_path / "arrays-0").stat().st_size == size
        del first, second
        assert arrays.stored(np.arange(2 * LARGE)).sum() == np.arange(2 * LARGE).sum()  # both places are one again
        assert (tmp_path / "arrays-0").stat().st_size == size


def test_arrays_that_come_and_go_keep_their_values(tmp_path, monkeypatch):
    monkeypatch.setattr(array_files, "SMALL", 1)
    random = np.random.default_rng(5)
    kept = {}
    with ReusedFiles(tmp_path) as arrays:
        for number in range(400):
            values = np.full(int(random.integers(1, 30_000)), number)
            kept[number] = arrays.taken(values, np.arange(len(values))) if number % 2 else arrays.stored(values)
            for gone in random.choice(list(kept), len(kept) // 4, replace=False).tolist():
                del kept[gone]
            assert all((values == one).all() for one, values in kept.items())
    assert (tmp_path / "arrays-0").stat().st_size < 100 * 30_000 * 8  # a quarter of all together


def test_threads_that_write_at_once_have_files_of_their_own(tmp_path):
    both, kept = Barrier(2, timeout=30), {}

    def part(number, made):
        both.wait()  # each in the middle of writing an array
        return np.full(LARGE, number + made)

    with ReusedFiles(tmp_path) as arrays:

        def store(number):
            kept[number] = arrays.joined(lambda: (part(number, made) for made in range(2)), 2 * LARGE, np.int64)

        threads = [Thread(target=store, args=(number,)) for number in (10, 20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(path.stat().st_size for path in tmp_path.iterdir()) == [2 * LARGE * 8] * 2
        assert {number: (values[0], values[-1], len(values)) for number, values in kept.items()} == {
            10: (10, 11, 2 * LARGE),
            20: (20, 21, 2 * LARGE),
        }
        kept["alone"] = arrays.stored(np.arange(LARGE))
        assert sum(path.stat().st_size for path in tmp_path.iterdir()) == 5 * LARGE * 8


def test_a_file_of_which_somebody_has_an_array_is_left_alone(tmp_path):
    with ReusedFiles(tmp_path) as arrays:
        held = arrays.stored(np.arange(LARGE))
    with ReusedFiles(tmp_path) as others:
        other = others.stored(np.arange(LARGE) + 1)
    size = (tmp_path / "arrays-0").stat().st_size
    assert (held[0], held[-1], other[0], other[-1]) == (0, LARGE - 1, 1, LARGE)
    del held
    with ReusedFiles(tmp_path) as again:
        same = again.stored(np.arange(LARGE) + 2)
        assert np.fromfile(tmp_path / "arrays-0", dtype=np.int64, count=1)[0] == 2  # the same file
    assert (tmp_path / "arrays-0").stat().st_size == size
    assert (same[0], other[0]) == (2, 1)


def test_dropped_pages_are_no_memory_of_the_process_and_have_the_same_values(arrays):
    values = np.arange(8 * LARGE)
    stored = arrays.stored(values)
    assert int(stored.sum()) == int(values.sum())
    assert resident(stored) == values.nbytes >> 10
    arrays.drop_pages()
    assert resident(stored) == 0
    assert np.array_equal(stored, values)


def test_pages_are_dropped_again_and_again_for_the_length_of_a_block(arrays, monkeypatch):
    monkeypatch.setattr(array_files, "DROP_EVERY_S", 0.01)
    stored = arrays.stored(np.arange(LARGE))
    with arrays.dropping_pages():
        for _ in range(2):
            assert stored.any()
            deadline = time.monotonic() + 20
            while resident(stored) and time.monotonic() < deadline:
                time.sleep(0.002)
            assert resident(stored) == 0
    assert int(stored.sum()) > 0
    time.sleep(0.05)
    assert resident(stored) > 0


def test_arrays_in_memory_are_themselves():
    values = np.arange(LARGE)
    assert Arrays().stored(values) is values
    assert Arrays().taken(values, [2, 1]).tolist() == [2, 1]
