package backup

import (
	"slices"
	"strings"
	"testing"
	"time"

	configv1alpha1 "github.com/openshift/api/config/v1alpha1"

	model "github.com/holdfast/holdfast/internal/model/backup"
)

const recipient = "age1e5m0yl3l2duek29zelehdfrjtp2txzp02mm40n0h8m2u02yg0ussgrwkl4"

const secretText = `recipients: [` + recipient + `]
targets:
- name: shop-nas
  s3: {endpoint: "https://s3.example.com", bucket: backups, accessKey: AK, secretKey: "S3cr3t-x"}
`

func keepNumber(n int) configv1alpha1.RetentionPolicy {
	return configv1alpha1.RetentionPolicy{RetentionType: configv1alpha1.RetentionTypeNumber, RetentionNumber: &configv1alpha1.RetentionNumberConfig{MaxNumberOfBackups: n}}
}

func TestASiteThatWishesNothingHasBackups(t *testing.T) {
	w, mistakes := ReadWish(Inputs{}, "shop", time.LoadLocation)
	if len(mistakes) > 0 || w.Keep != 7 || w.Schedule.String() != DefaultSchedule("shop").String() || len(w.Targets) > 0 {
		t.Errorf("%s, %q", w, mistakes)
	}
}

func TestTheWishOfASiteIsReadFromBothObjects(t *testing.T) {
	spec := &configv1alpha1.EtcdBackupSpec{Schedule: "0 */6 * * *", TimeZone: "Europe/Berlin", RetentionPolicy: keepNumber(3)}
	for name, c := range map[string]struct {
		in   Inputs
		want string
	}{
		"both":                              {Inputs{spec, secretText}, "at 0 */6 * * * Europe/Berlin, 3 kept, on the control planes and at shop-nas"},
		"the object alone":                  {Inputs{Spec: spec}, "at 0 */6 * * * Europe/Berlin, 3 kept, on the control planes alone"},
		"the Secret alone":                  {Inputs{Config: secretText}, "at " + DefaultSchedule("shop").String() + ", 7 kept, on the control planes and at shop-nas"},
		"a schedule in the Secret":          {Inputs{Config: secretText + "schedule: '@hourly'\nkeep: 30\n"}, "at @hourly UTC, 30 kept, on the control planes and at shop-nas"},
		"the object goes before the Secret": {Inputs{spec, secretText + "schedule: '@hourly'\nkeep: 30\n"}, "at 0 */6 * * * Europe/Berlin, 3 kept, on the control planes and at shop-nas"},
		"an object that says nothing":       {Inputs{Spec: &configv1alpha1.EtcdBackupSpec{}}, "at " + DefaultSchedule("shop").String() + ", 7 kept, on the control planes alone"},
	} {
		w, mistakes := ReadWish(c.in, "shop", time.LoadLocation)
		if len(mistakes) > 0 || w.Words() != c.want {
			t.Errorf("%s: %s, %q", name, w, mistakes)
		}
	}
}

func TestEachMistakeOfAWishIsToldWithItsFieldAndWithoutSecrets(t *testing.T) {
	in := Inputs{
		Spec: &configv1alpha1.EtcdBackupSpec{
			Schedule: "61 3 * * *", TimeZone: "Mars", PVCName: "backups",
			RetentionPolicy: configv1alpha1.RetentionPolicy{RetentionType: configv1alpha1.RetentionTypeSize},
		},
		Config: strings.ReplaceAll(secretText, recipient, "S3cr3t-y") + "unknown: S3cr3t-z\n",
	}
	_, mistakes := ReadWish(in, "shop", time.LoadLocation)
	all := strings.Join(mistakes, "\n")
	for _, want := range []string{
		"Backup cluster: spec.etcd.schedule: the minute", "Backup cluster: spec.etcd.schedule: the time zone", "Backup cluster: spec.etcd.pvcName: Holdfast puts no backup into a volume",
		"Backup cluster: spec.etcd.retentionPolicy: Holdfast keeps a number", "Secret openshift-etcd/holdfast-backup: recipients[0]", "Secret openshift-etcd/holdfast-backup: unknown",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("%q is missing in\n%s", want, all)
		}
	}
	if strings.Contains(all, "S3cr3t") {
		t.Errorf("a secret is told:\n%s", all)
	}
	if _, mistakes := ReadWish(Inputs{Spec: &configv1alpha1.EtcdBackupSpec{TimeZone: "UTC"}}, "shop", time.LoadLocation); len(mistakes) != 1 || !strings.Contains(mistakes[0], "a time zone needs a schedule") {
		t.Errorf("%q", mistakes)
	}
}

func TestWhatASpecHoldsIsNotInTheSecretToo(t *testing.T) {
	c, err := model.Parse([]byte(secretText+"schedule: 0 3 * * *\ntimeZone: UTC\nkeep: 5\n"), CheckSchedule(time.LoadLocation))
	if err != nil {
		t.Fatal(err)
	}
	spec, rest := SpecOf(c)
	text, err := rest.Encode()
	if err != nil || strings.Contains(string(text), "schedule") {
		t.Errorf("%v", err)
	}
	w, mistakes := ReadWish(Inputs{&spec, string(text)}, "shop", time.LoadLocation)
	if len(mistakes) > 0 || w.Words() != "at 0 3 * * * UTC, 5 kept, on the control planes and at shop-nas" || w.Targets[0].S3.SecretKey.Reveal() != "S3cr3t-x" {
		t.Errorf("%s, %q", w, mistakes)
	}
}

func entry(id string, taken time.Time, good bool, at ...string) model.Entry {
	e := model.Entry{Format: model.Format, ID: id, Host: "cp-1", Taken: taken, Reason: BySchedule, Good: good, Database: model.Database{Revision: 7}}
	for _, name := range at {
		e.Copies = append(e.Copies, model.Copy{Target: name, Verified: taken})
	}
	return e
}

func TestTheNewestGoodOneIsSentToTargetsThatLackIt(t *testing.T) {
	w, _ := ReadWish(Inputs{Config: secretText}, "shop", time.LoadLocation)
	old, newest, bad := entry("a", noon.Add(-time.Hour), true), entry("b", noon, true), entry("c", noon.Add(time.Hour), false)
	for _, c := range []struct {
		list []model.Entry
		want string
	}{
		{nil, ""},
		{[]model.Entry{bad}, ""},
		{[]model.Entry{old, newest, bad}, "b"},
		{[]model.Entry{old, entry("b", noon, true, "shop-nas")}, ""},
		{[]model.Entry{entry("b", noon, true, "another")}, "b"},
		{[]model.Entry{entry("ahead", noon.Add(time.Hour), true, "shop-nas"), newest}, "b"},
	} {
		if got := w.Unsent(c.list, noon); got != c.want {
			t.Errorf("%v: %q, want %q", c.list, got, c.want)
		}
	}
	if got := DefaultWish("shop").Unsent([]model.Entry{newest}, noon); got != "" {
		t.Errorf("without targets: %q", got)
	}
	newest.Release.Digest = "sha256:1"
	if got := Briefs([]model.Entry{old, newest}); len(got) != 2 || got[0].ID != "b" || !got[0].Good || got[0].Revision != 7 || got[0].Release != "sha256:1" {
		t.Errorf("%+v", got)
	}
}

func TestWhatLiesThereIsTendedBetweenBackups(t *testing.T) {
	f := well(t)
	f.Host, f.Unsent, f.Spent = "cp-1", "b", []string{"a"}
	v := Decide(f)
	if v.Action != Begin || v.Begins.Reason != Tend || v.Begins.ID != "b" {
		t.Errorf("%+v", v)
	}
	f.Journal.Begun = &v.Begins
	f.Journal = f.Journal.Tended(noon, true, false)
	if v := Decide(f); v.Action != Rest || f.Journal.TendAgain.Sub(noon) != retry {
		t.Errorf("after a failure: %+v, %+v", v, f.Journal)
	}
	f.Now = noon.Add(retry)
	if v := Decide(f); v.Action != Begin {
		t.Errorf("after its pause: %+v", v)
	}
	f.Journal.Slot = noon.Add(-40 * time.Hour)
	if v := Decide(f); v.Action != Begin || v.Begins.Reason != BySchedule || v.Begins.ID != model.NewID("cp-1", f.Now) {
		t.Errorf("a backup goes before: %+v", v)
	}
	if j := f.Journal.Tended(noon, false, false); j.Tends != 0 || !j.TendAgain.IsZero() {
		t.Errorf("%+v", j)
	}
	w := DefaultWish("shop")
	if r := w.Request(Begun{Reason: Tend}, "shop", "cp-1", []string{"a"}); !slices.Equal(r.Remove, []string{"a"}) || r.ID != "" {
		t.Errorf("%+v", r)
	}
	if r := w.Request(Begun{ID: "x", Reason: BySchedule}, "shop", "cp-1", []string{"a"}); len(r.Remove) > 0 {
		t.Error("a run that takes a backup removes others, though it may fail")
	}
}

// TestCopiesHaveHalfOfTheTimeBetweenTwoBackups, which the targets divide, and an hour at least.
func TestCopiesHaveHalfOfTheTimeBetweenTwoBackups(t *testing.T) {
	for _, c := range []struct {
		period        time.Duration
		targets       int
		longer, total time.Duration
		most          time.Duration
	}{
		{0, 1, 0, 0, 0},
		{time.Hour, 1, 0, 0, 0},
		{6 * time.Hour, 1, 2 * time.Hour, 5 * time.Hour, 3 * time.Hour},
		{24 * time.Hour, 1, 11 * time.Hour, 14 * time.Hour, 12 * time.Hour},
		{24 * time.Hour, 0, 11 * time.Hour, 14 * time.Hour, 12 * time.Hour},
		{24 * time.Hour, 3, 11 * time.Hour, 14 * time.Hour, 4 * time.Hour},
		{6 * time.Hour, 4, 2 * time.Hour, 5 * time.Hour, time.Hour},
		{7 * 24 * time.Hour, 1, 11 * time.Hour, 14 * time.Hour, 12 * time.Hour},
	} {
		w := DefaultWish("shop")
		w.Targets = make([]model.Target, c.targets)
		longer := Longer(c.period)
		got := w.Request(Begun{ID: "x", Reason: BySchedule, Longer: longer}, "shop", "cp-1", nil).Limits
		if longer != c.longer || got.Total != c.total || got.Most != c.most {
			t.Errorf("%s, %d targets: %s longer, %+v", c.period, c.targets, longer, got)
		}
	}
}

// TestAWishIsAnsweredByItsOwnAnswerOrThatToALaterOne, and is written while neither stands at
// the node.
func TestAWishIsAnsweredByItsOwnAnswerOrThatToALaterOne(t *testing.T) {
	earlier, wish, later := Ask(noon.Add(-time.Minute), "a"), Ask(noon, "b"), Ask(noon.Add(time.Minute), "c")
	for what, c := range map[string]struct {
		stands, asked   string
		answered, lacks bool
	}{
		"nothing":                       {"", "", false, true},
		"it stands there":               {wish, "", false, false},
		"one before it stands there":    {earlier, "", false, true},
		"one before it was answered":    {earlier, earlier, false, true},
		"a later one took its place":    {later, earlier, false, false},
		"it was answered":               {wish, wish, true, false},
		"it was answered, and is gone":  {"", wish, true, false},
		"a later one was answered":      {"", later, true, false},
		"what stands there has no time": {"please", "", false, true},
	} {
		h := Host{Summary: Summary{Asked: c.asked, Answer: Answer{ID: "x"}}, Wanted: c.stands}
		answer, answered := h.Answered(wish)
		if answered != c.answered || (answer.ID == "x") != c.answered || h.Lacks(wish) != c.lacks {
			t.Errorf("%s: answered %v (%+v), lacks %v", what, answered, answer, h.Lacks(wish))
		}
	}
}
