package main

import (
	"errors"
	"net"
	"sync"
	"time"
)

// connections are those of one client. sarama closes a connection after its last answer only; a hard end does not wait.
type connections struct {
	dialer net.Dialer
	mu     sync.Mutex
	open   map[net.Conn]bool
	over   bool
}

func newConnections(timeout time.Duration) *connections {
	return &connections{dialer: net.Dialer{Timeout: timeout, KeepAlive: -1}, open: map[net.Conn]bool{}}
}

// Dial is golang.org/x/net/proxy's Dialer, by which sarama lets others dial.
func (c *connections) Dial(network, address string) (net.Conn, error) {
	made, err := c.dialer.Dial(network, address)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		made.Close()
		return nil, errors.New("the client is closed")
	}
	found := &connection{made, c}
	c.open[found] = true
	return found, nil
}

func (c *connections) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	for one := range c.open {
		one.(*connection).Conn.Close()
	}
}

type connection struct {
	net.Conn
	of *connections
}

func (c *connection) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}
