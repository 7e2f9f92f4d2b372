"""Anomalies that damages bring with them by nature, so that they are no false alarm."""

from __future__ import annotations

SKIPS = ("poll-skip", "int-poll-skip")
STEPS = (*SKIPS, "nonmonotonic-poll", "int-nonmonotonic-poll")
FUTURE = ("dirty-read", "lso-overrun", "G1c-wr", "G1c-wr-process", "G1c-wr-realtime")
