// sarama's errors under their own names.
package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/IBM/sarama"
)

var named = []struct {
	err  error
	name string
}{
	{sarama.ErrOutOfBrokers, "ErrOutOfBrokers"},
	{sarama.ErrBrokerNotFound, "ErrBrokerNotFound"},
	{sarama.ErrClosedClient, "ErrClosedClient"},
	{sarama.ErrShuttingDown, "ErrShuttingDown"},
	{sarama.ErrNotConnected, "ErrNotConnected"},
	{sarama.ErrIncompleteResponse, "ErrIncompleteResponse"},
	{sarama.ErrInvalidPartition, "ErrInvalidPartition"},
	{sarama.ErrMessageTooLarge, "ErrMessageTooLarge"},
	{sarama.ErrTransactionNotReady, "ErrTransactionNotReady"},
	{sarama.ErrTransitionNotAllowed, "ErrTransitionNotAllowed"},
	{sarama.ErrNonTransactedProducer, "ErrNonTransactedProducer"},
	{sarama.ErrTxnUnableToParseResponse, "ErrTxnUnableToParseResponse"},
	{sarama.ErrAddPartitionsToTxn, "ErrAddPartitionsToTxn"},
	{sarama.ErrLeaderNotAvailable, "ErrLeaderNotAvailable"},
	{sarama.ErrNotLeaderForPartition, "ErrNotLeaderForPartition"},
	{sarama.ErrUnknownTopicOrPartition, "ErrUnknownTopicOrPartition"},
	{sarama.ErrRequestTimedOut, "ErrRequestTimedOut"},
	{sarama.ErrNotEnoughReplicas, "ErrNotEnoughReplicas"},
	{sarama.ErrNotEnoughReplicasAfterAppend, "ErrNotEnoughReplicasAfterAppend"},
	{sarama.ErrOffsetOutOfRange, "ErrOffsetOutOfRange"},
	{sarama.ErrMessageSizeTooLarge, "ErrMessageSizeTooLarge"},
	{sarama.ErrOutOfOrderSequenceNumber, "ErrOutOfOrderSequenceNumber"},
	{sarama.ErrDuplicateSequenceNumber, "ErrDuplicateSequenceNumber"},
	{sarama.ErrInvalidProducerEpoch, "ErrInvalidProducerEpoch"},
	{sarama.ErrInvalidProducerIDMapping, "ErrInvalidProducerIDMapping"},
	{sarama.ErrUnknownProducerID, "ErrUnknownProducerID"},
	{sarama.ErrInvalidTxnState, "ErrInvalidTxnState"},
	{sarama.ErrInvalidTransactionTimeout, "ErrInvalidTransactionTimeout"},
	{sarama.ErrConcurrentTransactions, "ErrConcurrentTransactions"},
	{sarama.ErrOperationNotAttempted, "ErrOperationNotAttempted"},
	{sarama.ErrProducerFenced, "ErrProducerFenced"},
}

func translated(err error) *callError {
	var own *callError
	if errors.As(err, &own) {
		return own
	}
	found := &callError{Name: strings.TrimPrefix(fmt.Sprintf("%T", err), "*"), Text: err.Error()}
	var code sarama.KError
	if errors.As(err, &code) {
		found.Name, found.Code = "KError", int(code)
	}
	for _, one := range named {
		if errors.Is(err, one.err) {
			found.Name = one.name
			break
		}
	}
	return found
}

// unfinished says that a call goes on, and that the same call waits for it again.
func unfinished(call string) error {
	return &callError{Name: "TIMED_OUT", Text: call + " has not ended yet", Retriable: true}
}
