package host

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/coredns"
	"github.com/holdfast/holdfast/test/net/promise"
)

// idle is the time for which the agent is watched while nothing happens.
const idle = 40 * time.Second

func TestHardCase38_500NodesAreOneWatchAndNoList(t *testing.T) {
	h := newHost(t, state.RoleWorker)
	a := newAPI(t, h)
	for i := range 500 {
		a.node(fmt.Sprintf("n-%d", i), fmt.Sprintf("10.98.%d.%d", 1+i/200, 10+i%200))
	}
	a.node("h-1", "10.98.0.11", state.LabelWorker)
	a.serve(h)
	h.start()
	took := h.until("501 nodes are known", func() bool { return len(h.status().View.Nodes.Value) == 501 })
	t.Logf("501 nodes known %s after the start", took)
	h.until("its zone has them", func() bool { return strings.Contains(h.file(coredns.ZonePath), "n-499") })
	time.Sleep(3 * time.Second)
	cpu, memory := h.usage()
	before := len(a.asked())
	began := time.Now()
	time.Sleep(idle)
	later, _ := h.usage()
	share := float64(later-cpu) / float64(time.Since(began)) * 100
	t.Logf("idle with 501 nodes: %.2f %% of a core, %d MiB of its own memory; %s of processor time to start", share, memory>>10, cpu)
	if share > 2 || memory > 80<<10 {
		t.Errorf("that is too much")
	}
	watches, starting, idling := map[string]int{}, 0, 0
	for i, r := range a.asked() {
		switch {
		case strings.HasPrefix(r, "GET /api/v1/nodes/h-1 ") && i < before:
			starting++
		case strings.HasPrefix(r, "GET /api/v1/nodes/h-1 "):
			idling++
		case strings.Contains(r, "watch=1"):
			watches[r]++
		case !strings.HasPrefix(r, "PATCH "):
			t.Errorf("a request that is no watch: %s", r)
		}
	}
	// A host stores a copy of its own Node. It reads it after each change, of which it
	// makes several itself as it starts, and when the copy is 25 seconds old.
	t.Logf("%d requests for the host's own Node as it started, %d while nothing happened", starting, idling)
	if idling > 2 {
		t.Errorf("%d requests for the host's own Node while nothing happened: it is watched", idling)
	}
	if len(watches) != 2 {
		t.Errorf("watches: %v, want one of nodes and one of the Infrastructure", watches)
	}
	for w, n := range watches {
		if n != 1 {
			t.Errorf("%d times %s", n, w)
		}
	}
	a.node("late", "10.98.9.9")
	t.Logf("a new node is in the zone after %s", h.until("a new node is in the zone", func() bool { return strings.Contains(h.file(coredns.ZonePath), "late") }))
	a.node("late", "10.98.9.10")
	took = h.until("H1: its new address is in the zone", func() bool { return strings.Contains(h.file(coredns.ZonePath), "10.98.9.10") })
	a.remove("late")
	gone := h.until("it is gone from the zone", func() bool { return !strings.Contains(h.file(coredns.ZonePath), "late") })
	t.Logf("its new address after %s, its end after %s", took, gone)
	if took > promise.Allowed(time.Second) || gone > promise.Allowed(time.Second) {
		t.Error("more than a second and what a busy machine takes")
	}
}

func TestHardCase33_AHostBootsWithoutAnAPI(t *testing.T) {
	h := newHost(t, state.RoleMaster)
	a := newAPI(t, h)
	a.node("h-1", "10.98.0.11", state.LabelControlPlane, state.LabelMaster)
	a.node("h-2", "10.98.0.12", state.LabelControlPlane, state.LabelMaster)
	a.node("w-1", "10.98.0.31", state.LabelWorker)
	stop := a.serve(h)
	h.start()
	h.until("its peers are in keepalived's configuration", func() bool {
		return strings.Contains(h.file("/etc/holdfast/keepalived/keepalived.conf"), "10.98.0.12")
	})
	conf := h.file("/etc/holdfast/keepalived/keepalived.conf")
	h.stop()
	stop()
	for _, lost := range []string{"/etc/holdfast/keepalived/keepalived.conf", coredns.ZonePath, "/run/holdfast/network.json"} {
		h.write(lost, nil)
	}
	h.start()
	h.until("keepalived is set up from what the disk has", func() bool { return h.file("/etc/holdfast/keepalived/keepalived.conf") == conf })
	h.until("so is the zone", func() bool { return strings.Contains(h.file(coredns.ZonePath), "w-1") })
	h.until("they are said to be of an earlier run", func() bool { s := h.status(); return s.View.Stale && len(s.View.Nodes.Value) == 3 })
	a.serve(h)
	a.remove("w-1")
	h.until("the API counts again", func() bool { s := h.status(); return !s.View.Stale && len(s.View.Nodes.Value) == 2 })
}
