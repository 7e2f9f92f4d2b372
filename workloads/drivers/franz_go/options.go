// Kafka's settings as kgo's options.
package main

import (
	"context"
	"math"
	"math/rand"
	"net"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// Leaders are looked for again so soon after a failure; kgo's own default, 5 s, would leave short faults unnoticed.
const metadataMinAge = 100 * time.Millisecond

const connectPatience = 10 * time.Second // kgo's own

func refused(r *request) [][]string {
	found := [][]string{}
	if r.Producer != nil {
		options, wrong := producerOptions(&request{Producer: r.Producer, Recovery: r.Recovery}, newConnections(connectPatience))
		found = append(found, invalid("producer", options, wrong)...)
	}
	if r.Consumer != nil {
		options, wrong := consumerOptions(r.Consumer, newConnections(connectPatience))
		found = append(found, invalid("consumer", options, wrong)...)
		_, wrong = groupOptions(r.Consumer)
		found = append(found, wrong...)
	}
	return found
}

func invalid(side string, options []kgo.Opt, wrong [][]string) [][]string {
	if err := kgo.ValidateOpts(append(options, kgo.SeedBrokers("check:1"))...); err != nil && len(wrong) == 0 {
		return [][]string{{side, "", err.Error()}}
	}
	return wrong
}

func producerOptions(r *request, over *connections) ([]kgo.Opt, [][]string) {
	read, transactionalID := newOptions("producer", r.Producer), r.TransactionalID
	options := append(commonOptions(read, over), kgo.RecordPartitioner(partitioner{}))
	options = append(options, retryOptions(read, r.documented())...)
	acks := read.text("acks", "all", "all", "-1", "1", "0")
	if read.flag("enable.idempotence", true) || transactionalID != nil {
		if acks != "all" && acks != "-1" {
			read.refuse("acks", "an idempotent producer needs acks=all")
		}
	} else {
		options = append(options, kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(int(read.number("max.in.flight.requests.per.connection", 5))))
	}
	read.number("max.in.flight.requests.per.connection", 5) // known; kgo has its own way to keep the order
	options = append(options,
		kgo.RequiredAcks(map[string]kgo.Acks{"all": kgo.AllISRAcks(), "-1": kgo.AllISRAcks(), "1": kgo.LeaderAck(), "0": kgo.NoAck()}[acks]),
		kgo.ProducerLinger(read.ms("linger.ms", 0)),
	)
	if transactionalID != nil {
		options = append(options, kgo.TransactionalID(*transactionalID))
	}
	if read.has("transaction.timeout.ms") {
		options = append(options, kgo.TransactionTimeout(read.ms("transaction.timeout.ms", 0)))
	}
	if read.has("delivery.timeout.ms") {
		options = append(options, kgo.RecordDeliveryTimeout(read.ms("delivery.timeout.ms", 0)))
	}
	if read.has("request.timeout.ms") {
		options = append(options, kgo.ProduceRequestTimeout(read.ms("request.timeout.ms", 0)))
	}
	if read.has("retries") {
		options = append(options, kgo.RecordRetries(int(read.number("retries", math.MaxInt32))))
	}
	if read.has("batch.size") {
		options = append(options, kgo.ProducerBatchMaxBytes(int32(read.number("batch.size", 0))))
	}
	if read.has("compression.type") {
		options = append(options, kgo.ProducerBatchCompression(compression(read.text("compression.type", "none", "none", "gzip", "snappy", "lz4", "zstd"))))
	}
	options = append(options, versionOptions(read)...)
	read.unread("franz-go")
	return options, read.refused
}

func compression(name string) kgo.CompressionCodec {
	return map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}[name]
}

// consumerOptions are those of every consumer. Markers are kept, so that positions behind them are known.
func consumerOptions(given settings, over *connections) ([]kgo.Opt, [][]string) {
	read := newOptions("consumer", given)
	level := kgo.ReadCommitted()
	if read.text("isolation.level", "read_committed", "read_committed", "read_uncommitted") == "read_uncommitted" {
		level = kgo.ReadUncommitted()
	}
	reset := map[string]kgo.Offset{"earliest": kgo.NewOffset().AtStart(), "latest": kgo.NewOffset().AtEnd(), "none": kgo.NoResetOffset()}
	options := append(commonOptions(read, over), retryOptions(read, false)...)
	options = append(options,
		kgo.FetchIsolationLevel(level),
		kgo.ConsumeResetOffset(reset[read.text("auto.offset.reset", "earliest", "earliest", "latest", "none")]),
		kgo.FetchMaxWait(read.ms("fetch.max.wait.ms", 100*time.Millisecond)),
		kgo.KeepControlRecords(),
	)
	if read.has("fetch.min.bytes") {
		options = append(options, kgo.FetchMinBytes(int32(read.number("fetch.min.bytes", 1))))
	}
	if read.has("fetch.max.bytes") {
		options = append(options, kgo.FetchMaxBytes(int32(read.number("fetch.max.bytes", 0))))
	}
	if read.has("max.partition.fetch.bytes") {
		options = append(options, kgo.FetchMaxPartitionBytes(int32(read.number("max.partition.fetch.bytes", 0))))
	}
	for _, key := range groupSettings {
		read.known[key] = true
	}
	read.unread("franz-go")
	return options, read.refused
}

var groupSettings = []string{
	"group.instance.id", "session.timeout.ms", "heartbeat.interval.ms", "max.poll.interval.ms", "partition.assignment.strategy", "enable.auto.commit",
}

// groupOptions are those of a member of a group.
func groupOptions(given settings) ([]kgo.Opt, [][]string) {
	read := newOptions("consumer", given)
	options := []kgo.Opt{kgo.DisableAutoCommit()}
	read.text("enable.auto.commit", "false", "false", "False")
	if read.has("group.instance.id") {
		options = append(options, kgo.InstanceID(read.text("group.instance.id", "")))
	}
	if read.has("session.timeout.ms") {
		options = append(options, kgo.SessionTimeout(read.ms("session.timeout.ms", 0)))
	}
	if read.has("heartbeat.interval.ms") {
		options = append(options, kgo.HeartbeatInterval(read.ms("heartbeat.interval.ms", 0)))
	}
	if read.has("max.poll.interval.ms") {
		options = append(options, kgo.RebalanceTimeout(read.ms("max.poll.interval.ms", 0)))
	}
	if read.has("partition.assignment.strategy") {
		name := read.text("partition.assignment.strategy", "cooperative-sticky", "range", "roundrobin", "sticky", "cooperative-sticky")
		options = append(options, kgo.Balancers(map[string]kgo.GroupBalancer{
			"range": kgo.RangeBalancer(), "roundrobin": kgo.RoundRobinBalancer(), "sticky": kgo.StickyBalancer(), "cooperative-sticky": kgo.CooperativeStickyBalancer(),
		}[name]))
	}
	return options, read.refused
}

func commonOptions(read *options, over *connections) []kgo.Opt {
	options := []kgo.Opt{
		kgo.WithLogger(kgo.BasicLogger(os.Stderr, kgo.LogLevelWarn, nil)),
		kgo.MetadataMinAge(metadataMinAge),
	}
	if read.has("metadata.max.age.ms") {
		options = append(options, kgo.MetadataMaxAge(read.ms("metadata.max.age.ms", 0)))
	}
	if read.has("request.timeout.ms") {
		options = append(options, kgo.RequestTimeoutOverhead(read.ms("request.timeout.ms", 0)))
	}
	found := read.security("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
	options = append(options, kgo.Dialer(func(ctx context.Context, network, address string) (net.Conn, error) {
		return over.dialTLS(ctx, network, address, found.tls)
	}))
	if found.mechanism != "" {
		options = append(options, kgo.SASL(mechanism(found)))
	}
	return options
}

// retryOptions leave a producer kgo's own number of tries, and its pauses where the test gives none. Else time is what limits a request, as
// in Kafka's own clients, and the pauses are short.
func retryOptions(read *options, documented bool) []kgo.Opt {
	own := !read.has("retry.backoff.ms") && !read.has("retry.backoff.max.ms")
	pause := backoff(read)
	if documented && own {
		return nil
	}
	if documented {
		return []kgo.Opt{kgo.RetryBackoffFn(pause)}
	}
	return []kgo.Opt{kgo.RequestRetries(math.MaxInt32), kgo.RetryBackoffFn(pause)}
}

// backoff is kgo's one pause before anything is tried again: it stands for `retry.backoff.ms` and for `reconnect.backoff.ms`.
func backoff(read *options) func(int) time.Duration {
	least := read.ms("retry.backoff.ms", read.ms("reconnect.backoff.ms", 250*time.Millisecond))
	most := read.ms("retry.backoff.max.ms", read.ms("reconnect.backoff.max.ms", 5*time.Second))
	return func(failures int) time.Duration {
		pause := float64(least) * math.Pow(2, float64(max(0, failures-1)))
		return time.Duration(math.Min(pause, float64(most)) * (0.8 + 0.4*rand.Float64()))
	}
}

func mechanism(found security) sasl.Mechanism {
	if strings.HasPrefix(found.mechanism, "SCRAM") {
		auth := scram.Auth{User: found.username, Pass: found.password}
		if found.mechanism == "SCRAM-SHA-256" {
			return auth.AsSha256Mechanism()
		}
		return auth.AsSha512Mechanism()
	}
	return plain.Plain(func(context.Context) (plain.Auth, error) {
		return plain.Auth{User: found.username, Pass: found.password}, nil
	})
}

// partitioner takes the partition that a record names, and kgo's sticky one for records that name none.
type partitioner struct{}

func (partitioner) ForTopic(topic string) kgo.TopicPartitioner {
	return &topicPartitioner{kgo.StickyKeyPartitioner(nil).ForTopic(topic)}
}

type topicPartitioner struct{ unnamed kgo.TopicPartitioner }

func (t *topicPartitioner) RequiresConsistency(record *kgo.Record) bool {
	return record.Partition >= 0 || t.unnamed.RequiresConsistency(record)
}

func (t *topicPartitioner) Partition(record *kgo.Record, partitions int) int {
	if record.Partition >= 0 {
		return int(record.Partition)
	}
	return t.unnamed.Partition(record, partitions)
}

func (t *topicPartitioner) OnNewBatch() {
	if batched, ok := t.unnamed.(kgo.TopicPartitionerOnNewBatch); ok {
		batched.OnNewBatch()
	}
}
