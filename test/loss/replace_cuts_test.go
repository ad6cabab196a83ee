package loss_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/replacement"
	"github.com/holdfast/holdfast/internal/lab"
	"github.com/holdfast/holdfast/internal/model/state"
)

const (
	// cutsWithin bounds a replacement in which hosts lose their power again and again: each cut
	// costs a boot, and what is cut off is done again.
	cutsWithin = 40 * time.Minute
	// lookEvery is short, for most rules of a plan hold for less than a second.
	lookEvery = 50 * time.Millisecond
	// fewest is how many cuts at different rules a play must have seen to mean something.
	fewest = 6
)

// TestAReplacementSurvivesPowerCuts cuts the power at each rule of the plan that is seen: of the host
// that stays and, from the moment at which the new one has an operating system, of the two in turns.
// The plan goes on by itself, and no acknowledged write is lost.
//
// It takes about half an hour.
func TestAReplacementSurvivesPowerCuts(t *testing.T) {
	s := up(t, 2)
	stays, lost := s.ControlPlanes()[0], s.ControlPlanes()[1]
	old, _ := s.Lab.Layout.Host(lost)
	s.burns(lost)
	s.eventually(5*time.Minute, stays+" goes on alone", func() error { return s.confirm(stays, lost) })
	w := s.write(stays)

	next := s.swap(lost)
	s.put(stays, "/root/bmc", next.BMC.Password+"\n")
	begin := fmt.Sprintf("holdfast host replace %s --yes --by test --bmc-address %s --bmc-certificate-verification Disabled --bmc-username %s "+
		"--bmc-password-file /root/bmc --keep-bmc-account --without-backup --join-file /root/join.ign --is-gone %s --timeout 10s",
		lost, next.BMC.URL(), next.BMC.Username, old.Serial)
	s.eventually(2*time.Minute, "the plan begins", func() error {
		out, err := s.Sh(t.Context(), stays, begin) // it waits for a machine that nobody has installed, and ends early
		if s.planned(stays) == "" {
			return fmt.Errorf("%s, %w", out, err)
		}
		return nil
	})

	cut, installed, words := map[string]string{}, false, 0
	victims := []string{stays, lost}
	end := time.Now().Add(cutsWithin)
	for s.planned(stays) != "whole" {
		if time.Now().After(end) {
			t.Fatalf("not whole within %s, after cuts at %v; the plan is %s", cutsWithin, cut, s.planned(stays))
		}
		rule := s.rule(stays)
		switch {
		case rule == "newcomer.install" && !installed:
			s.eventually(time.Minute, "the join file", func() error {
				out, err := s.Sh(t.Context(), stays, "holdfast host replace "+lost+" --join-file /root/join.ign --timeout 5s")
				if _, unread := s.ReadFile(t.Context(), stays, "/root/join.ign"); unread != nil {
					return fmt.Errorf("%s, %w", out, err)
				}
				return nil
			})
			s.install(lost, s.on(stays, "cat /root/join.ign"))
			installed = true
		case rule != "" && rule != "newcomer.install" && !strings.HasPrefix(rule, "rest") && cut[rule] == "":
			victim := stays
			if installed {
				victim = victims[len(cut)%len(victims)]
			}
			cut[rule] = victim
			t.Logf("%s: %s loses its power", rule, victim)
			s.lightning(victim)
		case !installed && s.asks(stays):
			// Until its keeper has the word that there is no peer, a host that lost its power has no proof.
			out, err := s.Sh(t.Context(), stays, fmt.Sprintf("holdfast quorum confirm --phrase '%s is off' --reason test", lost))
			t.Logf("%s asks for a person again: %s, %v", stays, out, err)
			if err == nil {
				words++
			}
		}
		time.Sleep(lookEvery)
	}
	t.Logf("whole after %d cuts and %d words of a person: %v", len(cut), words, cut)
	if words > len(cut) { // a word that was given may be asked for until the keeper has read it
		t.Logf("that are more words than cuts")
	}
	if len(cut) < fewest {
		t.Errorf("cuts at %d rules, want %d at least", len(cut), fewest)
	}
	s.eventually(wholeWithin, "the site is whole", func() error { return s.Whole(t.Context()) })
	s.on(stays, "holdfast fencing verify")
	w.judge()
}

// asks reports whether the keeper of a host waits for a person's word.
func (s site) asks(stays string) bool {
	r, err := s.Etcd(s.Context(), stays)
	return err == nil && r.Verdict.Action == state.EtcdAskHuman
}

// lightning takes a host's power away, and gives it back.
func (s site) lightning(name string) {
	s.Helper()
	if err := s.Power.Inject(s.Context(), lab.Fault{Kind: lab.FaultReset, Host: name}); err != nil {
		s.Fatal(err)
	}
}

// rule is what the agent of the host that stays decided by last, empty while nothing tells it.
func (s site) rule(stays string) string {
	var doing replacement.Doing
	data, err := s.ReadFile(s.Context(), stays, replacement.DoingPath)
	if err != nil || json.Unmarshal(data, &doing) != nil {
		return ""
	}
	return doing.Rule
}

// planned is the stage of the plan, empty while the host is off.
func (s site) planned(stays string) string {
	var plan struct{ Stage string }
	data, err := s.ReadFile(s.Context(), stays, replacement.PlanPath)
	if err != nil || json.Unmarshal(data, &plan) != nil {
		return ""
	}
	return plan.Stage
}
