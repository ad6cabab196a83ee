package backup

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	configv1alpha1 "github.com/openshift/api/config/v1alpha1"
	"github.com/prometheus/client_golang/prometheus"

	decide "github.com/holdfast/holdfast/internal/decide/backup"
	model "github.com/holdfast/holdfast/internal/model/backup"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/powercut"
)

func TestASiteHasBackupsFromItsFirstDayWithoutAWish(t *testing.T) {
	w := newWorld(t)
	w.run(30 * time.Minute)
	if len(w.good()) != 1 {
		t.Fatalf("after half an hour: %q, started %q", w.good(), w.started)
	}
	w.run(9 * 24 * time.Hour)
	s := w.summary()
	if got := len(w.good()); got != 7 || len(s.Kept) != 7 || s.Keep != 7 || s.Failed != nil || s.Doing != nil || len(w.started) < 10 {
		t.Errorf("%d are kept of %d runs, %+v", got, len(w.started), s)
	}
	if b, is := s.Newest(w.now); !is || w.now.Sub(b.Taken) > 25*time.Hour || !s.Next.After(w.now) || s.Next.Sub(w.now) > 25*time.Hour {
		t.Errorf("%+v, next %s at %s", b, s.Next, w.now)
	}
	if w.request != nil {
		t.Error("a request lies there, with its credentials")
	}
	w.away = true
	w.boot()
	w.run(3 * 24 * time.Hour)
	if got := len(w.good()); got != 7 {
		t.Errorf("the API, which had said that there is no wish, is away: %d are kept", got)
	}
}

func TestTheWishOfTheSiteIsFollowedAndOutlivesTheAPI(t *testing.T) {
	w := newWorld(t)
	w.spec = &configv1alpha1.EtcdBackupSpec{Schedule: "0 */2 * * *", RetentionPolicy: configv1alpha1.RetentionPolicy{RetentionType: configv1alpha1.RetentionTypeNumber, RetentionNumber: &configv1alpha1.RetentionNumberConfig{MaxNumberOfBackups: 3}}}
	w.secret = secretText
	w.run(3 * time.Hour)
	if s := w.summary(); s.Schedule != "0 */2 * * * UTC" || s.Keep != 3 || strings.Join(s.Targets, "") != "nas" || s.Period != 2*time.Hour || len(s.Recipients) != 1 {
		t.Fatalf("%+v", s)
	}
	if info, err := os.Stat(filepath.Join(w.dir, wishName)); err != nil || info.Mode().Perm() != 0o600 || !strings.Contains(w.file(wishName), "S3cr3t-x") {
		t.Fatalf("%v, %v", info, err)
	}
	if strings.Contains(w.annotations[decide.Annotation], "S3cr3t") {
		t.Error("a password is told")
	}
	w.away = true
	w.boot()
	before := len(w.started)
	w.run(10 * time.Hour)
	if n := len(w.started) - before; n < 4 || !w.catalogue[len(w.catalogue)-1].Has("nas") {
		t.Errorf("%d runs in ten hours without the API: %q", n, w.started)
	}
	w.away = false
	w.run(2 * time.Minute)
	if got := w.summary().Kept; len(got) < 3 || got[0].ID != w.catalogue[len(w.catalogue)-1].ID {
		t.Errorf("the API is back and was told %+v", got)
	}
}

func TestAWishWithMistakesIsToldAndTheLastRightOneIsFollowed(t *testing.T) {
	w := newWorld(t)
	w.secret = secretText
	w.run(5 * time.Minute)
	w.spec, w.secret = &configv1alpha1.EtcdBackupSpec{PVCName: "x"}, "targets: [{name: A}]"
	w.run(5 * time.Minute)
	s := w.summary()
	if len(s.Refused) < 2 || strings.Join(s.Targets, "") != "nas" {
		t.Errorf("%+v", s)
	}
	w.restart()
	w.run(2 * time.Minute)
	if s := w.summary(); len(s.Refused) < 2 || strings.Join(s.Targets, "") != "nas" {
		t.Errorf("after a new start: %+v", s)
	}
	w.spec, w.secret = &configv1alpha1.EtcdBackupSpec{}, "{}\n"
	w.run(2 * time.Minute)
	if s := w.summary(); len(s.Refused)+len(s.Targets) > 0 {
		t.Errorf("nothing is wished: %+v", s)
	}
}

// The site upgrades to a release that refuses more, or goes back from one that allowed more, or the file
// is damaged or gone. The default wish keeps seven.
func TestAWishThatThisReleaseRefusesRemovesNoBackup(t *testing.T) {
	for name, c := range map[string]struct {
		wish, secret string
		refused      bool
	}{
		"a field of a newer release": {`{"config": "keep: 60\nnewer: true\n"}`, "keep: 60\nnewer: true\n", true},
		"a damaged file":             {`{"config": "kee`, "", false},
		"no file":                    {"", "", false},
	} {
		w := newWorld(t)
		if c.wish != "" {
			if err := os.WriteFile(filepath.Join(w.dir, wishName), []byte(c.wish), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 20 {
			taken := dawn.Add(time.Duration(i-20) * 24 * time.Hour)
			w.catalogue = append(w.catalogue, model.Entry{
				Format: model.Format, ID: model.NewID("cp-1", taken), Host: "cp-1", Site: "shop.example.com", Taken: taken, Reason: decide.BySchedule,
				Checks: []model.Check{{Name: "restore", OK: true}},
			}.Judge())
		}
		w.secret, w.away = c.secret, true
		w.boot()
		w.run(24 * time.Hour)
		w.away = !c.refused // the API has the same text
		w.run(24 * time.Hour)
		if n := len(w.good()); n < 22 {
			t.Errorf("%s: %d backups are left of 20, and two days have theirs: %q", name, n, w.started)
		}
		w.away = false
		if c.refused {
			if s := w.summary(); !s.Held || len(s.Refused) == 0 || !strings.Contains(s.Stays, "without mistakes") {
				t.Errorf("%s: %+v", name, s)
			}
		}
		w.secret = "keep: 9\n"
		w.run(time.Hour)
		if s := w.summary(); len(w.good()) != 9 || s.Held || len(s.Refused) > 0 || s.Stays != "" {
			t.Errorf("%s: the wish has no mistakes any more: %d are left, %+v", name, len(w.good()), s)
		}
	}
}

// L36: somebody deletes the namespace of the Secret, or the kind of the Backup.
func TestAWishThatSomebodyDeletedIsToldAndFollowed(t *testing.T) {
	keep := &configv1alpha1.EtcdBackupSpec{Schedule: "0 */2 * * *", RetentionPolicy: configv1alpha1.RetentionPolicy{RetentionType: configv1alpha1.RetentionTypeNumber, RetentionNumber: &configv1alpha1.RetentionNumberConfig{MaxNumberOfBackups: 9}}}
	for _, c := range []struct {
		spec   *configv1alpha1.EtcdBackupSpec
		secret string
		gone   []string
	}{
		{keep, "", []string{"Secret openshift-etcd/holdfast-backup is gone"}},
		{nil, secretText, []string{"Backup cluster is gone"}},
		{nil, "", []string{"Backup cluster is gone", "Secret openshift-etcd/holdfast-backup is gone"}},
	} {
		w := newWorld(t)
		w.spec, w.secret = keep, secretText
		w.run(19 * time.Hour)
		w.spec, w.secret = c.spec, c.secret
		for _, again := range []func(){func() {}, w.restart, w.boot} {
			again()
			w.run(3 * time.Hour)
			s := w.summary()
			b, _ := s.Newest(w.now)
			if len(w.good()) != 9 || strings.Join(s.Targets, "") != "nas" || len(b.Copies) != 1 || b.Copies[0].Verified.IsZero() {
				t.Errorf("%q: %d are kept: %+v", c.gone, len(w.good()), s)
			}
			if told := strings.Join(s.Refused, "; "); len(s.Refused) != len(c.gone) || !strings.Contains(told, c.gone[0]) || !strings.Contains(told, c.gone[len(c.gone)-1]) {
				t.Errorf("told is %q, want %q", told, c.gone)
			}
		}
		w.spec, w.secret = keep, secretText
		w.run(2 * time.Minute)
		if s := w.summary(); len(s.Refused) > 0 {
			t.Errorf("both are there again: %q", s.Refused)
		}
	}
}

func TestAPersonGetsABackupNowAndIsToldHowItWent(t *testing.T) {
	w := newWorld(t)
	w.run(time.Hour)
	wish := decide.Ask(w.now, "before the move")
	w.annotations[decide.WantedOf] = wish
	w.run(5 * time.Minute)
	s := w.summary()
	if s.Asked != wish || s.Answer.ID == "" || s.Answer.Failed != "" || s.Kept[0].Reason != "before the move" || s.Kept[0].ID != s.Answer.ID {
		t.Fatalf("%+v", s)
	}
	before := len(w.started)
	w.run(time.Hour)
	if len(w.started) != before {
		t.Errorf("the wish was answered, and yet %q", w.started[before:])
	}
	w.fails = "no room: 1 of 5 GiB are free"
	w.annotations[decide.WantedOf] = decide.Ask(w.now, "")
	w.run(5 * time.Minute)
	if s := w.summary(); s.Answer.Failed != w.fails || s.Failed == nil || s.Failed.Times != 1 {
		t.Errorf("%+v", s)
	}
}

// `backup configure` writes a wish with another target, and asks for a backup that tries it.
func TestWhoAsksRightAfterAChangeGetsABackupAtTheNewTargets(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(w *world)
		waits  bool
	}{
		{"it is read at once", func(*world) {}, false},
		{"it comes in the middle of a look", func(w *world) {
			asked, wish := w.annotations[decide.WantedOf], w.secret
			delete(w.annotations, decide.WantedOf)
			w.secret = secretText
			w.looks = func() {
				w.annotations[decide.WantedOf], w.secret, w.looks = asked, wish, func() {}
				w.hear()
			}
		}, false},
		{"it cannot be read for some minutes", func(w *world) { w.unread = true }, true},
	} {
		w := newWorld(t)
		w.secret = secretText
		w.run(time.Hour + 10*time.Second)
		w.secret = strings.ReplaceAll(secretText, "nas", "office")
		w.annotations[decide.WantedOf] = decide.Ask(w.now, "")
		c.change(w)
		before := len(w.started)
		w.run(5 * time.Minute)
		if waits := len(w.started) == before && strings.Contains(w.summary().Waits, "it is not known what the site wants now: connection refused"); waits != c.waits {
			t.Errorf("%s: %q, %+v", c.name, w.started[before:], w.summary())
		}
		w.unread = false
		w.run(5 * time.Minute)
		if s := w.summary(); len(w.started) != before+1 || s.Answer.ID != s.Kept[0].ID || strings.Join(s.Targets, "") != "office" || len(s.Kept[0].Copies) != 1 || s.Kept[0].Copies[0].Target != "office" {
			t.Errorf("%s: %q, %+v", c.name, w.started[before:], s)
		}
	}
}

func TestWhatIsNotGoodNeverCounts(t *testing.T) {
	for name, harm := range map[string]func(w *world){
		"no room":             func(w *world) { w.fails = "no room" },
		"a check fails":       func(w *world) { w.bad = "the hashes differ" },
		"ended in the middle": func(w *world) { w.dies = true },
	} {
		w := newWorld(t)
		harm(w)
		w.run(2 * 24 * time.Hour)
		s := w.summary()
		if _, is := s.Newest(w.now); is || s.Failed == nil || s.Failed.Times < 5 || len(w.started) > 30 {
			t.Errorf("%s: %+v, %d runs", name, s.Failed, len(w.started))
		}
		w.fails, w.bad, w.dies = "", "", false
		w.run(5 * time.Hour)
		if s := w.summary(); s.Failed != nil || len(w.good()) == 0 {
			t.Errorf("%s: it does not recover: %+v", name, s)
		}
	}
}

func TestABackupIsEndedForATakeOverAndTakenLater(t *testing.T) {
	w := newWorld(t)
	w.run(15*time.Minute + 20*time.Second)
	if !w.works {
		t.Fatalf("no backup is on its way at %s", w.now)
	}
	w.etcd.Value.Members = "1"
	w.run(time.Second) // one look
	if w.works || w.stopped == 0 {
		t.Fatal("it still works a second after the peer was lost")
	}
	if s := w.summary(); s.Failed != nil || len(w.good()) > 0 {
		t.Errorf("what was ended counts as a failure: %+v", s)
	}
	w.run(10 * time.Minute)
	if len(w.good()) != 1 {
		t.Errorf("the lone survivor has no backup: %q", w.started)
	}
}

// The power comes back for both hosts at once, and etcd serves before the API tells who they are.
func TestHostsThatBootTogetherHaveTheirPartsOfTheHourWithoutTheAPI(t *testing.T) {
	w := newWorld(t)
	w.run(time.Hour)
	w.now, w.away = w.now.Add(24*time.Hour).Truncate(time.Hour).Add(55*time.Minute), true // its time is 05:22, and its part ends at 52
	w.boot()
	before := len(w.started)
	w.run(20 * time.Minute)
	if len(w.started) != before {
		t.Errorf("in the part of the other host it began %q", w.started[before:])
	}
	w.run(20 * time.Minute)
	if len(w.started) != before+1 {
		t.Errorf("in its own part it began %q", w.started[before:])
	}
}

func TestWhatIsInTheWayIsTold(t *testing.T) {
	w := newWorld(t)
	w.etcd.Value.Learner = "cp-2"
	w.run(time.Hour)
	s := w.summary()
	if len(w.started) > 0 || !strings.Contains(s.Waits, "cp-2 catches up") || s.Due.IsZero() {
		t.Errorf("%q, %+v", w.started, s)
	}
	busy, err := decide.Summary{Doing: &decide.Doing{ID: "x", Since: w.now}}.Text()
	if err != nil {
		t.Fatal(err)
	}
	w.etcd.Value.Learner = ""
	w.others = []state.Node{{Name: "cp-3", Ready: true, Labels: map[string]string{state.LabelControlPlane: ""}, Annotations: map[string]string{decide.Annotation: busy}}}
	w.run(10 * time.Minute)
	if s := w.summary(); len(w.started) > 0 || s.Waits != "cp-3 takes a backup" {
		t.Errorf("%q, %+v", w.started, s)
	}
	w.others = nil
	for range 600 {
		if w.run(time.Second); w.works {
			break
		}
	}
	for _, phase := range []model.Phase{model.PhaseSnapshot, model.PhaseSend} {
		w.state.Phase = phase
		w.run(10 * time.Second)
		if s := w.summary(); s.Doing == nil || s.Doing.Phase != phase.Words() || s.Doing.PastEtcd != (phase == model.PhaseSend) {
			t.Errorf("%s: %+v", phase, s.Doing)
		}
	}
}

// Somebody reads that the disk is full, and has fewer kept.
func TestOnAFullDiskFewerAreKeptIfSomebodySaysSo(t *testing.T) {
	keep := func(n int) *configv1alpha1.EtcdBackupSpec {
		return &configv1alpha1.EtcdBackupSpec{RetentionPolicy: configv1alpha1.RetentionPolicy{RetentionType: configv1alpha1.RetentionTypeNumber, RetentionNumber: &configv1alpha1.RetentionNumberConfig{MaxNumberOfBackups: n}}}
	}
	w := newWorld(t)
	w.run(8 * 24 * time.Hour)
	w.free = 1 << 30
	w.run(24 * time.Hour)
	w.spec = keep(3)
	w.run(20 * time.Minute)
	if s := w.summary(); len(w.good()) != 3 || !strings.Contains(s.Waits, "MiB are free") || s.Stays != "" {
		t.Errorf("%d are left, %+v", len(w.good()), s)
	}
	w.run(2 * 24 * time.Hour)
	w.spec = keep(2)
	w.run(20 * time.Minute)
	if s := w.summary(); len(w.good()) != 3 || !strings.Contains(s.Stays, "older than two periods") {
		t.Errorf("%d are left, %+v", len(w.good()), s)
	}
	w.free = 100 << 30
	w.run(time.Hour)
	if s := w.summary(); len(w.good()) != 2 || s.Stays != "" || s.Waits != "" {
		t.Errorf("%d are left, %+v", len(w.good()), s)
	}
}

// Each change of a Node goes to every host, and the room that is free differs at each look.
func TestAHostThatLacksRoomChangesItsNodeSeldom(t *testing.T) {
	for name, prepare := range map[string]func(w *world){
		"a backup is due": func(*world) {},
		"a target lacks the newest one": func(w *world) {
			w.secret, w.noRoute = secretText, true
			w.run(2 * time.Hour)
		},
	} {
		w := newWorld(t)
		prepare(w)
		looked := uint64(0)
		w.looks = func() { looked++; w.free = 1<<30 + looked%1000<<20 }
		w.run(time.Hour)
		if s := w.summary(); !strings.Contains(s.Waits, "MiB are free") {
			t.Fatalf("%s: %+v", name, s)
		}
		before := w.writes
		w.run(time.Hour)
		if n := w.writes - before; n == 0 || n > 7 {
			t.Errorf("%s: it changed its Node %d times in an hour", name, n)
		}
		w.looks = func() {}
		w.etcd.Value.Learner = "cp-2"
		w.run(time.Minute)
		if s := w.summary(); !strings.Contains(s.Waits, "cp-2 catches up") {
			t.Errorf("%s: another reason is not told at once: %+v", name, s)
		}
	}
}

func TestAnAnnotationThatSomebodyRemovedComesBack(t *testing.T) {
	w := newWorld(t)
	w.run(time.Hour)
	writes := w.writes
	w.run(time.Hour)
	if w.writes != writes {
		t.Errorf("%d writes without news", w.writes-writes)
	}
	w.annotations = map[string]string{}
	w.run(2 * time.Minute)
	if len(w.summary().Kept) != 1 {
		t.Errorf("%+v", w.annotations)
	}
}

// TestAPowerCutAtEachWriteLosesNothing cuts the power before and after each effect of the
// first two backups with a wish, boots, and looks whether the site has its backups after all, and
// whether no bad one counts.
func TestAPowerCutAtEachWriteLosesNothing(t *testing.T) {
	whole := newWorld(t)
	whole.spec, whole.secret = &configv1alpha1.EtcdBackupSpec{Schedule: "0 */2 * * *"}, secretText
	whole.run(3 * time.Hour)
	effects := whole.cut.Effects
	if effects < 15 {
		t.Fatalf("%d effects", effects)
	}
	for at := 1; at <= effects; at++ {
		for _, after := range []bool{false, true} {
			w := newWorld(t)
			w.spec, w.secret = whole.spec, whole.secret
			w.cut = powercut.Cut{At: at, After: after}
			w.run(3 * time.Hour)
			if !w.cut.Dead {
				continue
			}
			w.now = w.now.Add(3 * time.Minute)
			w.boot()
			w.run(3 * time.Hour)
			s := w.summary()
			b, is := s.Newest(w.now)
			if !is || w.now.Sub(b.Taken) > 2*time.Hour+5*time.Minute || s.Doing != nil || w.request != nil && !w.works {
				t.Errorf("cut at %d (after: %v): %+v, started %q", at, after, s, w.started)
			}
			if strings.Join(s.Targets, "") != "nas" {
				t.Errorf("cut at %d (after: %v): the wish is lost", at, after)
			}
		}
	}
}

// TestAnAgentThatIsStartedAnewFollowsTheRunningUnit and starts no second one.
func TestAnAgentThatIsStartedAnewFollowsTheRunningUnit(t *testing.T) {
	w := newWorld(t)
	w.run(15*time.Minute + 20*time.Second)
	if !w.works {
		t.Fatal("no backup is on its way")
	}
	w.restart()
	w.run(10 * time.Minute)
	if len(w.started) != 1 || len(w.good()) != 1 || w.summary().Failed != nil {
		t.Errorf("%q, %+v", w.started, w.summary())
	}
}

func TestBackupsHaveTheirMetrics(t *testing.T) {
	const sent = "holdfast_backup_sent_timestamp_seconds "
	const all = "holdfast_backup_aimed_timestamp_seconds holdfast_backup_failures holdfast_backup_good_timestamp_seconds holdfast_backup_period_seconds " + sent + "holdfast_backup_since_timestamp_seconds"
	for what, c := range map[string]struct {
		away bool
		want string
	}{
		"each copy was read back": {false, all},
		// A host that has just joined must not say that the target has something new.
		"no copy was read back yet": {true, strings.Replace(all, sent, "", 1)},
	} {
		w := newWorld(t)
		w.secret, w.noRoute = secretText, c.away
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(w.a)
		if got, err := registry.Gather(); err != nil || len(got) > 0 {
			t.Errorf("before the first look: %v, %v", got, err)
		}
		w.run(time.Hour)
		got, err := registry.Gather()
		var names []string
		for _, f := range got {
			names = append(names, f.GetName())
		}
		if err != nil || strings.Join(names, " ") != c.want {
			t.Errorf("%s: %q, %v", what, names, err)
		}
	}
}
