package lab_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netns"
)

// benchRuns is the number of measurements of each figure.
const benchRuns = 3

// TestBench measures what the documents promise for a cluster in the lab and
// prints minimum, median and maximum. It fails only if a cluster does not come
// up, because these machines are noisy.
func TestBench(t *testing.T) {
	if *which != "bench" {
		t.Skip("runs with 'make bench'")
	}
	if os.Geteuid() != 0 {
		t.Fatal("hosts in the lab need root")
	}
	var ready, memory, agent, gap []float64
	for i := range benchRuns {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			c := lab(t, "tbench")
			started := time.Now()
			c.must("lab", "up", "--name", c.name, "--control-planes=2", "--post-delay=0s")
			ready = append(ready, time.Since(started).Seconds())
			for _, h := range []string{"cp-1", "cp-2"} {
				memory = append(memory, c.residentMiB(h, ""))
				agent = append(agent, c.residentMiB(h, "holdfast-agent"))
			}
			gap = append(gap, c.vipGap("10.98.0.5").Seconds())
		})
	}
	t.Logf("two control planes ready, payload cached, no POST: %s s", distribution(ready))
	t.Logf("resident memory of a control-plane host: %s MiB", distribution(memory))
	t.Logf("of it holdfast-agent: %s MiB", distribution(agent))
	t.Logf("API VIP unreachable after a power cut of its holder: %s s", distribution(gap))
}

func distribution(list []float64) string {
	slices.Sort(list)
	if len(list) == 0 {
		return "nothing measured"
	}
	return fmt.Sprintf("min %.2f, median %.2f, max %.2f (n=%d)", list[0], list[len(list)/2], list[len(list)-1], len(list))
}

// residentMiB sums the resident memory of a host's processes, or of those with
// a name.
func (c cluster) residentMiB(host, name string) float64 {
	c.Helper()
	var kib float64
	for line := range strings.Lines(c.must("lab", "exec", "--name", c.name, host, "--", "ps", "-eo", "rss=,comm=")) {
		fields := strings.Fields(line)
		if len(fields) != 2 || (name != "" && fields[1] != name) {
			continue
		}
		n, err := strconv.ParseFloat(fields[0], 64)
		if err != nil {
			c.Fatal(err)
		}
		kib += n
	}
	return kib / 1024
}

// vipGap cuts the power of a VIP's holder and returns the longest time in which
// nobody accepted a connection to the configuration server behind the VIP. The
// client is on the machine network's switch.
func (c cluster) vipGap(vip string) time.Duration {
	c.Helper()
	holder := c.holders()[vip]
	answers := make(chan []time.Time, 1)
	ctx, stop := context.WithTimeout(c.Context(), time.Minute)
	defer stop()
	go func() { answers <- connectAll(ctx, "hf-"+c.name+"-net", net.JoinHostPort(vip, "22623")) }()
	time.Sleep(time.Second) // some answers from before the cut
	c.must("lab", "fault", "power-cut", holder, "--name", c.name)
	time.Sleep(5 * time.Second) // and from after it, however long the command took
	stop()
	var longest time.Duration
	list := <-answers
	answered := len(list)
	list = append(list, time.Now()) // a gap that never ended counts too
	for i := 1; i < len(list); i++ {
		longest = max(longest, list[i].Sub(list[i-1]))
	}
	if answered < 50 {
		c.Errorf("only %d connections: nothing is measured", answered)
	}
	return longest
}

// connectAll connects again and again from a network namespace and returns the
// times of its successes.
func connectAll(ctx context.Context, namespace, address string) []time.Time {
	runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
	ns, err := netns.GetFromName(namespace)
	if err != nil || netns.Set(ns) != nil {
		return nil
	}
	var list []time.Time
	dialer := net.Dialer{Timeout: 50 * time.Millisecond}
	for ctx.Err() == nil {
		if conn, err := dialer.DialContext(ctx, "tcp", address); err == nil {
			list = append(list, time.Now())
			_ = conn.Close()
		}
		time.Sleep(20 * time.Millisecond)
	}
	return list
}
