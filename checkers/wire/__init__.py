"""Requests as they were on the wire: the state machine of a transactional id at its coordinator, as data, and how recorded
exchanges are judged by it (docs/wire.md).
"""
