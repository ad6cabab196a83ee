package twonode

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/report/explain"
)

// superseded returns the keeper's report on a host that was fenced before its
// hand-over: the peer goes on alone, and kubelet's etcd ends again and again.
func superseded() state.EtcdReport {
	r := pair()
	s := &r.Snapshot
	s.Pacemaker.Contact, s.Pacemaker.Ring = state.Known(true), 7
	s.Statement = state.Known(state.EtcdStatement{
		Ring: 7, Record: state.EtcdRecord{State: state.EtcdSole, Member: 3}, Running: state.Known(true), Leads: true,
	})
	s.Local = state.EtcdLocal{}
	return r
}

func TestAHostThatWasFencedBeforeItsHandOverTakesEtcdFromKubeletByItself(t *testing.T) {
	s := withEtcd(t, superseded)
	looks := 0
	s.Sleep = func(context.Context, time.Duration) error {
		if looks++; looks == 3 {
			s.put(fileLocks, "") // the last start that kubelet asked for has ended
		}
		return nil
	}
	s.programs["systemctl start kubelet.service"] = func([]string) (string, error) {
		if s.text(staticPod) != "" {
			t.Error("kubelet was started with the manifest still there")
		}
		return "", nil
	}
	did, err := s.Release(t.Context())
	if err != nil || !strings.Contains(did, "cp-2 goes on without this host's data") {
		t.Fatalf("%q, %v", did, err)
	}
	if s.text(keptPod) != "kind: Pod\n" || looks < 4 || strings.Join(s.runs, ", ") != "systemctl stop kubelet.service, systemctl start kubelet.service" {
		t.Errorf("%d looks, ran %v\n%s", looks, s.runs, tree(t, s.Root))
	}
	s.runs = nil
	if did, err := s.Release(t.Context()); did != "" || err != nil || len(s.runs) > 0 {
		t.Errorf("again: %q, %v, ran %v", did, err, s.runs)
	}
}

func TestKubeletIsStartedAgainWhereItsEtcdDoesNotEnd(t *testing.T) {
	s := withEtcd(t, superseded)
	s.Sleep = func(context.Context, time.Duration) error { return errors.New("not within 1m0s") }
	if _, err := s.Release(t.Context()); err == nil || !strings.Contains(err.Error(), "kubelet's etcd has ended") {
		t.Error(err)
	}
	if s.text(staticPod) == "" || !s.ran("systemctl start kubelet.service") {
		t.Errorf("ran %v", s.runs)
	}
}

func TestAnEtcdOfKubeletThatMayCountIsLeftAlone(t *testing.T) {
	for name, change := range map[string]func(*state.EtcdReport){
		"all is well":                           func(r *state.EtcdReport) { *r = pair() },
		"Pacemaker has not asked for etcd here": func(r *state.EtcdReport) { r.Wish = state.EtcdNotAsked },
		"the record of this host is unreadable": func(r *state.EtcdReport) { r.Snapshot.Record.Known = false },
		"this host goes on alone too":           func(r *state.EtcdReport) { r.Snapshot.Record.Value.State = state.EtcdSole },
		"this host takes over":                  func(r *state.EtcdReport) { r.Snapshot.Record.Value.State = state.EtcdTakingOver },
		"the peer is not in contact":            func(r *state.EtcdReport) { r.Snapshot.Pacemaker.Contact = state.Known(false) },
		"contact is unknown":                    func(r *state.EtcdReport) { r.Snapshot.Pacemaker.Contact.Known = false },
		"the peer says nothing":                 func(r *state.EtcdReport) { r.Snapshot.Statement.Known = false },
		"the peer spoke in another membership":  func(r *state.EtcdReport) { r.Snapshot.Pacemaker.Ring = 8 },
		"the peer still takes over":             func(r *state.EtcdReport) { r.Snapshot.Statement.Value.Record.State = state.EtcdTakingOver },
		"the peer's etcd does not run":          func(r *state.EtcdReport) { r.Snapshot.Statement.Value.Running = state.Known(false) },
		"the peer does not lead":                func(r *state.EtcdReport) { r.Snapshot.Statement.Value.Leads = false },
		"this host's etcd votes":                func(r *state.EtcdReport) { r.Snapshot.Local = pair().Snapshot.Local },
	} {
		t.Run(name, func(t *testing.T) {
			s := withEtcd(t, func() state.EtcdReport { r := superseded(); change(&r); return r })
			if did, err := s.Release(t.Context()); did != "" || err != nil {
				t.Errorf("%q, %v", did, err)
			}
			if s.text(staticPod) == "" || len(s.runs) > 0 {
				t.Errorf("ran %v", s.runs)
			}
		})
	}
}

func TestTheTaskOfKubeletsEtcdTellsWhatItDid(t *testing.T) {
	s := newStand(t)
	s.put(staticPod, "kind: Pod\n")
	s.Report = func(context.Context) (state.EtcdReport, error) { return superseded(), nil }
	s.Sleep = func(context.Context, time.Duration) error { return nil }
	task := s.ReleaseTask()
	if out, err := task.Step(t.Context()); err != nil || !strings.HasPrefix(out.Changed, "took etcd from kubelet") {
		t.Errorf("%+v, %v", out, err)
	}
}

func TestAnEtcdKeeperThatHasNotBegunIsNoTrouble(t *testing.T) {
	s := newStand(t)
	s.put(staticPod, "kind: Pod\n")
	s.Report = func(ctx context.Context) (state.EtcdReport, error) {
		return explain.Ask(ctx, t.TempDir()+"/agent.sock")
	}
	task := s.ReleaseTask()
	if _, err := task.Step(t.Context()); err == nil || !task.NotYet(err) {
		t.Errorf("told as trouble: %v", err)
	}
}
