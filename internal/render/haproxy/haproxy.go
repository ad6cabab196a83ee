// Package haproxy renders the configuration of the load balancer that every
// control plane runs for the API, and the static pod that runs it.
package haproxy

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"strings"
	"text/template"

	"github.com/holdfast/holdfast/internal/decide/apilb"
)

// Backend is the name of haproxy's backend that holds the API servers.
const Backend = "api"

// Paths is where haproxy finds and leaves its files.
type Paths struct {
	// Config is its configuration, CA the certificates that API servers are
	// verified with.
	Config, CA string
	// Socket is where the process answers that starts the others.
	Socket string
}

// HostPaths are the paths on a host.
var HostPaths = Paths{
	Config: configDir + "/haproxy.cfg", CA: configDir + "/ca.crt",
	Socket: runDir + "/master.sock",
}

const (
	configDir = "/etc/holdfast/haproxy"
	runDir    = "/run/holdfast/haproxy"
)

// Site is what haproxy's configuration depends on.
type Site struct {
	// V6 is true where haproxy has to listen on IPv6 too: a host that has none
	// may have it switched off.
	V6       bool
	Backends []apilb.Backend
	// CA holds the certificates, in PEM, that API servers are verified with.
	CA    []byte
	Paths Paths
}

// config says what haproxy does. Why the less obvious lines are there:
//
//   - grace: between the wish to stop and the end of listening, haproxy says
//     that it stops, and the redirect is taken away while it still accepts.
//   - connect and check bound how long a hanging API server goes unnoticed; a
//     check's connect and handshake are bounded by the first, its answer by the
//     second.
//   - A client that says nothing costs the API servers nothing.
//   - An API server that says it is not ready gets no new connections and keeps
//     those it has (L7OKC); one that takes no connection, or does not answer,
//     is down. When the connections of one that is down are cut the agent
//     decides: haproxy knows only at once or never.
//   - Where nobody is there to decide, those to a host that is off end by the
//     kernel's own questions (srvtcpka).
//   - Where no API server is ready, this host's own answers: it says best why.
var config = template.Must(template.New("haproxy.cfg").Parse(`# Written by holdfast-agent. API servers come and go at runtime without a reload.
global
    description {{.Fingerprint}}
    maxconn 40000
    no strict-limits
    nbthread 2
    grace 1s
    hard-stop-after 20s

defaults
    mode tcp
    retries 3
    timeout connect 800ms
    timeout check 800ms
    timeout queue 1m
    timeout client 1m
    timeout client-fin 1s
    timeout server 1m
    timeout server-fin 1s
    timeout tunnel 5m

frontend vip
    bind {{.Listen}}:9445{{.Both}}
    maxconn 40000
    tcp-request inspect-delay 10s
    tcp-request content accept if { req.len gt 0 }
    tcp-request content reject
    use_backend api if { nbsrv(api) gt 0 }
    default_backend own

backend api
    balance roundrobin
    option redispatch 1
    option allbackups
    option srvtcpka
    srvtcpka-idle 5s
    srvtcpka-intvl 2s
    srvtcpka-cnt 3
    option httpchk
    http-check send meth GET uri {{.ReadyPath}}
    http-check expect status 200 error-status L7OKC
{{- range .Servers}}
    server {{.}}
{{- end}}

backend own
    server own 127.0.0.1:6443

frontend ready
    mode http
    bind {{.Listen}}:9444{{.Both}}
    monitor-uri /haproxy_ready
    monitor fail if { stopping }

frontend monitor
    mode http
    bind {{.Listen}}:9454{{.Both}}
    monitor-uri /haproxy_monitor
    monitor fail if { stopping }
    monitor fail if { nbsrv(api) lt 1 }

frontend stats
    mode http
    bind 127.0.0.1:29445
    stats enable
    stats uri /haproxy_stats
    http-request use-service prometheus-exporter if { path /metrics }
`))

// fields are what the template is filled with.
type fields struct {
	Site
	Fingerprint, Listen, Both, ReadyPath string

	Servers []string
}

// Config renders haproxy's configuration.
func Config(s Site) ([]byte, error) {
	fingerprint, err := Fingerprint(s)
	if err != nil {
		return nil, err
	}
	f := s.fields(fingerprint)
	for _, b := range s.Backends {
		f.Servers = append(f.Servers, ServerLine(b, s.Paths.CA))
	}
	return f.render()
}

// Fingerprint stands for all of the configuration that needs a reload when it
// changes: everything but the API servers. A running haproxy shows it as its
// description.
func Fingerprint(s Site) (string, error) {
	text, err := s.fields("").render()
	if err != nil {
		return "", err
	}
	ca := sha256.Sum256(s.CA)
	sum := sha256.Sum256(append(text, ca[:]...))
	return "holdfast-" + hex.EncodeToString(sum[:8]), nil
}

func (s Site) fields(fingerprint string) fields {
	f := fields{Site: s, Fingerprint: fingerprint, ReadyPath: apilb.ReadyPath}
	if s.V6 {
		f.Listen, f.Both = "::", " v4v6"
	}
	return f
}

func (f fields) render() ([]byte, error) {
	var out bytes.Buffer
	if err := config.Execute(&out, f); err != nil {
		return nil, fmt.Errorf("render haproxy.cfg: %w", err)
	}
	return out.Bytes(), nil
}

// ServerLine is a server as a configuration has it behind the word server, and
// as the runtime API takes it: name, address, options. A running haproxy knows
// no defaults for the servers it is given, so all is said for each.
//
// Three refused connections in a row are enough to mark a server down, without
// waiting for a check. A server that comes back gets its share over a minute:
// the pod network of a rebooted host is later than its API server.
func ServerLine(b apilb.Backend, ca string) string {
	options := []string{
		b.Server(), netip.AddrPortFrom(b.Addr, apilb.ServerPort).String(),
		"check", "check-ssl", "check-sni", apilb.VerifyName, "verify", "required", "verifyhost", apilb.VerifyName, "ca-file", ca,
		"inter", "1s", "fastinter", "250ms", "downinter", "500ms", "rise", "2", "fall", "2",
		"observe", "layer4", "error-limit", "3", "on-error", "mark-down",
		"slowstart", "60s", "weight", "100",
	}
	if b.Backup {
		options = append(options, "backup")
	}
	return strings.Join(options, " ")
}
