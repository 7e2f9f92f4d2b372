"""The conformance kit for faults: `fencepost nemesis check` plays stories with a fault on a cluster and says what to change.

`results` names the stories, `stories` plays them. `fixture` is a cluster and a fault under test, with deadlines (`deadline`).
`snapshot` is the state of the cluster as the kit observes it, `link_quality` what it measures beside that, `call_record` what a
fault did. `receipt_checks` checks the receipt by itself, `effect_checks` its claims against what the kit sees. `doubles` stand in
for the cluster in some stories. `sandbox_side` runs in its sandbox; `harness_side` is a harness that the kit kills; `kit` goes
from options to results.
"""
