package replace

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/adapter/pacemaker"
	"github.com/holdfast/holdfast/internal/adapter/redfish"
	"github.com/holdfast/holdfast/internal/adapter/replacement"
	"github.com/holdfast/holdfast/internal/agent/twonode"
	"github.com/holdfast/holdfast/internal/decide/plans"
	"github.com/holdfast/holdfast/internal/decide/replace"
	decide "github.com/holdfast/holdfast/internal/decide/twonode"
	"github.com/holdfast/holdfast/internal/fence"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/powercut"
)

// L1: the proof is asked for once more in the act itself.
func TestNothingIsTakenAwayFromAHostThatMayRun(t *testing.T) {
	for name, change := range map[string]func(*lab){
		"its BMC reads On":          func(l *lab) { l.power = "On" },
		"its BMC is silent":         func(l *lab) { l.mute = true },
		"it is in contact":          func(l *lab) { l.contact = true },
		"it answers on its network": func(l *lab) { l.answers = true },
		"its kubelet renews its Lease": func(l *lab) {
			l.watch, l.api.lease = watch{wish: "p1", host: "cp-2", seen: noon, since: noon}, noon.Add(time.Second)
		},
	} {
		l, job := newLab(t)
		change(l)
		for _, act := range []replace.Act{replace.ChangeKey, replace.DropPods, replace.DropNode, replace.LeaveRing, replace.Forget} {
			if err := l.world().Do[act](t.Context(), job); err == nil || !strings.Contains(err.Error(), "nothing proves") {
				t.Errorf("%s: %s: %v", name, act, err)
			}
		}
		if len(l.commands)+len(l.api.Did) > 0 {
			t.Errorf("%s: %v, %v", name, l.commands, l.api.Did)
		}
	}
}

func TestAHostThatIsOffIsTakenOutOfEverything(t *testing.T) {
	l, job := newLab(t)
	do := l.world().Do
	for _, act := range []replace.Act{
		replace.ChangeKey, replace.PutToken, replace.ChangeJoin, replace.PutGrave, replace.DropPods, replace.DropNode, replace.LeaveRing, replace.Forget, replace.Retire,
	} {
		for range 2 { // each may be done again
			if err := do[act](t.Context(), job); err != nil {
				t.Fatalf("%s: %v", act, err)
			}
		}
	}
	job.Plan.Reloaded = true
	f := l.look(t.Context(), job)
	f.Plan = job.Plan
	if d := replace.Decide(f); d.Rule != "newcomer.install" {
		t.Errorf("after all of it: %+v\n%+v", d, f)
	}
	key, err := os.ReadFile(l.path(twonode.CorosyncKey))
	if want := decide.CorosyncKey(decide.Input{Cluster: "site-1", Token: job.Secrets.Token}); err != nil || string(key) != string(want) {
		t.Error("the key is not the one of which the Jobs know", err)
	}
	if !slices.Contains(l.commands, pacemaker.Forget("cp-2").String()) || !slices.Contains(l.commands, pacemaker.Reload().String()) {
		t.Error(l.commands)
	}
	if grave, there := l.api.Graves["cp-2"]; !there || grave.UID != "u" || grave.Machine != "m-old" || grave.System != "old" {
		t.Errorf("%+v", l.api.Graves)
	}
	if err := l.giveName(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	if g := l.look(t.Context(), job); !state.Is(g.Given, true) || !state.Is(f.Given, false) || !state.Is(g.Tombstone, true) {
		t.Errorf("the name: %+v, then %+v", f.Given, g.Given)
	}
	delete(l.api.Graves, "cp-2") // somebody deletes it while the newcomer enters
	if err := l.giveName(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	if grave := l.api.Graves["cp-2"]; grave.Open() || grave.UID != "u" || grave.System != "old" || !grave.ControlPlane {
		t.Errorf("%+v", grave)
	}
	if r, err := l.files.Retired(); err != nil || !r.Known || r.Value.Peer != "cp-2" {
		t.Errorf("%+v, %v", r, err)
	}
}

// A controller that names the host in spec.nodeName makes a pod for it again at once, and a finalizer keeps
// one that is deleted: both are told, and neither keeps the newcomer out.
func TestPodsThatComeBackForTheNameAreToldAndKeepNoNewcomerOut(t *testing.T) {
	l, job := newLab(t)
	of := []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "till-5f", Controller: new(true)}}
	l.api.pinned = []corev1.Pod{
		{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "till-5f-abcde", GenerateName: "till-5f-", OwnerReferences: of, CreationTimestamp: metav1.NewTime(noon.Add(time.Minute))}},
		{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db-0", Finalizers: []string{"example.com/data"}, DeletionTimestamp: new(metav1.NewTime(noon)), DeletionGracePeriodSeconds: new(int64(0))}},
	}
	if f := l.look(t.Context(), job); !state.Is(f.Pods, l.api.pods+1) { // without a tombstone nobody knows which pods are later ones
		t.Errorf("before the tombstone %+v hold the plan", f.Pods)
	}
	for _, act := range []replace.Act{
		replace.CopyPlan, replace.ChangeKey, replace.PutToken, replace.ChangeJoin, replace.PutGrave, replace.DropNode, replace.DropPods, replace.LeaveRing, replace.Forget, replace.Retire,
	} {
		if err := l.world().Do[act](t.Context(), job); err != nil {
			t.Fatalf("%s: %v", act, err)
		}
	}
	job.Plan.Reloaded = true
	d := l.decides(t, job)
	if d.Rule != "newcomer.rests" || l.world().Do[d.Act](t.Context(), Job{Plan: d.Plan}) != nil {
		t.Fatalf("%+v", d)
	}
	if lock := l.api.Maps[system+"/"+lockName]; replace.StageOf(lock) != replace.Waiting || plans.Changes(lock) != "" {
		t.Errorf("hosts may not boot while a person installs the newcomer: %v", lock)
	}
	d = l.decides(t, job)
	if d.Rule != "newcomer.install" || !strings.Contains(d.Words, "pod shop/till-5f-* (of ReplicaSet till-5f)") || !strings.Contains(d.Words, "pod shop/db-0: it is deleted, and waits for example.com/data") {
		t.Errorf("%+v", d)
	}
	grave := l.api.Graves["cp-2"]
	grave.UID = "of-another-life"
	l.api.Graves["cp-2"] = grave
	if f := l.look(t.Context(), job); !state.Is(f.Pods, 1) {
		t.Errorf("by the tombstone of another life %+v hold the plan", f.Pods)
	}
}

func TestTheNewcomersRingHasBothHosts(t *testing.T) {
	l, job := newLab(t)
	if err := l.leaveRing(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	job.Plan.Newcomer = replace.Newcomer{Machine: state.Machine{UUID: "new"}, Address: "10.98.0.99"}
	if err := l.joinRing(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	conf, err := l.conf()
	if err != nil || !conf.TwoNode || len(conf.Nodes) != 2 || fmt.Sprint(conf.Nodes[1]) != "{cp-2 [10.98.0.99] 2}" {
		t.Errorf("%+v, %v", conf, err)
	}
}

// TestTheOldNameIsForgottenAgainWithoutAProof: by then the device is gone with which the old host
// could be asked.
func TestTheOldNameIsForgottenAgainWithoutAProof(t *testing.T) {
	l, job := newLab(t)
	job.Plan.Stage, job.Plan.New.Name = replace.Joining, "cp-3"
	l.contact = true // whatever it is, it is not the old host
	if err := l.world().Do[replace.ForgetAgain](t.Context(), job); err != nil || !slices.Contains(l.commands, pacemaker.Forget("cp-2").String()) {
		t.Errorf("%v, %v", l.commands, err)
	}
}

// TestANewcomerOfAnotherNameGetsAnotherNumber: what the look finds is kept in the plan, for the
// file has lost it by the time the newcomer enters.
func TestANewcomerOfAnotherNameGetsAnotherNumber(t *testing.T) {
	l, job := newLab(t)
	var f replace.Facts
	l.disk(t.Context(), &f, job)
	job.Plan.Old.Number, job.Plan.New.Name = f.Number, "cp-3"
	if err := l.leaveRing(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	job.Plan.Newcomer = replace.Newcomer{Machine: state.Machine{UUID: "new"}, Address: "10.98.0.99"}
	if err := l.joinRing(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	conf, err := l.conf()
	if err != nil || f.Number != 2 || len(conf.Nodes) != 2 || fmt.Sprint(conf.Nodes[1]) != "{cp-3 [10.98.0.99] 3}" {
		t.Errorf("number %d, %+v, %v", f.Number, conf, err)
	}
}

// L5: the other host began one, too.
func TestOfTwoThatReplaceEachOtherOneHasTheLock(t *testing.T) {
	l, job := newLab(t)
	l.api.Maps["kube-system/holdfast-replace"] = map[string]string{lockKey: "p2"}
	if err := l.copyPlan(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	f := l.look(t.Context(), job)
	f.Plan = job.Plan
	f.Plan.Stage = replace.Planned
	if d := replace.Decide(f); d.Rule != "lock.lost" || d.Plan.Stage != replace.Aborted {
		t.Errorf("%+v", d)
	}
	if err := l.dropLock(t.Context(), job); err != nil || l.api.Maps["kube-system/holdfast-replace"] == nil {
		t.Error("somebody else's lock was taken", err)
	}
}

func TestALockThatSomebodyDeletesIsWrittenAgain(t *testing.T) {
	const name = system + "/" + lockName
	l, job := newLab(t)
	delete(l.api.Maps, name)
	if d := l.decides(t, job); d.Rule != "lock.again" || d.Act != replace.CopyPlan {
		t.Fatalf("%+v", d)
	}
	if err := l.world().Do[replace.CopyPlan](t.Context(), job); err != nil || replace.InForce(l.api.Maps[name]) == "" {
		t.Errorf("%v: %q", err, l.api.Maps[name])
	}
	if d := l.decides(t, job); d.Rule != "retired.key" || plans.Changes(l.api.Maps[name]) == "" {
		t.Errorf("%+v, %v", d, l.api.Maps[name])
	}
	planned := *job.Plan
	planned.Stage = replace.Planned
	if err := l.world().Do[replace.CopyPlan](t.Context(), Job{Plan: &planned}); err != nil || plans.Changes(l.api.Maps[name]) != "" {
		t.Fatalf("%v, %v", err, l.api.Maps[name])
	}
	if d := l.decides(t, job); d.Rule != "lock.stage" {
		t.Errorf("the copy is from before: %+v", d)
	}
	if err := l.world().Do[replace.CopyPlan](t.Context(), job); err != nil || plans.Changes(l.api.Maps[name]) == "" {
		t.Errorf("%v, %v", err, l.api.Maps[name])
	}
	l.api.Maps[name] = map[string]string{lockKey: "p2"}
	if d := l.decides(t, job); d.Rule != "retired.key" {
		t.Errorf("another plan has the lock: %+v", d)
	}
}

func TestTheDeviceIsComparedWithTheMachineThatAsks(t *testing.T) {
	l, job := newLab(t)
	asks := replacement.Request{Machine: state.Machine{UUID: "new", Serial: "S9"}, Address: "10.98.0.12", At: noon}
	dev := state.FencingDevice{Target: "cp-2", Address: "https://bmc", Username: "u", Password: "p", UUID: "new", Serial: "S9"}
	if _, err := l.files.WriteDevice(dev); err != nil {
		t.Fatal(err)
	}
	store := replacement.Store{Root: l.root, Write: powercut.WriteFile}
	if err := store.PutRequest(asks); err != nil {
		t.Fatal(err)
	}
	if f := l.look(t.Context(), job); !state.Is(f.Device, true) {
		t.Errorf("the device of the machine that asks counts as another one: %+v", f.Device)
	}
	asks.Machine.UUID = "third"
	if err := store.PutRequest(asks); err != nil {
		t.Fatal(err)
	}
	if f := l.look(t.Context(), job); !state.Is(f.Device, false) {
		t.Errorf("a third machine asks: %+v", f.Device)
	}
}

func TestTheNewcomerIsNotSwitchedOffAsTheOldHost(t *testing.T) {
	l, job := newLab(t)
	dev := state.FencingDevice{Target: "cp-2", Address: "https://bmc", Username: "u", Password: "p", UUID: "new"}
	if _, err := l.files.WriteDevice(dev); err != nil {
		t.Fatal(err)
	}
	job.Plan.Newcomer, l.power = replace.Newcomer{Machine: state.Machine{UUID: "new"}}, "On"
	if err := l.switchOff(t.Context(), job); err == nil || l.power != "On" {
		t.Errorf("%v, %s", err, l.power)
	}
}

// L23: a host whose Lease is renewed is not off. The time in it is of another clock.
func TestALeaseThatChangesIsALivingKubelet(t *testing.T) {
	l, job := newLab(t)
	l.api.lease = noon.Add(-time.Hour)
	if f := l.look(t.Context(), job); f.Alive.Known {
		t.Errorf("at the first look: %+v", f.Alive)
	}
	l.clock = noon.Add(leaseTime + time.Second)
	if f := l.look(t.Context(), job); !state.Is(f.Alive, false) {
		t.Errorf("unchanged: %+v", f.Alive)
	}
	renewed := l.api.lease.Add(time.Second)
	l.api.lease = time.Time{} // it goes after its Node
	if f := l.look(t.Context(), job); !state.Is(f.Alive, false) {
		t.Errorf("deleted: %+v", f.Alive)
	}
	l.api.lease = renewed
	if f := l.look(t.Context(), job); !state.Is(f.Alive, true) {
		t.Errorf("renewed: %+v", f.Alive)
	}
}

// A dry run looks at a host that is off, which then serves for hours before it is lost for good. Its Lease
// has changed since that look, and says nothing of the moment.
func TestALeaseIsWatchedAnewForEachWish(t *testing.T) {
	l, job := newLab(t)
	dry := order
	dry.Wish.ID, dry.Wish.Old, dry.Wish.Dry = "p0", "cp-2", true
	job.Plan, job.Order = nil, &dry
	l.api.lease = noon.Add(-time.Hour)
	l.look(t.Context(), job)
	next := order
	next.Wish.ID, next.Wish.Old = "p1", "cp-2"
	job.Order = &next
	l.clock, l.api.lease = noon.Add(time.Hour), noon.Add(50*time.Minute)
	if f := l.look(t.Context(), job); f.Alive.Known {
		t.Errorf("what the Lease was at another wish shows that the host is alive: %+v", f.Alive)
	}
	l.clock = l.clock.Add(leaseTime + time.Second)
	if f := l.look(t.Context(), job); !state.Is(f.Alive, false) {
		t.Errorf("unchanged since this wish: %+v", f.Alive)
	}
}

// The plan of an earlier replacement stays on the disk. It once kept the BMC of the next new host from
// being asked, and so its gate closed.
func TestAReplacementAfterAnotherOneHasTheSameGates(t *testing.T) {
	l, job := newLab(t)
	next := order
	next.Wish.ID, next.Wish.Old = "p2", "cp-2"
	for _, stage := range []replace.Stage{replace.Whole, replace.Aborted} {
		job.Plan.Stage, job.Order = stage, &next
		f := l.look(t.Context(), job)
		if !state.Is(f.Reached, true) || !state.Is(f.Ours, false) {
			t.Errorf("after a plan that is %s the new BMC is not asked: %+v, %+v", stage, f.Reached, f.Ours)
		}
	}
	if job.Plan.Stage = replace.Retired; l.look(t.Context(), job).Reached.Known {
		t.Error("without a newcomer its BMC is asked while a plan is under way")
	}
}

// The request of the last newcomer stays until this host boots, with the device of that machine. It once
// hid the old host, which is that machine now, so that no second replacement ever began.
func TestARequestFromAnEarlierPlanDoesNotHideTheOldHost(t *testing.T) {
	for _, c := range []struct {
		sentence string
		at       time.Time
		stage    replace.Stage
		machine  state.Machine // of the plan's old host
		asks     bool
		sees     bool
	}{
		{"of the plan before, in one look after it began", noon.Add(-time.Hour), replace.Planned, state.Machine{UUID: "new"}, false, true},
		{"of the plan before, and it is retired", noon.Add(-time.Hour), replace.Retired, state.Machine{UUID: "new"}, false, true},
		{"of this plan, by the same machine", noon, replace.Planned, state.Machine{UUID: "new"}, true, true},
		{"of this plan, by another machine, whose device is here", noon, replace.Retired, state.Machine{UUID: "old", Serial: "S2"}, true, false},
	} {
		l, job := newLab(t)
		if _, err := l.files.WriteDevice(state.FencingDevice{Target: "cp-2", Address: "https://bmc", Username: "u", Password: "p", UUID: "new"}); err != nil {
			t.Fatal(err)
		}
		store := replacement.Store{Root: l.root, Write: powercut.WriteFile}
		if err := store.PutRequest(replacement.Request{Machine: state.Machine{UUID: "new"}, Address: "10.98.0.12", At: c.at}); err != nil {
			t.Fatal(err)
		}
		job.Plan.Stage, job.Plan.Old.Machine = c.stage, c.machine
		f := l.look(t.Context(), job)
		if asks := f.Asks.Machine.UUID == "new"; asks != c.asks || f.Answers.Known != c.sees || f.Power.Known != c.sees {
			t.Errorf("%s: asks %t, answers %+v, power %+v", c.sentence, asks, f.Answers, f.Power)
		}
	}
}

// A BMC that hangs, or whose network is gone, sends no refusal; and the new machine may have its address.
func TestAPersonsWordCountsForEachWayInWhichABMCIsSilent(t *testing.T) {
	for reason, silent := range map[redfish.Reason]bool{ //nolint:exhaustive // reading its power gives no other
		redfish.Unreachable: true, redfish.Timeout: true, redfish.WrongServer: true,
		redfish.Credentials: false, redfish.Certificate: false, redfish.Pin: false, redfish.TLS: false, redfish.Protocol: false, redfish.ServerError: false,
		redfish.NotFound: false, redfish.NoSystem: false, redfish.Canceled: false,
	} {
		l, job := newLab(t)
		l.here.power = func(context.Context, string) (string, error) { return "", &redfish.Error{Reason: reason} }
		l.api.lease = noon.Add(-time.Hour)
		l.look(t.Context(), job)
		l.clock = noon.Add(leaseTime + time.Second)
		f := l.look(t.Context(), job)
		f.Plan = job.Plan
		job.Plan.Accepts.Gone = "S2"
		off := func(gone string) replace.Gate {
			gates := replace.Gates(f, replace.Wish{Old: "cp-2", Accepts: replace.Accepts{Gone: gone}})
			return gates[slices.IndexFunc(gates, func(g replace.Gate) bool { return g.ID == "off" })]
		}
		if off("S2").Open != silent || replace.Gone(f) != silent || (l.proven(t.Context(), job) == nil) != silent {
			t.Errorf("%s: %+v, gone %t, %v", reason, off("S2"), replace.Gone(f), l.proven(t.Context(), job))
		}
		if way := off("").Way; (way == "--is-gone SERIAL") != silent {
			t.Errorf("%s: a person is told to type %q", reason, way)
		}
	}
}

// The end of this host's own time says nothing of a BMC.
func TestALookThatRanOutOfTimeHasNoSilentBMC(t *testing.T) {
	l, job := newLab(t)
	ctx, stop := context.WithCancel(t.Context())
	l.here.power = func(context.Context, string) (string, error) {
		stop()
		return "", &redfish.Error{Reason: redfish.Timeout}
	}
	if f := l.look(ctx, job); f.Silent {
		t.Error("a BMC that nobody had time to ask counts as silent")
	}
}

// The name that a person gave is that of the machine that asks; this host has another one.
func TestANewcomerMayBeKnownByItsSystemIDAlone(t *testing.T) {
	l, job := newLab(t)
	named := order
	named.Device.SystemID = "B2"
	job.Order = &named
	l.test = func(_ context.Context, d state.FencingDevice) fence.Report {
		if d.SystemID == "B2" {
			return fence.Report{Identity: fence.IdentityNamed}
		}
		return fence.Report{Identity: fence.IdentityDiffers, Problems: []string{"it reports nothing that can be compared"}}
	}
	if err := (replacement.Store{Root: l.root, Write: powercut.WriteFile}).PutRequest(replacement.Request{Machine: state.Machine{UUID: "new"}, Address: "10.98.0.12", At: noon}); err != nil {
		t.Fatal(err)
	}
	if f := l.look(t.Context(), job); !state.Is(f.Reached, true) || !state.Is(f.Ours, false) || !state.Is(f.Matches, true) {
		t.Errorf("reached %+v, ours %+v, matches %+v", f.Reached, f.Ours, f.Matches)
	}
}

// The next plan has to see whether that machine is off, and neither a Node nor Corosync names its address.
func TestANewcomerThatWasLostBeforeItWasListedIsKnownByTheLastPlan(t *testing.T) {
	l, job := newLab(t)
	if err := l.leaveRing(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	l.api.node = NodeFacts{}
	job.Plan.Stage, job.Plan.Ended = replace.Whole, "cp-2 was lost"
	job.Plan.Newcomer = replace.Newcomer{Machine: state.Machine{UUID: "new", Serial: "S9"}, Address: "10.98.0.99"}
	next := order
	next.Wish.ID, next.Wish.Old = "p2", "cp-2"
	job.Order = &next
	if f := l.look(t.Context(), job); f.OldAddress != "10.98.0.99" || f.OldMachine.Serial != "S9" || !f.Answers.Known {
		t.Errorf("%q, %+v, answers %+v", f.OldAddress, f.OldMachine, f.Answers)
	}
}
