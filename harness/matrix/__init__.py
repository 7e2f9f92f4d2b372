"""The matrix of steps: faults of every kind at every step of a transaction's protocol, and what was seen of each (docs/proxy.md).

A cell is a gap (before which request, or behind which answer), a point in it and an act. The fault `protocol` names its cell;
what runs say of a cell is read from their plans, receipts and verdicts.
"""
