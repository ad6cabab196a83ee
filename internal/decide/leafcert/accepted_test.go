package leafcert_test

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/leafcert"
	"github.com/holdfast/holdfast/internal/model/state"
)

// later returns a certificate that is valid from tomorrow on.
func later(name string) leafcert.File {
	f := leaf(name, 300*day)
	f.From, f.Ends = noon.Add(day), noon.Add(day+year)
	return f
}

func TestWhatAnAdministratorAcceptsOfAClock(t *testing.T) {
	h := host(2, later("apiserver.crt"), leaf("apiserver-kubelet-client.crt", 300*day))
	h.Cluster.Value.Nodes[1].Ready = false // it accepts nothing that this host shows
	if s := leafcert.Decide(h); s.Kind != leafcert.None || len(s.Problems) != 1 || !strings.Contains(s.Problems[0], "sudo holdfast certificates clock --accept") {
		t.Errorf("not accepted: %+v", s)
	}
	h.Accepted = true
	if s := leafcert.Decide(h); s.Kind != leafcert.Work || len(s.Renew) != 1 || s.Renew[0].Path != leafcert.APIServer || len(s.Problems) > 0 {
		t.Errorf("accepted: %+v", s)
	}
	h.Files[0].Issuer.From = noon.Add(time.Hour)
	if s := leafcert.Decide(h); s.Kind != leafcert.None || len(s.Problems) != 1 || strings.Contains(s.Problems[0], "--accept") {
		t.Errorf("the authority is from a later day: %+v", s)
	}
}

func TestWhenAClockMayBeAccepted(t *testing.T) {
	right := host(1, later("apiserver.crt"), leaf("scheduler.conf", 300*day))
	wrong := host(1, later("apiserver.crt"))
	wrong.Files[0].Issuer.From = noon.Add(time.Hour)
	for name, c := range map[string]struct {
		host         leafcert.Host
		synchronised state.Fact[bool]
		want         string
	}{
		"synchronised":     {right, state.Known(true), ""},
		"not synchronised": {right, state.Known(false), "is not synchronised with anything"},
		"unknown":          {right, state.Fact[bool]{}, "is unknown"},
		"the authority":    {wrong, state.Known(true), "/etc/kubernetes/pki/ca.crt (valid from 2026-11-23T13:00:00Z on)"},
	} {
		if got := c.host.Refusal(c.synchronised); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q", name, got)
		}
	}
	if leaves, authorities := right.Ahead(); len(leaves) != 1 || len(authorities) != 0 || leaves[0].Path != leafcert.APIServer {
		t.Errorf("%v %v", leaves, authorities)
	}
}

func TestForHowLongAnAcceptedClockCounts(t *testing.T) {
	a := leafcert.Accepted{At: noon}
	for _, c := range []struct {
		after        time.Duration
		synchronised bool
		want         bool
	}{
		{0, true, true}, {59 * time.Minute, true, true}, {time.Hour, true, false}, {-time.Second, true, false}, {time.Minute, false, false},
	} {
		if got := a.Counts(noon.Add(c.after), c.synchronised); got != c.want {
			t.Errorf("after %s, synchronised %t: %t", c.after, c.synchronised, got)
		}
	}
	if (leafcert.Accepted{}).Counts(time.Time{}, true) {
		t.Error("nobody has accepted anything")
	}
}
