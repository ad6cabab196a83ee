package twonode_test

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/model/payload"
	"github.com/holdfast/holdfast/test/twonode/evidence"
	"github.com/holdfast/holdfast/test/twonode/witness"
)

// monitors is the number of monitors whose mean is one figure.
const monitors = 50

// TestCostOfAMonitor measures the cost of Pacemaker's monitor of etcd, and that
// of the etcd keeper behind it while nothing happens.
func TestCostOfAMonitor(t *testing.T) {
	s := open(t)
	tr := newTrial(t, s, "cost of a monitor", 0)
	tr.eventually(wholeWithin, "the cluster is whole", func() error { return tr.whole(tr.Context()) })
	h := "cp-1"
	action := fmt.Sprintf("OCF_ROOT=/usr/lib/ocf OCF_RESOURCE_INSTANCE=etcd OCF_RESKEY_node_ip_map='cp-1:%s;cp-2:%s' %s monitor",
		s.address("cp-1"), s.address("cp-2"), payload.ResourceAgent)
	tr.on(h, action) // it must work at all
	// In its own pid namespace a process's pid counts the processes that were
	// started before it: the shell, the measured program with its threads, and
	// cat.
	last := tr.on(h, "unshare --pid --fork sh -c '"+strings.ReplaceAll(action, "'", `"`)+">/dev/null; cat /proc/sys/kernel/ns_last_pid'")
	tasks, err := strconv.Atoi(last)
	if err != nil {
		t.Fatal(err)
	}
	spent := tr.on(h, fmt.Sprintf("bash -c 'for i in $(seq %d); do %s >/dev/null; done; times >/run/times; tail -1 /run/times'", monitors, strings.ReplaceAll(action, "'", `"`)))
	started := time.Now()
	for range monitors {
		if _, err := s.Sh(t.Context(), h, action); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("one monitor of etcd: %d processes and threads, %.1f ms of CPU, %.0f ms of time with nsenter",
		tasks-2, cpuMillis(t, spent)/monitors, time.Since(started).Seconds()*1000/monitors)
	t.Logf("podman-etcd.service while nothing happens: %.1f ms of CPU a second", tr.daemonCost(h))
}

// cpuMillis adds up what bash's times prints for children: "0m1.200s 0m0.300s".
func cpuMillis(t *testing.T, times string) float64 {
	t.Helper()
	var sum time.Duration
	for f := range strings.FieldsSeq(times) {
		d, err := time.ParseDuration(f)
		if err != nil {
			t.Fatalf("times printed %q: %v", times, err)
		}
		sum += d
	}
	return sum.Seconds() * 1000
}

// userHertz is the unit of CPU time in /proc, a second's share; it is 100 on
// every architecture that Linux has (proc(5)).
const userHertz = 100

// daemonCost returns the CPU time of the etcd keeper in ms per second, over
// half a minute.
func (tr *trial) daemonCost(host string) float64 {
	tr.Helper()
	const window = 30 * time.Second
	before := tr.daemonTicks(host)
	pause(tr.Context(), window)
	return float64(tr.daemonTicks(host)-before) / userHertz * 1000 / window.Seconds()
}

func (tr *trial) daemonTicks(host string) int {
	tr.Helper()
	ticks := 0
	for _, p := range tr.processes(host, "podman-etcd") {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID))
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(data), ") ")
		fields := strings.Fields(rest)
		for _, i := range []int{11, 12} { // utime, stime: fields 14 and 15 of proc(5)
			n, err := strconv.Atoi(fields[i])
			if err != nil {
				tr.Fatal(err)
			}
			ticks += n
		}
	}
	return ticks
}

// TestCostOfTheAgent measures the cost of holdfast-agent on both hosts while
// nothing happens, except that Prometheus scrapes it each second.
func TestCostOfTheAgent(t *testing.T) {
	s := open(t)
	tr := newTrial(t, s, "cost of the agent", 0)
	tr.eventually(wholeWithin, "the cluster is whole", func() error { return tr.whole(tr.Context()) })
	tr.see()
	defer tr.blind()
	var medians []string
	idle := map[string][]float64{}
	for range idleWindows {
		from := time.Now()
		pause(tr.Context(), idleWindow)
		for host, used := range witness.Spent(tr.seen.prometheus.Costs(), from, time.Now()) {
			idle[host] = append(idle[host], used)
		}
	}
	for _, h := range tr.hosts() {
		list := slices.Sorted(slices.Values(idle[h]))
		if len(list) == 0 {
			t.Fatalf("the control group of holdfast-agent on %s was not read", h)
		}
		medians = append(medians, fmt.Sprintf("%s %.1f", h, evidence.Percentile(list, 50)))
	}
	t.Logf("holdfast-agent while nothing happens, ms of CPU a second, median of %d times %s: %s", idleWindows, idleWindow, strings.Join(medians, ", "))
}

// The number and the length of the windows in which an idle agent is watched. A
// window is longer than the time between two of the agent's looks.
const (
	idleWindows = 5
	idleWindow  = 35 * time.Second
)
