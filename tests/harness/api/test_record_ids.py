"""The identity of a record: one codec for single records and for whole columns."""

from __future__ import annotations

import numpy as np
import pytest

from fencepost.harness.api import record_id, record_ids, split_record_id
from fencepost.harness.api.record_ids import MAX_OP, MAX_PROCESS, MAX_SEQ

PARTS = [(0, 0, 0), (3, 17, 5), (0, MAX_OP, MAX_SEQ), (MAX_PROCESS, 0, 0), (MAX_PROCESS, MAX_OP, MAX_SEQ)]


@pytest.mark.parametrize("parts", PARTS)
def test_an_identity_names_process_operation_and_place(parts):
    v = record_id(*parts)
    assert split_record_id(v) == parts
    assert (record_ids.process_of(v), record_ids.seq_of(v)) == (parts[0], parts[2])


def test_an_identity_survives_readers_that_use_doubles():
    assert record_id(MAX_PROCESS, MAX_OP, MAX_SEQ) < 2**53


def test_the_layout_is_that_of_the_history_format():
    assert record_id(3, 17, 5) == 3 << 39 | 17 << 12 | 5


@pytest.mark.parametrize("parts", [(MAX_PROCESS + 1, 0, 0), (0, MAX_OP + 1, 0), (0, 0, MAX_SEQ + 1), (-1, 0, 0)])
def test_parts_that_do_not_fit_are_refused(parts):
    with pytest.raises(ValueError, match="out of range"):
        record_id(*parts)


def test_columns_are_coded_as_single_records_are():
    process, op, seq = np.array(PARTS).T
    v = record_ids.of(process, op, seq)
    assert v.tolist() == [record_id(*parts) for parts in PARTS]
    assert record_ids.process_of(v).tolist() == process.tolist()
    assert record_ids.seq_of(v).tolist() == seq.tolist()
    assert record_ids.operation_key_of(v).tolist() == record_ids.operation_key(process, op).tolist()
