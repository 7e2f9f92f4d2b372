"""Faults of workloads when none is named (`default_nemesis`): those that strike what is judged (docs/occasions.md)."""

from __future__ import annotations

OF_MEMBERS = (
    "kill,target=instance,every_s=[2,4],lasts_s=[0.5,1]",
    "pause,target=instance,lane=frozen,every_s=[1,3],lasts_s=[8,9]",
    "latency,target=instance,delay_ms=600,jitter_ms=250,lane=links,every_s=[1,3],lasts_s=[5,8]",
    "pause,target=coordinator,lane=brokers,every_s=[6,10],lasts_s=[2,3]",
    "kill,target=coordinator,lane=brokers,every_s=[6,10],lasts_s=[1,2]",
)
"""Of instances of a program, or members of a group: they die at work, are frozen beyond their sessions, and lose coordinators.
Slow links
stretch the time between a send and the answer to its commit, so that the other faults meet it."""
OF_CONNECT = ("kill,target=instance", "pause,target=connect-task", "kill,target=connect-leader", "kill")
"""Of workers of Kafka Connect, and the brokers."""
OF_TRANSACTIONAL_IDS = ("kill,target=coordinator", "pause")
"""Of transactional ids that are taken over while their coordinators move."""
