//go:build cancellation

package main

import "github.com/twmb/franz-go/pkg/kgo"

// versionOptions are those that not every version has.
func versionOptions(read *options) []kgo.Opt {
	if read.flag("allow.idempotent.produce.cancellation", false) {
		return []kgo.Opt{kgo.AllowIdempotentProduceCancellation()}
	}
	return nil
}
