package backup

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	configv1alpha1 "github.com/openshift/api/config/v1alpha1"

	model "github.com/holdfast/holdfast/internal/model/backup"
)

// Inputs are the two parts of a site's wish in the API: the spec of the Backup, nil for none,
// and the text of the Secret, empty for none: `holdfast backup configure` writes at least {}. A host
// keeps the last ones without mistakes. The text holds credentials.
type Inputs struct {
	Spec   *configv1alpha1.EtcdBackupSpec `json:"spec,omitempty"`
	Config string                         `json:"config,omitempty"`
}

// After returns the inputs to follow after those that a host knows, and names each object that is
// gone. A deletion is no wish, since somebody may have deleted a namespace or a kind with all that
// is in it: the last known part stays. Who wants no targets writes a configuration without them.
func (in Inputs) After(known Inputs) (_ Inputs, gone []string) {
	const goesOn = " is gone, and hosts go on with what it said last: holdfast backup configure writes it again"
	if in.Spec == nil && known.Spec != nil {
		in.Spec, gone = known.Spec, append(gone, "Backup "+ObjectName+goesOn)
	}
	if in.Config == "" && known.Config != "" {
		in.Config, gone = known.Config, append(gone, "Secret "+SecretNamespace+"/"+SecretName+goesOn)
	}
	return in, gone
}

// Wish is the wish of a site, without mistakes.
type Wish struct {
	Schedule Schedule
	Keep     int
	model.Config
}

// DefaultWish is the wish of a site that configured nothing, so that it has backups from its
// first day.
func DefaultWish(site string) Wish {
	return Wish{Schedule: DefaultSchedule(site), Keep: model.DefaultKeep}
}

// CheckSchedule returns the check of a schedule for model/backup.Parse.
func CheckSchedule(zones Zones) func(text, zone string) error {
	return func(text, zone string) error {
		if text == "" {
			return errors.New("a time zone needs a schedule")
		}
		_, err := ParseSchedule(text, zone, zones)
		return err
	}
}

// ReadWish reads the wish of a site. It returns every mistake, each with the object and the
// field, and without secrets. If there is a mistake, there is no wish.
func ReadWish(in Inputs, site string, zones Zones) (Wish, []string) {
	out := DefaultWish(site)
	var mistakes []string
	c, err := model.Parse([]byte(in.Config), CheckSchedule(zones))
	if err != nil {
		mistakes = append(mistakes, ofSecret(err)...)
	}
	out.Config, out.Keep = c, cmp.Or(c.Keep, model.DefaultKeep)
	spec := configv1alpha1.EtcdBackupSpec{}
	if in.Spec != nil {
		spec = *in.Spec
	}
	text, zone := spec.Schedule, spec.TimeZone
	if text == "" {
		text, zone = c.Schedule, cmp.Or(zone, c.TimeZone)
	}
	if text != "" {
		s, err := ParseSchedule(text, zone, zones)
		if err != nil {
			mistakes = append(mistakes, lines("Backup "+ObjectName+": spec.etcd.schedule: ", err)...)
		}
		out.Schedule = s
	} else if zone != "" && err == nil {
		mistakes = append(mistakes, "Backup "+ObjectName+": spec.etcd.timeZone: a time zone needs a schedule")
	}
	keep, wrong := keepOf(spec)
	mistakes = append(mistakes, wrong...)
	out.Keep = cmp.Or(keep, out.Keep)
	if len(mistakes) > 0 {
		return Wish{}, mistakes
	}
	return out, nil
}

// keepOf reads how many backups are kept, and refuses fields that Holdfast does not follow.
func keepOf(spec configv1alpha1.EtcdBackupSpec) (keep int, mistakes []string) {
	const at = "Backup " + ObjectName + ": spec.etcd."
	if spec.PVCName != "" {
		mistakes = append(mistakes, at+"pvcName: Holdfast puts no backup into a volume of the cluster, which is lost with it: leave it out, and name a target outside (holdfast backup configure)")
	}
	switch p := spec.RetentionPolicy; {
	case p.RetentionType == configv1alpha1.RetentionTypeSize || p.RetentionSize != nil:
		mistakes = append(mistakes, at+"retentionPolicy: Holdfast keeps a number of backups, and not a size: set RetentionNumber")
	case p.RetentionNumber != nil && p.RetentionNumber.MaxNumberOfBackups < 1:
		mistakes = append(mistakes, at+"retentionPolicy.retentionNumber.maxNumberOfBackups: must be at least 1")
	case p.RetentionNumber != nil:
		keep = p.RetentionNumber.MaxNumberOfBackups
	}
	return keep, mistakes
}

// ofSecret returns the mistakes in the text of the Secret.
func ofSecret(err error) []string {
	var list model.Mistakes
	prefix := "Secret " + SecretNamespace + "/" + SecretName + ": "
	if !errors.As(err, &list) {
		return lines(prefix, err)
	}
	var out []string
	for _, m := range list {
		out = append(out, prefix+m.Error())
	}
	return out
}

func lines(prefix string, err error) []string {
	var out []string
	for line := range strings.Lines(err.Error()) {
		out = append(out, prefix+strings.TrimSpace(line))
	}
	return out
}

// SpecOf splits a configuration into the spec of a Backup and the rest for the Secret. The
// schedule is no secret, and people look for it in the Backup.
func SpecOf(c model.Config) (configv1alpha1.EtcdBackupSpec, model.Config) {
	spec := configv1alpha1.EtcdBackupSpec{
		Schedule: c.Schedule, TimeZone: c.TimeZone,
		RetentionPolicy: configv1alpha1.RetentionPolicy{
			RetentionType:   configv1alpha1.RetentionTypeNumber,
			RetentionNumber: &configv1alpha1.RetentionNumberConfig{MaxNumberOfBackups: cmp.Or(c.Keep, model.DefaultKeep)},
		},
	}
	c.Schedule, c.TimeZone, c.Keep = "", "", 0
	return spec, c
}

// TargetNames lists the names of the targets of a wish.
func (w Wish) TargetNames() []string {
	var out []string
	for _, t := range w.Targets {
		out = append(out, t.Name)
	}
	return out
}

// Briefs returns the entries of a catalogue as Briefs, the newest first.
func Briefs(entries []model.Entry) []Brief {
	var out []Brief
	for _, e := range entries {
		b := Brief{ID: e.ID, Taken: e.Taken, Reason: e.Reason, Good: e.Good, Why: e.Why(), Revision: e.Database.Revision, Size: e.File.Size, Kubernetes: e.Release.Kubernetes, Release: e.Release.Digest}
		for _, c := range e.Copies {
			b.Copies = append(b.Copies, Copy{Target: c.Target, Verified: c.Verified, Failed: c.Failed, To: recipientsID(c.Recipients)})
		}
		out = append(out, b)
	}
	slices.SortStableFunc(out, func(a, b Brief) int { return b.Taken.Compare(a.Taken) })
	return out
}

// Unsent returns the id of the newest good backup of a host if a target lacks it; empty
// otherwise. Older backups are not sent any more, and those of a clock that was ahead neither.
func (w Wish) Unsent(entries []model.Entry, now time.Time) string {
	var newest model.Entry
	for _, e := range entries {
		if e.Good && !model.Ahead(e.Taken, now) && e.Taken.After(newest.Taken) {
			newest = e
		}
	}
	if newest.ID == "" || len(w.Recipients) == 0 {
		return ""
	}
	for _, t := range w.Targets {
		if !newest.Has(t.Name) {
			return newest.ID
		}
	}
	return ""
}

// Retained says which backups of a host are to be removed. period is that of the schedule.
func (w Wish) Retained(entries []model.Entry, host string, period time.Duration, now time.Time) model.Retained {
	return model.Retention(entries, model.Policy{Host: host, Keep: w.Keep, Targets: w.TargetNames(), Period: period, Now: now})
}

// Request returns the request for a run of the unit.
func (w Wish) Request(b Begun, site, host string, spent []string) model.Request {
	out := model.Request{ID: b.ID, Reason: b.Reason, Site: site, Host: host, Recipients: w.Recipients, Targets: w.Targets}
	if b.Longer > 0 { // the targets divide it: a slow one must not keep the backup from the others
		most := (model.DefaultSend + b.Longer) / time.Duration(max(len(w.Targets), 1))
		out.Limits = model.Limits{Total: model.DefaultTotal + b.Longer, Most: max(most, model.DefaultSend)}
	}
	if b.Reason == Tend {
		out.Remove = spent
	}
	return out
}

// Words describes a wish in one line, for people.
func (w Wish) Words() string {
	where := "on the control planes alone"
	if names := w.TargetNames(); len(names) > 0 {
		where = "on the control planes and at " + strings.Join(names, ", ")
	}
	return fmt.Sprintf("at %s, %d kept, %s", w.Schedule, w.Keep, where)
}
