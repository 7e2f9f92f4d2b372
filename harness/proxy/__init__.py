"""The fault proxy: it reads Kafka's protocol between clients and brokers, and delays, loses, repeats or alters messages by rules.

The proxy itself is a Java program (`java/`) on the kafka-clients of a release of Kafka; what is here starts it, talks to it by
HTTP, and reads its record.
"""
