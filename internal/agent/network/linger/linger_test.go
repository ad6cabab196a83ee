package linger

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// TestWhatIsWrittenOnTheLoopbackInterface: a VIP that the host holds is renewed now and
// then, one that leaves is written once, and a write that fails is made up for.
func TestWhatIsWrittenOnTheLoopbackInterface(t *testing.T) {
	vip := netip.MustParseAddr("10.98.0.6")
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	var wrote []string
	var fails error
	r := &Reconciler{Now: func() time.Time { return now }, Kernel: Kernel{
		Linger: func(a netip.Addr, d time.Duration) error { wrote = append(wrote, fmt.Sprint(a, " ", d)); return fails },
		End:    func(a netip.Addr) error { wrote = append(wrote, fmt.Sprint(a, " ends")); return fails },
	}}
	v := state.NetworkView{Settings: state.NetworkSettings{IngressVIPs: []netip.Addr{vip}}, Router: state.Known(state.Router{Healthy: true})}
	own := state.HostAddress{Interface: "eth0", Prefix: netip.MustParsePrefix("10.98.0.11/24")}
	held := []state.HostAddress{own, {Interface: "eth0", Prefix: netip.PrefixFrom(vip, 32)}}
	for i, step := range []struct {
		what  string
		after time.Duration
		has   []state.HostAddress
		fails error
		want  []string
	}{
		{"it takes the VIP, and the kernel refuses", 0, held, errors.New("refused"), []string{"10.98.0.6 1m30s"}},
		{"once more", time.Second, held, nil, []string{"10.98.0.6 1m30s"}},
		{"another change", time.Second, held, nil, nil},
		{"the agent's look after 30 s", 30 * time.Second, held, nil, []string{"10.98.0.6 1m30s"}},
		{"the clock is set back", -time.Hour, held, nil, []string{"10.98.0.6 1m30s"}},
		{"the VIP leaves, and the kernel refuses", time.Second, held[:1], errors.New("refused"), []string{"10.98.0.6 15s"}},
		{"once more", time.Second, held[:1], nil, []string{"10.98.0.6 15s"}},
		{"the kernel ends it", time.Minute, held[:1], nil, nil},
		{"the VIP is back", time.Second, held, nil, []string{"10.98.0.6 1m30s"}},
	} {
		now, v.Addresses, fails, wrote = now.Add(step.after), step.has, step.fails, nil
		_, err := r.Reconcile(t.Context(), v)
		if !slices.Equal(wrote, step.want) || !errors.Is(err, step.fails) {
			t.Errorf("step %d, %s: wrote %q, %v; want %q, %v", i, step.what, wrote, err, step.want, step.fails)
		}
	}
}
