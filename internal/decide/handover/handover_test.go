package handover

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/decide/twonode"
)

var now = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// two is a cluster before the first step, with both hosts whole.
func two() Snapshot {
	return Snapshot{
		Nodes: []Node{
			{Name: "cp-1", Ready: true, Etcd: MemberHealthy},
			{Name: "cp-2", Ready: true, Etcd: MemberHealthy},
		},
		Digests: Digests{
			Release: "v1", Hosts: "hosts", Fencing: "fencing",
			Manifest: map[string]string{"cp-1": "pod 1", "cp-2": "pod 2"},
		},
		Now: now,
	}
}

// with adds Jobs to a snapshot, as "STEP NODE STATE", with the keys of what the
// snapshot holds.
func with(s Snapshot, jobs ...string) Snapshot {
	s.Jobs = slices.Clone(s.Jobs)
	for _, text := range jobs {
		f := strings.Fields(text)
		for _, w := range slices.Concat(stages(s)...) {
			if string(w.Step) == f[0] && w.Node == f[1] {
				s.Jobs = slices.DeleteFunc(s.Jobs, func(j Job) bool { return j.Name == w.Name })
				s.Jobs = append(s.Jobs, Job{Name: w.Name, Key: w.Key, State: JobState(f[2]), Attempt: 1, Ended: now.Add(-time.Hour)})
			}
		}
	}
	return s
}

// upTo is a snapshot in which all Jobs before a step are done.
func upTo(step twonode.Step) Snapshot {
	s := two()
	for _, stage := range stages(s) {
		if stage[0].Step == step {
			break
		}
		for _, w := range stage {
			s = with(s, fmt.Sprintf("%s %s succeeded", w.Step, w.Node))
		}
	}
	s.Begun = slices.Index(Steps(), step) > slices.Index(Steps(), twonode.HandOver)
	s.HandedOver = s.Begun
	return s
}

// allDone is a cluster in which every step is done.
func allDone() Snapshot {
	s := with(upTo(twonode.Finish), "finish cp-1 succeeded", "finish cp-2 succeeded")
	return s
}

func change(s Snapshot, f func(*Snapshot)) Snapshot {
	f(&s)
	return s
}

// without removes a step's Jobs.
func without(s Snapshot, step twonode.Step) Snapshot {
	s.Jobs = slices.DeleteFunc(slices.Clone(s.Jobs), func(j Job) bool { return strings.HasPrefix(j.Name, "two-node-"+string(step)) })
	return s
}

// told writes a decision as a line.
func told(d Decision) string {
	var out []string
	if d.Begin {
		out = append(out, "begin")
	}
	for _, n := range d.Delete {
		out = append(out, "delete "+n)
	}
	for _, w := range d.Create {
		text := "create " + w.Name
		if w.Attempt > 1 {
			text += fmt.Sprintf(" (%d, after %q)", w.Attempt, w.Before)
		}
		out = append(out, text)
	}
	if d.Again > 0 {
		out = append(out, "again in "+d.Again.String())
	}
	if len(out) == 0 {
		return "nothing"
	}
	return strings.Join(out, ", ")
}

func condition(t *testing.T, d Decision, kind string) Condition {
	t.Helper()
	i := slices.IndexFunc(d.Conditions, func(c Condition) bool { return c.Type == kind })
	if i < 0 {
		t.Fatalf("no condition %s", kind)
	}
	return d.Conditions[i]
}

func TestWhatComesNext(t *testing.T) {
	notReady := func(s *Snapshot) {
		s.Nodes = slices.Clone(s.Nodes)
		s.Nodes[1].Ready = false
	}
	etcd := func(i int, m Member) func(*Snapshot) {
		return func(s *Snapshot) {
			s.Nodes = slices.Clone(s.Nodes)
			s.Nodes[i].Etcd = m
		}
	}
	for _, c := range []struct {
		sentence string
		s        Snapshot
		want     string
		progress string
	}{
		{
			"nothing begins before both control planes have joined",
			change(two(), func(s *Snapshot) { s.Nodes = s.Nodes[:1] }), "nothing", "waiting: 1 of 2 control planes have joined",
		},
		{
			"nothing begins before both are ready", change(two(), notReady),
			"nothing", "step 1 of 6 (auth) on cp-1 and cp-2, waiting: node cp-2 is not ready",
		},
		{
			"nothing begins before both etcd members are healthy", change(two(), etcd(1, MemberUnhealthy)),
			"nothing", "step 1 of 6 (auth) on cp-1 and cp-2, waiting: etcd on cp-2 is not a healthy voter",
		},
		{
			"an etcd of which nothing is known is not taken for healthy", change(two(), etcd(0, MemberUnknown)),
			"nothing", "step 1 of 6 (auth) on cp-1 and cp-2, waiting: it is unknown whether etcd on cp-1 is healthy",
		},
		{
			"an account that is missing is named", change(two(), func(s *Snapshot) { s.Missing = []string{"Secret x is not there"} }),
			"nothing", "waiting: Secret x is not there",
		},
		{
			"authentication runs on both hosts together", two(),
			"create two-node-auth-cp-1, create two-node-auth-cp-2", "step 1 of 6 (auth) on cp-1 and cp-2",
		},
		{
			"the order in which the nodes are listed does not matter", change(two(), func(s *Snapshot) { slices.Reverse(s.Nodes) }),
			"create two-node-auth-cp-1, create two-node-auth-cp-2", "step 1 of 6 (auth) on cp-1 and cp-2",
		},
		{
			"a Job that runs is awaited", with(two(), "auth cp-1 running", "auth cp-2 succeeded"),
			"nothing", "step 1 of 6 (auth) on cp-1",
		},
		{
			"fencing comes when both hosts are authenticated", with(two(), "auth cp-1 succeeded", "auth cp-2 succeeded"),
			"create two-node-fencing-cp-1, create two-node-fencing-cp-2", "step 2 of 6 (fencing) on cp-1 and cp-2",
		},
		{
			"the cluster manager is set up once, on the first host by name", upTo(twonode.Setup),
			"create two-node-setup", "step 4 of 6 (setup) on cp-1",
		},
		{"manifests come before anybody can be fenced", upTo(twonode.Manifest), "create two-node-manifest-cp-1", "step 3 of 6 (manifest) on cp-1"},
		{
			"the hand-over begins with the word that there is no way back", upTo(twonode.HandOver),
			"begin, create two-node-hand-over-cp-1", "step 5 of 6 (hand-over) on cp-1",
		},
		{
			"the word is not repeated", change(upTo(twonode.HandOver), func(s *Snapshot) { s.Begun = true }),
			"create two-node-hand-over-cp-1", "step 5 of 6 (hand-over) on cp-1",
		},
		{
			"the second host waits while the first is handed over",
			change(with(upTo(twonode.HandOver), "hand-over cp-1 running"), func(s *Snapshot) { s.Begun = true }),
			"nothing", "step 5 of 6 (hand-over) on cp-1",
		},
		{
			"the second host waits until the first one's etcd is healthy again",
			change(change(with(upTo(twonode.HandOver), "hand-over cp-1 succeeded"), etcd(0, MemberUnhealthy)), func(s *Snapshot) { s.Begun = true }),
			"nothing", "step 5 of 6 (hand-over) on cp-2, waiting: etcd on cp-1 is not a healthy voter",
		},
		{
			"the second host follows",
			change(with(upTo(twonode.HandOver), "hand-over cp-1 succeeded"), func(s *Snapshot) { s.Begun = true }),
			"create two-node-hand-over-cp-2", "step 5 of 6 (hand-over) on cp-2",
		},
		{
			"an interrupted hand-over is finished although its own etcd is down",
			change(change(failed(upTo(twonode.HandOver), twonode.HandOver, "cp-1", 1, time.Minute, "killed"), etcd(0, MemberUnhealthy)), func(s *Snapshot) { s.Begun = true }),
			"delete two-node-auth-cp-1, delete two-node-auth-cp-2, delete two-node-setup, again in 100ms", "step 5 of 6 (hand-over) on cp-1",
		},
		{
			"each host starts its own cluster first, where a lost one is back without it",
			change(change(failed(without(without(upTo(twonode.HandOver), twonode.Setup), twonode.Auth), twonode.HandOver, "cp-1", 1, time.Minute, "killed"), etcd(0, MemberUnhealthy)), func(s *Snapshot) { s.Begun = true }),
			"create two-node-auth-cp-1, create two-node-auth-cp-2", "step 1 of 6 (auth) on cp-1 and cp-2",
		},
		{
			"then the set-up, which waits for both",
			change(change(failed(without(upTo(twonode.HandOver), twonode.Setup), twonode.HandOver, "cp-1", 1, time.Minute, "killed"), etcd(0, MemberUnhealthy)), func(s *Snapshot) { s.Begun = true }),
			"create two-node-setup", "step 4 of 6 (setup) on cp-1",
		},
		{
			"and then the hand-over again",
			change(change(failed(upTo(twonode.HandOver), twonode.HandOver, "cp-1", 1, 2*time.Hour, "killed"), etcd(0, MemberUnhealthy)), func(s *Snapshot) { s.Begun = true }),
			`delete two-node-hand-over-cp-1, create two-node-hand-over-cp-1 (2, after "killed")`, "step 5 of 6 (hand-over) on cp-1",
		},
		{
			"a host whose member was removed before its hand-over has to vote again first",
			change(upTo(twonode.HandOver), etcd(1, MemberUnknown)),
			"nothing", "step 5 of 6 (hand-over) on cp-1, waiting: it is unknown whether etcd on cp-2 is healthy",
		},
		{
			"a hand-over does not begin while the other host's is under way",
			change(with(upTo(twonode.HandOver), "hand-over cp-2 running"), func(s *Snapshot) { s.Begun = true }),
			"nothing", "step 5 of 6 (hand-over) on cp-1, waiting: etcd on cp-2 is being handed over",
		},
		{
			"a member that was removed in the middle of the set-up does not stop the set-up",
			change(failed(upTo(twonode.Setup), twonode.Setup, "cp-1", 1, time.Minute, "lost"), etcd(0, MemberUnknown)),
			"delete two-node-auth-cp-1, delete two-node-auth-cp-2, again in 100ms", "step 4 of 6 (setup) on cp-1",
		},
		{
			"and the set-up again once both hosts have entered the cluster anew",
			failed(upTo(twonode.Setup), twonode.Setup, "cp-1", 1, 2*time.Hour, "lost"),
			`delete two-node-setup, create two-node-setup (2, after "lost")`, "step 4 of 6 (setup) on cp-1",
		},
		{"both hosts are finished together", upTo(twonode.Finish), "create two-node-finish-cp-1, create two-node-finish-cp-2", "step 6 of 6 (finish) on cp-1 and cp-2"},
		{"when all is done nothing is done", allDone(), "nothing", "all steps are done"},
		{"a host that is down later changes nothing", change(allDone(), notReady), "nothing", "all steps are done"},
		{
			"a host that is not ready stops the next step and fails nothing", change(upTo(twonode.Setup), notReady),
			"nothing", "step 4 of 6 (setup) on cp-1, waiting: node cp-2 is not ready",
		},
	} {
		d := Decide(c.s)
		if got := told(d); got != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", c.sentence, got, c.want)
		}
		if got := condition(t, d, SetupProgressing).Message; got != c.progress {
			t.Errorf("%s: progress\ngot  %s\nwant %s", c.sentence, got, c.progress)
		}
		if diff := cmp.Diff(d, Decide(c.s)); diff != "" {
			t.Errorf("%s: decided twice, differently:\n%s", c.sentence, diff)
		}
	}
}

func TestThatEitherHostMayBeLostIsNotSaidWhileOneIs(t *testing.T) {
	s := change(allDone(), func(s *Snapshot) { s.Nodes = slices.Clone(s.Nodes); s.Nodes[1].Ready = false })
	if c := condition(t, Decide(s), SetupAvailable); !c.Status || !strings.Contains(c.Message, "while PacemakerCluster says Redundant") {
		t.Errorf("%+v", c)
	}
}

// TestWhatASetUpDoesBesideAnUpgrade: nothing but a BMC's account while a host is at work,
// and nothing that the way back needs unless a host has to be made whole.
func TestWhatASetUpDoesBesideAnUpgrade(t *testing.T) {
	atWork := func(s *Snapshot) {
		s.AtWork, s.Upgrade = "waits for the upgrade: cp-1 at work", "waits for the upgrade"
	}
	open := func(s *Snapshot) { s.Upgrade = "waits for the upgrade" }
	mixed := func(s *Snapshot) {
		s.Away, s.Upgrade = "waits for the upgrade: 2 of 3 hosts run the new release", "waits for the upgrade"
	}
	newRelease := func(s *Snapshot) {
		s.Digests.Release, s.Digests.Manifest = "v2", map[string]string{"cp-1": "new", "cp-2": "new"}
	}
	unwell := func(s *Snapshot) { s.Nodes[1].Etcd = MemberUnhealthy }
	for _, c := range []struct {
		sentence       string
		changes        []func(*Snapshot)
		want, progress string
	}{
		{"no manifest while a host is at work", []func(*Snapshot){newRelease, atWork}, "nothing", "step 3 of 6 (manifest) on cp-1, waiting: waits for the upgrade: cp-1 at work"},
		{"none while the way back is open", []func(*Snapshot){newRelease, open}, "nothing", "step 3 of 6 (manifest) on cp-1, waiting: waits for the upgrade"},
		{"also if a host is at work and unwell", []func(*Snapshot){newRelease, atWork, unwell}, "nothing", "step 3 of 6 (manifest) on cp-1, waiting: waits for the upgrade: cp-1 at work"},
		{"a host is made whole while the way back is open", []func(*Snapshot){newRelease, open, func(s *Snapshot) { s.Nodes[0].Etcd = MemberUnhealthy }}, "delete two-node-manifest-cp-1, create two-node-manifest-cp-1", ""},
		{"an account is given", []func(*Snapshot){atWork, func(s *Snapshot) { s.Digests.Fencing = "new" }}, "delete two-node-fencing-cp-1, delete two-node-fencing-cp-2, create two-node-fencing-cp-1, create two-node-fencing-cp-2", ""},
		{"hosts meet while the way back is open", []func(*Snapshot){open, func(s *Snapshot) { s.Digests.Hosts = "new" }}, "delete two-node-auth-cp-1, delete two-node-auth-cp-2, create two-node-auth-cp-1, create two-node-auth-cp-2", ""},
		{"and do not while a host is at work", []func(*Snapshot){atWork, func(s *Snapshot) { s.Digests.Hosts = "new" }}, "nothing", "step 1 of 6 (auth) on cp-1 and cp-2, waiting: waits for the upgrade: cp-1 at work"},
		{"none while hosts run two releases", []func(*Snapshot){newRelease, mixed}, "nothing", "step 3 of 6 (manifest) on cp-1, waiting: waits for the upgrade: 2 of 3 hosts run the new release"},
		{"nor do hosts meet", []func(*Snapshot){mixed, func(s *Snapshot) { s.Digests.Hosts = "new" }}, "nothing", "step 1 of 6 (auth) on cp-1 and cp-2, waiting: waits for the upgrade: 2 of 3 hosts run the new release"},
		{"a machine that took the place of a lost one is made whole", []func(*Snapshot){newRelease, mixed, func(s *Snapshot) { s.Nodes[0].Etcd = MemberUnhealthy }}, "delete two-node-manifest-cp-1, create two-node-manifest-cp-1", ""},
		{"and meets the other one", []func(*Snapshot){mixed, unwell, func(s *Snapshot) { s.Digests.Hosts = "new" }}, "delete two-node-auth-cp-1, delete two-node-auth-cp-2, create two-node-auth-cp-1, create two-node-auth-cp-2", ""},
		{"what is done stays so", []func(*Snapshot){atWork}, "nothing", ""},
	} {
		s := allDone()
		for _, f := range c.changes {
			f(&s)
		}
		d := Decide(s)
		if got := told(d); got != c.want {
			t.Errorf("%s: %s, want %s", c.sentence, got, c.want)
		}
		if got := condition(t, d, SetupProgressing); c.progress != "" && got.Message != c.progress {
			t.Errorf("%s: %s, want %s", c.sentence, got.Message, c.progress)
		}
	}
}

func TestAJobOfAChangedSpecificationIsRunAgain(t *testing.T) {
	for _, c := range []struct {
		sentence string
		s        Snapshot
		want     string
	}{
		{
			"new accounts are given to both hosts, and nothing else is done",
			change(allDone(), func(s *Snapshot) { s.Digests.Fencing = "new" }),
			"delete two-node-fencing-cp-1, delete two-node-fencing-cp-2, create two-node-fencing-cp-1, create two-node-fencing-cp-2",
		},
		{
			"a new address begins with authentication",
			change(allDone(), func(s *Snapshot) { s.Digests.Hosts = "new" }),
			"delete two-node-auth-cp-1, delete two-node-auth-cp-2, create two-node-auth-cp-1, create two-node-auth-cp-2",
		},
		{
			"and comes to the cluster manager",
			with(change(allDone(), func(s *Snapshot) { s.Digests.Hosts = "new" }), "auth cp-1 succeeded", "auth cp-2 succeeded"),
			"delete two-node-setup, create two-node-setup",
		},
		{
			"a new release brings its settings",
			change(allDone(), func(s *Snapshot) { s.Digests.Release = "v2" }),
			"delete two-node-setup, create two-node-setup",
		},
		{
			"new manifests go to one host",
			change(allDone(), func(s *Snapshot) { s.Digests.Manifest = map[string]string{"cp-1": "new", "cp-2": "new"} }),
			"delete two-node-manifest-cp-1, create two-node-manifest-cp-1",
		},
		{
			"then, when its etcd is healthy, to the other",
			with(change(allDone(), func(s *Snapshot) { s.Digests.Manifest = map[string]string{"cp-1": "new", "cp-2": "new"} }), "manifest cp-1 succeeded"),
			"delete two-node-manifest-cp-2, create two-node-manifest-cp-2",
		},
		{
			"but not before it is",
			change(with(change(allDone(), func(s *Snapshot) { s.Digests.Manifest = map[string]string{"cp-1": "new", "cp-2": "new"} }), "manifest cp-1 succeeded"),
				func(s *Snapshot) { s.Nodes[0].Etcd = MemberUnhealthy }),
			"nothing",
		},
		{
			"nor before it had the time to restart",
			change(with(change(allDone(), func(s *Snapshot) { s.Digests.Manifest = map[string]string{"cp-1": "new", "cp-2": "new"} }), "manifest cp-1 succeeded"),
				func(s *Snapshot) { s.Jobs[len(s.Jobs)-1].Ended = now.Add(-29 * time.Second) }),
			"nothing",
		},
		{
			"a Job that runs ends first",
			change(with(upTo(twonode.Setup), "setup cp-1 running"), func(s *Snapshot) { s.Digests.Release = "v2" }),
			"delete two-node-setup",
		},
		{
			"and nothing is made while it ends",
			change(with(upTo(twonode.Setup), "setup cp-1 ending"), func(s *Snapshot) { s.Digests.Release = "v2" }),
			"nothing",
		},
		{
			"what failed with an old specification is tried at once with the new one",
			change(failed(upTo(twonode.Setup), twonode.Setup, "cp-1", 7, 0, "no"), func(s *Snapshot) { s.Digests.Release = "v2" }),
			"delete two-node-setup, create two-node-setup",
		},
	} {
		if got := told(Decide(c.s)); got != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", c.sentence, got, c.want)
		}
	}
}

// TestFromAnywhereItComesToItsEnd plays the cluster: every Job that is made
// succeeds, and in between the operator forgets everything.
func TestFromAnywhereItComesToItsEnd(t *testing.T) {
	for _, jobs := range [][]string{
		nil,
		{"auth cp-2 failed"},
		{"setup cp-1 succeeded"},
		{"hand-over cp-1 succeeded"},
		{"auth cp-1 succeeded", "auth cp-2 succeeded", "finish cp-1 failed", "finish cp-2 succeeded"},
	} {
		s := with(two(), jobs...)
		var order []string
		for range 30 {
			d := Decide(s)
			s.Begun = s.Begun || d.Begin
			s.Jobs = slices.DeleteFunc(slices.Clone(s.Jobs), func(j Job) bool { return slices.Contains(d.Delete, j.Name) })
			for _, w := range d.Create {
				order = append(order, string(w.Step))
				if w.Step == twonode.HandOver && !s.Begun {
					t.Fatalf("%v: handed over without a word", jobs)
				}
				s.Jobs = append(s.Jobs, Job{Name: w.Name, Key: w.Key, State: JobSucceeded, Attempt: w.Attempt, Ended: s.Now})
			}
		}
		if got := condition(t, Decide(s), SetupProgressing); got.Status {
			t.Errorf("%v: after %v: %s", jobs, order, got.Message)
		}
		at := func(a string) int {
			return slices.IndexFunc(Steps(), func(s twonode.Step) bool { return string(s) == a })
		}
		if !slices.IsSortedFunc(order, func(a, b string) int { return at(a) - at(b) }) {
			t.Errorf("%v: out of order: %v", jobs, order)
		}
	}
}

func TestConditionsOnTheWay(t *testing.T) {
	type is map[string]bool
	for _, c := range []struct {
		name string
		s    Snapshot
		want is
	}{
		{"before the first host's peer", change(two(), func(s *Snapshot) { s.Nodes = s.Nodes[:1] }), is{SetupProgressing: true}},
		{"at the beginning", two(), is{SetupProgressing: true}},
		{"with the manifests outstanding", upTo(twonode.Manifest), is{SetupProgressing: true}},
		{"when both agents wait", upTo(twonode.HandOver), is{SetupProgressing: true, ReadyForTransition: true}},
		{
			"half handed over", change(with(upTo(twonode.HandOver), "hand-over cp-1 succeeded"), func(s *Snapshot) { s.Begun = true }),
			is{SetupProgressing: true, ReadyForTransition: true},
		},
		{
			"handed over, by the Jobs alone",
			change(upTo(twonode.Finish), func(s *Snapshot) { s.HandedOver = false }),
			is{SetupProgressing: true, ReadyForTransition: true, CompletedTransition: true, SetupAvailable: true},
		},
		{"done", allDone(), is{ReadyForTransition: true, CompletedTransition: true, SetupAvailable: true}},
		{
			"when accounts change later", change(allDone(), func(s *Snapshot) { s.Digests.Fencing = "new" }),
			is{SetupProgressing: true, ReadyForTransition: true, CompletedTransition: true, SetupAvailable: true},
		},
		{
			"when all Jobs were deleted later", change(allDone(), func(s *Snapshot) { s.Jobs = nil }),
			is{SetupProgressing: true, ReadyForTransition: true, CompletedTransition: true, SetupAvailable: true},
		},
		{
			"when an account is gone later", change(allDone(), func(s *Snapshot) { s.Missing = []string{"x"} }),
			is{SetupProgressing: true, SetupDegraded: true, ReadyForTransition: true, CompletedTransition: true, SetupAvailable: true},
		},
		{
			"when something is awaited that comes by itself", change(two(), func(s *Snapshot) { s.Awaited = []string{"x"} }),
			is{SetupProgressing: true},
		},
		{
			"with a third control plane", change(allDone(), func(s *Snapshot) { s.Nodes = append(slices.Clone(s.Nodes), Node{Name: "cp-3"}) }),
			is{SetupProgressing: true, SetupDegraded: true, ReadyForTransition: true, CompletedTransition: true, SetupAvailable: true},
		},
	} {
		d := Decide(c.s)
		for _, kind := range ConditionTypes() {
			got := condition(t, d, kind)
			if got.Status != c.want[kind] || got.Reason == "" || got.Message == "" {
				t.Errorf("%s: %s is %+v", c.name, kind, got)
			}
		}
	}
}

func TestNamesFitALabelAndDiffer(t *testing.T) {
	long := strings.Repeat("control-plane.", 6)
	seen := map[string]bool{}
	for _, node := range []string{"cp-1", "cp-2", long + "a.example.com", long + "b.example.com"} {
		for _, step := range Steps() {
			if step == twonode.Setup {
				continue
			}
			name := work(step, node, "").Name
			if len(name) > 63 || seen[name] || !strings.HasPrefix(name, "two-node-"+string(step)+"-") || strings.Contains(name, ".-") {
				t.Errorf("%s on %s: %q", step, node, name)
			}
			seen[name] = true
		}
	}
}

func TestTheFirstHandOverDoesNotWaitForManifestsToSettle(t *testing.T) {
	s := with(upTo(twonode.HandOver), "hand-over cp-1 succeeded")
	s.Begun = true
	for i := range s.Jobs {
		s.Jobs[i].Ended = now
	}
	if got := told(Decide(s)); got != "create two-node-hand-over-cp-2" {
		t.Error(got)
	}
}
