package doctor

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/finding"
	"github.com/holdfast/holdfast/internal/decide/page"
	"github.com/holdfast/holdfast/internal/model/state"
)

func TestWhichClustersAScopeIsFor(t *testing.T) {
	for _, c := range []struct {
		t                                     Topology
		everywhere, severalCPs, several, pair bool
	}{
		{Topology{}, true, false, false, false},
		{Topology{ControlPlanes: 1}, true, false, false, false},
		{Topology{ControlPlanes: 1, Workers: 1}, true, false, true, false},
		{Topology{ControlPlanes: 2}, true, true, true, false},
		{Topology{ControlPlanes: 2, Fencing: true}, true, true, true, true},
		{Topology{ControlPlanes: 3}, true, true, true, false},
		{Topology{ControlPlanes: 3, Fencing: true}, true, true, true, false},
		{Topology{ControlPlanes: 1, Fencing: true}, true, false, false, false},
	} {
		for scope, want := range map[Scope]bool{Everywhere: c.everywhere, SeveralCPs: c.severalCPs, Several: c.several, TwoFencing: c.pair, "another": false} {
			if got := scope.applies(c.t); got != want {
				t.Errorf("%s, %+v: %t", scope, c.t, got)
			}
		}
	}
}

// TestEachCheckIsAKindOfFinding: status and alerts find it by its ID, and its page is
// its part of the table.
func TestEachCheckIsAKindOfFinding(t *testing.T) {
	kinds := Kinds()
	if len(kinds) != len(Checks()) || len(kinds) < 30 {
		t.Fatalf("%d kinds of %d checks", len(kinds), len(Checks()))
	}
	for i, c := range Checks() {
		k := kinds[i]
		if k.ID != c.ID || k.Title != c.Title || k.Page != "docs/runbook/doctor.md#"+string(c.ID) || strings.Join(k.Alerts, " ") != strings.Join(c.Alerts, " ") {
			t.Errorf("%s: %+v", c.ID, k)
		}
		if found, ok := Find(c.ID); !ok || found.Title != c.Title {
			t.Errorf("%s is found as %q", c.ID, found.Title)
		}
	}
	if _, ok := Find("none"); ok {
		t.Error("a check that there is not is found")
	}
}

func TestTheWorstOfSeveralResults(t *testing.T) {
	of := func(list ...finding.Severity) (out []Result) {
		for _, s := range list {
			out = append(out, Result{Severity: s})
		}
		return out
	}
	for _, c := range []struct {
		list []Result
		want finding.Severity
	}{
		{nil, finding.OK},
		{of(finding.OK, finding.Warning, finding.Note), finding.Warning},
		{of(finding.Critical, finding.OK), finding.Critical},
		{of(finding.OK, finding.Unknown), finding.Unknown},
	} {
		if got := Worst(c.list); got != c.want {
			t.Errorf("%v: %s", c.list, got)
		}
	}
}

// TestWhatIsSaidOfTheClockOfAHostAndItsCertificates: the latest beginning counts, and
// the time at which the host answered.
func TestWhatIsSaidOfTheClockOfAHostAndItsCertificates(t *testing.T) {
	at := func(hours int) time.Time { return now.Add(time.Duration(hours) * time.Hour) }
	cert := func(path string, begins time.Time) Certificate {
		return Certificate{Path: path, Begins: begins, Ends: at(9000)}
	}
	for rule, c := range map[string]struct {
		clock time.Time
		list  []Certificate
		want  string // empty for nothing
	}{
		"all began before":                        {at(0), []Certificate{cert("a", at(-5)), cert("b", at(-9))}, "its clock says " + minute(at(0)) + "; the last certificate is from " + minute(at(-5))},
		"one begins later, wherever it stands":    {at(-7), []Certificate{cert("a", at(-5)), cert("b", at(-9))}, "its clock says " + minute(at(-7)) + ", and a is not valid before " + minute(at(-5))},
		"so it is as the last of the list":        {at(-7), []Certificate{cert("b", at(-9)), cert("a", at(-5))}, "its clock says " + minute(at(-7)) + ", and a is not valid before " + minute(at(-5))},
		"one that begins now has begun":           {at(-5), []Certificate{cert("a", at(-5))}, "its clock says " + minute(at(-5)) + "; the last certificate is from " + minute(at(-5))},
		"no time of its answer: that of the look": {time.Time{}, []Certificate{cert("a", at(1))}, "its clock says " + minute(at(0)) + ", and a is not valid before " + minute(at(1))},
		"no certificate says when it begins":      {at(0), []Certificate{cert("a", time.Time{})}, ""},
		"there is none":                           {at(0), nil, ""},
	} {
		s := &sheet{Facts: Facts{At: now, Hosts: []Host{{Name: "cp-1", To: c.clock, Certificates: state.Known(c.list)}}}}
		judgeBehind(s)
		if len(s.found) != map[bool]int{true: 1}[c.want != ""] || c.want != "" && !strings.HasPrefix(s.found[0].Problem, c.want) {
			t.Errorf("%s: %+v", rule, s.found)
		}
	}
}

func TestWhatIsSaidOfATimeService(t *testing.T) {
	for want, c := range map[string]Clock{
		"ok synchronised":            {Synchronised: true},
		"ok synchronised by chronyd": {Synchronised: true, Service: "chronyd"},
		"warning its clock is not synchronised, and no time service is running":                            {},
		"warning its clock is not synchronised, although chronyd is running: it has no usable time source": {Service: "chronyd"},
	} {
		s := &sheet{Facts: Facts{Hosts: []Host{{Name: "cp-1", Clock: state.Known(c)}}}}
		judgeSync(s)
		if got := string(s.found[0].Severity) + " " + s.found[0].Problem; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestHowFarTwoClocksAreApartAtLeastAndAtMost: each is known to lie between two bounds.
func TestHowFarTwoClocksAreApartAtLeastAndAtMost(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		a, b Offset
		want string
	}{
		{Offset{Low: -10 * ms, High: 10 * ms}, Offset{Low: -5 * ms, High: 30 * ms}, "ok at most 40ms apart"},
		{Offset{Low: -5 * ms, High: 30 * ms}, Offset{Low: -10 * ms, High: 10 * ms}, "ok at most 40ms apart"},
		{Offset{Low: 700 * ms, High: 800 * ms}, Offset{Low: -100 * ms, High: 100 * ms}, "warning their clocks are at least 600ms apart"},
		{Offset{Low: -100 * ms, High: 100 * ms}, Offset{Low: 700 * ms, High: 800 * ms}, "warning their clocks are at least 600ms apart"},
		{Offset{Low: -800 * ms, High: -700 * ms}, Offset{Low: -100 * ms, High: 100 * ms}, "warning their clocks are at least 600ms apart"},
	} {
		s := &sheet{}
		s.compare(Host{Name: "a", Offset: state.Known(c.a)}, Host{Name: "b", Offset: state.Known(c.b)})
		if got := string(s.found[0].Severity) + " " + s.found[0].Problem; got != c.want || s.found[0].Subject != "a and b" {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// TestOfTwoOffsetsTheCloserCounts: and of two that are as close the later one.
func TestOfTwoOffsetsTheCloserCounts(t *testing.T) {
	of := func(low, high int) state.Fact[Offset] {
		return state.Known(Offset{Low: time.Duration(low), High: time.Duration(high)})
	}
	unknown := state.Fact[Offset]{Value: Offset{Low: 1, High: 1}}
	for _, c := range []struct{ a, b, want state.Fact[Offset] }{
		{of(-9, 9), of(-1, 1), of(-1, 1)},
		{of(-1, 1), of(-9, 9), of(-1, 1)},
		{of(-1, 1), of(5, 7), of(5, 7)},
		{of(100, 101), of(-5, 5), of(100, 101)},
		{unknown, of(-9, 9), of(-9, 9)},
		{of(-9, 9), unknown, of(-9, 9)},
	} {
		if got := closer(c.a, c.b); got != c.want {
			t.Errorf("%+v and %+v: %+v", c.a, c.b, got)
		}
	}
}

func TestWhoIsMissingAmongTheHosts(t *testing.T) {
	bmcs := func(names ...string) state.Fact[[]BMC] {
		var list []BMC
		for _, n := range names {
			list = append(list, BMC{Target: n})
		}
		return state.Known(list)
	}
	for want, f := range map[string]Facts{
		"a b":                     {Topology: Topology{ControlPlanes: 2}, Hosts: []Host{{Name: "a", BMCs: bmcs("b")}}},
		"a b c":                   {Topology: Topology{ControlPlanes: 2}, Hosts: []Host{{Name: "a", BMCs: bmcs("b", "b", "c")}, {Name: "b", BMCs: bmcs("a")}}},
		"a another control plane": {Topology: Topology{ControlPlanes: 3}, Hosts: []Host{{Name: "a"}}},
		"a":                       {Topology: Topology{ControlPlanes: 1}, Hosts: []Host{{Name: "a"}}},
		"":                        {},
	} {
		var names []string
		for _, h := range missing(f) {
			names = append(names, h.Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestWhichTopologyCounts: the API's where it is known, else a host's.
func TestWhichTopologyCounts(t *testing.T) {
	says := func(n int) state.Fact[Topology] { return state.Known(Topology{ControlPlanes: n}) }
	for _, c := range []struct {
		api   int
		hosts []state.Fact[Topology]
		want  int
	}{
		{3, []state.Fact[Topology]{says(2)}, 3},
		{0, []state.Fact[Topology]{says(2), says(1)}, 2},
		{0, []state.Fact[Topology]{{Value: Topology{ControlPlanes: 5}}, says(2)}, 2},
		{0, nil, 0},
	} {
		var hosts []Host
		for i, topology := range c.hosts {
			hosts = append(hosts, Host{Name: string(rune('a' + i)), Source: Asked, Topology: topology})
		}
		got := Merge(Facts{Topology: Topology{ControlPlanes: c.api}, Cluster: Cluster{Trouble: []string{"kept"}}}, hosts, now)
		if got.Topology.ControlPlanes != c.want || !got.At.Equal(now) || len(got.Cluster.Trouble) != 1 {
			t.Errorf("the API %d, hosts %v: %+v", c.api, c.hosts, got.Topology)
		}
	}
}

// TestPublishedFactsCountForTwoHours, and what says whose they are stays.
func TestPublishedFactsCountForTwoHours(t *testing.T) {
	for age, kept := range map[time.Duration]bool{tooOld: true, tooOld + 1: false} {
		h := Host{Name: "cp-1", Source: Published, To: now.Add(-age), Swap: state.Known[uint64](1), Topology: state.Known(Topology{ControlPlanes: 2})}
		got := forget(Facts{At: now, Hosts: []Host{h}}).Hosts[0]
		if got.Swap.Known != kept || got.Name != "cp-1" || !got.Topology.Known {
			t.Errorf("after %s: %+v", age, got)
		}
	}
	asked := Host{Name: "cp-1", Source: Asked, To: now.Add(-99 * time.Hour), Swap: state.Known[uint64](1)}
	if got := forget(Facts{At: now, Hosts: []Host{asked}}).Hosts[0]; !got.Swap.Known {
		t.Error("a host whose clock is wrong answered just now")
	}
}

// TestAProgramIsKnownByItsObjectOrItsImage, and not by the registry of the image.
func TestAProgramIsKnownByItsObjectOrItsImage(t *testing.T) {
	for _, programs := range [][]program{remediators, rebooters} {
		for _, p := range programs {
			for _, w := range []Workload{
				{Name: p.part + "-controller"}, {Name: "x", Images: []string{"other", "registry.example:5000/a/" + p.part + ":v1"}}, {Name: "x", Images: []string{p.part + "@sha256:abc"}},
			} {
				if got := w.is(programs); got != p.name && !strings.Contains(p.part, "update-agent") {
					t.Errorf("%s: %+v is %q, want %q", p.part, w, got, p.name)
				}
			}
			if got := (Workload{Name: "x", Images: []string{p.part + ".example/app:" + p.part, "a@" + p.part}}).is(programs); got != "" {
				t.Errorf("a registry, a tag and a digest say nothing: %q", got)
			}
		}
	}
	for image, want := range map[string]string{"a": "a", "a:v1": "a", "r.example/a": "a", "r.example:5000/b/a:v1@sha256:0": "a", "r.example:5000/a@sha256:0": "a"} {
		if got := imageName(image); got != want {
			t.Errorf("%s: %s", image, got)
		}
	}
}

// TestWhichProgramsAreKnown lists them by their images, as their projects publish them.
func TestWhichProgramsAreKnown(t *testing.T) {
	for image, want := range map[string]string{
		"self-node-remediation-operator": "SelfNodeRemediation", "poison-pill-manager": "Poison Pill", "node-healthcheck-operator": "NodeHealthCheck",
		"node-health-check": "NodeHealthCheck", "fence-agents-remediation-operator": "FenceAgentsRemediation",
		"machine-deletion-remediation-operator": "MachineDeletionRemediation", "machine-api-operator": "MachineHealthCheck",
		"kured": "kured", "system-upgrade-controller": "the system upgrade controller",
		"flatcar-linux-update-operator": "the Flatcar update operator", "update-agent": "the Flatcar update agent", "coredns": "",
	} {
		w := Workload{Name: "x", Images: []string{"registry.example/a/" + image + ":v1"}}
		if got := w.is(append(append([]program{}, remediators...), rebooters...)); got != want {
			t.Errorf("%s: %q", image, got)
		}
	}
}

// TestWhatRebootsALoneHostIsANote: every reboot stops it, with or without that program.
func TestWhatRebootsALoneHostIsANote(t *testing.T) {
	for n, want := range map[int]finding.Severity{1: finding.Note, 2: finding.Warning, 3: finding.Warning} {
		s := &sheet{Facts: Facts{Topology: Topology{ControlPlanes: n}, Cluster: Cluster{Workloads: state.Known([]Workload{{Name: "kured", Replicas: 1}, {Name: "kured", Replicas: 0}})}}}
		if judgeReboots(s); len(s.found) != 1 || s.found[0].Severity != want {
			t.Errorf("%d control planes: %+v", n, s.found)
		}
	}
}

// TestWhichControlPlanesARuleSelects: by a name that is the node's, else by its labels;
// a name that the API does not list may be a host's.
func TestWhichControlPlanesARuleSelects(t *testing.T) {
	all := node("cp-1")
	all.Labels = map[string]string{"role": "cp"}
	worker := Node{Name: "w-1", Labels: map[string]string{"role": "cp"}}
	s := &sheet{Facts: Facts{Hosts: []Host{{Name: "cp-9"}}, Cluster: Cluster{Nodes: state.Known([]Node{all, worker})}}}
	byRole, other := selector("x"), selector("x")
	byRole.MatchLabels, other.MatchLabels = map[string]string{"role": "cp"}, map[string]string{"role": "other"}
	for what, c := range map[string]struct {
		r    RemediationRule
		want string
	}{
		"its name":                          {RemediationRule{Node: "cp-1"}, "cp-1"},
		"its labels":                        {RemediationRule{Selector: byRole}, "cp-1"},
		"other labels":                      {RemediationRule{Selector: other}, ""},
		"no selector":                       {RemediationRule{}, ""},
		"the name of a worker":              {RemediationRule{Node: "w-1"}, ""},
		"a name, whatever it selects":       {RemediationRule{Node: "w-1", Selector: byRole}, ""},
		"the name of a host without a node": {RemediationRule{Node: "cp-9"}, "cp-9"},
		"a name of nobody":                  {RemediationRule{Node: "cp-8"}, ""},
	} {
		if got := strings.Join(s.chosen(c.r), " "); got != c.want {
			t.Errorf("%s: %q", what, got)
		}
	}
}

func TestAForeignDeviceIsToldOnceThoughBothHostsHaveIt(t *testing.T) {
	theirs, ours := Device{ID: "apc", Agent: "fence_apc"}, Device{ID: "cp-1_redfish", Ours: true}
	s := &sheet{Facts: Facts{Hosts: []Host{{Devices: state.Known([]Device{ours, theirs})}, {Devices: state.Known([]Device{theirs, ours})}, {}}}}
	if judgeDevices(s); len(s.found) != 1 || s.found[0].Subject != "apc" || len(s.unseen) != 0 {
		t.Errorf("%+v, %v", s.found, s.unseen)
	}
	s = &sheet{Facts: Facts{Hosts: []Host{{}, {Devices: state.Fact[[]Device]{Value: []Device{theirs}}}}}}
	if judgeDevices(s); len(s.found) != 0 || len(s.unseen) != 1 {
		t.Errorf("no host says it: %+v, %v", s.found, s.unseen)
	}
}

// TestWhatIsSaidOfCorosyncsLinks: two that end in one cable are one.
func TestWhatIsSaidOfCorosyncsLinks(t *testing.T) {
	ring := func(nic string, bond int) Ring { return Ring{Interface: nic, Address: "10.0.0.1", Bond: bond} }
	for want, list := range map[string][]Ring{
		"warning Corosync's configuration has no address of this host":    nil,
		"warning Corosync has only one link, over eth0 (10.0.0.1)":        {ring("eth0", 0)},
		"warning Corosync has only one link, at 10.0.0.1":                 {ring("", 0)},
		"warning Corosync has only one link, over bond1 (10.0.0.1)":       {ring("bond1", 1)},
		"note Corosync has one link, over a bond of 2 interfaces (bond0)": {ring("bond0", 2)},
		"warning all 2 links of Corosync go over eth0":                    {ring("eth0", 0), ring("eth0", 0)},
		"warning all 2 links of Corosync go over bond1":                   {ring("bond1", 1), ring("bond1", 1)},
		"ok 2 links": {ring("eth0", 0), ring("eth1", 0)},
		"ok 3 links": {ring("", 0), ring("", 0), ring("", 0)},
		"ok 4 links": {ring("bond0", 2), ring("bond0", 2), ring("bond0", 2), ring("bond0", 2)},
	} {
		s := &sheet{Facts: Facts{Hosts: []Host{{Name: "cp-1", Rings: state.Known(list)}}}}
		judgeLinks(s)
		if got := string(s.found[0].Severity) + " " + s.found[0].Problem; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestHowManyPodsOfAHostCouldRunElsewhere: one that must be alone needs a host without
// one of its kind.
func TestHowManyPodsOfAHostCouldRunElsewhere(t *testing.T) {
	open, closed := Node{Name: "b"}, Node{Name: "c", Closed: true}
	here := Node{Name: "a"}
	free, alone, stays := Pod{Node: "a"}, Pod{Node: "a", Alone: true}, Pod{Node: "a", Stays: "its disk"}
	for what, c := range map[string]struct {
		pods  []Pod
		nodes []Node
		want  int
	}{
		"any that is not bound":                   {[]Pod{free, free}, []Node{here, open}, 2},
		"none that stays":                         {[]Pod{free, stays}, []Node{here, open}, 1},
		"one that is alone, to a host without":    {[]Pod{alone}, []Node{here, open}, 1},
		"of two that are alone, one to one host":  {[]Pod{alone, alone}, []Node{here, open}, 1},
		"each to its own":                         {[]Pod{alone, alone}, []Node{here, open, {Name: "d"}}, 2},
		"not to a host that takes none":           {[]Pod{alone}, []Node{here, closed}, 0},
		"not to its own":                          {[]Pod{alone}, []Node{here}, 0},
		"not to one where such a pod runs":        {[]Pod{alone, {Node: "b", Alone: true}}, []Node{here, open}, 0},
		"one that stays takes no place of others": {[]Pod{stays, alone}, []Node{here, open}, 1},
	} {
		if got := movable(on(c.pods, "a"), c.pods, here, c.nodes); got != c.want {
			t.Errorf("%s: %d", what, got)
		}
	}
}

// TestWhenTheOthersCarryWhatALostHostRan: what stays there needs no place, and nine
// tenths of what there is are the limit.
func TestWhenTheOthersCarryWhatALostHostRan(t *testing.T) {
	pod := func(node string, n int64, change func(*Pod)) Pod {
		p := Pod{Node: node, Requests: Amount{CPU: n}}
		if change != nil {
			change(&p)
		}
		return p
	}
	other := []Node{{Name: "a", Allocatable: Amount{CPU: 9000}}, {Name: "b", Allocatable: Amount{CPU: 1000}}}
	for what, c := range map[string]struct {
		pods  []Pod
		nodes []Node
		want  string
	}{
		"nine tenths fit":                       {[]Pod{pod("a", 500, nil), pod("b", 400, nil)}, other, "ok"},
		"more barely does":                      {[]Pod{pod("a", 501, nil), pod("b", 400, nil)}, other, "note"},
		"all there is barely fits":              {[]Pod{pod("a", 600, nil), pod("b", 400, nil)}, other, "note"},
		"more does not":                         {[]Pod{pod("a", 601, nil), pod("b", 400, nil)}, other, "warning"},
		"where nothing moves, nothing is wrong": {[]Pod{pod("b", 5000, nil)}, other, "ok"},
		"what belongs to the lost host goes":    {[]Pod{pod("a", 900, func(p *Pod) { p.Fixed = true }), pod("b", 400, nil)}, other, "ok"},
		"what cannot leave it goes too":         {[]Pod{pod("a", 900, func(p *Pod) { p.Stays = "its disk" }), pod("b", 400, nil)}, other, "ok"},
		"a host that takes none gives nothing":  {[]Pod{pod("a", 600, nil)}, []Node{other[0], {Name: "b", Closed: true, Allocatable: Amount{CPU: 1000}}}, "warning"},
		"and what it runs needs no place":       {[]Pod{pod("a", 600, nil), pod("c", 900, nil)}, append([]Node{{Name: "c", Closed: true, Allocatable: Amount{CPU: 9000}}}, other...), "ok"},
	} {
		s := &sheet{}
		s.capacity("processor", c.nodes[len(c.nodes)-2], c.nodes, c.pods, func(a Amount) int64 { return a.CPU }, func(v int64) string { return sprintf("%d", v) })
		if got := string(s.found[0].Severity); got != c.want {
			t.Errorf("%s: %s: %s", what, got, s.found[0].Problem)
		}
	}
}

func TestWhatTheTextSaysOfAClusterAndOfItsChecks(t *testing.T) {
	for want, topology := range map[string]Topology{
		"1 control plane": {ControlPlanes: 1}, "2 control planes with fencing": {ControlPlanes: 2, Fencing: true},
		"3 control planes, 2 other hosts": {ControlPlanes: 3, Workers: 2},
	} {
		if got := topology.words(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := counts([]Result{{Severity: finding.OK}}); got != "1 check, 1 ok" {
		t.Error(got)
	}
	if got := counts([]Result{{Severity: finding.OK}, {Severity: finding.Note}, {Severity: finding.Critical}, {Severity: finding.Note}}); got != "4 checks, 1 critical, 2 note, 1 ok" {
		t.Error(got)
	}
}

func TestAnExplanationHasTheMeaningAndEachCommandOfItsCheck(t *testing.T) {
	long := strings.Repeat("a word ", 40)
	c := Check{ID: "x", Title: "all is well", For: Several, Meaning: strings.TrimSpace(long), Lines: []string{"one", "two"}}
	narrow, wide := c.Explanation(page.Style{}), c.Explanation(page.Style{Wide: true})
	for _, text := range []string{narrow, wide} {
		if !strings.HasPrefix(text, "x: all is well\nfor two and more hosts\n\n  a word") || !strings.HasSuffix(text, "a word\n\n  $ one\n  $ two\n") {
			t.Errorf("%q", text)
		}
	}
	if strings.Count(wide, "\n") >= strings.Count(narrow, "\n") {
		t.Error("a wide text is wrapped like a narrow one")
	}
	c.Lines = nil
	if text := c.Explanation(page.Style{}); !strings.HasSuffix(text, "a word\n") || strings.HasSuffix(text, "\n\n") {
		t.Errorf("without commands: %q", text)
	}
}
