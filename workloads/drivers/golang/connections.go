package main

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"time"
)

// connections are those of one client. A library waits for brokers when it closes; a hard end cuts its connections first.
type connections struct {
	dialer net.Dialer
	mu     sync.Mutex
	open   map[*connection]bool
	over   bool
}

func newConnections(timeout time.Duration) *connections {
	return &connections{dialer: net.Dialer{Timeout: timeout}, open: map[*connection]bool{}}
}

// Dial is golang.org/x/net/proxy's Dialer.
func (c *connections) Dial(network, address string) (net.Conn, error) {
	return c.dial(context.Background(), network, address)
}

func (c *connections) dial(ctx context.Context, network, address string) (net.Conn, error) {
	made, err := c.dialer.DialContext(ctx, network, address)
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

// dialTLS is dial, and TLS over it when there is a configuration.
func (c *connections) dialTLS(ctx context.Context, network, address string, config *tls.Config) (net.Conn, error) {
	made, err := c.dial(ctx, network, address)
	if err != nil || config == nil {
		return made, err
	}
	config = config.Clone()
	if config.ServerName, _, err = net.SplitHostPort(address); err != nil {
		made.Close()
		return nil, err
	}
	secured := tls.Client(made, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		made.Close()
		return nil, err
	}
	return secured, nil
}

func (c *connections) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	for one := range c.open {
		one.Conn.Close()
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
