// Package vip_test breaks the way of clients to the API of a real cluster while
// they send 200 requests a second through its virtual IPs, and measures the
// effect on them. It needs root and a built release; hack/test vip calls it.
package vip_test

import (
	"context"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/lab"
	"github.com/holdfast/holdfast/test/labsite"
	"github.com/holdfast/holdfast/test/labsite/load"
)

var (
	labName   = flag.String("lab", "", "the lab to break; it is brought up if need be. Without a name nothing runs")
	keep      = flag.Bool("keep", false, "leave the lab up at the end")
	program   = flag.String("holdfast", "../../_output/bin/holdfast", "the holdfast program")
	families  = flag.String("families", "v4", "address families of a new lab: v4, v6, v4,v6 or v6,v4")
	planes    = flag.Int("control-planes", 2, "control planes of a new lab: 2 or 3")
	postDelay = flag.Duration("post-delay", 5*time.Second, "duration of the power-on self-test of a host in a new lab")
	repeat    = flag.Int("n", 0, "how often each event is repeated; 0 for its own number")
	rate      = flag.Int("rate", load.DefaultRate, "requests a second, shared among the virtual IPs of a cluster")
	deadline  = flag.Duration("deadline", load.DefaultDeadline, "how long each request may take")
	output    = flag.String("output", "../../_output/vip", "where results and artefacts go")
)

// theSite is brought up once for all events.
var theSite *labsite.Site

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	if theSite != nil && !*keep {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
		if err := theSite.Down(ctx); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
		cancel()
	}
	os.Exit(code)
}

// open returns the running lab.
func open(t *testing.T) *labsite.Site {
	t.Helper()
	if *labName == "" {
		t.Skip("the virtual IPs of a cluster are moved by 'hack/test vip'")
	}
	if theSite != nil {
		return theSite
	}
	started := time.Now()
	s, err := labsite.Open(t.Context(), labsite.Options{Name: *labName, Program: *program, Up: []string{
		fmt.Sprintf("--control-planes=%d", *planes), "--families=" + *families, "--post-delay=" + postDelay.String(),
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("lab %s is up after %.0f s", *labName, time.Since(started).Seconds())
	theSite = s
	return s
}

// event plays one kind of event, while a client uses each virtual IP.
func event(t *testing.T, name string, times int, play func(*trial)) {
	t.Helper()
	s := open(t)
	if *repeat > 0 {
		times = *repeat
	}
	plan := labsite.Plan{Scenario: name, Times: times, Families: *families, Output: *output}
	labsite.Play(t, s, plan, func(c *labsite.Case) {
		tr := &trial{Case: c, vips: s.Lab.Layout.APIVIPs}
		for _, vip := range tr.vips {
			c.Ask(clientOf(vip), tr.shape(vip))
		}
		c.Steady("before")
		play(tr)
	})
}

// trial is one event.
type trial struct {
	*labsite.Case
	vips []netip.Addr
}

// clientOf returns the name of a virtual IP's client.
func clientOf(vip netip.Addr) string {
	if vip.Is4() {
		return "VIP IPv4"
	}
	return "VIP IPv6"
}

// shape describes the requests of a client of a virtual IP.
func (tr *trial) shape(vip netip.Addr) load.Shape {
	shape := tr.LifeOf(vip)
	shape.Rate, shape.Deadline = *rate/len(tr.vips), *deadline
	return shape
}

// holder returns the holder of the first virtual IP, and as its peer the first
// other control plane.
func (tr *trial) holder() (host, peer string) {
	tr.Helper()
	host, err := tr.Holder(tr.vips[0])
	if err != nil {
		tr.Fatal(err)
	}
	for _, h := range tr.ControlPlanes() {
		if h != host {
			return host, h
		}
	}
	tr.Fatal("there is one control plane, and nobody to move to")
	return "", ""
}

// moves starts following the places of the virtual IPs.
func (tr *trial) moves(from string) *watch {
	w := &watch{began: time.Now(), at: map[netip.Addr]time.Duration{}}
	ctx, end := context.WithCancel(tr.Context())
	w.end = end
	for _, vip := range tr.vips {
		if !slices.Contains(tr.Lab.Holders(vip), from) {
			continue // with two families, each may be on another host
		}
		w.note(vip, 0)
		w.all.Go(func() { w.follow(ctx, tr, vip, from) })
	}
	return w
}

// movesWithin bounds the wait for a virtual IP; slowness shows in the figures.
const movesWithin = 3 * time.Minute

// moved records the time that each virtual IP of a host took to get to another
// one. If promised is zero there is no promise.
func (tr *trial) moved(w *watch, promised time.Duration) {
	tr.Helper()
	tr.Eventually(movesWithin, "the virtual IPs are elsewhere", func() error { return w.missing(tr.vips) })
	w.stop()
	for _, vip := range tr.vips {
		if at, known := w.took(vip); known {
			what := "moved, " + strings.TrimPrefix(clientOf(vip), "VIP ")
			tr.Trial.Took(what, at)
			if promised > 0 {
				tr.Trial.Promise(what, promised)
			}
		}
	}
}

// promise records the longest time that clients may be without an answer.
func (tr *trial) promise(figure string, most time.Duration) {
	for _, vip := range tr.vips {
		tr.Trial.Promise(clientOf(vip)+", "+figure, most)
	}
}

// calm waits until every client gets answers again. It records what they
// noticed since the event, then what they notice until the site is whole.
func (tr *trial) calm(since time.Time, mend func()) {
	tr.Helper()
	tr.Steady("after the event")
	tr.Noticed("", since)
	again := time.Now()
	if mend != nil {
		mend()
	}
	tr.Eventually(labsite.WholeWithin, "the site is whole again", func() error { return tr.Whole(tr.Context()) })
	tr.Steady("on the whole site")
	tr.Trial.Took("whole again", time.Since(since))
	tr.Noticed("return", again)
}

// processes returns the processes of a name on a host, including its
// containers.
func (tr *trial) processes(host, name string) []lab.Process {
	tr.Helper()
	h, _ := tr.Lab.Layout.Host(host)
	list, err := tr.Lab.Processes(tr.Context(), h, name)
	if err != nil {
		tr.Fatal(err)
	}
	return list
}
