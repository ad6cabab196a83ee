package witness

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/agent/network/metrics"
)

// hostAlone makes a network namespace with a listener like an agent's, and
// returns the root folder of its host.
func hostAlone(t *testing.T, handler http.Handler) string {
	t.Helper()
	type made struct {
		ns  netns.NsHandle
		l   net.Listener
		err error
	}
	done := make(chan made)
	go func() { // on a thread that ends with this goroutine
		runtime.LockOSThread()
		var m made
		defer func() { done <- m }()
		if m.ns, m.err = netns.New(); m.err != nil {
			return
		}
		var lo netlink.Link
		if lo, m.err = netlink.LinkByName("lo"); m.err != nil {
			return
		}
		if m.err = netlink.LinkSetUp(lo); m.err == nil {
			m.l, m.err = (&net.ListenConfig{}).Listen(context.Background(), "tcp", metrics.Address)
		}
	}()
	m := <-done
	if m.err != nil {
		t.Fatal(m.err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: every}
	go func() { _ = server.Serve(m.l) }()
	t.Cleanup(func() {
		_ = server.Close()
		_ = m.ns.Close()
	})
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "ns"), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), m.ns), filepath.Join(dir, "ns/net")); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "root")
}

func TestAlertsAreThoseOfARealPrometheusThatAsksBothHosts(t *testing.T) {
	if _, err := Program(); (err != nil || os.Geteuid() != 0) && os.Getenv("HOLDFAST_REQUIRE_TOOLS") == "" {
		t.Skipf("it takes root and Prometheus: %v", err)
	}
	var online atomic.Int64
	online.Store(1)
	tells := func(host string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprintf(w, "holdfast_pacemaker_status_published_timestamp_seconds %d\nholdfast_pacemaker_node_condition{host=\"cp-2\",condition=\"Online\"} %d\nholdfast_etcd_step{action=\"%s\"} 1\n",
				time.Now().Unix(), online.Load(), map[string]string{"cp-1": "idle", "cp-2": "ask-human"}[host])
		})
	}
	roots := map[string]string{}
	for _, h := range []string{"cp-1", "cp-2"} {
		roots[h] = hostAlone(t, tells(h))
	}
	p, err := StartPrometheus(t.Context(), []string{"cp-1", "cp-2"}, func(_ context.Context, host string) (string, error) { return roots[host], nil })
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	}()
	broken := time.Now()
	online.Store(0)
	seen := func(what string, fits func(Alert) bool) {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); ; _ = host.Sleep(t.Context(), every/2) {
			list, err := p.Alerts(t.Context())
			if err != nil || time.Now().After(end) {
				t.Fatalf("%s was not seen: %+v, %v", what, list, err)
			}
			if slices.ContainsFunc(Begun(list, broken), fits) {
				return
			}
		}
	}
	offline := func(a Alert) bool { return a.Name == "HoldfastNodeOffline" && a.Labels["host"] == "cp-2" }
	seen("the loss of a host", offline)
	online.Store(1)
	seen("its return", func(a Alert) bool { return offline(a) && time.Since(a.Until) > apart })
	list, err := p.Alerts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range Begun(list, broken) {
		if a.Name == "HoldfastWaitsForAPerson" {
			t.Error("what was there before is told")
		}
	}
}
