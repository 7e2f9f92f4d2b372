"""Proof that the checks can fail: plant one damage in a clean history, and demand exactly its anomaly."""
