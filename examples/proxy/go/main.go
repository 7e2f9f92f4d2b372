// The answer to a commit is lost; the transaction must be in the log once. A program for partition 0 of a topic:
//
//	fencepost proxy --upstream localhost:9092
//	go run . 127.0.0.1:19092 127.0.0.1:8474 TOPIC
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

type rule struct {
	Name            string `json:"name"`
	API             string `json:"api"`
	TransactionalID string `json:"transactional_id"`
	Act             string `json:"act"`
	Nth             int    `json:"nth"`
}

func main() {
	bootstrap, control, topic := os.Args[1], "http://"+os.Args[2], os.Args[3]
	name := fmt.Sprintf("lost-commit-%d", time.Now().UnixNano())
	var made struct{ Number int }
	ask("POST", control+"/rules", rule{name, "EndTxn", name, "lose", 1}, &made)
	commit(bootstrap, name, topic)
	var caught []struct{ State string }
	ask("GET", fmt.Sprintf("%s/rules/%d/wait?timeout_ms=10000", control, made.Number), nil, &caught)
	ask("DELETE", fmt.Sprintf("%s/rules/%d", control, made.Number), nil, nil)
	if count := copies(bootstrap, topic, name); count != 1 || caught[0].State != "lost" {
		log.Fatalf("%d records, %v", count, caught)
	}
	fmt.Println("the answer to EndTxn was lost, and the record is there once")
}

func ask(method, address string, body, into any) {
	content, err := json.Marshal(body)
	check(err)
	request, err := http.NewRequest(method, address, bytes.NewReader(content))
	check(err)
	answer, err := http.DefaultClient.Do(request)
	check(err)
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		log.Fatal(answer.Status)
	}
	if into != nil {
		check(json.NewDecoder(answer.Body).Decode(into))
	}
}

// commit makes a transaction of one record, whose value is the transactional id.
func commit(bootstrap, name, topic string) {
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.TransactionalID(name), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	check(err)
	defer client.Close()
	check(client.BeginTransaction())
	check(client.ProduceSync(context.Background(), &kgo.Record{Topic: topic, Value: []byte(name)}).FirstErr())
	check(client.EndTransaction(context.Background(), kgo.TryCommit))
}

// copies counts the committed records with a value, until nothing more comes.
func copies(bootstrap, topic, value string) (count int) {
	offsets := map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.ConsumePartitions(offsets), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	check(err)
	defer client.Close()
	for {
		wait, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		fetches := client.PollFetches(wait)
		cancel()
		if fetches.Err0() != nil {
			return count
		}
		fetches.EachRecord(func(record *kgo.Record) {
			if string(record.Value) == value {
				count++
			}
		})
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
