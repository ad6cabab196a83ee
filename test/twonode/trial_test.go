package twonode_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/lab"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/test/labsite"
	"github.com/holdfast/holdfast/test/twonode/client"
	"github.com/holdfast/holdfast/test/twonode/evidence"
)

// Bounds of waits. They are generous: slowness shows in the figures, and a
// bound only ends a wait for something that never comes.
const (
	wholeWithin = 5 * time.Minute
	backWithin  = 2 * time.Minute
	// warmUp is the time for which clients write before the fault.
	warmUp = 2 * time.Second
)

// trial is one run of a scenario.
type trial struct {
	*testing.T
	*site

	rec, apiRec *client.Recorder
	loads       []*client.Load
	sampler     *sampler
	seen        *seeing
	// differs is set if people were told something other than approved. lenient
	// is set if that is not yet a failure.
	differs, lenient bool
	// blindfold is set if nothing watches what people are told.
	blindfold bool
	// byName is set if the leader does not matter, but the order of names does.
	byName   bool
	began    time.Time
	at       time.Time // of the fault
	log      int64
	etcd     map[string][]lab.Process
	leads    string
	result   evidence.Trial
	artefact string
	// survivor is the host whose writes are measured; empty for either.
	survivor string
	// rebooted is set if the survivor boots too: its API server then knows no
	// earlier changes.
	rebooted bool
	number   int
	// ended is the time at which the obstacle to healing was removed; zero if
	// there was none.
	ended time.Time
}

// scenario plays a scenario several times, on a cluster that must be whole
// before and after.
func scenario(t *testing.T, name string, times int, play func(*trial)) {
	t.Helper()
	s := open(t)
	if *repeat > 0 {
		times = *repeat
	}
	for i := range times {
		if playOnce(t, s, name, i, *again, play) {
			t.Logf("%s: people were told something else than what is approved; it is played once more", name)
			playOnce(t, s, name, times+i, false, play)
		}
	}
}

// playOnce plays a scenario. It returns true if people were told something
// other than approved, and lenient keeps that from being a failure.
func playOnce(t *testing.T, s *site, name string, number int, lenient bool, play func(*trial)) bool {
	t.Helper()
	var tr *trial
	t.Run(fmt.Sprint(number), func(t *testing.T) {
		tr = newTrial(t, s, name, number)
		tr.lenient = lenient
		tr.play(play)
	})
	if t.Failed() && s.whole(t.Context()) != nil {
		t.Fatalf("the cluster is not whole after a failure: %s is not played again", name)
	}
	return tr != nil && tr.lenient && tr.differs
}

// slug turns a scenario's name into a file name.
func slug(name string) string {
	return strings.NewReplacer(" ", "-", ",", "", "/", "-", ":", "", "(", "", ")", "", "'", "").Replace(name)
}

func newTrial(t *testing.T, s *site, name string, i int) *trial {
	dir, err := filepath.Abs(filepath.Join(*output, slug(name), fmt.Sprintf("%s-%d", time.Now().UTC().Format("150405"), i)))
	if err != nil {
		t.Fatal(err)
	}
	return &trial{T: t, site: s, artefact: dir, number: i, result: evidence.Trial{Scenario: name}}
}

func (tr *trial) play(play func(*trial)) {
	defer tr.finish()
	tr.eventually(wholeWithin, "the cluster is whole before", func() error { return tr.whole(tr.Context()) })
	if *watched && !tr.blindfold {
		tr.see()
	}
	tr.remember()
	tr.startLoads()
	play(tr)
	tr.healthyAgain()
	tr.endLoads()
	tr.told()
	tr.measure()
}

// remember records the state that must be the same afterwards.
func (tr *trial) remember() {
	var err error
	if tr.log, err = tr.LogEnd(); err != nil {
		tr.Fatal(err)
	}
	tr.etcd = map[string][]lab.Process{}
	for _, name := range tr.hosts() {
		tr.etcd[name] = tr.processes(name, "etcd")
	}
	if tr.leads, err = tr.leader(tr.Context()); err != nil {
		tr.Fatal(err)
	}
	tr.began = time.Now()
	tr.result.Time = tr.began.UTC()
	tr.sampler = startSampler(tr.Context(), tr.site)
	tr.keepStates()
}

func (tr *trial) processes(host, name string) []lab.Process {
	tr.Helper()
	h, _ := tr.Lab.Layout.Host(host)
	list, err := tr.Lab.Processes(tr.Context(), h, name)
	if err != nil {
		tr.Fatal(err)
	}
	return list
}

func (tr *trial) startLoads() {
	tr.Helper()
	tr.rec = client.NewRecorder()
	run := fmt.Sprintf("t%d", time.Now().UnixMilli())
	etcd := client.Shape{Targets: tr.etcdTargets(), Writers: *writers}
	load, err := client.StartEtcd(tr.Context(), tr.rec, etcd, "/holdfast-test/"+run+"/", tr.Lab.Dial, tr.tls)
	if err != nil {
		tr.Fatal(err)
	}
	tr.loads = append(tr.loads, load)
	tr.apiRec = client.NewRecorder()
	api := client.Shape{Targets: tr.apiTargets(), Pause: 100 * time.Millisecond}
	load, err = client.StartAPI(tr.Context(), tr.apiRec, api, run, tr.Lab.Dial, tr.api)
	if err != nil {
		tr.Fatal(err)
	}
	tr.loads = append(tr.loads, load)
	tr.eventually(backWithin, "clients write before anything is broken", func() error {
		if tr.rec.Last("") == 0 || tr.apiRec.Last("") == 0 {
			return errors.New("no write was acknowledged")
		}
		return nil
	})
	pause(tr.Context(), warmUp)
}

// fault records that the fault happens now, and injects it.
func (tr *trial) fault(f lab.Fault) {
	tr.Helper()
	tr.now()
	if err := tr.Power.Inject(tr.Context(), f); err != nil {
		tr.Fatal(err)
	}
}

// now records that the fault happens now; only the first call counts.
func (tr *trial) now() {
	if tr.at.IsZero() {
		tr.at = time.Now()
	}
}

// mend clears a fault that keeps the cluster from healing.
func (tr *trial) mend(host string, kind lab.FaultKind) {
	tr.Helper()
	tr.ended = time.Now()
	if _, err := tr.Power.Clear(tr.Context(), lab.ClearRequest{Host: host, Kind: kind}); err != nil {
		tr.Fatal(err)
	}
}

// on runs a script on a host. The test fails if the script does.
func (tr *trial) on(host, script string) string {
	tr.Helper()
	out, err := tr.Sh(tr.Context(), host, script)
	if err != nil {
		tr.Fatalf("%s: %v", host, err)
	}
	return out
}

// writable waits until writes through a host's etcd, through its API server and at the
// virtual address are acknowledged that began after the first effect of the fault. All of
// it counts from the call: some callers wait for a person's word first.
func (tr *trial) writable(host string, within time.Duration) {
	tr.Helper()
	after := tr.rec.Since() // earlier writes may already have been in progress
	tr.eventually(within, "etcd of "+host+" and the API take writes", func() error {
		if last := tr.rec.Last(host); last < after+200*time.Millisecond {
			return fmt.Errorf("etcd: the last one was acknowledged %s after the fault", last-tr.rec.At(tr.at))
		}
		for _, way := range []string{host, apiVIP} {
			if last := tr.apiRec.Last(way); last < tr.apiRec.At(tr.at)+500*time.Millisecond {
				return fmt.Errorf("the API by %s: the last one was acknowledged %s after the fault", way, last-tr.apiRec.At(tr.at))
			}
		}
		return nil
	})
}

// stays checks for a while that a condition remains true.
func (tr *trial) stays(d time.Duration, what string, check func() error) {
	tr.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); pause(tr.Context(), 500*time.Millisecond) {
		if err := check(); err != nil {
			tr.Errorf("%s: %v", what, err)
			return
		}
	}
}

// eventually repeats the check until it passes, and fails with its last error.
func (tr *trial) eventually(within time.Duration, what string, check func() error) {
	tr.Helper()
	var err error
	for end := time.Now().Add(within); ; pause(tr.Context(), 200*time.Millisecond) {
		if err = check(); err == nil {
			return
		}
		if time.Now().After(end) || tr.Context().Err() != nil {
			tr.Fatalf("%s: not within %s: %v", what, within, err)
		}
	}
}

// pause waits. It ignores an interruption, which callers notice themselves.
func pause(ctx context.Context, d time.Duration) { _ = host.Sleep(ctx, d) }

// healthyAgain waits, without helping, for two voters and everything else.
func (tr *trial) healthyAgain() {
	tr.Helper()
	tr.eventually(wholeWithin, "two voters again", func() error { return tr.twoVoters(tr.Context()) })
	if tr.result.Voters != nil {
		return
	}
	since := tr.at
	if !tr.ended.IsZero() {
		since = tr.ended
	}
	voters := evidence.In(time.Since(since))
	tr.eventually(wholeWithin, "the cluster is whole again", func() error { return tr.whole(tr.Context()) })
	tr.result.Voters = &voters
	tr.Logf("two voters %.1f s after the fault or its end, all whole %.1f s after it", voters, time.Since(since).Seconds())
}

// endLoads ends the clients and checks their histories.
func (tr *trial) endLoads() {
	tr.Helper()
	for i, l := range tr.loads {
		if err := l.Stop(tr.Context()); err != nil {
			tr.Error(err)
		}
		h := tr.recorders()[i].Copy()
		if err := client.Check(h); err != nil {
			tr.Errorf("%s clients: %v", [2]string{"etcd", "API"}[i], err)
		}
	}
	tr.noChangeMissed()
	tr.loads = nil
	if err := tr.sameHash(tr.Context()); err != nil {
		tr.Error(err)
	}
}

// relisted is the time without writes after which a surviving API server
// restarts its own watches of etcd, with no memory of earlier changes. It uses
// watches that need a leader, and etcd ends those after three election timeouts
// (1 s) without one. The API server tells its clients so, and they list again.
const relisted = 3 * time.Second

// noChangeMissed checks that a watch through the survivor's API server saw
// every change.
func (tr *trial) noChangeMissed() {
	tr.Helper()
	h := tr.apiRec.Copy()
	spans := h.Skipped[tr.survivor]
	if len(spans) == 0 || tr.rebooted || h.Gap(tr.survivor, tr.apiRec.At(tr.at), h.End()).Length > relisted {
		return
	}
	tr.Errorf("a watch through the API server of %s, which lived on, missed changes: %v", tr.survivor, spans)
}

func (tr *trial) recorders() []*client.Recorder { return []*client.Recorder{tr.rec, tr.apiRec} }

// sameProcess checks that a host's etcd was not restarted.
func (tr *trial) sameProcess(host string) {
	tr.Helper()
	if now := tr.processes(host, "etcd"); fmt.Sprint(now) != fmt.Sprint(tr.etcd[host]) {
		tr.Errorf("etcd of %s was restarted: %v, was %v", host, now, tr.etcd[host])
	}
}

// fenced checks the number of fences, and that BMCs were not asked more often
// to cut the power.
func (tr *trial) fenced(want int) {
	tr.Helper()
	tr.proven(want)
	cuts, err := tr.Resets(tr.log, labsite.ForceOff)
	if err != nil || len(cuts) > want {
		tr.Errorf("BMCs were asked to cut the power %d times, want at most %d: %v (%v)", len(cuts), want, cuts, err)
	}
}

// proven checks the number of fences that ended with a proof. A BMC that does
// not act is asked more often.
func (tr *trial) proven(want int) {
	tr.Helper()
	list, err := tr.fences(tr.Context(), tr.began)
	if err != nil {
		tr.Error(err)
	}
	if len(list) != want {
		tr.Errorf("%d fences, want %d: %+v", len(list), want, list)
	}
}

// boot switches on a host that stayed off, and records the time. A fence may
// have switched it on already.
func (tr *trial) boot(host string) {
	tr.Helper()
	st, err := tr.PowerOf(tr.Context(), host)
	if err != nil {
		tr.Fatal(err)
	}
	tr.ended = time.Now()
	if _, err := tr.Power.Clear(tr.Context(), lab.ClearRequest{Host: host}); err != nil {
		tr.Fatal(err)
	}
	if st.Power == lab.PowerOff && st.BMC == "off" {
		if err := tr.Power.Power(tr.Context(), lab.PowerRequest{Host: host, Action: lab.ActionOn}); err != nil {
			tr.Fatal(err)
		}
	}
}

// inert checks that a host runs neither etcd nor kubelet.
func (tr *trial) inert(host string) error {
	h, _ := tr.Lab.Layout.Host(host)
	for _, name := range []string{"etcd", "kubelet"} {
		list, err := tr.Lab.Processes(tr.Context(), h, name)
		if err != nil {
			return err
		}
		if len(list) > 0 {
			return fmt.Errorf("%s runs on %s", name, host)
		}
	}
	return nil
}

// says waits until a host's etcd keeper has decided on one of some actions.
func (tr *trial) says(host string, within time.Duration, want ...state.EtcdAction) state.EtcdReport {
	tr.Helper()
	var r state.EtcdReport
	tr.eventually(within, fmt.Sprintf("%s says %v", host, want), func() error {
		var err error
		if r, err = tr.Etcd(tr.Context(), host); err != nil {
			return err
		}
		if slices.Contains(want, r.Verdict.Action) {
			return nil
		}
		return fmt.Errorf("it says %s (%s): %s", r.Verdict.Action, r.Verdict.Rule, r.Verdict.Reason)
	})
	return r
}
