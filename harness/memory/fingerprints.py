"""The fingerprint of a finding: what it has in common with the same bug in another run."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from fencepost.harness.api.run import Run


def fingerprint(finding: Mapping[str, Any], run: Run) -> str:
    """Twelve hexadecimal digits; alike for findings of one cause. No ids, offsets or times are part of it."""
    parts = (str(finding.get("anomaly", "?")), str((run.plan.get("workload") or {}).get("kind") or ""))
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]
