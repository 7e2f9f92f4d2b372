"""Faults of workloads when none is named (`default_nemesis`): those that strike what is judged (docs/occasions.md)."""

from __future__ import annotations

OF_MEMBERS = (
    "kill,target=instance:in-transaction,together=crash,every_s=[1,2],lasts_s=[0.5,1]",
    "pause,target=instance:in-transaction,together=crash,every_s=[1,2],lasts_s=[8.5,9.5]",
    "scale,every_s=[1,2],lasts_s=[2,3]",
    "latency,target=instance,delay_ms=600,jitter_ms=250,lane=links,every_s=[3,6],lasts_s=[3,5]",
    "fence-producers,target=instance,lane=fences,every_s=[5,8],lasts_s=0.1",
    "pause,target=coordinator,lane=brokers,every_s=[13,17],lasts_s=[2,3]",
    "kill,target=coordinator,lane=brokers,every_s=[13,17],lasts_s=[1,2]",
)
"""Of instances of a program, or members of a group. One dies in a transaction and one is frozen in its own, at the same time:
the group waits for both sessions together (6 s is the least that brokers allow by default), and works on before the frozen one
wakes as a zombie. Then members leave and join in order, for which a group waits for no session: partitions move to and fro. Links
are slow, so that commits take long; producers are fenced, so that transactions are aborted whose instances live on; coordinators
move, the first one when the frozen instance has woken: one that moves while a group waits for sessions begins to wait for them
anew, and the frozen one would wake as a member still."""
OF_MEMBERS_LANES = ("main,order=in turn",)
OF_SINKS = tuple(fault for fault in OF_MEMBERS if not fault.startswith("fence-producers"))
"""Of instances of a sink, which have no transactional ids."""
OF_CONNECT = ("kill,target=instance", "pause,target=connect-task", "kill,target=connect-leader", "kill")
"""Of workers of Kafka Connect, and the brokers."""
OF_TRANSACTIONAL_IDS = ("kill,target=coordinator", "pause")
"""Of transactional ids that are taken over while their coordinators move."""
