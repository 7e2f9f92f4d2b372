// Kafka's settings as sarama's configuration.
package main

import (
	"math"
	"time"

	"github.com/IBM/sarama"
)

const (
	metadataPatience = 10 * time.Second
	connectPatience  = 10 * time.Second // Kafka's socket.connection.setup.timeout.ms; sarama's own is 30 s
)

func refused(r *request) [][]string {
	found := [][]string{}
	if r.Producer != nil {
		config, wrong := producerConfig(r.Producer, nil, "check")
		found = append(found, invalid("producer", config, wrong)...)
	}
	if r.Consumer != nil {
		config, wrong := consumerConfig(r.Consumer, "check")
		found = append(found, invalid("consumer", config, wrong)...)
	}
	return found
}

func invalid(side string, config *sarama.Config, wrong [][]string) [][]string {
	if err := config.Validate(); err != nil && len(wrong) == 0 {
		return [][]string{{side, "", err.Error()}}
	}
	return wrong
}

func producerConfig(given settings, transactionalID *string, name string) (*sarama.Config, [][]string) {
	read := newOptions("producer", given)
	config := commonConfig(read, name)
	acks := read.text("acks", "all", "all", "-1", "1", "0")
	config.Producer.RequiredAcks = map[string]sarama.RequiredAcks{"all": sarama.WaitForAll, "-1": sarama.WaitForAll, "1": sarama.WaitForLocal, "0": sarama.NoResponse}[acks]
	config.Producer.Idempotent = read.flag("enable.idempotence", true) || transactionalID != nil
	if config.Producer.Idempotent {
		config.Net.MaxOpenRequests = 1 // sarama demands it
		if config.Producer.RequiredAcks != sarama.WaitForAll {
			read.refuse("acks", "an idempotent producer needs acks=all")
		}
	}
	if read.has("max.in.flight.requests.per.connection") && !config.Producer.Idempotent {
		config.Net.MaxOpenRequests = int(read.number("max.in.flight.requests.per.connection", 5))
	}
	config.Producer.Return.Successes, config.Producer.Return.Errors = true, true
	config.Producer.Partitioner = newPartitioner
	config.Producer.Flush.Frequency = read.ms("linger.ms", 0)
	if read.has("request.timeout.ms") {
		config.Producer.Timeout = read.ms("request.timeout.ms", 0)
	}
	read.known["delivery.timeout.ms"] = true // sarama gives a record up by the number of its retries only
	config.Producer.Retry.Max = int(min(read.number("retries", int64(config.Producer.Retry.Max)), math.MaxInt32))
	config.Producer.Retry.Backoff = read.ms("retry.backoff.ms", config.Producer.Retry.Backoff)
	config.Producer.Transaction.Retry.Backoff = read.ms("retry.backoff.ms", config.Producer.Transaction.Retry.Backoff)
	config.Producer.Transaction.Timeout = read.ms("transaction.timeout.ms", config.Producer.Transaction.Timeout)
	if transactionalID != nil {
		config.Producer.Transaction.ID = *transactionalID
	}
	config.Producer.Compression = map[string]sarama.CompressionCodec{
		"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy, "lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
	}[read.text("compression.type", "none", "none", "gzip", "snappy", "lz4", "zstd")]
	read.unread("sarama")
	return config, read.refused
}

func consumerConfig(given settings, name string) (*sarama.Config, [][]string) {
	read := newOptions("consumer", given)
	config := commonConfig(read, name)
	config.Consumer.IsolationLevel = sarama.ReadCommitted
	if read.text("isolation.level", "read_committed", "read_committed", "read_uncommitted") == "read_uncommitted" {
		config.Consumer.IsolationLevel = sarama.ReadUncommitted
	}
	read.text("auto.offset.reset", "earliest", "earliest") // a consumer out of range is of no use any more: it is opened again, at the start
	config.Consumer.MaxWaitTime = read.ms("fetch.max.wait.ms", 100*time.Millisecond)
	config.Consumer.Return.Errors = true
	config.Consumer.Retry.Backoff = read.ms("retry.backoff.ms", read.ms("reconnect.backoff.max.ms", config.Consumer.Retry.Backoff))
	config.Consumer.Fetch.Min = int32(read.number("fetch.min.bytes", int64(config.Consumer.Fetch.Min)))
	config.Consumer.Fetch.Default = int32(read.number("max.partition.fetch.bytes", int64(config.Consumer.Fetch.Default)))
	read.unread("sarama")
	return config, read.refused
}

func commonConfig(read *options, name string) *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.V2_8_0_0 // of the protocol; every later broker speaks it, and sarama covers it whole
	config.ClientID = name
	config.Net.DialTimeout = connectPatience
	config.Metadata.Timeout = metadataPatience
	config.Metadata.Retry.Backoff = read.ms("reconnect.backoff.max.ms", config.Metadata.Retry.Backoff)
	read.known["reconnect.backoff.ms"] = true // sarama has one pause only
	if read.has("request.timeout.ms") {
		timeout := read.ms("request.timeout.ms", 0)
		config.Net.ReadTimeout, config.Net.WriteTimeout = timeout, timeout
		config.Net.DialTimeout = min(timeout, connectPatience)
	}
	config.Net.Proxy.Enable, config.Net.Proxy.Dialer = true, newConnections(config.Net.DialTimeout)
	if read.has("metadata.max.age.ms") {
		config.Metadata.RefreshFrequency = read.ms("metadata.max.age.ms", 0)
	}
	found := read.security("PLAIN")
	if found.tls != nil {
		config.Net.TLS.Enable, config.Net.TLS.Config = true, found.tls
	}
	if found.mechanism != "" {
		config.Net.SASL.Enable, config.Net.SASL.Mechanism = true, sarama.SASLMechanism(found.mechanism)
		config.Net.SASL.User, config.Net.SASL.Password = found.username, found.password
	}
	return config
}

// partitioner takes the partition that a message names, and sarama's hash of the key for those that name none.
type partitioner struct{ unnamed sarama.Partitioner }

func newPartitioner(topic string) sarama.Partitioner {
	return &partitioner{sarama.NewHashPartitioner(topic)}
}

func (p *partitioner) Partition(message *sarama.ProducerMessage, partitions int32) (int32, error) {
	if message.Metadata.(sent).partition >= 0 {
		return message.Metadata.(sent).partition, nil
	}
	return p.unnamed.Partition(message, partitions)
}

// RequiresConsistency keeps the numbers of partitions that have no leader.
func (p *partitioner) RequiresConsistency() bool { return true }
