package agent

import (
	"context"
	"errors"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	etcdv1 "github.com/openshift/api/etcd/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/adapter/etcd"
	"github.com/holdfast/holdfast/internal/adapter/records"
	"github.com/holdfast/holdfast/internal/agent/machineconfig"
	"github.com/holdfast/holdfast/internal/decide/pacemakerstatus"
	"github.com/holdfast/holdfast/internal/model/state"
)

// viewOf is that of the first of these control planes.
func viewOf(names ...string) func() state.NetworkView {
	v := state.NetworkView{Host: state.HostFacts{NodeName: names[0]}}
	for i, name := range names {
		v.Nodes.Known, v.Nodes.Value = true, append(v.Nodes.Value, state.Node{
			Name: name, Labels: map[string]string{state.LabelControlPlane: ""}, Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 0, 0, byte(i)})},
		})
	}
	v.Nodes.Value = append(v.Nodes.Value, state.Node{Name: "w-1"})
	return func() state.NetworkView { return v }
}

func votes(names ...string) func(context.Context, map[string]string) map[string]etcd.MemberStatus {
	return func(_ context.Context, asked map[string]string) map[string]etcd.MemberStatus {
		out := map[string]etcd.MemberStatus{}
		for _, name := range names {
			if asked[name] != "" {
				out[name] = etcd.MemberStatus{Serves: true, Leader: 1}
			}
		}
		return out
	}
}

// pair is what a host reads of two that are whole, but for one condition of cp-2.
func pair(at time.Time, online metav1.ConditionStatus) func() pacemakerstatus.Report {
	well := func(kinds ...string) []metav1.Condition {
		var out []metav1.Condition
		for _, kind := range kinds {
			out = append(out, metav1.Condition{Type: kind, Status: metav1.ConditionTrue})
		}
		return out
	}
	var nodes []etcdv1.PacemakerClusterNodeStatus
	for _, name := range []string{"cp-1", "cp-2"} {
		nodes = append(nodes, etcdv1.PacemakerClusterNodeStatus{
			NodeName: name, Conditions: well(etcdv1.NodeOnlineConditionType, etcdv1.NodeFencingAvailableConditionType, pacemakerstatus.FencingProven),
			Resources: []etcdv1.PacemakerClusterResourceStatus{{Name: etcdv1.PacemakerClusterResourceNameEtcd, Conditions: well(etcdv1.ResourceHealthyConditionType)}},
		})
	}
	nodes[1].Conditions[0].Status = online
	status := etcdv1.PacemakerClusterStatus{Nodes: &nodes, Conditions: well(pacemakerstatus.Redundant, pacemakerstatus.FencingEnabled, etcdv1.ClusterInServiceConditionType)}
	return func() pacemakerstatus.Report { return pacemakerstatus.Report{At: at, Status: status} }
}

func TestAHostBootsOnlyWhereItSeesThatTheClusterCarriesOn(t *testing.T) {
	now := time.Date(2026, 11, 23, 3, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		sentence string
		spare    spare
		want     state.Fact[bool]
		why      string
	}{
		{"a worker", spare{view: viewOf("w-1")}, state.Known(true), ""},
		{"the only control plane", spare{controlPlanes: 1, view: viewOf("cp-1")}, state.Known(true), ""},
		{"of two, the other one is well", spare{controlPlanes: 2, view: viewOf("cp-1", "cp-2"), pacemaker: pair(now.Add(-time.Minute), metav1.ConditionTrue)}, state.Known(true), ""},
		{"of two, the other one is absent", spare{controlPlanes: 2, view: viewOf("cp-1", "cp-2"), pacemaker: pair(now, metav1.ConditionFalse)}, state.Known(false), "cp-2 is absent"},
		{"of two, nobody has looked for long", spare{controlPlanes: 2, view: viewOf("cp-1", "cp-2"), pacemaker: pair(now.Add(-time.Hour), metav1.ConditionTrue)}, state.Fact[bool]{}, "no host has reported"},
		{
			"of two, nobody has looked yet",
			spare{controlPlanes: 2, view: viewOf("cp-1", "cp-2"), pacemaker: func() pacemakerstatus.Report { return pacemakerstatus.Report{} }},
			state.Fact[bool]{},
			"nobody says anything of cp-1",
		},
		{"of three, all serve", spare{controlPlanes: 3, view: viewOf("cp-1", "cp-2", "cp-3"), members: votes("cp-1", "cp-2", "cp-3")}, state.Known(true), ""},
		{"of three, one does not answer", spare{controlPlanes: 3, view: viewOf("cp-1", "cp-2", "cp-3"), members: votes("cp-1", "cp-2")}, state.Fact[bool]{}, "not cp-3 (it does not answer)"},
		{"of three, the host itself does not serve", spare{controlPlanes: 3, view: viewOf("cp-1", "cp-2", "cp-3"), members: votes("cp-2", "cp-3")}, state.Known(true), ""},
		{"of three, one has no node", spare{controlPlanes: 3, view: viewOf("cp-1", "cp-2"), members: votes("cp-1", "cp-2")}, state.Fact[bool]{}, "of 3 control planes it knows 2: cp-1, cp-2"},
	} {
		c.spare.now = func() time.Time { return now }
		got, why := c.spare.mayBoot(t.Context())
		if got != c.want || !strings.Contains(why, c.why) || (why == "") != (c.why == "") {
			t.Errorf("%s: %+v, %q", c.sentence, got, why)
		}
	}
}

// keeper is what the etcd keeper says of a host whose etcd runs or not, and that has
// booted without seeing the other one.
func keeper(at time.Time, running bool) func(context.Context) (state.EtcdReport, error) {
	r := state.EtcdReport{At: at}
	r.Snapshot.Local.Running, r.Snapshot.Local.StandIn = state.Known(running), state.Known(state.MemberID(0))
	r.Snapshot.Pacemaker.Inert, r.Snapshot.Pacemaker.Contact = state.Known(true), state.Known(false)
	return func(context.Context) (state.EtcdReport, error) { return r, nil }
}

func ownOf(runs, serves state.Fact[bool]) func(context.Context, netip.Addr) (state.Fact[bool], state.Fact[bool]) {
	return func(context.Context, netip.Addr) (state.Fact[bool], state.Fact[bool]) { return runs, serves }
}

// TestAHostThatSeesNobodyKnowsWhetherItCarriesAnything: its configuration cut it off the
// network, so that nobody carries on by what it sees.
func TestAHostThatSeesNobodyKnowsWhetherItCarriesAnything(t *testing.T) {
	now := time.Date(2026, 11, 23, 3, 0, 0, 0, time.UTC)
	yes, no, unknown := state.Known(true), state.Known(false), state.Fact[bool]{}
	two := func(at time.Time, running bool) spare {
		return spare{controlPlanes: 2, view: viewOf("cp-1", "cp-2"), pacemaker: pair(now, metav1.ConditionFalse), keeper: keeper(at, running)}
	}
	silent := two(now, false)
	silent.keeper = func(context.Context) (state.EtcdReport, error) { return state.EtcdReport{}, context.DeadlineExceeded }
	three := func(own func(context.Context, netip.Addr) (state.Fact[bool], state.Fact[bool]), members ...string) spare {
		return spare{controlPlanes: 3, view: viewOf("cp-1", "cp-2", "cp-3"), own: own, members: votes(members...)}
	}
	for _, c := range []struct {
		sentence string
		spare    spare
		want     bool
	}{
		{"of two, its etcd is down", two(now, false), true},
		{"of two, its etcd runs alone", two(now, true), false},
		{"of two, that was a while ago", two(now.Add(-time.Hour), false), false},
		{"of two, the keeper does not answer", silent, false},
		{"of three, its etcd is down", three(ownOf(no, no)), true},
		{"of three, its etcd waits for a leader", three(ownOf(yes, no)), true},
		{"of three, its etcd waits, and another one serves", three(ownOf(yes, no), "cp-2"), false},
		{"of three, its etcd does not answer", three(ownOf(unknown, unknown)), false},
	} {
		c.spare.now = func() time.Time { return now }
		if carries, why := c.spare.mayBoot(t.Context()); state.Is(carries, true) {
			t.Errorf("%s: the others carry on: %s", c.sentence, why)
		}
		if got := c.spare.idle(t.Context()); got != c.want {
			t.Errorf("%s: %t", c.sentence, got)
		}
	}
}

// TestAHostAsksItsKeeperWhetherEtcdHasToLeaveInAMaintenance: what is old or unknown is no yes.
func TestAHostAsksItsKeeperWhetherEtcdHasToLeaveInAMaintenance(t *testing.T) {
	now := time.Date(2026, 11, 23, 3, 0, 0, 0, time.UTC)
	r := state.EtcdReport{Wish: state.EtcdStarted, At: now}
	r.Snapshot.Record = state.Known(state.EtcdRecord{State: state.EtcdPair})
	r.Snapshot.Local.Running, r.Snapshot.Local.Leader = state.Known(true), state.Known(state.MemberID(2))
	r.Snapshot.Pacemaker.Contact = state.Known(true)
	r.Snapshot.Third.Word = state.Known(state.EtcdThirdWord{})
	r.Snapshot.Statement = state.Known(state.EtcdStatement{Record: state.EtcdRecord{State: state.EtcdPair}, Running: state.Known(true)})
	maintained := pair(now, metav1.ConditionTrue)()
	etcdOfOwn := &(*maintained.Status.Nodes)[0].Resources[0]
	etcdOfOwn.Conditions = append(etcdOfOwn.Conditions, metav1.Condition{Type: etcdv1.ResourceInServiceConditionType, Status: metav1.ConditionFalse})
	for name, c := range map[string]struct {
		pacemaker    pacemakerstatus.Report
		looked, seen time.Duration
		err          error
		want         state.Fact[bool]
		asks         bool
	}{
		"in maintenance":             {maintained, 0, 0, nil, state.Known(true), true},
		"Pacemaker stops etcd":       {pair(now, metav1.ConditionTrue)(), 0, 0, errors.New("no answer"), state.Known(false), false},
		"the keeper looked long ago": {maintained, time.Hour, 0, nil, state.Fact[bool]{}, true},
		"the agent looked long ago":  {maintained, 0, time.Hour, nil, state.Fact[bool]{}, false},
		"the keeper does not answer": {maintained, 0, 0, errors.New("no answer"), state.Fact[bool]{}, true},
		"Pacemaker was never read":   {pacemakerstatus.Report{}, 0, 0, nil, state.Fact[bool]{}, false},
	} {
		s := spare{controlPlanes: 2, view: viewOf("cp-1", "cp-2"), now: func() time.Time { return now }}
		s.pacemaker = func() pacemakerstatus.Report {
			p := c.pacemaker
			p.At = p.At.Add(-c.seen)
			return p
		}
		asked := false
		s.keeper = func(ctx context.Context) (state.EtcdReport, error) {
			asked = true
			if until, bounded := ctx.Deadline(); !bounded || time.Until(until) > keeperLimit {
				t.Errorf("%s: the question ends at %s", name, until)
			}
			r := r
			r.At = r.At.Add(-c.looked)
			return r, c.err
		}
		if got, why := s.mayHalt(t.Context()); got != c.want || (why == "") != state.Is(c.want, true) || asked != c.asks {
			t.Errorf("%s: %+v, %q, asks the keeper: %t", name, got, why, asked)
		}
		var tells, none machineconfig.Cluster
		s.tell(&tells)
		s.keeper = nil
		if s.tell(&none); tells.MayHalt == nil || none.MayHalt != nil {
			t.Error("a host of two is not asked, or one without an etcd keeper is")
		}
	}
}

// TestEtcdStartsAgainByTheParametersOfPacemaker.
func TestEtcdStartsAgainByTheParametersOfPacemaker(t *testing.T) {
	files, failed := records.Files{Root: t.TempDir()}, errors.New("no answer")
	var got state.EtcdParameters
	start := func(_ context.Context, p state.EtcdParameters) error { got = p; return failed }
	if err := startAgain(t.Context(), files, start); err == nil || errors.Is(err, failed) {
		t.Errorf("without parameters: %v", err)
	}
	want := state.UsualEtcdParameters()
	want.Nodes = map[string]netip.Addr{"cp-1": netip.MustParseAddr("192.0.2.1"), "cp-2": netip.MustParseAddr("192.0.2.2")}
	if err := files.WriteParameters(want); err != nil {
		t.Fatal(err)
	}
	if err := startAgain(t.Context(), files, start); !errors.Is(err, failed) || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, with %+v", err, got)
	}
}

// TestAHostThatBootsHasAnotherOneLead: it asks until another member leads, and boots without an
// answer too.
func TestAHostThatBootsHasAnotherOneLead(t *testing.T) {
	for name, c := range map[string]struct {
		fails, moves int // the first answers: errors, then looks at a member that still leads
		calls        int // 0: as many as there is time for
		takes        time.Duration
	}{
		"another one leads": {0, 0, 1, 0},
		"it leads":          {0, 1, 2, leadLook},
		"etcd is slow":      {2, 1, 4, 3 * leadLook},
		"etcd is silent":    {1 << 20, 0, 0, leadLimit},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls, began := 0, time.Now()
				s := spare{view: viewOf("cp-1", "cp-2", "cp-3"), lead: func(_ context.Context, self string, addresses map[string]string) (bool, error) {
					if self != "cp-1" || len(addresses) != 3 {
						t.Errorf("it asks %q for %s", addresses, self)
					}
					if calls++; calls <= c.fails {
						return false, errors.New("no leader")
					}
					return calls > c.fails+c.moves, nil
				}}
				s.giveLead(t.Context())
				if took := time.Since(began); c.calls > 0 && calls != c.calls || took != c.takes {
					t.Errorf("%d calls in %s, want %d in %s", calls, took, c.calls, c.takes)
				}
			})
		})
	}
	spare{view: viewOf("cp-1")}.giveLead(t.Context()) // nobody to ask
}
