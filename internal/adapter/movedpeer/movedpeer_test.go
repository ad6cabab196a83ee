package movedpeer

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/testkit/netnstest"
)

// TestAConnectionToWhereAMemberWasReachesIt: the member listens at its new address alone, on
// another host.
func TestAConnectionToWhereAMemberWasReachesIt(t *testing.T) {
	name := fmt.Sprintf("hfmoved-%d", os.Getpid())
	own, there := netnstest.New(t, name), netnstest.New(t, name+"-p")
	netnstest.Join(t, own, "a", there, "b")
	netnstest.Give(t, own, "a", "10.77.0.11/24", "fd77::11/64")
	netnstest.Give(t, there, "b", "10.77.0.12/24", "fd77::12/64")
	run := func(script string) (string, error) {
		out, err := exec.Command("ip", "netns", "exec", name, "sh", "-c", script).CombinedOutput()
		return string(out), err
	}
	// the new network has a gateway, so that the old addresses have a route
	if out, err := run("ip route add default via 10.77.0.1; ip -6 route add default via fd77::1"); err != nil {
		t.Fatal(out)
	}
	netnstest.In(t, there, func() {
		for _, at := range []string{"10.77.0.12:2380", "[fd77::12]:2380"} {
			l, err := net.Listen("tcp", at)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = l.Close() })
		}
	})
	try := func(at string) error {
		return netnstest.Do(own, func() error {
			c, err := net.DialTimeout("tcp", at, time.Second)
			if err == nil {
				err = c.Close()
			}
			return err
		})
	}
	table := Table{NetNS: int(own)}
	was := []string{"10.98.0.12:2380", "[fd98::12]:2380"}
	for _, at := range was {
		if try(at) == nil {
			t.Fatalf("%s answers without the table: this test shows nothing", at)
		}
	}
	leads := map[netip.Addr]netip.Addr{
		netip.MustParseAddr("10.98.0.12"): netip.MustParseAddr("10.77.0.12"), netip.MustParseAddr("fd98::12"): netip.MustParseAddr("fd77::12"),
		netip.MustParseAddr("10.98.0.13"): netip.MustParseAddr("fd77::12"), // of another family: nothing leads there
	}
	for i, want := range []bool{true, false} {
		if changed, err := table.Set(leads); err != nil || changed != want {
			t.Fatalf("set %d: changed %t, %v", i, changed, err)
		}
	}
	for _, at := range was {
		if err := try(at); err != nil {
			out, _ := run("nft list ruleset")
			t.Errorf("the member is not reached by %s: %v\n%s", at, err, out)
		}
	}
	if try("10.98.0.12:2379") == nil || try("10.98.0.13:2380") == nil {
		t.Error("another port, or another family, is led too")
	}
	if changed, err := table.Set(nil); err != nil || !changed {
		t.Fatalf("the table does not go: %t, %v", changed, err)
	}
	if out, err := run("nft list table inet " + TableName); err == nil {
		t.Errorf("it is still there:\n%s", out)
	}
	if err := try("10.77.0.12:2380"); err != nil {
		t.Errorf("the member itself: %v", err)
	}
}
