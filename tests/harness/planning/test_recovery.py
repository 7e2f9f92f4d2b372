"""The bounds of recovery, by clients' own timeouts."""

import pytest

from fencepost.harness.api import Member, Reader, Writer
from fencepost.harness.planning.recovery import recovery_plan

TRANSACTIONS = {"transaction.timeout.ms": 15_000, "delivery.timeout.ms": 10_000}


@pytest.mark.parametrize(
    ("roles", "client", "grace_s", "bound_s"),
    [
        ([Writer(transactional=True)], {"producer": TRANSACTIONS, "consumer": {}}, 100, 140),
        ([Writer()], {"producer": {"delivery.timeout.ms": 20_000}, "consumer": {}}, 100, 130),
        ([Writer()], {"producer": {"message.timeout.ms": "20000"}, "consumer": {}}, 100, 130),
        ([Writer()], {"producer": {}, "consumer": {}}, 100, 230),  # the client's own default
        ([Member(group="g")], {"producer": {}, "consumer": {}, "members": {"session.timeout.ms": 6_000}}, 106, 236),
        ([Reader()], {"producer": {"socket.timeout.ms": 1_000}, "consumer": {}}, 100, 230),  # the consumer's is 60 s
        (
            [Writer(transactional=True), Reader()],
            {
                side: {**TRANSACTIONS, "request.timeout.ms": 1_000, "reconnect.backoff.max.ms": 500}
                for side in ("producer", "consumer")
            },
            31.5,
            71.5,
        ),
        ([Writer()], {"producer": {"delivery.timeout.ms": "env:T"}, "consumer": {}}, 100, 230),
    ],
)
def test_the_bound_is_the_longest_that_a_client_may_wait(roles, client, grace_s, bound_s):
    client = {"members": None, **client}
    client["producer"], client["consumer"] = dict(client["producer"]), dict(client["consumer"])
    plan = recovery_plan(roles, client)
    assert plan == {"grace_s": grace_s, "bound_s": bound_s}
