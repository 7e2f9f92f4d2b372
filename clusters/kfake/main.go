// All brokers of a kfake cluster in one process, a port each; it ends by a signal.
package main

import (
	"log"
	"os"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	var ports []int
	for _, text := range strings.Split(os.Args[1], ",") {
		port, err := strconv.Atoi(text)
		if err != nil {
			log.Fatal(err)
		}
		ports = append(ports, port)
	}
	settings := map[string]string{}
	for _, setting := range os.Args[2:] {
		name, value, _ := strings.Cut(setting, "=")
		settings[name] = value
	}
	cluster, err := kfake.NewCluster(kfake.NumBrokers(len(ports)), kfake.Ports(ports...), kfake.BrokerConfigs(settings),
		kfake.WithLogger(kfake.BasicLogger(os.Stderr, kfake.LogLevelWarn)))
	if err != nil {
		log.Fatal(err)
	}
	log.Print("listening: ", strings.Join(cluster.ListenAddrs(), " "))
	select {}
}
