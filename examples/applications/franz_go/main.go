// Consume, transform, produce with franz-go, exactly once: a GroupTransactSession, as its own example of such a program uses it.
//
// franz_go.py, in the directory above, fetches franz-go and builds this.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

var (
	aborts = flag.Float64("aborts", 0, "share of transactions that are aborted on purpose")
	think  = flag.Duration("think", 0, "pause in each transaction")
	batch  = flag.Int("batch", 50, "input records in a transaction, at most")
)

func main() {
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Println("ended:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	session, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(strings.Split(os.Getenv("FENCEPOST_BOOTSTRAP"), ",")...),
		kgo.TransactionalID(os.Getenv("FENCEPOST_TRANSACTIONAL_ID")),
		kgo.TransactionTimeout(10*time.Second),
		kgo.ConsumerGroup(os.Getenv("FENCEPOST_GROUP")),
		kgo.ConsumeTopics(os.Getenv("FENCEPOST_INPUT")),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RequireStableFetchOffsets(),
		kgo.SessionTimeout(6*time.Second),
		kgo.HeartbeatInterval(time.Second),
		kgo.FetchMaxWait(200*time.Millisecond),
		kgo.MetadataMinAge(100*time.Millisecond),
		kgo.MetadataMaxAge(time.Second), // leaders that move are noticed soon
	)
	if err != nil {
		return err
	}
	defer session.Close()
	for ctx.Err() == nil {
		if err := once(ctx, session); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// once is one transaction, if there is anything to process. What did not commit is polled again.
func once(ctx context.Context, session *kgo.GroupTransactSession) error {
	waiting, done := context.WithTimeout(ctx, time.Second)
	defer done()
	fetches := session.PollRecords(waiting, *batch)
	fetches.EachError(func(topic string, partition int32, err error) {
		if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
			fmt.Println("not fetched:", topic, partition, err)
		}
	})
	if fetches.NumRecords() == 0 {
		return nil
	}
	if err := session.Begin(); err != nil {
		return err
	}
	failure := kgo.AbortingFirstErrPromise(session.Client())
	fetches.EachRecord(func(input *kgo.Record) { session.Produce(ctx, output(input), failure.Promise()) })
	time.Sleep(*think)
	right := failure.Err() == nil && rand.Float64() >= *aborts
	committed, err := session.End(ctx, kgo.TransactionEndTry(right))
	if right && !committed && err == nil {
		fmt.Println("not committed")
	}
	return err
}

// output is what is made of an input record: the same text in capitals, with the header that names the input.
func output(input *kgo.Record) *kgo.Record {
	return &kgo.Record{
		Topic:   os.Getenv("FENCEPOST_OUTPUT"),
		Key:     input.Key,
		Value:   bytes.ToUpper(input.Value),
		Headers: input.Headers,
	}
}
