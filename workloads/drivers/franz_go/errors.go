// franz-go's errors under their own names, with what may be done after them.
package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

var sentinels = []struct {
	err  error
	name string
}{
	{kgo.ErrRecordTimeout, "ErrRecordTimeout"},
	{kgo.ErrRecordRetries, "ErrRecordRetries"},
	{kgo.ErrMaxBuffered, "ErrMaxBuffered"},
	{kgo.ErrAborting, "ErrAborting"},
	{kgo.ErrClientClosed, "ErrClientClosed"},
	{context.DeadlineExceeded, "DeadlineExceeded"},
	{context.Canceled, "Canceled"},
}

// Kafka's errors after which a producer cannot be used any more, KIP-890 and Kafka's own client being the measure.
var fatal = []error{
	kerr.ProducerFenced, kerr.InvalidProducerEpoch, kerr.InvalidProducerIDMapping, kerr.InvalidTxnState, kerr.TransactionCoordinatorFenced,
	kerr.TransactionalIDAuthorizationFailed, kerr.ClusterAuthorizationFailed, kerr.UnsupportedVersion,
}

// After these kgo may go on in a new transaction; whether it can, depends on the cluster's transaction protocol, and kgo's next call says so.
var recoverables = []error{kerr.UnknownProducerID, kerr.InvalidProducerIDMapping, kerr.InvalidProducerEpoch}

func recoverable(err error) bool {
	for _, one := range recoverables {
		if errors.Is(err, one) {
			return true
		}
	}
	return false
}

// unconfirmed says whether nobody knows what became of a commit. An abort is what kgo's documentation demands then, from 1.22.0 on.
func unconfirmed(err error, version string) bool {
	var kafka *kerr.Error
	definite := errors.As(err, &kafka) && !kafka.Retriable && !errors.Is(err, kerr.UnknownServerError)
	return !definite && atLeast(version, 1, 22, 0)
}

func translated(err error) *callError {
	var own *callError
	if errors.As(err, &own) {
		return own
	}
	found := &callError{Name: named(err), Text: err.Error()}
	var kafka *kerr.Error
	if errors.As(err, &kafka) {
		found.Name, found.Code = kafka.Message, int(kafka.Code)
	}
	for _, one := range fatal {
		found.Fatal = found.Fatal || errors.Is(err, one)
	}
	return found
}

func named(err error) string {
	for _, one := range sentinels {
		if errors.Is(err, one.err) {
			return one.name
		}
	}
	var loss *kgo.ErrDataLoss
	if errors.As(err, &loss) {
		return "ErrDataLoss"
	}
	return strings.TrimPrefix(fmt.Sprintf("%T", err), "*")
}

// unfinished says that a call goes on, and that the same call waits for it again.
func unfinished(call string) error {
	return &callError{Name: "DeadlineExceeded", Text: call + " has not ended yet", Retriable: true}
}
