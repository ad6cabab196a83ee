package lb

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestCost measures the cost of observation; set HOLDFAST_BENCH. haproxy's
// share is measured while only its checks and the agent's reads go on.
func TestCost(t *testing.T) {
	if os.Getenv("HOLDFAST_BENCH") == "" {
		t.Skip("set HOLDFAST_BENCH")
	}
	s := newSite(t, onlyV4, 3)
	s.up()
	h := s.hosts[0]
	const period = 20 * time.Second
	before := h.used()
	time.Sleep(period)
	spent := h.used() - before
	t.Logf("haproxy, idle, three API servers checked and four looks a second: %.2f %% of a core, %d kB resident",
		100*spent.Seconds()/period.Seconds(), h.resident())

	const looks = 2000
	own, theirs := self(), h.used()
	for range looks {
		if _, err := h.client.Servers(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("one look: %v of the agent, %v of haproxy", (self()-own)/looks, (h.used()-theirs)/looks)
}

// processes returns haproxy's processes.
func (n *node) processes() []int { return []int{n.proc.Process.Pid, n.pid()} }

// used returns the CPU time of haproxy's processes so far.
func (n *node) used() time.Duration {
	var ticks int64
	for _, pid := range n.processes() {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			n.t.Fatal(err)
		}
		f := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		for _, i := range []int{11, 12} { // utime, stime: proc(5)
			v, err := strconv.ParseInt(f[i], 10, 64)
			if err != nil {
				n.t.Fatal(err)
			}
			ticks += v
		}
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// resident returns the memory of haproxy's processes, in kB.
func (n *node) resident() int {
	sum := 0
	for _, pid := range n.processes() {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			n.t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
				kb, _ := strconv.Atoi(strings.Fields(rest)[0])
				sum += kb
			}
		}
	}
	return sum
}

// self returns the CPU time of this process so far.
func self() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
