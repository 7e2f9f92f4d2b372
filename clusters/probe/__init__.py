"""The prober: answers of a transaction coordinator, and of the leaders of partitions, compared with KIP-98 request by request.

It speaks Kafka's protocol itself (`wire.py`), so that no client library hides an answer.
"""
