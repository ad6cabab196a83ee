package narrow

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/etcd"
	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/replacement"
	"github.com/holdfast/holdfast/internal/decide/narrow"
	"github.com/holdfast/holdfast/internal/decide/replace"
	"github.com/holdfast/holdfast/internal/decide/rollout"
	"github.com/holdfast/holdfast/internal/fence"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/manifests"
	"github.com/holdfast/holdfast/internal/testkit/powercut"
)

func TestTheFactsOfOneOfThreeOpenEveryGate(t *testing.T) {
	l := newLab(t)
	shut := func() (out []string) {
		f := l.look(t.Context(), Job{Wish: &wish})
		for _, g := range replace.Closed(narrow.Gates(f, wish)) {
			if g.ID != "release" { // this host has none
				out = append(out, g.ID+": "+g.Words)
			}
		}
		return out
	}
	if got := shut(); len(got) > 0 {
		t.Fatalf("%q", got)
	}
	if f := l.look(t.Context(), Job{Wish: &wish}); f.Peer != "cp-2" || f.Now != noon {
		t.Errorf("%+v", f)
	}
	for gate, change := range map[string]func(l *lab){
		"old":     func(l *lab) { delete(l.api.nodes, "cp-3") },
		"work":    func(l *lab) { l.api.Infra.Readdress = `{"id":"m1","by":"ada"}` },
		"hands":   func(l *lab) { l.put(state.FencingDir+"/cp-2.json", "{}") },
		"serve":   func(l *lab) { delete(l.others, "cp-3") },
		"fencing": func(l *lab) { l.tests["cp-2"] = fence.Report{Identity: fence.IdentityUnknown} },
		"volumes": func(l *lab) { l.api.volumes = []string{"pvc-1"} },
		"target":  func(l *lab) { l.Possible = func(*site.Site) error { return errors.New("no way") } },
		"members": func(l *lab) { l.ring.Now.Members[1].Learner, l.ring.Now.Members[1].Name = true, "cp-2" },
	} {
		l = newLab(t)
		change(l)
		if got := shut(); !slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, gate+":") }) {
			t.Errorf("%s: %q", gate, got)
		}
	}
}

// TestNoPlanBeginsWhileAControlPlaneBoots: the host that goes counts, too, unless it is emptied for good or
// will not come back.
func TestNoPlanBeginsWhileAControlPlaneBoots(t *testing.T) {
	turn := map[string]string{rollout.StateOf: string(rollout.Working)}
	for _, c := range []struct {
		host    string
		emptied bool
		gone    bool
		held    bool
	}{
		{host: "cp-2", held: true}, {host: "cp-3", held: true}, {host: "cp-3", emptied: true}, {host: "cp-3", gone: true}, {host: "cp-2", gone: true, held: true},
	} {
		l, w := newLab(t), wish
		l.api.All = []state.Node{{Name: c.host, Labels: map[string]string{state.LabelControlPlane: ""}, Annotations: turn}}
		if c.emptied {
			n := l.api.nodes["cp-3"]
			n.Leaves = true
			l.api.nodes["cp-3"] = n
		}
		w.Accepts.Gone = c.gone
		f := l.look(t.Context(), Job{Wish: &w})
		if want := map[bool]string{true: c.host + " is at work on its configuration"}[c.held]; !state.Is(f.Work, want) {
			t.Errorf("%+v: %+v", c, f.Work)
		}
	}
}

func TestWhatCannotBeFoundOutIsUnknown(t *testing.T) {
	l := newLab(t)
	l.api.Fails, l.ring.Fails = errors.New("no route"), errors.New("no answer")
	l.boot = func() (string, error) { return "", errors.New("no boot") }
	l.put(state.EtcdRecordPath, "{")
	l.put(replacement.NarrowTracePath, "{")
	f := l.look(t.Context(), l.job(narrow.Pairing))
	for name, known := range map[string]bool{
		"record": f.Record.Known, "asked": f.Asked.Known, "voters": f.Voters.Known, "listed": f.Listed.Known, "serves": f.Serves.Known, "the peer": f.PeerHere.Known, "lock": f.Lock.Known,
		"told": f.Told.Known, "work": f.Work.Known, "moves": f.Moves.Known, "node": f.Node.Known, "ring": f.Ring.Known, "set-up": f.SetUp.Known, "maintenance": f.Maintained.Known, "contact": f.Contact.Known,
		"prepared": f.Prepared.Known, "dressed": f.Dressed.Known, "plain": f.Plain.Known, "paired": f.Paired.Known,
	} {
		if known {
			t.Errorf("%s is taken for known", name)
		}
	}
}

// TestTheOtherHostGetsTheAccountsWithThePlanAndLosesThemWithIt: on its disk they lie in a site.json of its
// own identity, and the lock holds no secret.
func TestTheOtherHostGetsTheAccountsWithThePlanAndLosesThemWithIt(t *testing.T) {
	l := newLab(t)
	job := l.job(narrow.Planned)
	l.do(narrow.CopyPlan, job)
	if len(l.api.Secrets) > 0 || l.api.marks["cp-1 "+Annotation] != "p1" {
		t.Errorf("%v, %v", l.api.Secrets, l.api.marks)
	}
	job.Plan.Stage = narrow.Preparing
	l.do(narrow.CopyPlan, job)
	text := string(l.api.Secrets[replace.LockNamespace+"/"+targetSecret][targetKey])
	if !strings.Contains(text, "hush-2") || strings.Contains(text, "PRIVATE KEY") || strings.Contains(l.api.Maps[replace.LockNamespace+"/"+replace.LockName][replace.LockCopy], "hush") {
		t.Errorf("the Secret has %d bytes: %s", len(text), text)
	}
	peer := newLab(t)
	peer.Host, peer.api = "cp-2", l.api
	// A plan that was shown on this host, and cut off, left its own accounts.
	old, err := peer.store.NarrowTarget()
	if err != nil {
		t.Fatal(err)
	}
	old.Plan, old.Devices[1].UUID = "p0", "of another machine"
	peer.put(state.FencingDir+"/cp-1.json", "{}")
	if err := errors.Join(peer.store.PutNarrowTarget(*old), peer.store.PutNarrowTrace(replacement.NarrowTrace{Began: true, Equipped: true})); err != nil {
		t.Fatal(err)
	}
	if f := peer.look(t.Context(), job); is(f.Prepared) {
		t.Error("it is prepared for another plan")
	}
	peer.do(narrow.Prepare, job)
	got, err := peer.store.NarrowTarget()
	if err != nil || got.Site.Topology().ControlPlanes != 2 || got.Site.Identity.ClusterID == "" || len(got.Devices) != 2 || got.Devices[1].UUID != "of cp-2" {
		t.Errorf("%+v, %v", got, err)
	}
	if f := peer.look(t.Context(), job); !is(f.Prepared) || !is(f.Tested) || !is(f.Paired) || f.Peer != "cp-1" {
		t.Errorf("%+v", f)
	}
	if _, err := os.Stat(peer.path(state.FencingDir + "/cp-2.json")); err == nil {
		t.Error("a host has the device that switches itself off")
	}
	peer.do(narrow.Tell, job)
	if f := l.look(t.Context(), job); !f.Told.Value.Prepared || !f.Told.Value.Tested || f.Lock.Value.Plan.Old != gone {
		t.Errorf("%+v, %+v", f.Told, f.Lock)
	}
	l.do(narrow.DropLock, job)
	if len(l.api.Secrets) > 0 || len(l.api.Maps) > 0 || len(l.api.marks) > 0 {
		t.Errorf("%v, %v, %v", l.api.Secrets, l.api.Maps, l.api.marks)
	}
}

// TestTheAccountsOfAPlanGoThoughSomebodyDeletedItsLock, and those of another plan stay.
func TestTheAccountsOfAPlanGoThoughSomebodyDeletedItsLock(t *testing.T) {
	l := newLab(t)
	secret := replace.LockNamespace + "/" + targetSecret
	l.do(narrow.CopyPlan, l.job(narrow.Preparing))
	if f := l.look(t.Context(), l.job(narrow.Preparing)); f.Left.Known {
		t.Error("nobody asks before the plan is over")
	}
	over := l.job(narrow.Aborted)
	delete(l.api.Maps, replace.LockNamespace+"/"+replace.LockName)
	if f := l.look(t.Context(), over); !is(f.Left) {
		t.Errorf("%+v", f.Left)
	}
	another := l.job(narrow.Aborted)
	another.Plan.ID = "p9"
	l.do(narrow.DropLock, another)
	if f := l.look(t.Context(), another); is(f.Left) || !f.Left.Known || l.api.Secrets[secret] == nil {
		t.Errorf("the accounts of another plan: %+v", f.Left)
	}
	l.do(narrow.DropLock, over)
	if f := l.look(t.Context(), over); is(f.Left) || !f.Left.Known || len(l.api.Secrets) > 0 || l.api.marks["cp-1 "+Annotation] != "" {
		t.Errorf("%+v, %v, %v", f.Left, l.api.Secrets, l.api.marks)
	}
}

// TestAHostThatIsCutWhileItIsPreparedIsKnownToHaveSomethingOfTwo, so that the way back takes it away.
func TestAHostThatIsCutWhileItIsPreparedIsKnownToHaveSomethingOfTwo(t *testing.T) {
	l := newLab(t)
	job := l.job(narrow.Preparing)
	l.fails["equip"] = powercut.Err
	if err := l.prepare(t.Context(), job); !errors.Is(err, powercut.Err) {
		t.Fatal(err)
	}
	if f := l.look(t.Context(), job); is(f.Prepared) || !is(f.Paired) {
		t.Errorf("%+v, %+v", f.Prepared, f.Paired)
	}
	job.Plan.Stage = narrow.TakingBack
	l.put("/etc/systemd/system/podman-etcd.service", "[Unit]\n") // as equip left it
	l.fails["strip"] = powercut.Err
	if err := l.endPair(t.Context(), job); !errors.Is(err, powercut.Err) {
		t.Fatal(err)
	}
	if f := l.look(t.Context(), job); !is(f.Paired) {
		t.Error("the way back is taken for done")
	}
	// The keeper's unit goes with the files: without it the keeper cannot be ended once more.
	const ends = "systemctl disable --now --quiet podman-etcd.service"
	if err := host.RemoveFile(l.path("/etc/systemd/system/podman-etcd.service")); err != nil || !slices.Contains(l.commands, ends) {
		t.Errorf("%v, %q", err, l.commands)
	}
	delete(l.fails, "strip")
	l.commands = nil
	l.do(narrow.EndPair, job)
	if slices.Contains(l.commands, ends) {
		t.Error("a unit that is gone is ended")
	}
	if f := l.look(t.Context(), job); !state.Is(f.Paired, false) || !is(f.Plain) {
		t.Errorf("%+v, %+v", f.Paired, f.Plain)
	}
}

// TestOnlyTheCarrierChangesTheClusterAndThatItBeganIsWrittenFirst: else a plan that is taken back after a
// cut would leave the cluster that of two.
func TestOnlyTheCarrierChangesTheClusterAndThatItBeganIsWrittenFirst(t *testing.T) {
	l := newLab(t)
	job := l.job(narrow.Dressing)
	l.fails["dress"] = powercut.Err
	if err := l.dress(t.Context(), job); !errors.Is(err, powercut.Err) {
		t.Fatal(err)
	}
	if f := l.look(t.Context(), job); is(f.Plain) || is(f.Dressed) || slices.Contains(l.did, "restart") {
		t.Errorf("%+v, %q", f.Plain, l.did)
	}
	delete(l.fails, "dress")
	first := string(l.api.Secrets[manifests.NamespaceEtcd+"/"+tokenSecret][tokenKey])
	l.token = func() string { return "another-one" }
	l.do(narrow.Dress, job)
	if again := string(l.api.Secrets[manifests.NamespaceEtcd+"/"+tokenSecret][tokenKey]); again != first || first == "" {
		t.Errorf("the secret of the hosts' trust is made twice: %q, %q", first, again)
	}
	l.ControlPlanes = 2 // the agent begins anew
	if f := l.look(t.Context(), job); !is(f.Dressed) || is(f.Plain) {
		t.Errorf("%+v, %+v", f.Dressed, f.Plain)
	}
	l.ControlPlanes = 3
	l.fails["undress"] = powercut.Err
	if err := l.undress(t.Context(), job); !errors.Is(err, powercut.Err) {
		t.Fatal(err)
	}
	if f := l.look(t.Context(), job); is(f.Plain) {
		t.Error("the cluster is taken for that of three")
	}
	delete(l.fails, "undress")
	l.do(narrow.Undress, job)
	if f := l.look(t.Context(), job); !is(f.Plain) {
		t.Errorf("%+v", f.Plain)
	}
	peer := newLab(t)
	peer.Host = "cp-2"
	peer.do(narrow.Dress, job)
	if len(peer.api.Secrets) > 0 {
		t.Errorf("the other host changes the cluster: %v", peer.api.Secrets)
	}
}

func TestBothHostsEnterTheRingByTheSameSecretAndTheKeeperIsAskedInThisBoot(t *testing.T) {
	l := newLab(t)
	job := l.job(narrow.Pairing)
	if err := l.enterRing(t.Context(), job); err == nil || !strings.Contains(err.Error(), "token") {
		t.Errorf("without a secret: %v", err)
	}
	l.do(narrow.PutWord, job)
	if f := l.look(t.Context(), job); f.Word.Value != job.Plan.Word() || !f.Word.Value.Leaves || !state.Is(f.Ring, false) || f.SetUp.Known {
		t.Errorf("%+v, %+v", f.Word, f.Ring)
	}
	l.corosync()
	l.api.Fails = errors.New("no route") // the nodes are Corosync's by now
	f := l.look(t.Context(), job)
	if !is(f.Ring) || !is(f.Contact) || !state.Is(f.SetUp, false) || !state.Is(f.Maintained, false) || !is(f.PeerHere) || !is(f.ThirdHere) || !state.Is(f.Asked, false) {
		t.Errorf("%+v", f)
	}
	l.cib = `<cib><configuration><crm_config><cluster_property_set id="x"><nvpair id="y" name="maintenance-mode" value="true"/></cluster_property_set></crm_config></configuration></cib>`
	if f := l.look(t.Context(), job); !is(f.Maintained) || !state.Is(f.SetUp, false) {
		t.Errorf("%+v, %+v", f.Maintained, f.SetUp)
	}
	l.do(narrow.AskStart, job)
	if l.started == nil || l.started.Nodes["cp-2"].String() != "192.0.2.12" {
		t.Errorf("%+v", l.started)
	}
	l.put(state.EtcdWishPath, `{"wish":"started","boot":"boot-1"}`)
	if f := l.look(t.Context(), job); !state.Is(f.Asked, false) {
		t.Errorf("asked by a plan that was taken back in this boot: %+v", f.Asked)
	}
	l.put(state.EtcdParametersPath, `{"nodes":{"cp-1":"192.0.2.11","cp-2":"192.0.2.12"}}`)
	if f := l.look(t.Context(), job); !is(f.Asked) {
		t.Errorf("%+v", f.Asked)
	}
	l.boot = func() (string, error) { return "boot-2", nil }
	if f := l.look(t.Context(), job); !state.Is(f.Asked, false) {
		t.Error("asked in the boot before")
	}
	l.do(narrow.Maintain, job)
	if !slices.Contains(l.commands, "pcs property set maintenance-mode=true") {
		t.Errorf("%q", l.commands)
	}
	l.do(narrow.DropWord, job)
	l.do(narrow.Manage, job)
	if f := l.look(t.Context(), job); f.Word.Value != (state.EtcdThirdWord{}) || !slices.Contains(l.commands, "pcs property set maintenance-mode=false") {
		t.Errorf("%+v, %q", f.Word, l.commands)
	}
}

func TestEtcdLeavesKubeletOnlyWhileTheTwoOthersServeInThatMoment(t *testing.T) {
	const pod = "/etc/kubernetes/manifests/etcd.yaml"
	for sentence, c := range map[string]struct {
		change func(l *lab, job Job)
		taken  bool
	}{
		"both serve":                      {func(*lab, Job) {}, true},
		"the peer is silent":              {func(l *lab, _ Job) { delete(l.others, "cp-2") }, false},
		"the peer knows no leader":        {func(l *lab, _ Job) { l.others["cp-2"] = etcd.MemberStatus{Serves: true} }, false},
		"the one that goes is silent":     {func(l *lab, _ Job) { delete(l.others, "cp-3") }, false},
		"and somebody said that it is so": {func(l *lab, job Job) { delete(l.others, "cp-3"); job.Plan.Accepts.Gone = true }, true},
		"nobody knows where they are":     {func(l *lab, _ Job) { l.api.Fails = errors.New("no route") }, false},
	} {
		l := newLab(t)
		job := l.job(narrow.Handing)
		c.change(l, job)
		err := l.takeEtcd(t.Context(), job)
		_, there := os.Stat(l.path(pod))
		if (err == nil) != c.taken || (there != nil) != c.taken || slices.Contains(l.did, "lead of cp-1") != c.taken {
			t.Errorf("%s: %v, %v, %q", sentence, err, there, l.did)
		}
	}
}

func TestTheThirdMemberLeavesWithoutTheLeadWhileThePeerServes(t *testing.T) {
	for sentence, c := range map[string]struct {
		change func(l *lab)
		did    []string
		led    bool
	}{
		"all serve":          {func(*lab) {}, []string{"removes 7"}, true},
		"it is lost":         {func(l *lab) { delete(l.others, "cp-3") }, []string{"removes 7"}, false},
		"the peer is silent": {func(l *lab) { delete(l.others, "cp-2") }, nil, false},
	} {
		l := newLab(t)
		c.change(l)
		err := l.leave(t.Context(), l.job(narrow.Parting))
		if (err == nil) != (c.did != nil) || !slices.Equal(l.ring.Did, c.did) || slices.Contains(l.did, "lead of cp-3") != c.led {
			t.Errorf("%s: %v, %q, %q", sentence, err, l.ring.Did, l.did)
		}
	}
	l := newLab(t)
	l.do(narrow.Leave, l.job(narrow.Parting))
	if f := l.look(t.Context(), l.job(narrow.Parting)); !state.Is(f.Listed, false) || !state.Is(f.Voters, 2) {
		t.Errorf("%+v, %+v", f.Listed, f.Voters)
	}
}

func TestAHostThatGoesIsEmptiedAndForgottenAndItsNameIsClosed(t *testing.T) {
	l := newLab(t)
	job := l.job(narrow.Parting)
	l.do(narrow.AskEmpty, job)
	if l.api.marks["cp-3 holdfast.io/drain-wanted"] != "2026-11-27T12:00:00Z" {
		t.Errorf("%v", l.api.marks)
	}
	for _, c := range []struct{ leaves, empty bool }{{false, false}, {true, false}, {true, true}} {
		n := l.api.nodes["cp-3"]
		n.Leaves, n.Empty = c.leaves, c.empty
		l.api.nodes["cp-3"] = n
		if f := l.look(t.Context(), job); !state.Is(f.Leaves, c.leaves) || !state.Is(f.Empty, c.empty) || !is(f.Node) {
			t.Errorf("%+v: %+v, %+v", c, f.Leaves, f.Empty)
		}
	}
	l.do(narrow.DropOld, job)
	if want := []string{"pods of cp-3", "node cp-3 u3"}; !slices.Equal(l.api.Did, want) {
		t.Errorf("%q", l.api.Did)
	}
	if g := l.api.Graves["cp-3"]; !g.Open() || g.UID != "u3" || g.System != "m3" || g.Machine != "id3" || !g.ControlPlane {
		t.Errorf("%+v", g)
	}
	if f := l.look(t.Context(), job); !state.Is(f.Node, false) {
		t.Errorf("%+v", f.Node)
	}
	delete(l.api.Graves, "cp-3") // a Node that somebody else deleted has no tombstone
	if f := l.look(t.Context(), job); !is(f.Node) {
		t.Errorf("%+v", f.Node)
	}
}

// TestSilenceOfAHostIsUnknownAtFirst: a busy host may miss a look, and one that is off refuses nothing.
func TestSilenceOfAHostIsUnknownAtFirst(t *testing.T) {
	l := newLab(t)
	job := l.job(narrow.Forgetting)
	said := state.Fact[bool]{}
	l.serves = func(_ context.Context, address string) state.Fact[bool] {
		if address != "192.0.2.13" {
			t.Errorf("asked at %s", address)
		}
		return said
	}
	for _, c := range []struct {
		sentence string
		etcd     bool
		api      state.Fact[bool]
		after    time.Duration
		want     state.Fact[bool]
	}{
		{"etcd answers", true, state.Fact[bool]{}, 0, state.Known(true)},
		{"the API server serves", false, state.Known(true), 0, state.Known(true)},
		{"it says that it does not", false, state.Known(false), 0, state.Known(false)},
		{"etcd answers again", true, state.Known(false), 0, state.Known(true)},
		{"both are silent", false, state.Fact[bool]{}, 0, state.Fact[bool]{}},
		{"a moment later", false, state.Fact[bool]{}, 2 * time.Second, state.Fact[bool]{}},
		{"for long enough", false, state.Fact[bool]{}, quietFor, state.Known(false)},
		{"it is there again", false, state.Known(true), 0, state.Known(true)},
		{"silent again", false, state.Fact[bool]{}, time.Second, state.Fact[bool]{}},
	} {
		l.clock, said = l.clock.Add(c.after), c.api
		delete(l.others, "cp-3")
		if c.etcd {
			l.others["cp-3"] = etcd.MemberStatus{}
		}
		if f := l.look(t.Context(), job); f.Answers != c.want {
			t.Errorf("%s: %+v", c.sentence, f.Answers)
		}
	}
}

// TestBMCsAreTestedForTheRightMachines, each from this host.
func TestBMCsAreTestedForTheRightMachines(t *testing.T) {
	for sentence, c := range map[string]struct {
		report fence.Report
		want   bool
	}{
		"it is well":            {fence.Report{Identity: fence.IdentityMatches}, true},
		"named by its place":    {fence.Report{Identity: fence.IdentityNamed}, true},
		"of an unknown machine": {fence.Report{Identity: fence.IdentityUnknown}, false},
		"of another machine":    {fence.Report{Identity: fence.IdentityDiffers}, false},
		"it refuses":            {fence.Report{Identity: fence.IdentityMatches, Problems: []string{"refused"}}, false},
	} {
		for _, of := range names {
			l := newLab(t)
			l.tests[of] = c.report
			if f := l.look(t.Context(), l.job(narrow.Preparing)); !state.Is(f.Tested, c.want) {
				t.Errorf("%s: %s: %+v", of, sentence, f.Tested)
			}
		}
		// From then on each host tests the account by which it would have the other one fenced.
		for _, stage := range []narrow.Stage{narrow.Pairing, narrow.Parting} {
			l := newLab(t)
			l.tests["cp-1"] = fence.Report{Identity: fence.IdentityUnknown}
			l.put(state.FencingDir+"/cp-2.json", `{"target":"cp-2","password":"rotated"}`)
			l.test = func(_ context.Context, d state.FencingDevice) fence.Report {
				if d.Password != "rotated" {
					t.Errorf("%s: the account that was typed is tested", stage)
				}
				return c.report
			}
			if f := l.look(t.Context(), l.job(stage)); !state.Is(f.Tested, c.want) {
				t.Errorf("%s: %s: %+v", stage, sentence, f.Tested)
			}
		}
	}
	l := newLab(t)
	if f := l.look(t.Context(), l.job(narrow.Parting)); f.Tested.Known {
		t.Error("no device is in force, and it is tested")
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if got := l.tested(ctx, []state.FencingDevice{{Target: "cp-1"}, {Target: "cp-2"}}, "cp-1", "cp-2"); got.Known {
		t.Error("a test that was ended says something")
	}
}

func TestATargetIsReadAsItWasWrittenAndItsErrorsQuoteNothing(t *testing.T) {
	l := newLab(t)
	got, err := l.target()
	if err != nil {
		t.Fatal(err)
	}
	if c := got.Site.Config.ControlPlane.Fencing.Credentials; len(c) != 2 || c[0].Password.Reveal() == "" || got.Site.Config.ControlPlaneReplicas() != 2 {
		t.Errorf("%+v", c)
	}
	for _, text := range []string{`{"site":{"config":"hush"}}`, "hush", `{"site":"hush"}`} {
		l.put(replacement.NarrowTargetPath, text)
		if _, err := l.target(); err == nil || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
