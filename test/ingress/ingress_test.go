// Package ingress_test breaks the way of clients to the applications of a real
// cluster while they send 200 requests a second, and changes virtual IPs under
// them. It needs root and a built release; hack/test ingress calls it.
package ingress_test

import (
	"context"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/holdfast/holdfast/test/labsite"
	"github.com/holdfast/holdfast/test/labsite/load"
)

var (
	labName   = flag.String("lab", "", "begin of the names of the labs; they are brought up if need be, one at a time. Without a name nothing runs")
	keep      = flag.Bool("keep", false, "leave the last lab up at the end")
	program   = flag.String("holdfast", "../../_output/bin/holdfast", "the holdfast program")
	families  = flag.String("families", "v4", "address families of the lab with one control plane: v4, v6, v4,v6 or v6,v4")
	postDelay = flag.Duration("post-delay", 5*time.Second, "duration of the power-on self-test of a host in a new lab")
	repeat    = flag.Int("n", 0, "how often each event is repeated; 0 for its own number")
	rate      = flag.Int("rate", load.DefaultRate, "requests a second of each client")
	deadline  = flag.Duration("deadline", 2*time.Second, "how long each request may take: where none may fail, a busy machine is not to be a failure")
	output    = flag.String("output", "../../_output/ingress", "where results and artefacts go")
)

// kind is one of the labs for the scenarios.
type kind struct {
	suffix   string
	families string
	up       []string
}

// dual holds the families of the lab with two hosts: a second pair of virtual
// IPs needs the second family.
const dual = "v4,v6"

func one() kind {
	return kind{"one", *families, []string{"--control-planes=1", "--workers=2", "--spare-workers=2", "--families=" + *families}}
}

func two() kind {
	return kind{"two", dual, []string{"--control-planes=2", "--families=" + dual}}
}

// current is the running lab: the machine carries one at a time.
var current *labsite.Site

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	if current != nil && !*keep {
		if err := down(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

func down() error {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	err := current.Down(ctx)
	current = nil
	return err
}

// open returns a running lab. It first takes down another one.
func open(t *testing.T, k kind) *labsite.Site {
	t.Helper()
	if *labName == "" {
		t.Skip("the ingress of clusters is broken by 'hack/test ingress'")
	}
	name := *labName + k.suffix
	if current != nil && current.LabName() == name {
		return current
	}
	if current != nil {
		if err := down(); err != nil {
			t.Fatal(err)
		}
	}
	started := time.Now()
	s, err := labsite.Open(t.Context(), labsite.Options{
		Name: name, Program: *program, Up: append(k.up, "--post-delay="+postDelay.String()),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("lab %s is up after %.0f s", name, time.Since(started).Seconds())
	current = s
	return s
}

// scenario plays an event several times.
func scenario(t *testing.T, s *labsite.Site, k kind, name string, times int, play func(*trial)) {
	t.Helper()
	if *repeat > 0 {
		times = *repeat
	}
	plan := labsite.Plan{Scenario: name, Times: times, Families: k.families, Output: *output}
	labsite.Play(t, s, plan, func(c *labsite.Case) { play(&trial{c}) })
}

// trial is one event.
type trial struct{ *labsite.Case }

// asks starts a client of an application at an address and port.
func (tr *trial) asks(client string, at netip.AddrPort, a labsite.App) {
	tr.Ask(client, load.Shape{
		URL: "http://" + at.String() + "/health", Host: a.Host, Body: "OK", Rate: *rate, Deadline: *deadline,
	})
}

// web returns the HTTP port of an address.
func web(a netip.Addr) netip.AddrPort { return netip.AddrPortFrom(a, 80) }

// familyName returns the name of an address's family, by which its client is
// called.
func familyName(a netip.Addr) string {
	if a.Is4() {
		return "IPv4"
	}
	return "IPv6"
}
