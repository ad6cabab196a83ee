package main

import (
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/miekg/dns"
)

// The files that Holdfast renders for a host of two, and for the pods of one.
const (
	hostFiles = "../../internal/render/coredns/testdata/two-v4"
	podFile   = "../../internal/render/clusterdns/testdata/two-dual.yaml"
)

func text(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// replaced replaces words, each of which must occur.
func replaced(t *testing.T, s string, pairs ...string) string {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(s, pairs[i]) {
			t.Fatalf("%q is not in\n%s", pairs[i], s)
		}
		s = strings.ReplaceAll(s, pairs[i], pairs[i+1])
	}
	return s
}

// block removes a block from a Corefile.
func block(t *testing.T, s, name string) string {
	t.Helper()
	out := regexp.MustCompile(`(?ms)^    `+name+` [^\n]*\{\n.*?^    \}\n`).ReplaceAllString(s, "")
	if out == s {
		t.Fatalf("no block %s in\n%s", name, s)
	}
	return out
}

// line removes a line from a Corefile.
func line(t *testing.T, s, begins string) string {
	t.Helper()
	out := regexp.MustCompile(`(?m)^    `+begins+`.*\n`).ReplaceAllString(s, "")
	if out == s {
		t.Fatalf("no line %s in\n%s", begins, s)
	}
	return out
}

// hostConfig returns a host's Corefile with the host's own values replaced by
// local ones: its address, the port of its health, its link. Answers expire
// sooner.
func hostConfig(t *testing.T, upstreams ...*upstream) string {
	t.Helper()
	conf := line(t, line(t, block(t, text(t, hostFiles+".Corefile"), "mdns"), "health"), "reload")
	return replaced(t, conf, "bind 192.168.111.20", "bind 127.0.0.1", "192.168.111.20/32", "127.0.0.1/32",
		"        servfail 1s", "        servfail 1s\n        success 9984 30 1",
		zonePath, hostZone(t), "forward . 192.168.111.1:53", "forward . "+addresses(upstreams))
}

const zonePath = "/etc/holdfast/coredns/cluster.zone"

func hostZone(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cluster.zone")
	if err := os.WriteFile(path, []byte(text(t, hostFiles+".zone")), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// podConfig returns the Corefile of the cluster's DNS, without the parts that
// need an API or a port of their own. servers replace those of the host's
// resolv.conf.
func podConfig(t *testing.T, servers ...string) string {
	t.Helper()
	indented := regexp.MustCompile(`(?ms)^  Corefile: \|\n(.*?)^kind:`).FindStringSubmatch(text(t, podFile))
	if indented == nil {
		t.Fatalf("no Corefile in %s", podFile)
	}
	conf := regexp.MustCompile(`(?m)^    `).ReplaceAllString(indented[1], "")
	for _, name := range []string{"health", "kubernetes"} {
		conf = block(t, conf, name)
	}
	for _, begins := range []string{"ready", "prometheus", "reload"} {
		conf = line(t, conf, begins)
	}
	return replaced(t, conf, ".:53 {", ". {\n    bind 127.0.0.1", zonePath, hostZone(t),
		"api-int.shop.example.test", "api-int.edge.example.com", "/etc/resolv.conf", strings.Join(servers, " "))
}

func addresses(list []*upstream) string {
	var out []string
	for _, u := range list {
		out = append(out, u.addr)
	}
	return strings.Join(out, " ")
}

// server is a CoreDNS of this build, in this process.
type server struct {
	t    *testing.T
	addr string
	stop func()
}

func serve(t *testing.T, config string) *server {
	t.Helper()
	dnsserver.Directives = order
	dnsserver.Port = "0" // the kernel chooses one that is free, and keeps it for this server
	dnsserver.Quiet, caddy.Quiet = true, true
	inst, err := caddy.Start(caddy.CaddyfileInput{Contents: []byte(config), Filepath: "Corefile", ServerTypeName: "dns"})
	if err != nil {
		t.Fatalf("%v\n%s", err, config)
	}
	s := &server{t: t, addr: inst.Servers()[0].LocalAddr().String()}
	var stopped atomic.Bool
	s.stop = func() {
		if !stopped.Swap(true) {
			inst.ShutdownCallbacks()
			if err := inst.Stop(); err != nil {
				t.Error(err)
			}
		}
	}
	t.Cleanup(s.stop)
	return s
}

// patience is the time that a client waits for an answer, as with glibc.
const patience = 5 * time.Second

// asked sends a query from an address of this machine, and returns the answer
// and the time that it took.
func (s *server) asked(from, name string, qtype uint16) (*dns.Msg, time.Duration) {
	s.t.Helper()
	client := &dns.Client{Timeout: patience, Dialer: &net.Dialer{Timeout: patience, LocalAddr: &net.UDPAddr{IP: net.ParseIP(from)}}}
	start := time.Now()
	m, _, err := client.Exchange(new(dns.Msg).SetQuestion(name, qtype), s.addr)
	if err != nil {
		s.t.Fatalf("%s %s after %s: %v", name, dns.TypeToString[qtype], time.Since(start), err)
	}
	return m, time.Since(start)
}

// says describes an answer: its first address, or its code.
func says(m *dns.Msg) string {
	for _, rr := range m.Answer {
		if a, ok := rr.(*dns.A); ok {
			return a.A.String()
		}
	}
	return dns.RcodeToString[m.Rcode]
}

func (s *server) want(name string, qtype uint16, want string) time.Duration {
	s.t.Helper()
	m, took := s.asked("127.0.0.1", name, qtype)
	if got := says(m); got != want {
		s.t.Errorf("%s %s: %s, want %s", name, dns.TypeToString[qtype], got, want)
	}
	return took
}

// upstream is a name server of a site.
type upstream struct {
	addr  string
	asked atomic.Int64
	does  atomic.Pointer[func(dns.ResponseWriter, *dns.Msg)]
}

func newUpstream(t *testing.T) *upstream {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	u := &upstream{addr: conn.LocalAddr().String()}
	u.answers("198.51.100.1")
	s := &dns.Server{PacketConn: conn, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		if q.Question[0].Qtype != dns.TypeNS {
			u.asked.Add(1)
		}
		(*u.does.Load())(w, q)
	})}
	ended := make(chan struct{})
	go func() { _ = s.ActivateAndServe(); close(ended) }()
	t.Cleanup(func() { _ = conn.Close(); <-ended })
	return u
}

func (u *upstream) do(f func(dns.ResponseWriter, *dns.Msg)) { u.does.Store(&f) }

// answers makes the server give this address, with a lifetime of a second, for
// every name.
func (u *upstream) answers(addr string) {
	u.do(func(w dns.ResponseWriter, q *dns.Msg) {
		m := new(dns.Msg).SetReply(q)
		if q.Question[0].Qtype == dns.TypeA {
			m.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: q.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 1}, A: net.ParseIP(addr).To4()}}
		}
		_ = w.WriteMsg(m)
	})
}

func (u *upstream) fails(code int) {
	u.do(func(w dns.ResponseWriter, q *dns.Msg) { _ = w.WriteMsg(new(dns.Msg).SetRcode(q, code)) })
}

// silent makes the server answer nothing, not even health checks.
func (u *upstream) silent() { u.do(func(dns.ResponseWriter, *dns.Msg) {}) }

// Only a host that starts would meet a Corefile that CoreDNS refuses, because a
// reload keeps the old one.
func TestEveryRenderedCorefileIsAccepted(t *testing.T) {
	dnsserver.Directives = order
	files, err := filepath.Glob(filepath.Dir(hostFiles) + "/*.Corefile")
	if err != nil || len(files) < 12 {
		t.Fatalf("%v, %v", files, err)
	}
	configs := map[string]string{podFile: podConfig(t, "192.0.2.1")}
	for _, file := range files {
		configs[file] = text(t, file)
	}
	for file, conf := range configs {
		input := caddy.CaddyfileInput{Contents: []byte(conf), Filepath: file, ServerTypeName: "dns"}
		if err := caddy.ValidateAndExecuteDirectives(input, nil, true); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

func TestStrangersAreRefusedAndHaveNothingOfAName(t *testing.T) {
	up := newUpstream(t)
	s := serve(t, replaced(t, hostConfig(t, up), "allow net 127.0.0.0/8", "allow net 127.0.0.1/32"))
	for _, name := range []string{"api.edge.example.com.", "host-0.", "x.apps.edge.example.com.", "www.example.org."} {
		m, _ := s.asked("127.0.0.2", name, dns.TypeA)
		if m.Rcode != dns.RcodeRefused || len(m.Answer)+len(m.Ns) > 0 {
			t.Errorf("%s: %v", name, m)
		}
	}
	if n := up.asked.Load(); n > 0 {
		t.Errorf("the site was asked %d times for a stranger", n)
	}
	s.want("api.edge.example.com.", dns.TypeA, "192.168.111.5")
	s.want("www.example.org.", dns.TypeA, "198.51.100.1")
}

// aged asks for a name and waits until the answer in the cache has expired. The
// answer is cached for one second here; otherwise 5 is the minimum.
func aged(t *testing.T, s *server, name string) {
	t.Helper()
	s.want(name, dns.TypeA, "198.51.100.1")
	time.Sleep(1100 * time.Millisecond)
}

// within bounds the answer for a known name while no server answers. Pods are
// promised 2 s, and this leaves them some of it.
const within = 1500 * time.Millisecond

func TestWhileTheSitesLineIsDownWhatItSaidIsSaidAgain(t *testing.T) {
	for how, down := range map[string]func(*upstream){
		"silent": (*upstream).silent,
		"fails":  func(u *upstream) { u.fails(dns.RcodeServerFailure) },
		"denies": func(u *upstream) { u.fails(dns.RcodeRefused) },
	} {
		t.Run(how, func(t *testing.T) { stale(t, down) })
	}
}

func stale(t *testing.T, down func(*upstream)) {
	first, second := newUpstream(t), newUpstream(t)
	s := serve(t, replaced(t, hostConfig(t, first, second), "1200ms 30s 30s", "1200ms 30s 2s"))
	aged(t, s, "www.example.org.")
	down(first)
	down(second)
	if took := s.want("www.example.org.", dns.TypeA, "198.51.100.1"); took > within {
		t.Errorf("the first question took %s", took)
	}
	if took := s.want("www.example.org.", dns.TypeA, "198.51.100.1"); took > 100*time.Millisecond {
		t.Errorf("the next one took %s", took)
	}
	s.want("host-0.edge.example.com.", dns.TypeA, "192.168.111.20")
	first.answers("198.51.100.9")
	for start := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		if m, _ := s.asked("127.0.0.1", "www.example.org.", dns.TypeA); says(m) == "198.51.100.9" {
			break
		}
		if time.Since(start) > 15*time.Second {
			t.Fatal("the line is back, and the old answer is still given")
		}
	}
}

// One silent server of two does not mean that the line is down.
func TestASilentServerDoesNotMakeOldAnswersOfThoseThatTheNextOneHas(t *testing.T) {
	first, second := newUpstream(t), newUpstream(t)
	s := serve(t, hostConfig(t, first, second))
	aged(t, s, "www.example.org.")
	first.silent()
	second.answers("198.51.100.2")
	if took := s.want("www.example.org.", dns.TypeA, "198.51.100.2"); took > within {
		t.Errorf("it took %s", took)
	}
}

// dead returns an address at which nobody listens.
func dead(t *testing.T) string {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	return conn.LocalAddr().String()
}

// The site's servers know none of these names, and a resolv.conf may name them
// first, or alone.
func TestPodsHaveTheClustersNamesWhateverBecomesOfTheHostsServer(t *testing.T) {
	site, silent := newUpstream(t), newUpstream(t)
	site.fails(dns.RcodeNameError)
	silent.silent()
	for how, first := range map[string]string{"dead": dead(t), "silent": silent.addr, "not named": site.addr} {
		s := serve(t, podConfig(t, first, site.addr))
		for name, want := range map[string]string{
			"api.edge.example.com.": "192.168.111.5", "api-int.edge.example.com.": "192.168.111.5",
			"console.apps.edge.example.com.": "192.168.111.6", "host-1.edge.example.com.": "192.168.111.21",
		} {
			if took := s.want(name, dns.TypeA, want); took > 200*time.Millisecond {
				t.Errorf("%s: %s took %s", how, name, took)
			}
		}
		s.stop()
	}
}

func TestPodsAskTheSiteOnlyWhileTheHostsServerIsAway(t *testing.T) {
	host, site := newUpstream(t), newUpstream(t)
	site.answers("198.51.100.2")
	s := serve(t, podConfig(t, host.addr, site.addr))
	n := 0
	next := func() string { n++; return "w" + strconv.Itoa(n) + ".example.org." }
	for range 50 {
		s.want(next(), dns.TypeA, "198.51.100.1")
	}
	if asked := site.asked.Load(); asked > 0 {
		t.Errorf("the site was asked %d times of 50", asked)
	}
	host.silent()
	for start := time.Now(); ; {
		took := s.want(next(), dns.TypeA, "198.51.100.2")
		if took > 2*time.Second {
			t.Errorf("a pod waited %s", took)
		}
		if took < 100*time.Millisecond {
			break // it is skipped
		}
		if time.Since(start) > 10*time.Second {
			t.Fatal("a silent server is asked again and again")
		}
	}
	host.answers("198.51.100.1")
	for start := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		if m, _ := s.asked("127.0.0.1", next(), dns.TypeA); says(m) == "198.51.100.1" {
			break
		}
		if time.Since(start) > 5*time.Second {
			t.Fatal("the host's server is back, and is not asked")
		}
	}
	refuses := serve(t, podConfig(t, host.addr, site.addr))
	host.fails(dns.RcodeRefused)
	refuses.want(next(), dns.TypeA, "198.51.100.2")
}

// While the site's line is down, the host's server is the only one, and it
// alone has the site's earlier answers. Failures of foreign names must not make
// it count as dead.
func TestWhileTheSitesLineIsDownPodsGoOnAskingTheHostsServer(t *testing.T) {
	site := newUpstream(t)
	host := serve(t, hostConfig(t, site))
	pods := serve(t, podConfig(t, host.addr, site.addr))
	aged(t, host, "www.example.org.")
	site.silent()
	if m, took := pods.asked("127.0.0.1", "new.example.org.", dns.TypeA); m.Rcode != dns.RcodeServerFailure {
		t.Errorf("nobody knows it: %v after %s", m, took)
	}
	time.Sleep(2 * time.Second) // a health check and its end
	if took := pods.want("www.example.org.", dns.TypeA, "198.51.100.1"); took > 2*time.Second {
		t.Errorf("a pod waited %s", took)
	}
}
