"""`workload.log` of Redpanda's chaos tests (github.com/redpanda-data/chaos), made ours.

docs/foreign-histories.md says what of it is known.
"""
