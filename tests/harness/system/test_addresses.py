"""Addresses as somebody writes them."""

from __future__ import annotations

import pytest

from fencepost.harness.system.addresses import is_address, is_loopback


@pytest.mark.parametrize(
    ("text", "address", "loopback"),
    [
        ("127.0.0.1", True, True),
        ("127.8.9.1", True, True),
        ("::1", True, True),
        ("[::1]", True, True),
        ("[0:0:0:0:0:0:0:1]", True, True),
        ("localhost", False, True),
        ("0.0.0.0", True, False),
        ("::", True, False),
        ("10.1.2.3", True, False),
        ("127.example.org", False, False),
        ("[::1", False, False),
        ("300.1.1.1", False, False),
        ("", False, False),
    ],
)
def test_an_address_and_whether_others_reach_it(text, address, loopback):
    assert (is_address(text), is_loopback(text)) == (address, loopback)
