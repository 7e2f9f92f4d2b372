"""The `kfake` cluster: franz-go's fake of a Kafka cluster, in memory, all brokers in one process (docs/clusters.md)."""
