// The driver of sarama (docs/client-drivers.md): one producer and one consumer of sarama.
package main

import (
	"log"
	"os"
	"strings"
	"time"

	"github.com/IBM/sarama"
)

const module = "github.com/IBM/sarama"

var capabilities = []string{
	"transactions", "idempotence", "assign", "ends", "partitioner", "headers", "seek", "initialise", "leave", "isolation",
}

// driver holds what is open; opened is the last `open`.
type driver struct {
	opened   *request
	producer *producer
	consumer *consumer
}

func main() {
	sarama.Logger = log.New(os.Stderr, "sarama ", log.LstdFlags)
	open := &driver{}
	serve(open.handle)
}

func (d *driver) handle(r *request) (results, error) {
	switch r.Call {
	case "hello":
		return hello(r, "sarama", module, capabilities, func(string) int { return 1 })
	case "check":
		return results{"refused": refused(r)}, nil
	case "open":
		d.close()
		d.opened = r
		if r.Consumer != nil {
			d.consumer = &consumer{opened: r}
		}
		return nil, d.openProducer(milliseconds(r.TimeoutMs))
	case "initialise":
		if d.opened == nil {
			return nil, wrongState("nothing is open")
		}
		d.closeProducer()
		return nil, d.openProducer(milliseconds(r.TimeoutMs))
	case "leave":
		return nil, d.leave(milliseconds(r.TimeoutMs))
	case "close":
		d.close()
		return nil, nil
	case "begin", "send", "flush", "commit", "abort":
		return nil, d.write(r)
	case "assign", "seek", "position", "poll":
		return d.read(r)
	}
	return nil, unsupported(r.Call)
}

func (d *driver) openProducer(timeout time.Duration) (err error) {
	if d.opened.Producer != nil {
		d.producer, err = newProducer(d.opened, timeout)
	}
	return err
}

func (d *driver) leave(timeout time.Duration) error {
	if d.producer != nil {
		if err := d.producer.flush(timeout); err != nil {
			return err
		}
	}
	d.close()
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
		return d.producer.send(r)
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
	case "seek":
		return nil, d.consumer.seek(r.Positions)
	case "position":
		return results{"positions": d.consumer.position(r.Partitions)}, nil
	}
	return d.consumer.poll(milliseconds(r.TimeoutMs), r.Limit)
}

func milliseconds(count int64) time.Duration { return time.Duration(count) * time.Millisecond }

func seeds(bootstrap string) []string { return strings.Split(bootstrap, ",") }
