// The producer: sarama's asynchronous one with its transactions.
package main

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/IBM/sarama"
)

const inputPatience = 5 * time.Second

// sent is what a message carries through sarama: the record's number, and the partition that it must go to or -1.
type sent struct {
	record    int64
	partition int32
}

// producer is one client of sarama. underway is the commit, abort or flush that was asked for and has not ended.
type producer struct {
	client      sarama.AsyncProducer
	connections *connections
	over        atomic.Bool
	records     sync.WaitGroup
	underway    *underway
}

type underway struct {
	call string
	done chan error
}

// newProducer initialises transactions too: sarama asks for the producer's id when it is made. What comes too late is closed.
func newProducer(r *request, timeout time.Duration) (*producer, error) {
	config, _ := producerConfig(r.Producer, r.TransactionalID, r.Name)
	connections := config.Net.Proxy.Dialer.(*connections)
	type made struct {
		client sarama.AsyncProducer
		err    error
	}
	done := make(chan made, 1)
	go func() {
		client, err := sarama.NewAsyncProducer(seeds(r.Bootstrap), config)
		done <- made{client, err}
	}()
	select {
	case found := <-done:
		if found.err != nil {
			return nil, translated(found.err)
		}
		p := &producer{client: found.client, connections: connections}
		go p.successes()
		go p.errors()
		return p, nil
	case <-time.After(timeout):
		connections.end()
		go func() {
			if found := <-done; found.err == nil {
				(&producer{client: found.client, connections: connections}).discard()
			}
		}()
		return nil, &callError{Name: "TIMED_OUT", Text: "the producer has not been initialised yet"}
	}
}

func (p *producer) successes() {
	for message := range p.client.Successes() {
		if !p.over.Load() {
			delivered(message.Metadata.(sent).record, message.Partition, message.Offset, nil)
		}
		p.records.Done()
	}
}

func (p *producer) errors() {
	for failed := range p.client.Errors() {
		if !p.over.Load() {
			delivered(failed.Msg.Metadata.(sent).record, 0, 0, translated(failed.Err))
		}
		p.records.Done()
	}
}

func (p *producer) begin() error {
	if err := p.client.BeginTxn(); err != nil {
		return p.judged(err, false)
	}
	return nil
}

// send hands a message over. Its offset is none until it is acknowledged with one: sarama leaves it alone at a duplicate.
func (p *producer) send(r *request) error {
	message := &sarama.ProducerMessage{Topic: r.Topic, Offset: -1, Metadata: sent{r.Record, -1}}
	if r.Partition != nil {
		message.Metadata = sent{r.Record, *r.Partition}
	}
	if r.Key != nil {
		message.Key = sarama.ByteEncoder(r.Key)
	}
	if r.Value != nil {
		message.Value = sarama.ByteEncoder(r.Value)
	}
	for _, one := range r.Headers {
		message.Headers = append(message.Headers, sarama.RecordHeader{Key: []byte(one.name), Value: one.value})
	}
	p.records.Add(1)
	select {
	case p.client.Input() <- message:
		return nil
	case <-time.After(inputPatience):
		p.records.Done()
		return &callError{Name: "TIMED_OUT", Text: "sarama's input takes no further message"}
	}
}

func (p *producer) flush(timeout time.Duration) error {
	return p.within("flush", timeout, func() error {
		p.records.Wait()
		return nil
	})
}

// commit may be called again where sarama's status is neither fatal nor abortable, and abort where it is not fatal, as sarama's own examples do.
func (p *producer) commit(timeout time.Duration) error {
	return p.within("commit", timeout, func() error {
		err := p.client.CommitTxn()
		p.records.Wait()
		if err != nil {
			return p.judged(err, true)
		}
		return nil
	})
}

func (p *producer) abort(timeout time.Duration) error {
	return p.within("abort", timeout, func() error {
		err := p.client.AbortTxn()
		p.records.Wait()
		if err != nil {
			found := p.judged(err, true)
			found.Abortable, found.Retriable = false, !found.Fatal
			return found
		}
		return nil
	})
}

func (p *producer) judged(err error, repeatable bool) *callError {
	found, status := translated(err), p.client.TxnStatus()
	found.Fatal = status&sarama.ProducerTxnFlagFatalError != 0
	found.Abortable = !found.Fatal && status&sarama.ProducerTxnFlagAbortableError != 0
	found.Retriable = repeatable && !found.Fatal && !found.Abortable
	return found
}

// within waits for a call for so long. sarama's calls have no time limit, so the call goes on, and its repetition waits for it.
func (p *producer) within(call string, timeout time.Duration, run func() error) error {
	if p.underway == nil || p.underway.call == "flush" && call != "flush" { // a flush only waits: another call may follow it
		p.underway = &underway{call, make(chan error, 1)}
		go func(done chan error) { done <- run() }(p.underway.done)
	}
	if p.underway.call != call {
		return &callError{Name: "STATE", Text: call + " while " + p.underway.call + " has not ended", Fatal: true}
	}
	select {
	case err := <-p.underway.done:
		p.underway = nil
		return err
	case <-time.After(timeout):
		return unfinished(call)
	}
}

func (p *producer) close() {
	p.over.Store(true)
	p.discard()
}

// discard ends the connections first: sarama would send what it holds. The rest ends when it has noticed.
func (p *producer) discard() {
	p.connections.end()
	p.client.AsyncClose()
}
