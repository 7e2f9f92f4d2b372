// Settings under Kafka's names: read by type, those that nobody read refused.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

type settings map[string]any

// options reads the settings of one side ("producer", "consumer") and collects what is wrong with them.
type options struct {
	side    string
	given   settings
	known   map[string]bool
	refused [][]string
}

func newOptions(side string, given settings) *options {
	return &options{side: side, given: given, known: map[string]bool{}}
}

func (o *options) refuse(key, text string) {
	o.refused = append(o.refused, []string{o.side, key, text})
}

// unread refuses every setting that was never asked for.
func (o *options) unread(client string) {
	for key := range o.given {
		if !o.known[key] {
			o.refuse(key, "the driver of "+client+" does not know this setting")
		}
	}
}

func (o *options) text(key, otherwise string, allowed ...string) string {
	o.known[key] = true
	value, ok := o.given[key]
	if !ok || value == nil {
		return otherwise
	}
	text := fmt.Sprint(value)
	if number, ok := value.(float64); ok {
		text = strconv.FormatFloat(number, 'f', -1, 64)
	}
	if len(allowed) > 0 && !slices.Contains(allowed, text) {
		o.refuse(key, fmt.Sprintf("must be one of %s, not %s", strings.Join(allowed, ", "), text))
		return otherwise
	}
	return text
}

func (o *options) flag(key string, otherwise bool) bool {
	return o.text(key, strconv.FormatBool(otherwise), "true", "false", "True", "False")[0]|0x20 == 't'
}

func (o *options) number(key string, otherwise int64) int64 {
	text := o.text(key, strconv.FormatInt(otherwise, 10))
	found, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		o.refuse(key, fmt.Sprintf("must be a whole number, not %s", text))
		return otherwise
	}
	return found
}

func (o *options) ms(key string, otherwise time.Duration) time.Duration {
	return time.Duration(o.number(key, otherwise.Milliseconds())) * time.Millisecond
}

func (o *options) has(key string) bool {
	o.known[key] = true
	return o.given[key] != nil
}

// security is how brokers are reached: TLS when there is a configuration, SASL when there is a mechanism.
type security struct {
	tls                           *tls.Config
	mechanism, username, password string
}

func (o *options) security(mechanisms ...string) security {
	protocol := strings.ToUpper(o.text("security.protocol", "PLAINTEXT"))
	found := security{username: o.text("sasl.username", ""), password: o.text("sasl.password", "")}
	mechanism := o.text("sasl.mechanism", "PLAIN")
	switch protocol {
	case "PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL":
	default:
		o.refuse("security.protocol", "must be one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL, not "+protocol)
	}
	if strings.HasPrefix(protocol, "SASL") {
		found.mechanism = mechanism
		if !slices.Contains(mechanisms, mechanism) {
			o.refuse("sasl.mechanism", fmt.Sprintf("must be one of %s, not %s", strings.Join(mechanisms, ", "), mechanism))
		}
	}
	authority, certificate, key := o.text("ssl.ca.location", ""), o.text("ssl.certificate.location", ""), o.text("ssl.key.location", "")
	if strings.HasSuffix(protocol, "SSL") {
		config, err := tlsConfig(authority, certificate, key)
		if err != nil {
			o.refuse("security.protocol", err.Error())
		}
		found.tls = config
	}
	return found
}

func tlsConfig(authority, certificate, key string) (*tls.Config, error) {
	config := &tls.Config{}
	if authority != "" {
		text, err := os.ReadFile(authority)
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, errors.New(authority + " holds no certificate")
		}
	}
	if certificate != "" {
		pair, err := tls.LoadX509KeyPair(certificate, key)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}
