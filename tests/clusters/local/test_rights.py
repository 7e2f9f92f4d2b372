"""Clients with rights of their own, on a real broker with Kafka's authorizer."""

import pytest
from support.play_scenes import play

pytestmark = [pytest.mark.cluster, pytest.mark.nightly]


def test_a_client_writes_while_it_has_the_right(tmp_path):
    seen = play(tmp_path, "rights", brokers=1, loopback=True, acls=True)
    assert (seen["written"], seen["denied"], seen["again"]) == ([""], True, True)
    assert seen["rights"] == ["deny write on topic t"]
    assert seen["the harness reads on"] == ["t-0"]
    assert (seen["refused without the right"], seen["healed"]) == (True, "")
    assert seen["nameless"] == "_MSG_TIMED_OUT"
