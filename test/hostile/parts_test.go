package hostile_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast/holdfast/test/hostile/attack"
	"github.com/holdfast/holdfast/test/twonode/client"
)

// mostWithout is the longest time that clients may be without a write at the
// API's address while nobody can take that away.
const mostWithout = 5 * time.Second

// secrets makes all attempts that must be refused, for two minutes. Nothing may
// move meanwhile, and each refused request must be in the audit log of a
// control plane.
func (s *siege) secrets(t *testing.T) {
	s.keepIfFailed(t, attack.Secrets)
	before := s.look(t)
	watch := s.watch(t)
	rec, load := s.load(t)
	began := time.Now()
	all := s.attack(t, attack.Secrets, *seconds)
	ended := time.Now()
	watch.stop()
	history := s.kept(t, rec, load)
	judge(t, all)
	covers(t, all)
	if gap := history.Gap(atVIP, rec.At(began), rec.At(ended)); gap.Length > mostWithout {
		t.Errorf("nobody could write at the API's address for %s, want at most %s", gap.Length, mostWithout)
	}
	watch.neverMoved(t)
	s.untouched(t, before)
	s.recorded(t, all)
	s.nothingWasTold(t)
	s.fences(t)
}

// wire makes the attacks that cannot be prevented, as SECURITY.md says. They
// must end with the attacker, cause no fence, and bring him no secret.
func (s *siege) wire(t *testing.T) {
	s.keepIfFailed(t, attack.Wire)
	before := s.look(t)
	rec, load := s.load(t)
	began := time.Now()
	all := s.attack(t, attack.Wire, wireSeconds)
	s.eventually(t, wholeWithin, "the site is whole", func() error { return s.Whole(t.Context()) })
	history := s.kept(t, rec, load)
	judge(t, all)
	t.Logf("nobody could write at the API's address for %s, by no way for %s",
		history.Gap(atVIP, rec.At(began), rec.Since()).Length, history.Gap("", rec.At(began), rec.Since()).Length)
	s.atHome(t)
	s.nobodyFell(t, before)
	s.nothingWasTold(t)
	s.fences(t)
}

// kept ends a load and checks that no acknowledged write is lost.
func (s *siege) kept(t *testing.T, rec *client.Recorder, load *client.Load) client.History {
	t.Helper()
	if err := load.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	history := rec.Copy()
	if err := client.Check(history); err != nil {
		t.Errorf("the cluster broke its word: %v", err)
		if err := client.Save(filepath.Join(s.dir, "history"), history); err != nil {
			t.Error(err)
		}
	}
	return history
}

// judge fails for each attempt that did not end as it must.
func judge(t *testing.T, all []attack.Line) {
	t.Helper()
	count := map[string]int{}
	for _, l := range all {
		count[string(l.Expected)]++
		if !l.OK() {
			t.Errorf("%s", l)
		} else if l.Expected == attack.Open || l.Expected == attack.Untold {
			t.Logf("%s", l)
		}
	}
	t.Logf("%d attempts: %v", len(all), count)
}

// covers checks that the attacker had every identity, and that every kind of
// attempt was made: a refusal proves nothing if he had no identity.
func covers(t *testing.T, all []attack.Line) {
	t.Helper()
	knownAs, expected := map[string]bool{}, map[string]bool{}
	for _, l := range all {
		expected[string(l.Expected)] = true
		if l.Agent != "" && l.Status == 403 {
			knownAs[l.Who] = true
		}
	}
	for _, who := range []string{"system:node:" + worker, "system:serviceaccount:kube-flannel:flannel", "system:serviceaccount:kube-system:kube-proxy", "a host that joins"} {
		if !knownAs[who] {
			t.Errorf("nothing was tried as %s: %v", who, knownAs)
		}
	}
	for _, e := range []attack.Expectation{attack.Refused, attack.Closed, attack.Nothing, attack.Untold} {
		if !expected[string(e)] {
			t.Errorf("nothing was tried that has to be %s", e)
		}
	}
}
