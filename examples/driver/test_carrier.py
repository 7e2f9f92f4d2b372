"""The driver, without a broker: it says hello, and refuses settings that it does not know."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

DRIVER = Path(__file__).with_name("carrier.py")


def answers(*requests):
    frames = [json.dumps({"id": number, **request}).encode() for number, request in enumerate(requests)]
    given = b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)
    output = subprocess.run([sys.executable, str(DRIVER)], input=given, stdout=subprocess.PIPE, timeout=60, check=True).stdout
    responses = []
    while output:
        length = int.from_bytes(output[:4], "big")
        responses.append(json.loads(output[4 : 4 + length]))
        output = output[4 + length :]
    return responses


def test_it_says_hello_and_judges_settings():
    settings = {"producer": {"acks": "all", "no.such.setting": 1}, "consumer": None}
    hello, checked, unknown = answers({"call": "hello", "protocols": [1]}, {"call": "check", **settings}, {"call": "fly"})
    assert hello["ok"]["protocol"] == 1
    assert [row[:2] for row in checked["ok"]["refused"]] == [["producer", "no.such.setting"]]
    assert unknown["error"]["name"] == "UNSUPPORTED"
