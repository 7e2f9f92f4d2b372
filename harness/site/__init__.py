"""The page over all runs: static files (`fencepost report --site`), or served on loopback (`fencepost serve`), docs/site.md.

Rows of runs (`harness.memory`) become entries, entries become page models by pure functions, and models become text by templates.
Whatever a record, a name or a sentence contains stays text: templates escape everything, data for scripts is JSON inside the
page, scripts write text alone, and each page's policy (CSP) runs no script but ours, known by its hash.
"""
