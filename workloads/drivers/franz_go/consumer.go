// The consumer: kgo with kept markers, so that the position is known where no record is returned.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	unknown      = int64(-1)
	listEvery    = time.Second
	listPatience = 5 * time.Second
	startTime    = int64(-2)
	endTime      = int64(-1)
)

// consumer is one client of kgo, made by `assign` or `subscribe`. positions are the next offsets, those of unknown ones are -1.
type consumer struct {
	opened    *request
	group     string
	client    *kgo.Client
	over      *connections
	member    bool
	positions map[string]int64
	ends      map[string]int64
	errors    []error // for later polls: what one poll already returned must not be lost
	listed    time.Time
	idle      chan map[string]bounds

	mu      sync.Mutex
	revoked []string // since the last poll
}

// bounds are a partition's first offset and its last stable one (or the high watermark, at read_uncommitted).
type bounds struct{ start, end int64 }

func newConsumer(r *request, group string) *consumer {
	return &consumer{opened: r, group: group, positions: map[string]int64{}, ends: map[string]int64{}, idle: make(chan map[string]bounds, 1)}
}

func (c *consumer) connect(more ...kgo.Opt) error {
	over := newConnections(connectPatience)
	options, _ := consumerOptions(c.opened.Consumer, over)
	options = append(options, kgo.SeedBrokers(seeds(c.opened.Bootstrap)...), kgo.ClientID(c.opened.Name))
	client, err := kgo.NewClient(append(options, more...)...)
	if err != nil {
		return err
	}
	c.close()
	c.client, c.over, c.errors = client, over, nil
	c.ends, c.idle = map[string]int64{}, make(chan map[string]bounds, 1)
	return nil
}

func (c *consumer) assign(wanted map[string]json.RawMessage) error {
	positions, err := c.offsets(wanted)
	if err != nil {
		return err
	}
	return c.fetch(positions)
}

// fetch reads these partitions; the unknown positions are at the start.
func (c *consumer) fetch(positions map[string]int64) error {
	partitions := map[string]map[int32]kgo.Offset{}
	for text, offset := range positions {
		topic, number, err := partitionOf(text)
		if err != nil {
			return err
		}
		if partitions[topic] == nil {
			partitions[topic] = map[int32]kgo.Offset{}
		}
		partitions[topic][number] = kgo.NewOffset().AtStart()
		if offset >= 0 {
			partitions[topic][number] = kgo.NewOffset().At(offset)
		}
	}
	if err := c.connect(kgo.ConsumePartitions(partitions)); err != nil {
		return err
	}
	c.member, c.positions = false, positions
	return nil
}

// offsets are the positions as offsets: "end" is looked up, "start" stays unknown until something is read.
func (c *consumer) offsets(wanted map[string]json.RawMessage) (map[string]int64, error) {
	found := map[string]int64{}
	ends := []string{}
	for partition, position := range wanted {
		var offset int64
		switch string(position) {
		case `"start"`:
			found[partition] = unknown
		case `"end"`:
			ends = append(ends, partition)
		default:
			if err := json.Unmarshal(position, &offset); err != nil {
				return nil, fmt.Errorf("%s is no position", position)
			}
			found[partition] = offset
		}
	}
	if len(ends) == 0 {
		return found, nil
	}
	listed, err := c.lookup(ends, endTime)
	for partition, offset := range listed {
		found[partition] = offset
	}
	return found, err
}

// lookup lists offsets by a client of its own, which needs no assignment.
func (c *consumer) lookup(partitions []string, at int64) (map[string]int64, error) {
	options, _ := consumerOptions(c.opened.Consumer, newConnections(connectPatience))
	client, err := kgo.NewClient(append(options, kgo.SeedBrokers(seeds(c.opened.Bootstrap)...))...)
	if err != nil {
		return nil, err
	}
	defer closed(client, closePatience)
	ctx, cancel := limited(listPatience)
	defer cancel()
	return list(ctx, client, partitions, at, 0)
}

// list asks the leaders for an offset of each partition: at its start (-2), or at its end (-1) as the isolation level has it.
func list(ctx context.Context, client *kgo.Client, partitions []string, at int64, isolation int8) (map[string]int64, error) {
	wanted := kmsg.NewPtrListOffsetsRequest()
	wanted.ReplicaID, wanted.IsolationLevel = -1, isolation
	for _, text := range partitions {
		topic, number, err := partitionOf(text)
		if err != nil {
			return nil, err
		}
		one := kmsg.NewListOffsetsRequestTopicPartition()
		one.Partition, one.Timestamp, one.CurrentLeaderEpoch = number, at, -1
		wanted.Topics = append(wanted.Topics, kmsg.ListOffsetsRequestTopic{Topic: topic, Partitions: []kmsg.ListOffsetsRequestTopicPartition{one}})
	}
	answer, err := client.Request(ctx, wanted)
	if err != nil {
		return nil, translated(err)
	}
	found := map[string]int64{}
	for _, topic := range answer.(*kmsg.ListOffsetsResponse).Topics {
		for _, one := range topic.Partitions {
			if err := kerr.ErrorForCode(one.ErrorCode); err != nil {
				return nil, translated(err)
			}
			found[partitionText(topic.Topic, one.Partition)] = one.Offset
		}
	}
	return found, nil
}

func (c *consumer) subscribe(topics []string) error {
	more, _ := groupOptions(c.opened.Consumer)
	changed := func(kind string) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) { c.rebalanced(kind, partitions) }
	}
	more = append(more, kgo.ConsumerGroup(c.group), kgo.ConsumeTopics(topics...),
		kgo.OnPartitionsAssigned(changed("assigned")), kgo.OnPartitionsRevoked(changed("revoked")), kgo.OnPartitionsLost(changed("lost")))
	if err := c.connect(more...); err != nil {
		return err
	}
	c.member, c.positions = true, map[string]int64{}
	return nil
}

func (c *consumer) rebalanced(kind string, partitions map[string][]int32) {
	names := []string{}
	for topic, numbers := range partitions {
		for _, number := range numbers {
			names = append(names, partitionText(topic, number))
		}
	}
	if len(names) == 0 {
		return
	}
	write(results{"event": "rebalanced", "kind": kind, "partitions": names})
	if kind != "assigned" {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.revoked = append(c.revoked, names...)
	}
}

// forget drops the positions of revoked partitions: whoever has them now moves on.
func (c *consumer) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, partition := range c.revoked {
		delete(c.positions, partition)
		delete(c.ends, partition)
	}
	c.revoked = nil
}

// seek of assigned partitions reads all of them anew from where they are: kgo moves only what was fetched before.
func (c *consumer) seek(wanted map[string]json.RawMessage) error {
	if c.client == nil {
		return wrongState("nothing is assigned")
	}
	moved, err := c.offsets(wanted)
	if err != nil {
		return err
	}
	if c.member {
		return c.move(moved)
	}
	positions := map[string]int64{}
	for partition, offset := range c.positions {
		positions[partition] = offset
	}
	for partition, offset := range moved {
		if _, ok := positions[partition]; !ok {
			return wrongState(partition + " is not assigned")
		}
		positions[partition] = offset
	}
	return c.fetch(positions)
}

// move sets a member's positions; the start is looked up, as kgo takes offsets only.
func (c *consumer) move(positions map[string]int64) error {
	moved := map[string]map[int32]kgo.EpochOffset{}
	for text, offset := range positions {
		topic, number, err := partitionOf(text)
		if err != nil {
			return err
		}
		if offset == unknown {
			listed, err := c.lookup([]string{text}, startTime)
			if err != nil {
				return err
			}
			offset = listed[text]
		}
		if moved[topic] == nil {
			moved[topic] = map[int32]kgo.EpochOffset{}
		}
		moved[topic][number] = kgo.EpochOffset{Epoch: -1, Offset: offset}
		c.positions[text] = offset
		delete(c.ends, text)
	}
	c.client.SetOffsets(moved)
	return nil
}

func (c *consumer) position(partitions []string) map[string]any {
	found := map[string]any{}
	for _, partition := range partitions {
		found[partition] = nil
		if offset, ok := c.positions[partition]; ok && offset >= 0 {
			found[partition] = offset
		}
	}
	return found
}

func (c *consumer) committed(partitions []string, timeout time.Duration) (results, error) {
	if c.client == nil {
		return nil, wrongState("nothing is subscribed")
	}
	ctx, cancel := limited(timeout)
	defer cancel()
	wanted := kmsg.NewPtrOffsetFetchRequest()
	wanted.Group, wanted.RequireStable = c.group, true
	answer, err := wanted.RequestWith(ctx, c.client)
	if err == nil {
		err = kerr.ErrorForCode(answer.ErrorCode)
	}
	if err != nil {
		return nil, translated(err)
	}
	offsets := map[string]any{}
	for _, partition := range partitions {
		offsets[partition] = nil
	}
	for _, topic := range answer.Topics {
		for _, one := range topic.Partitions {
			name := partitionText(topic.Topic, one.Partition)
			if err := kerr.ErrorForCode(one.ErrorCode); err != nil {
				return nil, translated(err)
			}
			if _, ok := offsets[name]; ok && one.Offset >= 0 {
				offsets[name] = one.Offset
			}
		}
	}
	return results{"offsets": offsets}, nil
}

func (c *consumer) poll(timeout time.Duration, limit int) (results, error) {
	if c.client == nil {
		return nil, wrongState("nothing is assigned")
	}
	if len(c.errors) > 0 {
		failed := c.errors[0]
		c.errors = c.errors[1:]
		return nil, failed
	}
	c.forget()
	ctx, cancel := limited(timeout)
	defer cancel()
	records, ends := [][]any{}, map[string]int64{}
	for len(records) == 0 && len(c.errors) == 0 && ctx.Err() == nil {
		records = c.take(c.client.PollRecords(ctx, limit), ends)
	}
	if len(records) == 0 && len(c.errors) > 0 {
		failed := c.errors[0]
		c.errors = c.errors[1:]
		return nil, failed
	}
	if len(records) == 0 {
		c.look(ends)
	}
	return results{"records": records, "ends": ends}, nil
}

// take moves the positions over what was fetched and returns its records, without the markers.
func (c *consumer) take(fetches kgo.Fetches, ends map[string]int64) [][]any {
	found := [][]any{}
	fetches.EachPartition(func(fetched kgo.FetchTopicPartition) {
		if fetched.Err != nil {
			c.fail(fetched.Topic, fetched.Partition, fetched.Err)
		}
		if len(fetched.Records) == 0 {
			return
		}
		name := partitionText(fetched.Topic, fetched.Partition)
		for _, record := range fetched.Records {
			c.positions[name] = record.Offset + 1
			if !record.Attrs.IsControl() {
				found = append(found, polled(record))
			}
		}
		c.reach(name, bounds{0, c.visible(fetched.FetchPartition)}, ends)
	})
	return found
}

// visible is the offset below which a fetch shows all that this consumer may ever see.
func (c *consumer) visible(fetched kgo.FetchPartition) int64 {
	if c.isolation() == 1 {
		return fetched.LastStableOffset
	}
	return fetched.HighWatermark
}

func (c *consumer) isolation() int8 {
	if fmt.Sprint(c.opened.Consumer["isolation.level"]) == "read_uncommitted" {
		return 0
	}
	return 1
}

// reach names the end of a partition when the position is there. Without any record left, it is where the log begins.
func (c *consumer) reach(partition string, found bounds, ends map[string]int64) {
	position := max(c.positions[partition], found.start)
	if found.end >= 0 && position >= found.end {
		c.ends[partition], ends[partition] = position, position
	}
}

// fail keeps an error for a poll. kgo goes on by itself after a lost tail; after any other error it never fetches the partition again.
func (c *consumer) fail(topic string, partition int32, err error) {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return
	}
	found := translated(err)
	var loss *kgo.ErrDataLoss
	var kafka *kerr.Error
	found.Fatal = !errors.As(err, &loss) && errors.As(err, &kafka) && !kafka.Retriable
	found.Text = fmt.Sprintf("%s: %s", partitionText(topic, partition), found.Text)
	c.errors = append(c.errors, found)
}

// look finds the ends that no fetched record shows (an empty partition), beside the polls and seldom.
func (c *consumer) look(ends map[string]int64) {
	select {
	case found := <-c.idle:
		for partition, one := range found {
			if _, ok := c.positions[partition]; ok {
				c.reach(partition, one, ends)
			}
		}
	default:
	}
	wanted := []string{}
	for partition, position := range c.positions {
		if end, ok := c.ends[partition]; !ok || end < position {
			wanted = append(wanted, partition)
		}
	}
	if len(wanted) > 0 && time.Since(c.listed) > listEvery {
		c.listed = time.Now()
		go listBounds(c.client, wanted, c.isolation(), c.idle)
	}
}

func listBounds(client *kgo.Client, partitions []string, isolation int8, to chan<- map[string]bounds) {
	ctx, cancel := limited(listPatience)
	defer cancel()
	ends, err := list(ctx, client, partitions, endTime, isolation)
	if err != nil {
		return // asked for again while the end is not known
	}
	starts, err := list(ctx, client, partitions, startTime, isolation)
	if err != nil {
		return
	}
	found := map[string]bounds{}
	for partition, end := range ends {
		if start, ok := starts[partition]; ok {
			found[partition] = bounds{start, end}
		}
	}
	select {
	case to <- found:
	default:
	}
}

func polled(record *kgo.Record) []any {
	headers := []header{}
	for _, one := range record.Headers {
		headers = append(headers, header{one.Key, one.Value})
	}
	return []any{record.Topic, record.Partition, record.Offset, record.Key, record.Value, headers, record.Timestamp.UnixMilli()}
}

func (c *consumer) leave(patience time.Duration) {
	if c.client != nil {
		closed(c.client, patience)
		c.client = nil
	}
}

func (c *consumer) close() {
	if c.client != nil {
		c.over.end()
		c.leave(closePatience)
	}
}
