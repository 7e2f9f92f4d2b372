// The consumer: sarama's consumers of partitions, one each. sarama shows no position behind markers and aborted records.
package main

import (
	"encoding/json"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/IBM/sarama"
)

const (
	checkEvery = 500 * time.Millisecond
	checkSteps = 100
	fetchWait  = 10 // ms that a broker may wait for data that is not there
)

// consumer is one client of sarama, made by `assign`. positions are the next offsets, those of unknown ones are sarama's.
type consumer struct {
	opened    *request
	reading   *reading
	positions map[string]int64
	ends      map[string]int64
	checked   time.Time
}

// reading is what an assignment opened. Its messages come from one goroutine a partition.
type reading struct {
	client      sarama.Client
	connections *connections
	consumer    sarama.Consumer
	partitions  []sarama.PartitionConsumer
	messages    chan *sarama.ConsumerMessage
	failed      chan *callError
	ends        chan map[string]int64
	over        chan struct{}
	closed      atomic.Bool
}

func (c *consumer) assign(wanted map[string]json.RawMessage) error {
	positions := map[string]int64{}
	for partition, position := range wanted {
		offset, err := offsetOf(position)
		if err != nil {
			return err
		}
		positions[partition] = offset
	}
	return c.start(positions)
}

// offsetOf is a position as sarama's offset: -2 is the start, -1 the end.
func offsetOf(position json.RawMessage) (int64, error) {
	switch string(position) {
	case `"start"`:
		return sarama.OffsetOldest, nil
	case `"end"`:
		return sarama.OffsetNewest, nil
	}
	var offset int64
	if err := json.Unmarshal(position, &offset); err != nil {
		return 0, fmt.Errorf("%s is no position", position)
	}
	return offset, nil
}

// start reads these partitions with a client of its own; what was open before is let go of.
func (c *consumer) start(positions map[string]int64) error {
	c.close()
	config, _ := consumerConfig(c.opened.Consumer, c.opened.Name)
	found := &reading{
		connections: config.Net.Proxy.Dialer.(*connections),
		messages:    make(chan *sarama.ConsumerMessage, 1000),
		failed:      make(chan *callError, 100),
		ends:        make(chan map[string]int64, 1),
		over:        make(chan struct{}),
	}
	if err := found.open(seeds(c.opened.Bootstrap), config, positions); err != nil {
		found.close()
		return translated(err)
	}
	c.reading, c.positions, c.ends = found, positions, map[string]int64{}
	return nil
}

// open replaces "the end" by its offset, so that the position is known.
func (r *reading) open(brokers []string, config *sarama.Config, positions map[string]int64) (err error) {
	if r.client, err = sarama.NewClient(brokers, config); err != nil {
		return err
	}
	if r.consumer, err = sarama.NewConsumerFromClient(r.client); err != nil {
		return err
	}
	for text, offset := range positions {
		topic, number, err := partitionOf(text)
		if err != nil {
			return err
		}
		if offset == sarama.OffsetNewest {
			if offset, err = r.client.GetOffset(topic, number, sarama.OffsetNewest); err != nil {
				return err
			}
			positions[text] = offset
		}
		one, err := r.consumer.ConsumePartition(topic, number, offset)
		if err != nil {
			return err
		}
		r.partitions = append(r.partitions, one)
		go r.forward(one, text)
		go r.watch(one, text)
	}
	return nil
}

// forward passes a partition's messages on. sarama ends a consumer that is out of range: then the whole is of no use any more.
func (r *reading) forward(from sarama.PartitionConsumer, partition string) {
	for message := range from.Messages() {
		select {
		case r.messages <- message:
		case <-r.over:
		}
	}
	if !r.closed.Load() {
		r.failed <- &callError{Name: "ErrOffsetOutOfRange", Code: 1, Text: "sarama's consumer of " + partition + " has ended", Fatal: true}
	}
}

// watch logs what sarama reports and recovers from by itself.
func (r *reading) watch(from sarama.PartitionConsumer, partition string) {
	for failed := range from.Errors() {
		if !r.closed.Load() {
			write(results{"event": "log", "level": "warning", "text": partition + ": " + failed.Err.Error()})
		}
	}
}

func (c *consumer) seek(wanted map[string]json.RawMessage) error {
	if c.reading == nil {
		return wrongState("nothing is assigned")
	}
	positions := map[string]int64{}
	for partition, offset := range c.positions {
		positions[partition] = offset
	}
	for partition, position := range wanted {
		offset, err := offsetOf(position)
		if err != nil {
			return err
		}
		if _, ok := positions[partition]; !ok {
			return wrongState(partition + " is not assigned")
		}
		positions[partition] = offset
	}
	return c.start(positions)
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

func (c *consumer) poll(timeout time.Duration, limit int) (results, error) {
	if c.reading == nil {
		return nil, wrongState("nothing is assigned")
	}
	records, ends := [][]any{}, map[string]int64{}
	late := time.After(timeout)
	for waiting := true; waiting && len(records) < limit; {
		select {
		case message := <-c.reading.messages:
			records = append(records, c.take(message))
			continue
		default:
		}
		if len(records) > 0 {
			break
		}
		select {
		case message := <-c.reading.messages:
			records = append(records, c.take(message))
		case failed := <-c.reading.failed:
			return nil, failed
		case <-late:
			waiting = false
		}
	}
	if len(records) == 0 {
		c.look(ends)
	}
	return results{"records": records, "ends": ends}, nil
}

func (c *consumer) take(message *sarama.ConsumerMessage) []any {
	c.positions[partitionText(message.Topic, message.Partition)] = message.Offset + 1
	headers := []header{}
	for _, one := range message.Headers {
		headers = append(headers, header{string(one.Key), one.Value})
	}
	return []any{message.Topic, message.Partition, message.Offset, message.Key, message.Value, headers, message.Timestamp.UnixMilli()}
}

// look names the ends that a check found, and checks seldom: only where nothing is left to return.
func (c *consumer) look(ends map[string]int64) {
	select {
	case found := <-c.reading.ends:
		for partition, end := range found {
			c.positions[partition] = max(c.positions[partition], end)
			c.ends[partition], ends[partition] = end, end
		}
	default:
	}
	wanted := map[string]int64{}
	for partition, position := range c.positions {
		if end, ok := c.ends[partition]; !ok || end <= position {
			wanted[partition] = position
		}
	}
	if len(wanted) > 0 && time.Since(c.checked) > checkEvery {
		c.checked = time.Now()
		go c.reading.check(wanted)
	}
}

// check reads what lies behind the positions by Fetch requests of its own: the end of a partition is reached when it is nothing
// but markers and, at read_committed, aborted records.
func (r *reading) check(positions map[string]int64) {
	found := map[string]int64{}
	for text, position := range positions {
		topic, number, err := partitionOf(text)
		if err != nil {
			continue
		}
		if end, reached := r.end(topic, number, position); reached {
			found[text] = end
		}
	}
	select {
	case r.ends <- found:
	default:
	}
}

func (r *reading) end(topic string, number int32, position int64) (int64, bool) {
	start, err := r.client.GetOffset(topic, number, sarama.OffsetOldest)
	if err != nil {
		return 0, false
	}
	position = max(position, start)
	for step := 0; step < checkSteps; step++ {
		leader, err := r.client.Leader(topic, number)
		if err != nil {
			return 0, false
		}
		answer, err := leader.Fetch(fetch(topic, number, position, r.client.Config()))
		if err != nil {
			return 0, false
		}
		block := answer.GetBlock(topic, number)
		if block == nil || block.Err != sarama.ErrNoError {
			return 0, false
		}
		next, visible := invisible(block, position, r.client.Config().Consumer.IsolationLevel)
		if visible {
			return 0, false
		}
		if next >= visibleEnd(block, r.client.Config().Consumer.IsolationLevel) {
			return next, true
		}
		if next == position {
			return 0, false
		}
		position = next
	}
	return 0, false
}

func fetch(topic string, number int32, position int64, config *sarama.Config) *sarama.FetchRequest {
	wanted := &sarama.FetchRequest{Version: 11, MaxWaitTime: fetchWait, MinBytes: 1, MaxBytes: sarama.MaxResponseSize, Isolation: config.Consumer.IsolationLevel}
	wanted.AddBlock(topic, number, position, config.Consumer.Fetch.Default, -1)
	return wanted
}

func visibleEnd(block *sarama.FetchResponseBlock, isolation sarama.IsolationLevel) int64 {
	if isolation == sarama.ReadCommitted {
		return block.LastStableOffset
	}
	return block.HighWaterMarkOffset
}

// invisible goes over the batches from a position on; visible: one of them holds records that a consumer must return.
func invisible(block *sarama.FetchResponseBlock, position int64, isolation sarama.IsolationLevel) (next int64, visible bool) {
	aborted := map[int64]bool{}
	transactions := append([]*sarama.AbortedTransaction{}, block.AbortedTransactions...)
	next = position
	for _, records := range block.RecordsSet {
		batch := records.RecordBatch
		if batch == nil || batch.PartialTrailingRecord {
			return next, batch == nil && records.MsgSet != nil
		}
		waiting := transactions[:0]
		for _, one := range transactions {
			if one.FirstOffset <= batch.LastOffset() {
				aborted[one.ProducerID] = true
			} else {
				waiting = append(waiting, one)
			}
		}
		transactions = waiting
		if batch.Control {
			delete(aborted, batch.ProducerID)
		} else if batch.LastOffset() >= position && len(batch.Records) > 0 &&
			!(isolation == sarama.ReadCommitted && batch.IsTransactional && aborted[batch.ProducerID]) {
			return next, true
		}
		next = max(next, batch.LastOffset()+1)
	}
	return next, false
}

func (c *consumer) close() {
	if c.reading != nil {
		c.reading.close()
		c.reading = nil
	}
}

// close ends the connections first, so that nothing waits for a broker; the rest ends when it has noticed.
func (r *reading) close() {
	if r.closed.Swap(true) {
		return
	}
	close(r.over)
	r.connections.end()
	for _, one := range r.partitions {
		one.AsyncClose()
	}
	go func() {
		if r.consumer != nil {
			r.consumer.Close()
		}
		if r.client != nil {
			r.client.Close()
		}
	}()
}
