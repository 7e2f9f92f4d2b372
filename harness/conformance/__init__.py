"""The conformance kit for faults: `fencepost nemesis check` plays every story of a fault's life and says what to change.

Where to look: `picture` what the kit sees of a cluster with its own eyes, `receipts` what a receipt must be, `stories` the
stories, `doubles` stand-ins that a fault is given in some of them, `inside` the side in the cluster's sandbox, `outside` a
harness that is there to be killed, `check` the whole from options to answers.
"""
