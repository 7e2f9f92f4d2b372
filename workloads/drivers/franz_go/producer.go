// The producer: kgo's transactions, each record's promise reported once.
package main

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Kafka's error codes after which kgo's commit was not attempted, or refused; older versions have no names for both.
const (
	operationNotAttempted = 55
	transactionAbortable  = 120
)

// producer is one client of kgo. underway is the commit, abort or flush that was asked for and has not ended.
type producer struct {
	client      *kgo.Client
	documented  bool
	connections *connections
	over        atomic.Bool
	underway    *underway
	records     sync.WaitGroup

	mu     sync.Mutex
	failed error // of the first record that was given up since `begin`
}

type underway struct {
	call string
	done chan error
}

func newProducer(r *request, timeout time.Duration) (*producer, error) {
	over := newConnections(connectPatience)
	options, _ := producerOptions(r, over)
	client, err := kgo.NewClient(append(options, kgo.SeedBrokers(seeds(r.Bootstrap)...), kgo.ClientID(r.Name))...)
	if err != nil {
		return nil, err
	}
	found := &producer{client: client, documented: r.documented(), connections: over}
	if r.TransactionalID == nil {
		return found, nil
	}
	ctx, cancel := limited(timeout)
	defer cancel()
	if _, _, err := client.ProducerID(ctx); err != nil {
		found.close()
		return nil, translated(err)
	}
	return found, nil
}

func (p *producer) begin() error {
	p.mu.Lock()
	p.failed = nil
	p.mu.Unlock()
	if err := p.client.BeginTransaction(); err != nil {
		return translated(err)
	}
	return nil
}

// send never blocks: a full buffer is the record's fate.
func (p *producer) send(r *request) {
	record := &kgo.Record{Topic: r.Topic, Partition: -1, Key: r.Key, Value: r.Value}
	if r.Partition != nil {
		record.Partition = *r.Partition
	}
	for _, one := range r.Headers {
		record.Headers = append(record.Headers, kgo.RecordHeader{Key: one.name, Value: one.value})
	}
	number := r.Record
	p.records.Add(1)
	p.client.TryProduce(context.Background(), record, func(sent *kgo.Record, err error) {
		defer p.records.Done()
		p.report(number, sent, err)
	})
}

func (p *producer) report(number int64, sent *kgo.Record, err error) {
	if p.over.Load() {
		return
	}
	if err == nil {
		delivered(number, sent.Partition, sent.Offset, nil)
		return
	}
	p.mu.Lock()
	if p.failed == nil {
		p.failed = err
	}
	p.mu.Unlock()
	delivered(number, 0, 0, translated(err))
}

func (p *producer) flush(timeout time.Duration) error {
	return p.within("flush", timeout, p.flushed)
}

func (p *producer) flushed() error {
	err := p.client.Flush(context.Background())
	p.records.Wait()
	return err
}

// commit refuses what kgo would commit: a transaction of which a record was given up. kgo leaves that to its caller, whose
// documented way (AbortingFirstErrPromise, and EndTransaction with its result) is an abort whatever the record's error was.
func (p *producer) commit(timeout time.Duration) error {
	return p.within("commit", timeout, func() error {
		if err := p.flushed(); err != nil {
			return err
		}
		if err := p.lost(); err != nil {
			found := translated(err)
			found.Fatal = found.Fatal && !p.documented
			found.Abortable = !found.Fatal
			return found
		}
		err := p.client.EndTransaction(context.Background(), kgo.TryCommit)
		if err == nil {
			return nil
		}
		return p.uncommitted(err)
	})
}

// uncommitted is the error of EndTransaction with TryCommit, with what kgo's documentation of it says to do.
func (p *producer) uncommitted(err error) error {
	found := translated(err)
	found.Abortable = found.Code == operationNotAttempted || found.Code == transactionAbortable
	if p.documented && !found.Abortable && (recoverable(err) || unconfirmed(err, moduleVersion(module))) {
		found.Fatal, found.Unconfirmed = false, true
	}
	return found
}

func (p *producer) lost() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failed
}

func (p *producer) abort(timeout time.Duration) error {
	return p.within("abort", timeout, func() error {
		if err := p.client.AbortBufferedRecords(context.Background()); err != nil {
			return err
		}
		p.records.Wait()
		return p.client.EndTransaction(context.Background(), kgo.TryAbort)
	})
}

// within waits for a call for so long. kgo must not be interrupted in these, so the call goes on, and its repetition waits for it.
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
		if err != nil {
			return translated(err)
		}
		return nil
	case <-time.After(timeout):
		return unfinished(call)
	}
}

func (p *producer) close() {
	p.over.Store(true)
	p.connections.end()
	closed(p.client, closePatience)
}
