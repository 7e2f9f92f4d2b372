// What the drivers of Go's client libraries share: frames, requests and answers (docs/client-drivers.md).
package main

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
)

const (
	protocol = 1
	largest  = 64 << 20
)

// request is one request with the arguments of every call.
type request struct {
	ID              int64                      `json:"id"`
	Call            string                     `json:"call"`
	Protocols       []int                      `json:"protocols"`
	Producer        settings                   `json:"producer"`
	Consumer        settings                   `json:"consumer"`
	Name            string                     `json:"name"`
	Bootstrap       string                     `json:"bootstrap"`
	TransactionalID *string                    `json:"transactional_id"`
	Group           json.RawMessage            `json:"group"`
	TimeoutMs       int64                      `json:"timeout_ms"`
	Record          int64                      `json:"record"`
	Topic           string                     `json:"topic"`
	Partition       *int32                     `json:"partition"`
	Key             []byte                     `json:"key"`
	Value           []byte                     `json:"value"`
	Headers         []header                   `json:"headers"`
	Offsets         map[string]int64           `json:"offsets"`
	Positions       map[string]json.RawMessage `json:"positions"`
	Topics          []string                   `json:"topics"`
	Partitions      []string                   `json:"partitions"`
	Limit           int                        `json:"limit"`
	Recovery        string                     `json:"recovery"`
}

// documented says that what follows a failed call is what the library's documentation tells an application to do.
func (r *request) documented() bool { return r.Recovery != "new-producer" }

// header is a record's header, a list of its name and its value.
type header struct {
	name  string
	value []byte
}

func (h *header) UnmarshalJSON(text []byte) error {
	return json.Unmarshal(text, &[]any{&h.name, &h.value})
}

func (h header) MarshalJSON() ([]byte, error) {
	return json.Marshal([]any{h.name, h.value})
}

// callError is an error as the client names it, with what may be done after it.
type callError struct {
	Name        string `json:"name"`
	Code        int    `json:"code"`
	Text        string `json:"text"`
	Fatal       bool   `json:"fatal"`
	Retriable   bool   `json:"retriable"`
	Abortable   bool   `json:"abortable"`
	Unconfirmed bool   `json:"unconfirmed"`
}

func (e *callError) Error() string { return e.Name + ": " + e.Text }

func unsupported(call string) error {
	return &callError{Name: "UNSUPPORTED", Text: "this client has no " + call}
}

func wrongState(text string) error { return &callError{Name: "STATE", Text: text} }

type results = map[string]any

// handler makes one call. An error that is no callError is one of the driver's own.
type handler func(*request) (results, error)

var (
	frames   = os.Stdout
	framesMu sync.Mutex
)

// write puts one object on standard output.
func write(message results) {
	body, err := json.Marshal(message)
	if err != nil {
		panic(err)
	}
	frame := append(binary.BigEndian.AppendUint32(make([]byte, 0, len(body)+4), uint32(len(body))), body...)
	framesMu.Lock()
	defer framesMu.Unlock()
	if _, err := frames.Write(frame); err != nil {
		os.Exit(0) // fencepost is gone
	}
}

// delivered reports a record's fate: where it lies, or why it was given up.
func delivered(record int64, partition int32, offset int64, failed error) {
	if failed != nil {
		write(results{"event": "delivered", "record": record, "error": failed})
		return
	}
	event := results{"event": "delivered", "record": record, "partition": partition, "offset": nil}
	if offset >= 0 {
		event["offset"] = offset
	}
	write(event)
}

// serve answers one request after the other until standard input ends.
func serve(handle handler) {
	os.Stdout = os.Stderr                        // standard output is for frames only
	runtime.GOMAXPROCS(min(2, runtime.NumCPU())) // there is one driver beside each worker
	in := bufio.NewReader(os.Stdin)
	for {
		var wanted request
		if err := read(in, &wanted); err != nil {
			if !errors.Is(err, io.EOF) {
				fmt.Fprintln(os.Stderr, "no frame:", err)
				os.Exit(1)
			}
			os.Exit(0)
		}
		answer(&wanted, handle)
	}
}

func read(in io.Reader, wanted *request) error {
	var length [4]byte
	if _, err := io.ReadFull(in, length[:]); err != nil {
		return err
	}
	size := binary.BigEndian.Uint32(length[:])
	if size > largest {
		return fmt.Errorf("a frame of %d bytes; at most %d are possible", size, largest)
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(in, body); err != nil {
		return err
	}
	return json.Unmarshal(body, wanted)
}

func answer(wanted *request, handle handler) {
	found, err := handle(wanted)
	if err == nil {
		if found == nil {
			found = results{}
		}
		write(results{"id": wanted.ID, "ok": found})
		return
	}
	var failed *callError
	if !errors.As(err, &failed) {
		failed = &callError{Name: "DRIVER", Text: err.Error()}
	}
	write(results{"id": wanted.ID, "error": failed})
}

// hello describes the driver; module is the library's, whose version the program knows of itself.
func hello(wanted *request, client, module string, capabilities []string, transactions func(version string) int) (results, error) {
	for _, version := range wanted.Protocols {
		if version == protocol {
			version := moduleVersion(module)
			return results{
				"protocol":     protocol,
				"client":       client,
				"version":      version,
				"runtime":      "Go " + strings.TrimPrefix(runtime.Version(), "go"),
				"capabilities": capabilities,
				"transactions": transactions(version),
			}, nil
		}
	}
	return nil, &callError{Name: "PROTOCOL", Text: fmt.Sprintf("this driver speaks protocol %d", protocol), Fatal: true}
}

func moduleVersion(module string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dependency := range info.Deps {
			if dependency.Path == module {
				return strings.TrimPrefix(dependency.Version, "v")
			}
		}
	}
	return ""
}

// atLeast compares versions of three numbers.
func atLeast(version string, floor ...int) bool {
	numbers := strings.SplitN(version, ".", 3)
	for i, least := range floor {
		found := 0
		if i < len(numbers) {
			found, _ = strconv.Atoi(strings.SplitN(numbers[i], "-", 2)[0])
		}
		if found != least {
			return found > least
		}
	}
	return true
}

// partitionOf splits a partition's text, the topic's name, a hyphen and the number.
func partitionOf(text string) (topic string, number int32, err error) {
	at := strings.LastIndexByte(text, '-')
	if at < 0 {
		return "", 0, fmt.Errorf("%q names no partition", text)
	}
	found, err := strconv.ParseInt(text[at+1:], 10, 32)
	return text[:at], int32(found), err
}

func partitionText(topic string, number int32) string {
	return topic + "-" + strconv.Itoa(int(number))
}
