package lb

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/haproxy"
	"github.com/holdfast/holdfast/internal/decide/apilb"
	"github.com/holdfast/holdfast/internal/model/state"
)

// TestBenchmark measures how fast the load balancer reacts. It compares it with
// a haproxy with the values that are usual elsewhere, and a monitor with theirs
// (docs/facts/network.md#monitors and docs/facts/network.md#haproxy), on the
// same hosts at the same events. It runs for some minutes:
//
//	HOLDFAST_BENCH=20 go test ./test/net/lb -run TestBenchmark -v -timeout 60m
//
// The number is that of repetitions. HOLDFAST_BENCH_ONLY names one part:
// faults, nodes or redirect.
func TestBenchmark(t *testing.T) {
	repetitions, err := strconv.Atoi(os.Getenv("HOLDFAST_BENCH"))
	if err != nil || repetitions < 1 {
		t.Skip("set HOLDFAST_BENCH to the number of repetitions")
	}
	b := newBench(t)
	only := os.Getenv("HOLDFAST_BENCH_ONLY")
	for range repetitions * asked(only, "faults") {
		b.fault("refused", func(a *apiServer) { a.stop() }, func(a *apiServer) { a.start() })
		b.fault("hanging", func(a *apiServer) { a.hang() }, func(a *apiServer) { a.resume() })
		b.fault("on its way out", func(a *apiServer) { a.ready.Store(500) }, func(a *apiServer) { a.ready.Store(200) })
	}
	for range repetitions * asked(only, "nodes") {
		b.propagate("node removed", 2)
		b.propagate("node added", 3)
	}
	for range min(repetitions, 5) * asked(only, "redirect") { // the usual monitor needs more than a minute for each
		b.redirect()
	}
	b.print()
}

// asked returns 1 if a part is requested, or all are, else 0.
func asked(only, part string) int {
	if only == "" || only == part {
		return 1
	}
	return 0
}

// bench is a site with both load balancers, and the measurements.
type bench struct {
	t     *testing.T
	s     *site
	other *usual
	// figures holds the times by event, ours and theirs.
	figures map[string][2][]time.Duration
	order   []string
	// failures holds the numbers of failed requests, by kind of fault.
	failures map[string][2]int
}

func newBench(t *testing.T) *bench {
	s := newSite(t, onlyV4, 3)
	s.up()
	s.hold(s.hosts[0])
	return &bench{t: t, s: s, other: startUsual(t, s), figures: map[string][2][]time.Duration{}, failures: map[string][2]int{}}
}

func (b *bench) note(event string, ours, theirs time.Duration) {
	if _, known := b.figures[event]; !known {
		b.order = append(b.order, event)
	}
	f := b.figures[event]
	f[0], f[1] = append(f[0], ours), append(f[1], theirs)
	b.figures[event] = f
	b.t.Logf("%s: %v, usual %v", event, ours.Round(time.Millisecond), theirs.Round(time.Millisecond))
}

// after measures, for both sides at once, the time from a moment until a
// condition holds.
func after(t *testing.T, since time.Time, ours, theirs func() bool) (time.Duration, time.Duration) {
	t.Helper()
	var took [2]time.Duration
	var both sync.WaitGroup
	for i, holds := range []func() bool{ours, theirs} {
		both.Go(func() {
			for time.Since(since) < 3*time.Minute && !holds() {
				time.Sleep(15 * time.Millisecond)
			}
			took[i] = time.Since(since)
		})
	}
	both.Wait()
	return took[0], took[1]
}

// fault makes one API server fail in a way, and heals it.
func (b *bench) fault(what string, cause, heal func(*apiServer)) {
	b.t.Helper()
	server := b.s.hosts[1].api
	ours := func(ready bool) func() bool {
		return func() bool { return readiness(b.s.hosts[0].client, "cp-2") == ready }
	}
	theirs := func(ready bool) func() bool {
		return func() bool { return readiness(b.other.client, "cp-2") == ready }
	}
	after(b.t, time.Now(), ours(true), theirs(true))
	loads := [2]*load{
		b.s.start(b.s.client, api(b.s.vips[0]), 50),
		b.s.start(b.s.client, netip.AddrPortFrom(b.s.hosts[0].addresses[0], usualPort), 50),
	}
	time.Sleep(time.Second + time.Duration(time.Now().UnixNano()%1e9)) // so that no phase of a check is preferred
	moment := time.Now()
	cause(server)
	out, outUsual := after(b.t, moment, ours(false), theirs(false))
	b.note("backend "+what+": out of use", out, outUsual)
	time.Sleep(time.Second)
	healed := time.Now()
	heal(server)
	after(b.t, time.Now(), ours(true), theirs(true))
	var failed [2]time.Duration
	for i, l := range loads {
		l.stop()
		got := l.between(moment, healed)
		failed[i] = got.lastFailed
		b.failed(what, i, got.failed)
		b.t.Logf("%s: %v", []string{"ours", "usual"}[i], got)
	}
	b.note("backend "+what+": last request that failed", failed[0], failed[1])
}

// failed counts the requests that failed at an event, of the 50 a second on
// each side.
func (b *bench) failed(what string, side, number int) {
	all := b.failures[what]
	all[side] += number
	b.failures[what] = all
}

// readiness reports whether a haproxy sends requests to a node.
func readiness(c haproxy.Client, node string) bool {
	servers, err := c.Servers(context.Background())
	if err != nil {
		return false
	}
	v := apilb.View(servers, state.Fact[state.Balancer]{})
	return v.Backends[node]
}

// propagate changes the nodes of the cluster.
func (b *bench) propagate(what string, number int) {
	b.t.Helper()
	h := b.s.hosts[0]
	time.Sleep(time.Duration(time.Now().UnixNano() % 6e9)) // so that no phase of a poll is preferred
	moment := time.Now()
	h.knows(nodes(b.s.hosts[:number]...))
	b.other.knows(nodes(b.s.hosts[:number]...))
	ours, theirs := after(b.t, moment, func() bool { return serving(h.client, number) }, func() bool { return serving(b.other.client, number) })
	b.note(what+" → haproxy", ours, theirs)
}

// serving reports whether a haproxy sends requests to exactly the given number
// of nodes, all of them checked.
func serving(c haproxy.Client, number int) bool {
	servers, err := c.Servers(context.Background())
	if err != nil {
		return false
	}
	n := 0
	for _, s := range servers {
		if s.Admin == apilb.AdminReady {
			n++
			if s.Health != apilb.HealthReady {
				return false
			}
		}
	}
	return n == number
}

// redirect ends haproxy and starts it again.
func (b *bench) redirect() {
	b.t.Helper()
	h := b.s.hosts[0]
	after(b.t, time.Now(), h.redirected, b.other.redirected)
	moment := time.Now()
	h.signal(syscall.SIGKILL)
	b.other.kill()
	ours, theirs := after(b.t, moment, func() bool { return !h.redirected() }, func() bool { return !b.other.redirected() })
	b.note("haproxy gone → redirect off", ours, theirs)
	h.runHaproxy(h.paths.Config, h.paths.Socket)
	b.other.start()
	moment = time.Now()
	ours, theirs = after(b.t, moment, h.redirected, b.other.redirected)
	b.note("haproxy started → redirect on", ours, theirs)
}

// print writes the table.
func (b *bench) print() {
	var out bytes.Buffer
	fmt.Fprintf(&out, "| event | n | median | max | usual median | usual max | ratio of medians |\n|---|---|---|---|---|---|---|\n")
	for _, event := range b.order {
		ours, theirs := b.figures[event][0], b.figures[event][1]
		slices.Sort(ours)
		slices.Sort(theirs)
		om, tm := ours[len(ours)/2], theirs[len(theirs)/2]
		ratio := "–"
		if tm > 0 {
			ratio = fmt.Sprintf("%.2f", float64(om)/float64(tm))
		}
		fmt.Fprintf(&out, "| %s | %d | %s | %s | %s | %s | %s |\n", event, len(ours),
			seconds(om), seconds(ours[len(ours)-1]), seconds(tm), seconds(theirs[len(theirs)-1]), ratio)
	}
	for _, what := range slices.Sorted(maps.Keys(b.failures)) {
		n := b.failures[what]
		fmt.Fprintf(&out, "\nRequests failed, backend %s: %d, usual %d.", what, n[0], n[1])
	}
	fmt.Fprintln(&out)
	b.t.Logf("\n%s", out.String())
	if path := os.Getenv("HOLDFAST_BENCH_OUT"); path != "" {
		if err := os.WriteFile(path, out.Bytes(), 0o600); err != nil {
			b.t.Error(err)
		}
	}
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }
