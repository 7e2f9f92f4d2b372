"""The anomalies of records, transactions and readers: a file per family, a function per anomaly.

The docstring of a check is the definition of its anomaly. It ends with a worked example: a few operations on one or two
partitions, and what the check finds among them. A row is an operation::

    ms   process  operation  t-0            outcome
    0-1  1        txn        send a@5, b@6  committed

Process 1 ran a transaction from 0 to 1 ms. It sent two records, *a* and *b*, to partition t-0; they were acknowledged at offsets
5 and 6. It called commit at its very end. `poll` is a read_committed consumer's poll. `final read` is a complete read_committed
final read of every partition of the table. By `initialise` a process takes over the one transactional id of the table. An
operation `2-` never completed: its client was killed.

An outcome may go on with an error: `unknown: commit _FENCED fatal`.

The slow twin of a check is a plain loop that looks for the same. Tests demand that both find in the example what it says, and
that they agree on random histories.
"""
