package backup

import (
	"strings"
	"testing"
	"time"

	configv1alpha1 "github.com/openshift/api/config/v1alpha1"

	"github.com/holdfast/holdfast/internal/decide/drain"
	"github.com/holdfast/holdfast/internal/model/state"
)

// TestAHostRemembersSinceWhenATargetIsConfigured: over boots, and anew for one that comes again.
func TestAHostRemembersSinceWhenATargetIsConfigured(t *testing.T) {
	w := newWorld(t)
	w.secret = secretText
	w.run(time.Hour)
	first := w.summary().Aimed["nas"]
	if first.IsZero() || len(w.summary().Aimed) != 1 {
		t.Fatalf("%v", w.summary().Aimed)
	}
	w.boot()
	w.run(time.Hour)
	if got := w.summary().Aimed["nas"]; !got.Equal(first) {
		t.Errorf("after a boot %s, before %s", got, first)
	}
	w.secret = strings.ReplaceAll(secretText, "nas", "office")
	w.run(time.Hour)
	if got := w.summary().Aimed; len(got) != 1 || !got["office"].After(first) {
		t.Errorf("another target: %v", got)
	}
	w.secret = secretText
	w.run(time.Hour)
	if got := w.summary().Aimed; len(got) != 1 || !got["nas"].After(first) {
		t.Errorf("the first one again: %v", got)
	}
}

func TestATargetThatWasAwayGetsTheNewestBackup(t *testing.T) {
	w := newWorld(t)
	w.spec = &configv1alpha1.EtcdBackupSpec{Schedule: "0 23 * * *"}
	w.secret, w.noRoute = secretText, true
	w.run(4 * time.Hour)
	s := w.summary()
	if len(s.Kept) != 1 || s.Kept[0].Copies[0].Failed != "no route" || s.Failed != nil {
		t.Fatalf("%+v", s)
	}
	if n := len(w.started); n < 3 || n > 10 {
		t.Errorf("%d tries in four hours", n)
	}
	w.noRoute = false
	w.run(4*time.Hour + time.Minute)
	if s := w.summary(); s.Kept[0].Copies[0].Verified.IsZero() || len(w.good()) != 1 {
		t.Errorf("%+v", s)
	}
	before := len(w.started)
	w.run(time.Hour)
	if len(w.started) != before {
		t.Errorf("it is there, and yet %q", w.started[before:])
	}
}

// TestATargetGetsTheNewestBackupThoughAHostIsAwayForDays: a copy waits for as long as a backup does.
func TestATargetGetsTheNewestBackupThoughAHostIsAwayForDays(t *testing.T) {
	w := newWorld(t)
	w.spec = &configv1alpha1.EtcdBackupSpec{Schedule: "0 23 * * *"}
	w.secret, w.noRoute = secretText, true
	w.run(4 * time.Hour)
	tries := len(w.started)
	w.noRoute = false
	w.others = []state.Node{{Name: "cp-3", Ready: true, Labels: map[string]string{state.LabelControlPlane: ""}, Annotations: map[string]string{drain.CordonedBy: "x"}}}
	w.run(5 * time.Hour)
	if s := w.summary(); len(w.started) != tries || s.Waits != "cp-3 is drained" {
		t.Fatalf("in the first hours it began %q, and says %q", w.started[tries:], s.Waits)
	}
	w.noRoute = true // the first try after six hours fails, and the next one does not wait for six more
	w.run(3 * time.Hour)
	if len(w.started) == tries {
		t.Fatal("after six hours it has tried nothing")
	}
	w.noRoute = false
	w.run(4 * time.Hour)
	if s := w.summary(); s.Kept[0].Copies[0].Verified.IsZero() || s.Waits != "" {
		t.Errorf("%q, %+v", w.started[tries:], s)
	}
}
