// The driver of franz-go (docs/client-drivers.md): one producer and one consumer of kgo.
package main

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	module        = "github.com/twmb/franz-go"
	closePatience = 50 * time.Millisecond
)

var capabilities = []string{
	"transactions", "idempotence", "assign", "ends", "partitioner", "headers", "groups", "static-members", "seek", "initialise", "leave", "isolation",
}

// driver holds what is open; request is the last `open`.
type driver struct {
	opened   *request
	producer *producer
	consumer *consumer
}

func main() {
	open := &driver{}
	serve(open.handle)
}

func (d *driver) handle(r *request) (results, error) {
	switch r.Call {
	case "hello":
		return hello(r, "franz-go", module, capabilities, protocolOf)
	case "check":
		return results{"refused": refused(r)}, nil
	case "open":
		return nil, d.open(r)
	case "initialise":
		return nil, d.initialise(r)
	case "leave":
		return nil, d.leave(r)
	case "close":
		d.close()
		return nil, nil
	case "begin", "send", "flush", "commit", "abort":
		return nil, d.write(r)
	case "assign", "subscribe", "seek", "position", "committed", "poll":
		return d.read(r)
	}
	return nil, unsupported(r.Call)
}

// protocolOf is the transaction protocol that the library speaks: KIP-890's second part came with 1.19.
func protocolOf(version string) int {
	if atLeast(version, 1, 19, 3) {
		return 2
	}
	return 1
}

func (d *driver) open(r *request) error {
	d.close()
	d.opened = r
	if r.Consumer != nil {
		var group string
		if err := json.Unmarshal(r.Group, &group); err != nil {
			return err
		}
		d.consumer = newConsumer(r, group)
	}
	return d.openProducer(milliseconds(r.TimeoutMs))
}

func (d *driver) openProducer(timeout time.Duration) (err error) {
	if d.opened.Producer != nil {
		d.producer, err = newProducer(d.opened, timeout)
	}
	return err
}

func (d *driver) initialise(r *request) error {
	if d.opened == nil {
		return wrongState("nothing is open")
	}
	d.closeProducer()
	return d.openProducer(milliseconds(r.TimeoutMs))
}

func (d *driver) leave(r *request) error {
	timeout := milliseconds(r.TimeoutMs)
	if d.producer != nil {
		if err := d.producer.flush(timeout); err != nil {
			return err
		}
	}
	d.closeProducer()
	if d.consumer != nil {
		d.consumer.leave(timeout)
		d.consumer = nil
	}
	return nil
}

func (d *driver) close() {
	d.closeProducer()
	if d.consumer != nil {
		d.consumer.close()
		d.consumer = nil
	}
}

func (d *driver) closeProducer() {
	if d.producer != nil {
		d.producer.close()
		d.producer = nil
	}
}

func (d *driver) write(r *request) error {
	if d.producer == nil {
		return wrongState("there is no producer")
	}
	timeout := milliseconds(r.TimeoutMs)
	switch r.Call {
	case "begin":
		return d.producer.begin()
	case "send":
		d.producer.send(r)
		return nil
	case "flush":
		return d.producer.flush(timeout)
	case "commit":
		return d.producer.commit(timeout)
	}
	return d.producer.abort(timeout)
}

func (d *driver) read(r *request) (results, error) {
	if d.consumer == nil {
		return nil, wrongState("there is no consumer")
	}
	switch r.Call {
	case "assign":
		return nil, d.consumer.assign(r.Positions)
	case "subscribe":
		return nil, d.consumer.subscribe(r.Topics)
	case "seek":
		return nil, d.consumer.seek(r.Positions)
	case "position":
		return results{"positions": d.consumer.position(r.Partitions)}, nil
	case "committed":
		return d.consumer.committed(r.Partitions, milliseconds(r.TimeoutMs))
	}
	return d.consumer.poll(milliseconds(r.TimeoutMs), r.Limit)
}

func milliseconds(count int64) time.Duration { return time.Duration(count) * time.Millisecond }

// closed closes a client, and leaves it alone when that takes long.
func closed(client *kgo.Client, patience time.Duration) {
	done := make(chan struct{})
	go func() {
		client.CloseAllowingRebalance()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(patience):
	}
}

func seeds(bootstrap string) []string {
	return strings.Split(bootstrap, ",")
}

func limited(timeout time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), timeout)
}
