package backup

import (
	"strings"
	"testing"
	"time"

	configv1alpha1 "github.com/openshift/api/config/v1alpha1"

	decide "github.com/holdfast/holdfast/internal/decide/backup"
	model "github.com/holdfast/holdfast/internal/model/backup"
	renderhost "github.com/holdfast/holdfast/internal/render/host"
)

// TestASlowLineHasLongerUntilTheNextBackupIsDue: only a run that asks nothing of etcd any more may last so long.
func TestASlowLineHasLongerUntilTheNextBackupIsDue(t *testing.T) {
	for _, phase := range []model.Phase{model.PhaseSend, model.PhaseSnapshot} {
		goesOn := phase == model.PhaseSend
		w := newWorld(t)
		w.spec, w.secret = &configv1alpha1.EtcdBackupSpec{Schedule: "0 12 * * *"}, secretText
		w.run(15*time.Minute + 20*time.Second)
		if !w.works || w.request.Limits.Most != 12*time.Hour {
			t.Fatalf("it works: %t, %+v", w.works, w.request)
		}
		w.until, w.state.Phase = w.now.Add(100*time.Hour), phase
		w.now = w.now.Add(6 * time.Hour)
		w.run(time.Second)
		if w.works != goesOn {
			t.Errorf("%s for six hours: it works: %t", phase, w.works)
		}
		if !goesOn {
			continue
		}
		w.now = dawn.Add(13 * time.Hour)
		w.run(time.Second)
		if w.works || w.stopped != 1 {
			t.Errorf("the next one is due, and it works: %t", w.works)
		}
	}
}

// TestTheUnitLastsLongerThanTheRun: its own limit is for a process that hangs.
func TestTheUnitLastsLongerThanTheRun(t *testing.T) {
	_, text, _ := strings.Cut(string(renderhost.Backup().Data), "TimeoutStartSec=")
	text, _, _ = strings.Cut(text, "\n")
	lasts, err := time.ParseDuration(strings.ReplaceAll(text, "min", "m"))
	if most := model.DefaultTotal + decide.Longer(365*24*time.Hour); err != nil || lasts <= most || lasts > most+time.Hour {
		t.Errorf("the unit lasts for %s, a run for %s: %v", lasts, most, err)
	}
}
