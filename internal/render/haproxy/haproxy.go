// Package haproxy renders the configuration of the balancer that every control
// plane runs for the API, and the static pod that runs it.
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

// The names of haproxy's two backends with the API servers. Both have the same servers.
const (
	// Backend gets the requests while one of its servers is ready.
	Backend = "api"
	// Fallback gets them otherwise. It asks its servers without their etcd, and more patiently.
	Fallback = "api-without-etcd"
)

// Paths are the paths of haproxy's files.
type Paths struct {
	// Config is the file of its configuration, CA that of the certificates with
	// which it verifies API servers.
	Config, CA string
	// Socket is the socket of the process that starts the others.
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

// Site holds the inputs of haproxy's configuration.
type Site struct {
	// V6 is true if haproxy has to listen on IPv6 too: a host without IPv6
	// addresses may have it switched off.
	V6       bool
	Backends []apilb.Backend
	// CA holds the certificates, in PEM, with which haproxy verifies API servers.
	CA    []byte
	Paths Paths
}

// config is the template of haproxy's configuration. The reasons for the less
// obvious lines:
//
//   - grace: between the request to stop and the end of listening, haproxy reports
//     that it stops. The redirect is removed while haproxy still accepts.
//   - connect and check bound the time for which a hanging API server goes
//     unnoticed. The first bounds a check's connect and handshake, the second its
//     answer.
//   - Each family has its own bind. A worker inherits a socket only with the same
//     address and options. With one socket for both families, the former worker
//     would close the one of IPv4 when IPv6 comes, and the kernel would reset the
//     connections that wait in it.
//   - A client that sends nothing costs the API servers nothing.
//   - An API server that reports not ready gets no new connections and keeps the
//     existing ones (L7OKC). One that accepts no connection, or does not answer,
//     is down. The agent decides when the connections to a server that is down are
//     cut: haproxy can only cut them at once or never.
//   - Without an agent, the connections to a host that is off end by the kernel's
//     keepalive probes (srvtcpka).
//   - If no API server is ready, the request goes to those that lack their etcd alone:
//     it waits there for the etcd, while one that is being restarted would refuse it.
//   - If there is none either, this host's own gets the request: its answer explains
//     the reason best.
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
    bind :9445
{{- if .V6}}
    bind :::9445 v6only
{{- end}}
    maxconn 40000
    tcp-request inspect-delay 10s
    tcp-request content accept if { req.len gt 0 }
    tcp-request content reject
{{- range .Pools}}
    use_backend {{.Name}} if { nbsrv({{.Name}}) gt 0 }
{{- end}}
    default_backend own
{{range .Pools}}
backend {{.Name}}
    balance roundrobin
    option redispatch 1
    option allbackups
    option srvtcpka
    srvtcpka-idle 5s
    srvtcpka-intvl 2s
    srvtcpka-cnt 3
{{- if .CheckTime}}
    timeout check {{.CheckTime}}
{{- end}}
    option httpchk
    http-check send meth GET uri {{.Path}}
    http-check expect status 200 error-status L7OKC
{{- range .Servers}}
    server {{.}}
{{- end}}
{{end}}
backend own
    server own 127.0.0.1:6443

frontend ready
    mode http
    bind :9444
{{- if .V6}}
    bind :::9444 v6only
{{- end}}
    monitor-uri /haproxy_ready
    monitor fail if { stopping }

frontend monitor
    mode http
    bind :9454
{{- if .V6}}
    bind :::9454 v6only
{{- end}}
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

// fields are the values for the template.
type fields struct {
	Site
	Fingerprint string
	Pools       []pool
}

// pool is one backend with the API servers.
type pool struct {
	// Name is the backend's. Path is where its servers are asked whether they are ready,
	// CheckTime for how long an answer is waited for; empty means the default.
	Name, Path, CheckTime string
	Servers               []string
}

// Config renders haproxy's configuration.
func Config(s Site) ([]byte, error) {
	fingerprint, err := Fingerprint(s)
	if err != nil {
		return nil, err
	}
	f := s.fields(fingerprint)
	for i := range f.Pools {
		for _, b := range s.Backends {
			f.Pools[i].Servers = append(f.Pools[i].Servers, ServerLine(f.Pools[i].Name, b, s.Paths.CA))
		}
	}
	return f.render()
}

// Fingerprint identifies the part of the configuration that needs a reload when
// it changes: everything but the API servers. A running haproxy shows it as its
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
	return fields{Site: s, Fingerprint: fingerprint, Pools: []pool{
		{Name: Backend, Path: apilb.ReadyPath}, {Name: Fallback, Path: apilb.ReadyWithoutEtcdPath, CheckTime: "3s"},
	}}
}

func (f fields) render() ([]byte, error) {
	var out bytes.Buffer
	if err := config.Execute(&out, f); err != nil {
		return nil, fmt.Errorf("render haproxy.cfg: %w", err)
	}
	return out.Bytes(), nil
}

// paces are how often the servers of a backend are checked, and how many answers change
// what is known of them. In Backend a server that comes back gets its full share only
// after a minute: the pod network of a rebooted host starts later than its API server.
var paces = map[string][]string{
	Backend:  {"inter", "1s", "fastinter", "250ms", "downinter", "500ms", "rise", "2", "fall", "2", "slowstart", "60s"},
	Fallback: {"inter", "2s", "fastinter", "500ms", "downinter", "1s", "rise", "1", "fall", "3"},
}

// ServerLine returns a server of a backend in the form that the configuration has after
// the word server, and that the runtime API accepts: name, address, options. A running
// haproxy has no defaults for new servers, so each one gets all options.
//
// Three refused connections in a row are enough to mark a server down, without
// waiting for a check.
func ServerLine(backend string, b apilb.Backend, ca string) string {
	options := []string{
		b.Server(), netip.AddrPortFrom(b.Addr, apilb.ServerPort).String(),
		"check", "check-ssl", "check-sni", apilb.VerifyName, "verify", "required", "verifyhost", apilb.VerifyName, "ca-file", ca,
	}
	options = append(options, paces[backend]...)
	options = append(options, "observe", "layer4", "error-limit", "3", "on-error", "mark-down", "weight", "100")
	if b.Backup {
		options = append(options, "backup")
	}
	return strings.Join(options, " ")
}
