package replace

import (
	"bytes"
	"testing"

	"github.com/holdfast/holdfast/internal/decide/replace"
	"github.com/holdfast/holdfast/internal/model/jointoken"
	"github.com/holdfast/holdfast/internal/model/retired"
	modelsite "github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/powercut"
)

// joinKeyOf returns a key of join secrets that begins with a word.
func joinKeyOf(word string) []byte {
	return append([]byte(word), bytes.Repeat([]byte("."), jointoken.MinKeyBytes-len(word))...)
}

// TestAnotherKeyOfJoinSecretsStaysWhileTheNewMachineIsWaitedFor: a person may type 'holdfast join-secret rotate' on
// each day of it. The plan once wrote its own key back within seconds.
func TestAnotherKeyOfJoinSecretsStaysWhileTheNewMachineIsWaitedFor(t *testing.T) {
	l, job := newLab(t)
	job.Secrets.JoinKey, job.Secrets.FormerJoinKey = joinKeyOf("plan"), joinKeyOf("former")
	job.Plan.Reloaded = true
	l.api.Graves["cp-2"] = retired.Host{Name: "cp-2", UID: "u"}
	for _, act := range []replace.Act{replace.ChangeKey, replace.PutToken} {
		if err := l.world().Do[act](t.Context(), job); err != nil {
			t.Fatal(err)
		}
	}
	for word, want := range map[string]bool{"former": false, "plan": true, "person": true} {
		l.api.Secrets["kube-system/holdfast-join-key"] = map[string][]byte{"key": joinKeyOf(word)}
		f := l.look(t.Context(), job)
		f.Plan = job.Plan
		if d := replace.Decide(f); !state.Is(f.JoinKey, want) || (d.Act == replace.ChangeJoin) == want {
			t.Errorf("the key %s: %+v, then %s", word, f.JoinKey, d.Rule)
		}
	}
	for what, data := range map[string]map[string][]byte{"no Secret": nil, "no key": {}, "a short key": {"key": []byte("short")}} {
		l.api.Secrets["kube-system/holdfast-join-key"] = data
		if f := l.look(t.Context(), job); !state.Is(f.JoinKey, false) {
			t.Errorf("%s: %+v", what, f.JoinKey)
		}
	}
	// An earlier release began the plan: nothing but its own key is known to shut the old host out.
	job.Secrets.FormerJoinKey = nil
	for word, want := range map[string]bool{"former": false, "plan": true} {
		l.api.Secrets["kube-system/holdfast-join-key"] = map[string][]byte{"key": joinKeyOf(word)}
		if f := l.look(t.Context(), job); !state.Is(f.JoinKey, want) {
			t.Errorf("the key %s, without that of the old host: %+v", word, f.JoinKey)
		}
	}
}

func TestWhichKeyOfJoinSecretsTheOldHostHas(t *testing.T) {
	l, _ := newLab(t)
	l.JoinKey = joinKeyOf("site")
	want := func(what, word string) {
		t.Helper()
		if got, err := l.world().JoinKey(t.Context()); err != nil || !bytes.Equal(got, joinKeyOf(word)) {
			t.Errorf("%s: %q, %v", what, got, err)
		}
	}
	want("nobody made another one", "site")
	if err := powercut.WriteFile(l.path(modelsite.JoinKeyPath), joinKeyOf("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	want("somebody deleted the Secret", "kept")
	l.api.Secrets["kube-system/holdfast-join-key"] = map[string][]byte{"key": joinKeyOf("cluster")}
	want("the cluster has one", "cluster")
}
