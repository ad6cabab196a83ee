package cli

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/replacement"
	"github.com/holdfast/holdfast/internal/cli/command"
	decide "github.com/holdfast/holdfast/internal/decide/replace"
	"github.com/holdfast/holdfast/internal/model/bmc"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/powercut"
)

// replaceRun is one run of the command, with an agent that a test plays.
type replaceRun struct {
	hostReplacement
	out, errs bytes.Buffer
	clock     time.Time
	// backup is the time of this host's newest good backup, noBackups why none can be read or
	// taken, and taken how often the command has had one taken.
	backup time.Time
	// backupGone is the host for which the backup did not wait.
	backupGone string
	noBackups  error
	taken      int
}

// newReplaceRun returns a run; agent is called while the command waits, with the number of
// the wait.
func newReplaceRun(t *testing.T, agent func(n int, r *replaceRun)) *replaceRun {
	t.Helper()
	dir := t.TempDir()
	password := filepath.Join(dir, "password")
	if err := os.WriteFile(password, []byte("geheim\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := &replaceRun{clock: time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)}
	r.backup = r.clock.Add(-time.Hour)
	waits := 0
	r.hostReplacement = hostReplacement{
		replaceFlags: replaceFlags{
			bmc: replaceBMC{address: "redfish://192.0.2.112/redfish/v1/Systems/1", username: "fencer", passwordFile: password},
			by:  "ada", yes: true, timeout: time.Hour, joinLife: time.Hour, joinFile: filepath.Join(dir, "cp-2.ign"),
		},
		streams: Streams{In: strings.NewReader(""), Out: &r.out, Err: &r.errs}, name: "cp-2",
		store: replacement.Store{Root: dir, Write: powercut.WriteFile},
		now:   func() time.Time { return r.clock },
		backups: ownBackups{
			newest: func(time.Time) state.Fact[time.Time] {
				return state.Fact[time.Time]{Known: r.noBackups == nil, Value: r.backup}
			},
			take: func(_ context.Context, gone string) error {
				r.taken, r.backupGone = r.taken+1, gone
				r.backup = r.clock
				return r.noBackups
			},
		},
		pointer: func(_ context.Context, name string, _ time.Duration) ([]byte, error) {
			return []byte("pointer of " + name), nil
		},
		sight: func(_ context.Context, dev state.FencingDevice) (state.FencingDevice, error) {
			if dev.Insecure && dev.Fingerprint == "" {
				dev.Fingerprint, dev.FirstSight = strings.Repeat("ab", 32), true
			}
			return dev, nil
		},
		sleep: func(ctx context.Context, d time.Duration) error {
			if waits++; waits > 50 {
				t.Fatal("the command waits for ever")
			}
			r.clock = r.clock.Add(d)
			agent(waits, r)
			return context.Cause(ctx)
		},
	}
	return r
}

func (r *replaceRun) orderID(t *testing.T) string {
	t.Helper()
	o, err := r.store.Order()
	if err != nil || o == nil {
		t.Fatalf("%v, %v", o, err)
	}
	return o.Wish.ID
}

func put(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func exitOfReplace(err error) int {
	if c, ok := errors.AsType[*command.Coded](err); ok {
		return c.Code
	}
	if err != nil {
		return command.ExitFailed
	}
	return command.ExitOK
}

func TestAReplacementIsFollowedToItsEnd(t *testing.T) {
	id := ""
	r := newReplaceRun(t, func(n int, r *replaceRun) {
		switch n {
		case 1:
			id = r.orderID(t)
			put(t, r.store.PutPlan(decide.Plan{ID: id, Old: decide.Old{Name: "cp-2"}, Stage: decide.Retired}), r.store.PutDoing(replacement.Doing{Step: "R4", Rule: "newcomer.install", Words: "waits for cp-2"}))
		case 3:
			put(t, r.store.PutPlan(decide.Plan{ID: id, Old: decide.Old{Name: "cp-2"}, Stage: decide.Whole}))
		}
	})
	put(t, r.run(t.Context()))
	o, err := r.store.Order()
	if err != nil || o.Device.Password != "geheim" || o.Wish.Old != "cp-2" || o.Wish.By != "ada" {
		t.Errorf("%+v, %v", o, err)
	}
	info, err := os.Stat(r.joinFile)
	if err != nil || info.Mode().Perm() != 0o600 || !strings.Contains(r.out.String(), "either host may be lost") {
		t.Errorf("%v, %v, %q, %q", info, err, r.out.String(), r.errs.String())
	}
	if text := r.out.String() + r.errs.String(); strings.Contains(text, "geheim") {
		t.Error("the password was said")
	}
}

func TestTheCertificateOfANewBMCThatNobodyVouchesForIsShownAndPinned(t *testing.T) {
	r := newReplaceRun(t, func(int, *replaceRun) {})
	r.bmc.verification, r.yes, r.streams.In = bmc.VerificationDisabled, false, strings.NewReader("no\n")
	if err := r.run(t.Context()); exitOfReplace(err) != command.ExitNotConfirmed {
		t.Fatal(err)
	}
	if !strings.Contains(r.errs.String(), strings.Repeat("ab", 32)) {
		t.Errorf("the fingerprint is not shown before the question: %s", r.errs.String())
	}
	r.yes = true
	o, err := r.order(t.Context())
	if err != nil || o.Device.Fingerprint != strings.Repeat("ab", 32) || !o.Device.FirstSight {
		t.Errorf("%+v, %v", o.Device, err)
	}
	r.sight = func(context.Context, state.FencingDevice) (state.FencingDevice, error) {
		return state.FencingDevice{}, errors.New("no answer")
	}
	if _, err := r.order(t.Context()); err == nil {
		t.Error("a BMC that shows no certificate is taken")
	}
}

func TestAWishWhoseGatesStayClosedIsTakenBack(t *testing.T) {
	r := newReplaceRun(t, func(_ int, r *replaceRun) {
		put(t, r.store.PutDoing(replacement.Doing{Rule: "rest.refuse", Words: "no", Wish: r.orderID(t), Gates: []decide.Gate{
			{ID: "sole", Words: "the record says pair", Way: "holdfast explain etcd"}, {ID: "room", Open: true}, {ID: "bmc", Words: "silent", Way: "x"},
		}}))
	})
	err := r.run(t.Context())
	if !strings.Contains(err.Error(), "sole: the record says pair (type: holdfast explain etcd)") || !strings.Contains(err.Error(), "bmc: ") || strings.Contains(err.Error(), "room") {
		t.Error(err)
	}
	if o, err := r.store.Order(); o != nil || err != nil {
		t.Errorf("the wish stands: %v, %v", o, err)
	}
}

func TestADryRunTellsOfEachGateAndLeavesNothing(t *testing.T) {
	r := newReplaceRun(t, func(_ int, r *replaceRun) {
		put(t, r.store.PutDoing(replacement.Doing{Rule: "rest.dry", Wish: r.orderID(t), Gates: []decide.Gate{{ID: "sole", Open: true}, {ID: "room", Open: true}}}))
	})
	r.dryRun = true
	put(t, r.run(t.Context()))
	if o, err := r.store.Order(); o != nil || err != nil || !strings.Contains(r.out.String(), "sole     open") {
		t.Errorf("%v, %v, %q", o, err, r.out.String())
	}
}

// Issue 21, section 2: a backup is taken before each risky step.
func TestAPlanOfThisHostBeginsOnlyWithAYoungGoodBackup(t *testing.T) {
	disk := errors.New("the disk is full")
	for name, c := range map[string]struct {
		set   func(*replaceRun)
		taken int
		says  string // empty if the plan begins
	}{
		"a young one":                       {func(*replaceRun) {}, 0, ""},
		"none":                              {func(r *replaceRun) { r.backup = time.Time{} }, 1, ""},
		"an old one":                        {func(r *replaceRun) { r.backup = r.clock.Add(-5 * time.Hour) }, 1, ""},
		"one of a later day":                {func(r *replaceRun) { r.backup = r.clock.Add(24 * time.Hour) }, 1, ""},
		"none, and none is taken":           {func(r *replaceRun) { r.backup, r.noBackups = time.Time{}, disk }, 1, "refused, nothing was changed: on this host it is unknown whether there is a good backup, and none was taken: the disk is full: holdfast backup now, or --without-backup"},
		"none, and none is asked":           {func(r *replaceRun) { r.backup, r.noBackups, r.noBackup = time.Time{}, disk, true }, 0, ""},
		"none, and a person does not agree": {func(r *replaceRun) { r.backup, r.yes = time.Time{}, false }, 0, "no answer on standard input"},
	} {
		r := newReplaceRun(t, func(_ int, r *replaceRun) {
			put(t, r.store.PutPlan(decide.Plan{ID: r.orderID(t), Old: decide.Old{Name: "cp-2"}, Stage: decide.Whole}))
		})
		c.set(r)
		err := r.run(t.Context())
		if r.taken != c.taken || (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, %d backups taken", name, err, r.taken)
		}
		if r.taken > 0 && r.backupGone != "cp-2" {
			t.Errorf("%s: the backup does not wait for %q, want cp-2", name, r.backupGone)
		}
		if o, err := r.store.Order(); err != nil || (o != nil) != (c.says == "") {
			t.Errorf("%s: the order is %v, %v", name, o, err)
		}
	}
}

func TestADryRunSaysThatABackupWouldBeTakenFirst(t *testing.T) {
	r := newReplaceRun(t, func(_ int, r *replaceRun) {
		put(t, r.store.PutDoing(replacement.Doing{Rule: "rest.dry", Wish: r.orderID(t), Gates: []decide.Gate{{ID: decide.BackupGate, Words: "on cp-1 there is none", Way: "x"}}}))
	})
	r.dryRun, r.backup = true, time.Time{}
	put(t, r.run(t.Context()))
	if !strings.Contains(r.out.String(), "backup   open: a backup is taken first: on cp-1 there is none\n") || r.taken > 0 {
		t.Errorf("%q, %d taken", r.out.String(), r.taken)
	}
}

func TestThereIsNoWayBackFromARetiredHost(t *testing.T) {
	r := newReplaceRun(t, func(int, *replaceRun) {})
	put(t, r.store.PutPlan(decide.Plan{ID: "p1", Old: decide.Old{Name: "cp-2"}, Stage: decide.Retired}))
	r.abort, r.bmc = true, replaceBMC{}
	if err := r.run(t.Context()); exitOfReplace(err) != command.ExitRefused || !strings.Contains(err.Error(), "only the way forward") {
		t.Error(err)
	}
}

func TestAPlanIsTakenBackWhenAsked(t *testing.T) {
	r := newReplaceRun(t, func(_ int, r *replaceRun) {
		o, err := r.store.Order()
		put(t, err)
		if !o.Wish.Abort || o.Wish.ID != "p1" {
			t.Fatalf("%+v", o)
		}
		put(t, r.store.PutPlan(decide.Plan{ID: "p1", Old: decide.Old{Name: "cp-2"}, Stage: decide.Aborted, Ended: "an administrator took it back"}))
	})
	put(t, r.store.PutPlan(decide.Plan{ID: "p1", Old: decide.Old{Name: "cp-2"}, Stage: decide.Planned}))
	r.abort, r.bmc = true, replaceBMC{}
	put(t, r.run(t.Context()))
	if !strings.Contains(r.out.String(), "taken back") {
		t.Error(r.out.String())
	}
}

// The agent retires the old host after the command has read the plan.
func TestAnOrderToTakeThePlanBackThatIsTooLateIsTold(t *testing.T) {
	for sentence, answer := range map[string]func(*replaceRun, replacement.Order) error{
		"the accounts stay":   func(r *replaceRun, o replacement.Order) error { o.Wish.Abort = false; return r.store.PutOrder(o) },
		"nothing of it stays": func(r *replaceRun, _ replacement.Order) error { return r.store.DropOrder() },
	} {
		plan := decide.Plan{ID: "p1", Old: decide.Old{Name: "cp-2"}, Stage: decide.Planned}
		r := newReplaceRun(t, func(_ int, r *replaceRun) {
			if o, err := r.store.Order(); err != nil || o == nil || !o.Wish.Abort {
				t.Fatalf("%+v, %v", o, err)
			} else {
				plan.Stage = decide.Retired
				put(t, r.store.PutPlan(plan), answer(r, *o))
			}
		})
		put(t, r.store.PutPlan(plan))
		r.abort, r.bmc = true, replaceBMC{}
		err := r.run(t.Context())
		if exitOfReplace(err) != command.ExitRefused || !strings.Contains(err.Error(), "too late, nothing was taken back: cp-2 is retired, so there is only the way forward: sudo holdfast host replace cp-2") {
			t.Errorf("%s: %v", sentence, err)
		}
	}
}

func TestAHostThatAPlanSwitchedOffIsToldWhenThePlanIsTakenBack(t *testing.T) {
	r := newReplaceRun(t, func(_ int, r *replaceRun) {
		put(t, r.store.PutPlan(decide.Plan{ID: "p1", Old: decide.Old{Name: "cp-2"}, Stage: decide.Aborted, Ended: "an administrator took it back", Off: true}))
	})
	put(t, r.store.PutPlan(decide.Plan{ID: "p1", Old: decide.Old{Name: "cp-2"}, Stage: decide.Planned}))
	r.abort, r.bmc = true, replaceBMC{}
	put(t, r.run(t.Context()))
	if out := r.out.String(); strings.Contains(out, "nothing was changed") || !strings.Contains(out, "it is off: to switch it on: sudo fence_holdfast --action=on --plug=cp-2") {
		t.Error(out)
	}
}

// The plan cannot be taken back once the new machine was let in, and that one may burn.
func TestAPlanWhoseNewMachineIsLostEndsWhenAsked(t *testing.T) {
	let := decide.Plan{ID: "p1", Old: decide.Old{Name: "cp-2"}, New: decide.New{Name: "cp-2"}, Stage: decide.Joining}
	r := newReplaceRun(t, func(_ int, r *replaceRun) {
		o, err := r.store.Order()
		put(t, err)
		if !o.Wish.Abort || o.Wish.ID != "p1" || o.Wish.At.IsZero() {
			t.Fatalf("%+v", o)
		}
		over := let
		over.Stage, over.Ended = decide.Whole, "cp-2 was lost before it was whole, as was said"
		put(t, r.store.PutPlan(over))
	})
	put(t, r.store.PutPlan(let))
	r.abort, r.bmc = true, replaceBMC{}
	put(t, r.run(t.Context()))
	if out := r.out.String(); strings.Contains(out, "either host may be lost") || !strings.Contains(out, "cp-2 was lost before it was whole") || !strings.Contains(out, "holdfast host replace cp-2 --bmc-address") {
		t.Error(out)
	}
}

func TestAPlanThatCameToItsEndMeanwhileIsTold(t *testing.T) {
	r := newReplaceRun(t, func(int, *replaceRun) {})
	put(t, r.store.PutPlan(decide.Plan{ID: "p1", Old: decide.Old{Name: "cp-2"}, Stage: decide.Whole, Written: r.clock}))
	r.bmc = replaceBMC{}
	put(t, r.run(t.Context()))
	if !strings.Contains(r.out.String(), "either host may be lost") || !strings.Contains(r.errs.String(), "ended on 2026-11-25 12:00 UTC") {
		t.Error(r.out.String(), r.errs.String())
	}
	// Months later somebody wants another one.
	r.gone = "S2"
	if err := r.run(t.Context()); err == nil || !strings.Contains(err.Error(), "--bmc-address: is needed to begin a replacement, for which --is-gone is; the last one of cp-2 ended on 2026-11-25 12:00 UTC") {
		t.Error(err)
	}
}

func TestAPlanUnderWayTakesInThatAMachineIsGone(t *testing.T) {
	begun := decide.Plan{
		ID: "p1", Old: decide.Old{Name: "cp-2", Machine: state.Machine{Serial: "S2"}}, New: decide.New{Name: "cp-2", BMC: "https://bmc"}, By: "ada",
		Accepts: decide.Accepts{Lost: []string{"pv-1"}}, Stage: decide.Retired,
	}
	r := newReplaceRun(t, func(_ int, r *replaceRun) {
		over := begun
		over.Stage = decide.Whole
		put(t, r.store.PutPlan(over))
	})
	put(t, r.store.PutPlan(begun))
	r.bmc, r.gone = replaceBMC{}, "S9"
	if err := r.run(t.Context()); exitOfReplace(err) != command.ExitRefused || strings.Contains(err.Error(), "S2") || !strings.Contains(err.Error(), "S9 is not the serial number of cp-2") {
		t.Error(err)
	}
	r.gone = "S2"
	if err := r.run(t.Context()); exitOfReplace(err) != command.ExitRefused || !strings.Contains(err.Error(), "--bmc-address") {
		t.Errorf("without the accounts of the new host: %v", err)
	}
	put(t, r.store.PutOrder(replacement.Order{Wish: decide.Wish{ID: "p1", Old: "cp-2", New: begun.New}, Device: state.FencingDevice{Target: "cp-2", Password: "geheim"}}))
	put(t, r.run(t.Context()))
	o, err := r.store.Order()
	if err != nil || o.Wish.ID != "p1" || o.Wish.Accepts.Gone != "S2" || len(o.Wish.Accepts.Lost) != 1 || o.Wish.New != begun.New || o.Device.Password != "geheim" {
		t.Errorf("%+v, %v", o, err)
	}
	// The command refuses what a plan does not take in.
	put(t, r.store.PutPlan(begun))
	r.uuid, r.ownUser = "u", "x"
	if err := r.run(t.Context()); err == nil || !strings.Contains(err.Error(), "--own-bmc-username, --uuid: a plan is under way") {
		t.Error(err)
	}
}

func TestACommandWhoseWishIsGoneEnds(t *testing.T) {
	r := newReplaceRun(t, func(n int, r *replaceRun) {
		if n == 2 {
			put(t, r.store.DropOrder())
		}
	})
	if err := r.run(t.Context()); exitOfReplace(err) != command.ExitRefused || !strings.Contains(err.Error(), "nothing was begun") {
		t.Error(err)
	}
}

func TestOnlyTheNameOfTheLostHostConfirms(t *testing.T) {
	r := newReplaceRun(t, func(int, *replaceRun) {})
	r.yes, r.streams.In = false, strings.NewReader("yes\n")
	if err := r.run(t.Context()); exitOfReplace(err) != command.ExitNotConfirmed {
		t.Error(err)
	}
	if o, err := r.store.Order(); o != nil || err != nil {
		t.Errorf("%v, %v", o, err)
	}
}

func TestAHostIsReplacedByOneOfAnotherName(t *testing.T) {
	r := newReplaceRun(t, func(n int, r *replaceRun) {
		o, err := r.store.Order()
		put(t, err)
		plan := decide.Plan{ID: o.Wish.ID, Old: decide.Old{Name: "cp-2"}, New: o.Wish.New, Stage: decide.Retired}
		switch n {
		case 1:
			put(t, r.store.PutPlan(plan), r.store.PutDoing(replacement.Doing{Step: "R4", Rule: "newcomer.install", Words: "waits for cp-9"}))
		case 3:
			plan.Stage = decide.Whole
			put(t, r.store.PutPlan(plan))
		}
	})
	r.newName = "cp-9"
	put(t, r.run(t.Context()))
	o, err := r.store.Order()
	if err != nil || o.Wish.Old != "cp-2" || o.Wish.New.Name != "cp-9" || o.Device.Target != "cp-9" {
		t.Errorf("%+v, %v", o, err)
	}
	if text := r.errs.String(); !strings.Contains(text, "cp-2 is replaced by another machine, cp-9.") || !strings.Contains(text, "the name cp-2 stays retired") {
		t.Errorf("a person does not read what happens with the names: %s", text)
	}
	if !strings.Contains(r.out.String(), "cp-2 was replaced by cp-9: either host may be lost") {
		t.Error(r.out.String())
	}
	if file, err := os.ReadFile(r.joinFile); err != nil || string(file) != "pointer of cp-9" {
		t.Errorf("the join file is %q, %v", file, err)
	}
}

// A plan under way has its new host; the command that follows it need not name it again.
func TestTheNameOfANewHostIsThatOfThePlanThatHasBegun(t *testing.T) {
	begun := decide.Plan{ID: "p1", Old: decide.Old{Name: "cp-2"}, New: decide.New{Name: "cp-9"}, Stage: decide.Planned}
	r := newReplaceRun(t, func(int, *replaceRun) {})
	put(t, r.store.PutPlan(begun))
	r.newName = "cp-8"
	if err := r.run(t.Context()); exitOfReplace(err) != command.ExitRefused || !strings.Contains(err.Error(), "the new host of this plan is cp-9") {
		t.Error(err)
	}
	if o, err := r.store.Order(); o != nil || err != nil {
		t.Errorf("the plan is changed: %+v, %v", o, err)
	}
	r = newReplaceRun(t, func(_ int, r *replaceRun) {
		begun.Stage = decide.Whole
		put(t, r.store.PutPlan(begun))
	})
	put(t, r.store.PutPlan(begun))
	put(t, r.run(t.Context()))
	if o, err := r.store.Order(); err != nil || o.Wish.ID != "p1" || o.Wish.New.Name != "cp-9" {
		t.Errorf("another BMC of the new host is not taken in: %+v, %v", o, err)
	}
}

func TestAllMistakesOfAReplacementAreToldAtOnce(t *testing.T) {
	code, _, errs := runLine(t, "host", "replace", "cp-2", "--new-name", "CP_9", "--bmc-address", "ftp://x", "--bmc-tls", "Old", "--own-bmc-username", "u", "--timeout", "0s", "--by", "ada")
	for _, want := range []string{"--new-name", "--bmc-address", "--bmc-password-file", "--bmc-tls", "--own-bmc-username", "--timeout"} {
		if !strings.Contains(errs, want) {
			t.Errorf("%s is not told: %s", want, errs)
		}
	}
	if code != command.ExitUsage {
		t.Errorf("exit code %d", code)
	}
}
