"""Measurements of fencepost itself, as ratios within one run: `python -m benchmarks` lists them. See docs/performance.md."""
