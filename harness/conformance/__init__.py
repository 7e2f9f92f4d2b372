"""The conformance kit for faults: `fencepost nemesis check` plays every story of a fault's life and says what to change.

Where to look: `told` names the stories, `stories` plays them, `ground` is what they are played on: a cluster and a fault, with
deadlines. `picture` is what the kit sees with its own eyes, `receipts` what a receipt must be, `doubles` stand-ins for the
cluster in some stories. `inside` is the side in the cluster's sandbox, `outside` a harness that is there to be killed, `check`
the whole, from options to answers.
"""
