package doctor

import (
	"context"
	"errors"
	"math"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// ticking returns a clock that advances by step with each reading.
func ticking(step time.Duration) func() time.Time {
	at := now
	return func() time.Time {
		at = at.Add(step)
		return at
	}
}

func TestTheMeasurementEndsWhereItsBytesDo(t *testing.T) {
	d, err := measure(t.Context(), t.TempDir(), bounds{time.Hour, 10*writeSize + 1}, ticking(time.Microsecond))
	if err != nil {
		t.Fatal(err)
	}
	if d.Writes != 10 || d.P99 != time.Microsecond || d.Worst != time.Microsecond {
		t.Errorf("%+v", d)
	}
	if diskBounds != (bounds{2 * time.Second, 8 << 20}) {
		t.Error("people are told of 2 s and 8 MiB")
	}
}

func TestTheMeasurementEndsAfter2Seconds(t *testing.T) {
	d, err := measure(t.Context(), t.TempDir(), diskBounds, ticking(50*time.Millisecond))
	if err != nil || d.Writes != 20 { // each write reads the clock twice
		t.Errorf("%+v, %v", d, err)
	}
}

func TestTheMeasurementLeavesNoFileAndEndsWhenItIsStopped(t *testing.T) {
	dir := t.TempDir()
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := measure(ctx, dir, diskBounds, time.Now); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 0 {
		t.Errorf("%v, %v", list, err)
	}
}

func TestTheFolderOfTheMeasurementIsEmptyWhileItRuns(t *testing.T) {
	dir := t.TempDir()
	looks := 0
	_, err := measure(t.Context(), dir, diskBounds, func() time.Time {
		if list, err := os.ReadDir(dir); err != nil || len(list) != 0 {
			t.Errorf("%v, %v", list, err)
		}
		looks++
		return now.Add(time.Duration(looks) * time.Second)
	})
	if err != nil || looks < 3 {
		t.Errorf("%d looks, %v", looks, err)
	}
}

func TestTheQuantileIsThatOfPrometheus(t *testing.T) {
	inf := math.Inf(1)
	for name, c := range map[string]struct {
		buckets []bucket
		want    time.Duration
	}{
		"in the middle of a bucket":  {[]bucket{{0.001, 0}, {0.002, 100}, {inf, 100}}, 1990 * time.Microsecond},
		"in the first":               {[]bucket{{0.001, 100}, {inf, 100}}, 990 * time.Microsecond},
		"beyond the last":            {[]bucket{{0.001, 10}, {8.192, 50}, {inf, 100}}, 8192 * time.Millisecond},
		"in an order of their own":   {[]bucket{{inf, 100}, {0.002, 100}, {0.001, 0}}, 1990 * time.Microsecond},
		"nothing was written so far": {[]bucket{{0.001, 0}, {inf, 0}}, 0},
	} {
		if got := quantile(0.99, c.buckets); (got - c.want).Abs() > time.Microsecond {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestAPageThatIsNotEtcdsIsRefused(t *testing.T) {
	for _, page := range []string{"", "<html>", "etcd_mvcc_db_total_size_in_bytes 5\n", "etcd_disk_wal_fsync_duration_seconds_bucket{le=\"x\"} 5"} {
		if _, err := parseEtcd([]byte(page)); err == nil {
			t.Errorf("%q was taken", page)
		}
	}
}

func TestTheWayIsTheMostSpecificOneThenTheCheapest(t *testing.T) {
	routes := []state.HostRoute{
		{Destination: netip.MustParsePrefix("0.0.0.0/0"), Interface: "dear", Metric: 100},
		{Destination: netip.MustParsePrefix("0.0.0.0/0"), Interface: "cheap", Metric: 5},
		{Destination: netip.MustParsePrefix("10.0.0.0/8"), Interface: "ten", Metric: 900},
		{Destination: netip.MustParsePrefix("::/0"), Interface: "six"},
	}
	for to, want := range map[string]string{"10.1.1.1": "ten", "192.168.0.1": "cheap", "fd98::1": "six"} {
		if r, ok := route(routes, netip.MustParseAddr(to)); !ok || r.Interface != want {
			t.Errorf("%s: %+v", to, r)
		}
	}
	if _, ok := route(routes[2:3], netip.MustParseAddr("11.0.0.1")); ok {
		t.Error("there is no way to 11.0.0.1")
	}
}
