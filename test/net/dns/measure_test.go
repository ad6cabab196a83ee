package dns

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/coredns"
)

// The load: the number of clients, each of which sends the next query as soon
// as it has an answer, the length of a round, and the number of nodes.
const (
	clients = 8
	roundOf = 2 * time.Second
	nodes   = 200
	// least is the fraction of the hosts plugin's rate that our plugins must
	// reach.
	least = 0.9
)

// crowd returns a view of many nodes.
func crowd(self string, up *upstream) state.NetworkView {
	v := view(self, []string{"10.9.0.20"}, up)
	var list []state.Node
	for i := range nodes {
		list = append(list, state.Node{Name: fmt.Sprintf("node-%d", i), Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 9, 1, byte(i)})}})
	}
	v.Nodes = state.Known(list)
	return v
}

// hostsOnly starts the same server with the hosts plugin instead of ours.
func (n *node) hostsOnly(v state.NetworkView, at string) *server {
	n.t.Helper()
	n.config(v)
	conf, err := readFile(n.path(coredns.ConfigPath))
	if err != nil {
		n.t.Fatal(err)
	}
	var file strings.Builder
	for _, node := range v.Nodes.Value {
		fmt.Fprintf(&file, "%s %s.%s %s\n", node.Addresses[0], node.Name, v.Settings.Domain, node.Name)
	}
	n.write("/hosts", file.String())
	from, to := strings.Index(conf, "    cluster "), strings.Index(conf, "    cache ")
	conf = conf[:from] + "    hosts " + n.path("/hosts") + " {\n        fallthrough\n    }\n" + conf[to:]
	conf = strings.Replace(strings.Replace(conf, "10.9.0.20", at, 1), fmt.Sprintf(":%d", coredns.HealthPort), ":18081", 1)
	n.write(coredns.ConfigPath, conf)
	s := n.launch()
	s.until(10*time.Second, netip.MustParseAddr(at), "node-0.demo.example.com.", dns.TypeA, "10.9.1.0")
	return s
}

// result holds the figures of one round.
type result struct {
	perSecond float64
	p50, p99  time.Duration
}

func TestAnswersPerSecondAndLatencyBesideTheHostsPlugin(t *testing.T) {
	if *measure == 0 {
		t.Skip("-args -measure N measures in N rounds")
	}
	site := newSite(t)
	up := site.host("10.9.0.1/16").upstream("10.9.0.1")
	n := site.host("10.9.0.20/16", "10.9.0.30/16")
	v := crowd("node-0", up)
	ours := n.serve(v)
	theirs := (&node{site: site, ns: n.ns, space: n.space, root: filepath.Join(n.root, "hosts")}).hostsOnly(v, "10.9.0.30")
	ours.want(own4, "node-7.demo.example.com.", dns.TypeA, "10.9.1.7")
	ours.idle(10 * time.Second)
	results := map[string][]result{}
	var ratios []float64
	for i := range *measure {
		order := []string{"ours", "hosts"}
		if i%2 == 1 {
			slices.Reverse(order)
		}
		for _, who := range order {
			at := map[string]string{"ours": "10.9.0.20", "hosts": "10.9.0.30"}[who]
			results[who] = append(results[who], n.load(at))
		}
		ratios = append(ratios, results["ours"][i].perSecond/results["hosts"][i].perSecond)
	}
	theirs.lives()
	for who, list := range results {
		t.Logf("%-5s answers/s %v, latency p50 %v p99 %v", who,
			middle(list, func(r result) float64 { return r.perSecond }), time.Duration(middle(list, func(r result) float64 { return float64(r.p50) })),
			time.Duration(middle(list, func(r result) float64 { return float64(r.p99) })))
	}
	slices.Sort(ratios)
	median := ratios[len(ratios)/2]
	t.Logf("ratio over %d rounds: min %.2f median %.2f max %.2f", len(ratios), ratios[0], median, ratios[len(ratios)-1])
	if median < least {
		t.Errorf("our plugins answer %.2f of what the hosts plugin does, want %.2f", median, least)
	}
}

// idle logs what the server uses while it gets no queries.
func (s *server) idle(pause time.Duration) {
	s.t.Helper()
	before := s.usage()
	time.Sleep(pause)
	after := s.usage()
	s.t.Logf("idle for %s: %s of a processor, %d MiB resident", pause, (after.processor - before.processor).Round(time.Millisecond), after.memory>>20)
}

type usage struct {
	processor time.Duration
	memory    int
}

// usage reads the kernel's figures of the server.
func (s *server) usage() usage {
	s.t.Helper()
	text, err := readFile(fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid))
	if err != nil {
		s.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(text, ") ") // the text after the name, from the third field on
	var n [24]int
	for i, f := range strings.Fields(rest) {
		if i < len(n) {
			n[i], _ = strconv.Atoi(f)
		}
	}
	const tick = 10 * time.Millisecond // USER_HZ is 100 wherever Go runs
	return usage{time.Duration(n[11]+n[12]) * tick, n[21] * os.Getpagesize()}
}

func middle(list []result, of func(result) float64) float64 {
	values := make([]float64, len(list))
	for i, r := range list {
		values[i] = of(r)
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// load sends queries to a server as fast as it answers.
func (n *node) load(at string) result {
	n.t.Helper()
	var wait sync.WaitGroup
	took := make([][]time.Duration, clients)
	end := time.Now().Add(roundOf)
	for c := range clients {
		var conn net.Conn
		n.must(func() (err error) { conn, err = net.Dial("udp", net.JoinHostPort(at, "53")); return err })
		wait.Go(func() {
			took[c] = hammer(n.t, conn, c, end)
			_ = conn.Close()
		})
	}
	wait.Wait()
	all := slices.Sorted(slices.Values(slices.Concat(took...)))
	return result{float64(len(all)) / roundOf.Seconds(), all[len(all)/2], all[len(all)*99/100]}
}

func hammer(t *testing.T, conn net.Conn, client int, end time.Time) []time.Duration {
	var took []time.Duration
	var questions [nodes][]byte
	for i := range questions {
		m := new(dns.Msg)
		m.SetQuestion(fmt.Sprintf("node-%d.demo.example.com.", i), dns.TypeA)
		questions[i], _ = m.Pack()
	}
	buffer := make([]byte, 1500)
	for i := client; ; i++ {
		start := time.Now()
		if start.After(end) {
			return took
		}
		q := questions[i%nodes]
		binary.BigEndian.PutUint16(q, uint16(i))
		if _, err := conn.Write(q); err != nil {
			t.Error(err)
			return took
		}
		_ = conn.SetReadDeadline(start.Add(patience))
		size, err := conn.Read(buffer)
		if err != nil || size < 12 || binary.BigEndian.Uint16(buffer) != uint16(i) || binary.BigEndian.Uint16(buffer[6:]) != 1 {
			t.Errorf("question %d: %d bytes, %v", i, size, err)
			return took
		}
		took = append(took, time.Since(start))
	}
}
