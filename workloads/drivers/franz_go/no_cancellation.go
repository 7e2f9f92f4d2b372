//go:build !cancellation

package main

import "github.com/twmb/franz-go/pkg/kgo"

// versionOptions are those that not every version has.
func versionOptions(*options) []kgo.Opt { return nil }
