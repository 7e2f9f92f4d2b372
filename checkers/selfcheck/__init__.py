"""Proof that the checks can fail: plant one damage in a clean history, and demand exactly its anomaly."""

from checkers.selfcheck.run import Row, selfcheck

__all__ = ["Row", "selfcheck"]
