package readdress

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"strings"
	"testing"

	decide "github.com/holdfast/holdfast/internal/decide/readdress"
	install "github.com/holdfast/holdfast/internal/install/readdress"
	"github.com/holdfast/holdfast/internal/model/etcdpod"
	"github.com/holdfast/holdfast/internal/model/state"
)

// there is a host that was installed at the new place, where the cluster has its new addresses.
func there(t *testing.T, prefix string) *loner {
	t.Helper()
	l := newLoner(t)
	l.is, l.files, l.vips = netip.MustParsePrefix(prefix), decide.To, decide.To
	l.urls = []string{etcdpod.PeerURL(l.is.Addr())}
	l.settled = state.FormatAnnotation(decide.Settled{Plan: "move-1", At: decide.To})
	l.Quiet = func(context.Context) error { t.Error("Pacemaker is stopped"); return nil }
	return l
}

// TestAHostThatWasReplacedAtTheNewPlaceStays: it took itself to be at the old place, stopped Pacemaker and
// booted; and one with another address than the plan lists kept the move from its end.
func TestAHostThatWasReplacedAtTheNewPlaceStays(t *testing.T) {
	for _, prefix := range []string{"10.77.0.11/24", "10.77.0.50/24"} {
		for sentence, lists := range map[string]map[string][]netip.Addr{
			"the plan lists addresses": {"cp-1": {addr("10.77.0.11")}}, "the host takes what it gets": nil,
		} {
			l := there(t, prefix)
			l.announces(t, func(p *decide.Plan) { p.To.Hosts = lists })
			l.runs(t, 60)
			plan, _, err := l.Store.Load()
			if err != nil || plan != nil || l.boot != "b1" || l.copies || l.text != "" || l.settled != "" || l.shown["cp-1"] != "" || l.urls[0] != etcdpod.PeerURL(l.is.Addr()) {
				t.Errorf("%s, %s: plan %+v, %v, boot %s, announced %q, its node says %q", prefix, sentence, plan, err, l.boot, l.text, l.shown["cp-1"])
			}
		}
	}
}

// TestAMemberThatThePlanDoesNotKnowKeepsNoMoveFromItsEnd: a host with another name joined there.
func TestAMemberThatThePlanDoesNotKnowKeepsNoMoveFromItsEnd(t *testing.T) {
	for url, want := range map[string]decide.Side{
		"https://10.77.0.50:2380": decide.To, "https://10.98.0.50:2380": decide.From, "https://10.66.0.50:2380": "", "https://10.77.0.11:2380": decide.To, "nonsense": "",
	} {
		l := there(t, "10.77.0.11/24")
		l.urls = []string{url}
		l.announces(t, func(*decide.Plan) {})
		var p decide.Plan
		if err := json.Unmarshal([]byte(l.text), &p); err != nil {
			t.Fatal(err)
		}
		f := decide.Facts{Host: "cp-1", Plan: &p}
		l.members(t.Context(), &f)
		if !f.Members.Known || f.Members.Value[0] != want {
			t.Errorf("%s: %+v", url, f.Members)
		}
	}
}

// gives gives the host a plan as announce --here does.
func (l *loner) gives(t *testing.T, change func(*decide.Plan)) {
	t.Helper()
	l.announces(t, change)
	var p decide.Plan
	if err := json.Unmarshal([]byte(l.text), &p); err != nil {
		t.Fatal(err)
	}
	p.Local, p.ID, l.text = true, decide.LocalID(p.To), ""
	if err := l.Store.Replace(p, decide.Announced(p.From.Hosts["cp-1"])); err != nil {
		t.Fatal(err)
	}
}

// TestAMovedHostDoesNotFollowVIPsOfNeitherPlace: somebody added a pair after the host got its plan. At the
// new place it would take them for those of the site, keep them across boots, and hold no other.
func TestAMovedHostDoesNotFollowVIPsOfNeitherPlace(t *testing.T) {
	l := newLoner(t)
	l.added = true
	l.gives(t, func(*decide.Plan) {})
	l.runs(t, 5)
	if !l.hears() {
		t.Error("where it has the plan the network follows the API")
	}
	l.is = netip.MustParsePrefix("10.77.0.99/24")
	looks := 0
	for range 60 {
		if _, j, err := l.Store.Load(); err != nil || j.At == decide.To && l.vips == decide.From {
			if looks++; l.hears() {
				t.Fatalf("%v: it follows virtual IPs that nobody can hold here", err)
			}
		}
		l.runs(t, 1)
	}
	if looks == 0 || l.vips != decide.To || !l.hears() {
		t.Errorf("%d looks; the cluster has the virtual IPs of %s", looks, l.vips)
	}
}

// TestAHostThatIsCarriedBackTellsAClusterThatKnowsMoreThanItsJournal: the power went once the cluster had
// the new addresses, and before the journal said so.
func TestAHostThatIsCarriedBackTellsAClusterThatKnowsMoreThanItsJournal(t *testing.T) {
	l := newLoner(t)
	l.announces(t, func(*decide.Plan) {})
	l.runs(t, 3)
	tell, cut := l.Cluster, false
	l.Cluster = func(ctx context.Context, p decide.Plan, to decide.Side, j decide.Journal) error {
		err := tell(ctx, p, to, j)
		if to == decide.To {
			cut, err = true, errors.New("disk gone")
		}
		return err
	}
	l.is = netip.MustParsePrefix("10.77.0.99/24")
	for range 60 {
		if l.runs(t, 1); cut {
			break
		}
	}
	if l.vips != decide.To {
		t.Fatalf("the cluster has the virtual IPs of %s", l.vips)
	}
	l.is = netip.MustParsePrefix("10.98.0.11/24")
	l.runs(t, 60)
	if l.vips != decide.From {
		t.Error("it is back, and the cluster has the virtual IPs of the other place")
	}
}

// TestAPlanOfOneHostGoesOnceEverybodyIsThere: it stayed for ever, and moved the host months later.
func TestAPlanOfOneHostGoesOnceEverybodyIsThere(t *testing.T) {
	l := newLoner(t)
	l.gives(t, func(*decide.Plan) {})
	l.runs(t, 20)
	if plan, _, err := l.Store.Load(); plan == nil || err != nil || !strings.Contains(l.shown["cp-1"], `"local":true`) {
		t.Fatalf("before it is carried: %v, %v, %q", plan, err, l.shown)
	}
	l.is = netip.MustParsePrefix("10.77.0.99/24")
	for range 60 {
		l.runs(t, 1)
		if _, j, err := l.Store.Load(); err != nil || j.Over {
			break
		}
	}
	l.hears()
	l.Nodes(append(l.nodes, state.Node{Name: "cp-2", Addresses: []netip.Addr{addr("10.77.0.12")}, Annotations: map[string]string{install.Annotation: `{"plan":"m","at":"to"}`}}))
	for range 5 {
		if _, err := l.step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if plan, j, err := l.Store.Load(); err != nil || plan == nil || !j.Over {
		t.Fatalf("while another host has something to do: %v, %+v, %v", plan, j, err)
	}
	l.runs(t, 20)
	if plan, _, err := l.Store.Load(); plan != nil || err != nil || l.files != decide.To || l.shown["cp-1"] != "" || l.settled != "" || l.copies {
		t.Errorf("the plan is still there: %+v, %v, its node says %q, the object %q", plan, err, l.shown["cp-1"], l.settled)
	}
}

// TestAHostWithItsOwnPlanFollowsTheAnnouncedOneOfTheSamePlaces: nobody else knows the plan of one host.
func TestAHostWithItsOwnPlanFollowsTheAnnouncedOneOfTheSamePlaces(t *testing.T) {
	l := newLoner(t)
	l.gives(t, func(*decide.Plan) {})
	l.runs(t, 3)
	l.is = netip.MustParsePrefix("10.77.0.99/24")
	for range 60 {
		l.runs(t, 1)
		if _, j, err := l.Store.Load(); err != nil || j.At == decide.To {
			break
		}
	}
	boots := l.boot
	l.announces(t, func(*decide.Plan) {})
	l.runs(t, 2)
	if plan, j, err := l.Store.Load(); err != nil || plan == nil || plan.ID != "move-1" || j.At != decide.To {
		t.Fatalf("%+v, %+v, %v", plan, j, err)
	}
	l.runs(t, 60)
	if plan, _, err := l.Store.Load(); err != nil || plan != nil || l.text != "" || l.boot != boots {
		t.Errorf("%+v, %v, announced %q, boot %s", plan, err, l.text, l.boot)
	}
}

// TestAWorkerFollowsAMoveThatKeepsTheVirtualIPs by what a control plane writes beside the announcement.
func TestAWorkerFollowsAMoveThatKeepsTheVirtualIPs(t *testing.T) {
	l := newLoner(t)
	l.ControlPlane, l.keeps = false, true
	l.announces(t, func(p *decide.Plan) {
		p.From.MachineNetworks, p.To.MachineNetworks = []string{"10.0.0.0/8"}, []string{"10.0.0.0/8"}
		p.To.APIVIPs, p.To.IngressVIPs = p.From.APIVIPs, p.From.IngressVIPs
		p.To.Hosts = map[string][]netip.Addr{"cp-1": {addr("10.77.0.11")}}
	})
	l.runs(t, 3)
	l.is = netip.MustParsePrefix("10.77.0.11/24")
	runs := func() decide.Journal {
		for range 40 {
			boot := l.boot
			l.hears()
			if _, err := l.step(t.Context()); err != nil {
				t.Fatal(err)
			}
			if l.boot != boot {
				l.objects, l.nodes = nil, nil
			}
		}
		_, j, err := l.Store.Load()
		if err != nil {
			t.Fatal(err)
		}
		return j
	}
	if j := runs(); j.At != decide.To || j.Settled != decide.From {
		t.Fatalf("before a control plane has written the new addresses: %+v", j)
	}
	l.settled = state.FormatAnnotation(decide.Settled{Plan: "move-1", At: decide.To})
	if j := runs(); !j.Over {
		t.Errorf("afterwards: %+v", j)
	}
}

// TestAPlanThatIsTakenBackWhileItBeginsLeavesNoCopies: they hold keys.
func TestAPlanThatIsTakenBackWhileItBeginsLeavesNoCopies(t *testing.T) {
	l := newLoner(t)
	l.gives(t, func(*decide.Plan) {})
	l.runs(t, 3)
	l.is = netip.MustParsePrefix("10.77.0.99/24")
	l.Keep = func() error { l.copies = true; return l.Store.Drop() }
	for range 30 {
		if _, err := l.step(t.Context()); errors.Is(err, install.ErrGone) {
			if l.copies {
				t.Error("its copies are there")
			}
			return
		}
	}
	t.Error("it does not begin")
}
