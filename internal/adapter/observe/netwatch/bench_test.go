package netwatch

import (
	"fmt"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// BenchmarkRead reads the network of a host in a cluster of 500 nodes, which
// has a route to the pods of each. It reports processor time, which does not
// depend on what else the machine does.
func BenchmarkRead(b *testing.B) {
	w := newWorld(b)
	w.add("eth0", "10.98.0.11/23")
	eth0 := w.link("eth0").Attrs().Index
	for i := range 500 {
		dst, gw := w.addr(fmt.Sprintf("10.%d.%d.0/24", 100+i/250, i%250), 0), w.addr(fmt.Sprintf("10.98.%d.%d/32", i/250, 20+i%230), 0)
		w.do(w.RouteAdd(&netlink.Route{LinkIndex: eth0, Dst: dst.IPNet, Gw: gw.IP}))
	}
	var before, after unix.Rusage
	w.do(unix.Getrusage(unix.RUSAGE_SELF, &before))
	for b.Loop() {
		s, err := Read(&w.ns)
		w.do(err)
		if len(s.Routes) != 501 {
			b.Fatal(len(s.Routes))
		}
	}
	w.do(unix.Getrusage(unix.RUSAGE_SELF, &after))
	spent := unix.TimevalToNsec(after.Utime) + unix.TimevalToNsec(after.Stime) - unix.TimevalToNsec(before.Utime) - unix.TimevalToNsec(before.Stime)
	b.ReportMetric(float64(spent)/float64(b.N)/1e3, "µs-cpu/op")
}
