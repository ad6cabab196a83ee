package relay

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/vrrp"
	"github.com/holdfast/holdfast/internal/model/state"
)

// TestWhatAnotherHostLetsGoIsPassedOnOnce: a failure is told and not made up for.
func TestWhatAnotherHostLetsGoIsPassedOnOnce(t *testing.T) {
	var passed []string
	var fails error
	r := &Reconciler{Now: time.Now, PassOn: func(one vrrp.Relay, d time.Duration) error {
		passed = append(passed, fmt.Sprint(one, " ", d))
		return fails
	}}
	v := state.NetworkView{
		Host: state.HostFacts{NodeName: "cp-2"}, Settings: state.NetworkSettings{IngressVIPs: []netip.Addr{netip.MustParseAddr("10.98.0.6")}},
		Addresses: []state.HostAddress{{Interface: "eth0", Prefix: netip.MustParsePrefix("10.98.0.12/24")}},
	}
	for _, refused := range []error{nil, errors.New("refused")} {
		passed, fails = nil, refused
		var said []string
		var failed error
		for _, holds := range []string{"", "10.98.0.6", "", ""} {
			v.Nodes = state.Known([]state.Node{{
				Name: "worker-1", Addresses: []netip.Addr{netip.MustParseAddr("10.98.0.21")}, Annotations: map[string]string{vrrp.HoldsAnnotation: holds},
			}})
			told, err := r.Reconcile(t.Context(), v)
			said, failed = append(said, told), errors.Join(failed, err)
		}
		if want := "{10.98.0.6 10.98.0.21} 12s"; strings.Join(passed, ";") != want || !errors.Is(failed, refused) || (refused == nil) != (said[2] != "") {
			t.Errorf("passed on %q, said %q, %v; want %q, %v", passed, said, failed, want, refused)
		}
	}
}
