"""A Jepsen-style correctness test harness for Kafka's exactly-once promises.

The package holds `harness` (the program), `clusters`, `nemesis`, `workloads` and `checkers` (its plug-ins), `campaigns` and
`examples`. In a working copy they are links to the folders beside this one.
"""
