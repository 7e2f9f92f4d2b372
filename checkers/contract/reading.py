"""Settings of reading: how logs are to be read under a contract."""

from __future__ import annotations

from collections.abc import Mapping

from fencepost.checkers.model.values import Settings


def settings(contract: Mapping[str, str]) -> Settings:
    """The settings of reading under a full contract.

    `readers = "all"` (or `judge_uncommitted_readers = "true"`) judges every non-final reader as read_committed. Final
    read_uncommitted reads never are: they are the witness of what the log holds, aborted records included.
    `first_poll = "anywhere"`: where a process begins to read is unknown. `aborted_polls = "rewound"`: after an operation that did
    not end ok the client seeks back to what it first polled in it (as Jepsen's does).
    """
    ordered = "true" in (contract["idempotence"], contract["transactional"])
    return Settings(
        all_readers=contract["readers"] == "all" or contract["judge_uncommitted_readers"] == "true",
        read_uncommitted=contract["isolation"] == "read_uncommitted",
        pipelined_order=ordered,
        from_start=contract["first_poll"] == "beginning",
        rewinds=contract["aborted_polls"] == "rewound",
        deletes=contract["compaction"] != "false" or contract["retention"] != "none",
    )
