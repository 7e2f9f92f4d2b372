"""Settable clocks in containers: the image needs libfaketime where distributions install it."""

from __future__ import annotations

import re
import subprocess
from datetime import datetime, timedelta, timezone
from typing import Any

from fencepost.clusters.docker.container import run_to_end
from fencepost.clusters.fault_tools.faketime import ENVIRONMENT, NAME

LIBRARY = f"/usr/$LIB/{NAME}"  # the linker of the image's C library puts in what its system calls lib
REMEDY = "add the package libfaketime to your image, or build ours anew (fencepost cluster image)"
_TRIAL = ["java", "-XX:+UseSerialGC", "-Xlog:gc:stdout:utctime", "-version"]  # whose first line has the date
_TRIAL_S = 30.0
_DATE = re.compile(r"\[(\d{4}-[-0-9T:.]+)\+0000\]")


def trouble(client: Any, name: str, image: str, settings: dict[str, Any]) -> str:
    """The reason why no clock can be set in containers of this image, by a trial in a container of this name; else empty."""
    ahead = {"LD_PRELOAD": LIBRARY, "FAKETIME": "+86400", **ENVIRONMENT}
    try:
        done = run_to_end(client, name, image, _TRIAL, {**settings, "environment": ahead, "network_mode": "none"}, _TRIAL_S)
    except subprocess.TimeoutExpired as error:
        return f"nobody knows whether a clock can be set: {error}"
    printed = _DATE.search(done.stdout)
    if printed and datetime.fromisoformat(printed[1]).replace(tzinfo=timezone.utc) - datetime.now(timezone.utc) > timedelta(
        hours=23
    ):
        return ""
    return f"the image {image} has no libfaketime that its Java obeys ({LIBRARY}): {REMEDY}"
