package doctor

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/finding"
	"github.com/holdfast/holdfast/internal/model/state"
)

// TestEveryFactThatIsMissingIsTold loses each fact of a host and of the cluster: at
// least one check then says that it could not see it, and is not well.
func TestEveryFactThatIsMissingIsTold(t *testing.T) {
	// Others stand in for these: the API, etcd's own figures, and the peer, which has
	// the same configuration of Pacemaker. Only WillExpire reads what ends in the API.
	spare := []string{"Host.Topology", "Host.Disk", "Host.Devices", "Cluster.Ends"}
	lost := 0
	for _, of := range []reflect.Type{reflect.TypeFor[Cluster](), reflect.TypeFor[Host]()} {
		for i := range of.NumField() {
			f := wellTwo()
			at := reflect.ValueOf(&f.Cluster).Elem()
			if of == reflect.TypeFor[Host]() {
				at = reflect.ValueOf(&f.Hosts[1]).Elem()
			}
			name := of.Name() + "." + of.Field(i).Name
			if !lose(at, i, false) {
				continue
			}
			lost++
			blind := slices.ContainsFunc(Examine(f), func(r Result) bool {
				return r.Severity == finding.Unknown && len(r.Unseen) > 0 && (of != reflect.TypeFor[Host]() || strings.Contains(strings.Join(r.Unseen, " "), "cp-2"))
			})
			if blind == slices.Contains(spare, name) {
				t.Errorf("without %s a check says what it could not see: %t", name, blind)
			}
		}
	}
	if lost < 20 {
		t.Errorf("only %d facts", lost)
	}
}

// TestAHostOfWhichNothingIsKnownIsWellInNoCheck: every check that looks at hosts says
// that it has not seen this one.
func TestAHostOfWhichNothingIsKnownIsWellInNoCheck(t *testing.T) {
	f := wellTwo()
	f.Hosts[1] = Host{Name: "cp-2"}
	ofTheCluster := []finding.ID{
		"power-devices", // the peer has the same configuration of Pacemaker
		"power-metal3", "power-remediation", "machine-identity", "nodes", "versions", "network-policies", "cluster-dns", "drain-blocked", "drain-unprotected", "failover-capacity",
	}
	for _, r := range Examine(f) {
		if well := r.Severity == finding.OK; well != slices.Contains(ofTheCluster, r.ID) {
			t.Errorf("%s is %s; not seen: %v", r.ID, r.Severity, r.Unseen)
		}
		for _, x := range r.Findings {
			if x.Subject == "cp-2" && !slices.Contains(ofTheCluster, r.ID) {
				t.Errorf("%s says of a host that nobody heard: %s", r.ID, x.Problem)
			}
		}
	}
}

// TestClocksAreJudgedByWhatIsCertain plays each pair of bounds: the clocks are apart
// only if they are for all offsets within the bounds, and close only if they are for
// all of them.
func TestClocksAreJudgedByWhatIsCertain(t *testing.T) {
	var points []time.Duration
	for _, ms := range []int{-6000, -4001, -501, -500, 0, 1, 500, 501, 4000, 4501, 5001, 6000} {
		points = append(points, time.Duration(ms)*time.Millisecond)
	}
	type bounds struct{ low, high int }
	var all []bounds
	for low := range points {
		for high := low; high < len(points); high++ {
			all = append(all, bounds{low, high})
		}
	}
	seen := make(map[finding.Severity]int)
	for _, a := range all {
		for _, b := range all {
			least, most := time.Duration(1<<62), time.Duration(0)
			for _, x := range points[a.low : a.high+1] {
				for _, y := range points[b.low : b.high+1] {
					least, most = min(least, (x-y).Abs()), max(most, (x-y).Abs())
				}
			}
			want := finding.OK
			switch {
			case least > 5*time.Second:
				want = finding.Critical
			case least > 500*time.Millisecond:
				want = finding.Warning
			case most > 4*time.Second:
				want = finding.Unknown
			}
			seen[want]++
			s := sheet{id: "clock-apart"}
			s.Hosts = []Host{
				{Name: "cp-1", Offset: state.Known(Offset{Low: points[a.low], High: points[a.high]})},
				{Name: "cp-2", Offset: state.Known(Offset{Low: points[b.low], High: points[b.high]})},
			}
			judgeApart(&s)
			got := finding.Unknown
			if len(s.found) == 1 {
				got = s.found[0].Severity
			}
			if got != want || len(s.found)+len(s.unseen) != 1 {
				t.Fatalf("%v and %v: %s, want %s: %+v %q", s.Hosts[0].Offset.Value, s.Hosts[1].Offset.Value, got, want, s.found, s.unseen)
			}
		}
	}
	if len(seen) != 4 {
		t.Errorf("only %v", seen)
	}
}

// TestOfManyHostsEachPairOfClocksIsCompared: a third clock that is right hides no two
// that are apart.
func TestOfManyHostsEachPairOfClocksIsCompared(t *testing.T) {
	f := wellMany("cp-1", "cp-2", "cp-3")
	for i, ms := range []int{-300, 0, 300} {
		at := time.Duration(ms) * time.Millisecond
		f.Hosts[i].Offset = state.Known(Offset{Low: at, High: at})
	}
	r := examine(t, f, "clock-apart")
	said := map[string]finding.Severity{}
	for _, x := range r.Findings {
		said[x.Subject] = x.Severity
	}
	want := map[string]finding.Severity{"cp-1 and cp-2": finding.OK, "cp-2 and cp-3": finding.OK, "cp-1 and cp-3": finding.Warning}
	if !reflect.DeepEqual(said, want) {
		t.Errorf("%v", said)
	}
}

// TestTheOrderOfTheHostsChangesNoVerdict: facts come from several sources, in any
// order.
func TestTheOrderOfTheHostsChangesNoVerdict(t *testing.T) {
	for name, facts := range map[string]func() Facts{"well": wellTwo, "ill": ill} {
		turned := facts()
		slices.Reverse(turned.Hosts)
		slices.Reverse(turned.Cluster.Nodes.Value)
		slices.Reverse(turned.Cluster.Pods.Value)
		other := Examine(turned)
		for i, r := range Examine(facts()) {
			if o := other[i]; r.ID != o.ID || r.Severity != o.Severity || len(r.Findings) != len(o.Findings) || len(r.Unseen) != len(o.Unseen) {
				t.Errorf("%s, %s: %s with %d findings, turned %s with %d", name, r.ID, r.Severity, len(r.Findings), o.Severity, len(o.Findings))
			}
		}
	}
}
