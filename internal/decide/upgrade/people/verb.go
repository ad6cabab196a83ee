package people

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/holdfast/holdfast/internal/decide/page"
	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/decide/upgrade/cluster"
	"github.com/holdfast/holdfast/internal/decide/upgrade/gate"
	"github.com/holdfast/holdfast/internal/decide/upgrade/parachute"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Change is what a verb writes into the ClusterVersion, and what follows from it.
type Change struct {
	// Nothing says why there is nothing to write; empty if there is.
	Nothing string `json:"nothing,omitempty"`
	// Image is what spec.desiredUpdate.image becomes; empty if it stays.
	Image string `json:"image,omitempty"`
	// Annotations are set, and those without a value removed.
	Annotations map[string]*string `json:"annotations,omitempty"`
	// What is one sentence, and Turns the hosts in the order in which they follow;
	// hosts of one entry follow together.
	What  string     `json:"what"`
	Turns [][]string `json:"turns,omitempty"`
	// Notes say what a person should know before he agrees.
	Notes []string `json:"notes,omitempty"`
}

// Empty reports whether there is nothing to write.
func (c Change) Empty() bool { return c.Nothing != "" }

// Same reports whether two changes write the same, with the same hosts in the same order.
func (c Change) Same(o Change) bool {
	c.Notes, o.Notes = nil, nil // they have ages
	return reflect.DeepEqual(c, o)
}

// Refusal says why a verb does not count. Nothing was written.
type Refusal struct {
	Why string
	// Unknown is true if too little is known to decide.
	Unknown bool
}

func (r *Refusal) Error() string { return r.Why }

func refuse(format string, args ...any) error { return &Refusal{Why: fmt.Sprintf(format, args...)} }

// readable refuses every verb while the state of the upgrade is not known.
func (u Upgrade) readable() error {
	switch {
	case u.Version == nil:
		return &Refusal{Why: "the cluster has no ClusterVersion \"version\": holdfast-operator of a release that can upgrade makes it", Unknown: true}
	case u.Unread != "":
		return &Refusal{Why: u.Unread, Unknown: true}
	}
	return nil
}

// follows asks package cluster whether it would follow a wish for a release.
func (u Upgrade) follows(digest string) error {
	s := u.site()
	s.Wish.Release, s.Wish.Start = digest, true
	if why := cluster.Next(s).Refused; why != "" {
		return refuse("%s", why)
	}
	return nil
}

// Start is what `holdfast upgrade start` was given.
type Start struct {
	// Image names the release, as ParseImage returns it.
	Image string
	// Sources replaces where releases are to be had, if it is not empty, and Soak the
	// soak.
	Sources   annotation.Sources
	Overrides []annotation.Override
	Soak      string
}

// Start says what begins an upgrade, or takes one up again that goes back. The error is
// a Refusal.
func (u Upgrade) Start(s Start) (Change, error) {
	digest, r := Digest(s.Image), u.Record
	if err := u.readable(); err != nil {
		return Change{}, err
	}
	if r.Started && digest == r.From {
		return Change{}, refuse("an upgrade from %s is under way; the way back to it is: holdfast upgrade rollback", u.Name(digest))
	}
	again := digest == u.Wish.Release
	open := u.site().Open()
	if digest == u.Running && !r.Started && (again || u.Wish.Release == "") && !open.Started {
		return Change{Nothing: "the site runs " + u.Name(digest) + " already"}, nil
	}
	if digest == u.Running && !r.Started && (!open.Started || u.asked()) {
		return u.Rollback()
	}
	if plan := u.Plan.Value; plan != "" && !r.Started {
		return Change{}, refuse("%s: an upgrade waits until it is whole or taken back", plan)
	}
	if err := u.follows(digest); err != nil {
		return Change{}, err
	}
	c := Change{Annotations: map[string]*string{}}
	u.put(c.Annotations, annotation.SoakOf, s.Soak)
	u.put(c.Annotations, annotation.OfferOf, "") // an earlier release, to which the site may go back, refuses it
	if s.Sources != (annotation.Sources{}) {
		u.put(c.Annotations, annotation.SourcesOf, encoded(s.Sources))
	}
	u.overrides(c.Annotations, again, s.Overrides)
	if !again {
		c.Image = s.Image
		u.put(c.Annotations, annotation.CommitOf, "")
	}
	if c.Image == "" && len(c.Annotations) == 0 {
		return Change{Nothing: "the upgrade to " + u.Name(digest) + " is wanted already"}, nil
	}
	u.planStart(&c, s, digest)
	return c, nil
}

// planStart says what follows from a start.
func (u Upgrade) planStart(c *Change, s Start, digest string) {
	c.What = fmt.Sprintf("%s is installed on all hosts, one after the other", u.Name(digest))
	if u.Record.Returning {
		c.What = fmt.Sprintf("the site goes on to %s after all", u.Name(digest))
	}
	open := u.site().Open()
	takesUp := open.Started && digest == open.To
	if takesUp {
		c.What = fmt.Sprintf("the upgrade from %s to %s is taken up where the hosts are: its parts, its soak and its commit follow", u.Name(open.From), u.Name(digest))
	} else {
		c.Turns = u.plan(cluster.Record{Upgrade: "plan", From: u.Running, To: digest, Started: true})
	}
	if len(u.Hosts) > 1 && !takesUp {
		c.Notes = append(c.Notes, "whoever leads etcd when its turn comes is the last of the control planes")
	}
	if open.NoWayBack && takesUp {
		c.Notes = append(c.Notes, "the way back is closed: a host knows of the commit")
	} else if soak := soakOf(s, u); soak == annotation.SoakOff {
		c.Notes = append(c.Notes, "the way back stays open until a person types: holdfast upgrade commit")
	} else {
		c.Notes = append(c.Notes, "the way back stays open until the site was seen healthy for "+soak+", or a person commits")
	}
	u.sourceless(c, digest, s.Sources)
	if u.Wish.Paused != "" {
		c.Notes = append(c.Notes, "it is paused ("+u.Wish.Paused+"): nothing begins until: holdfast upgrade resume")
	}
	for _, o := range s.Overrides {
		c.Notes = append(c.Notes, fmt.Sprintf("%s skips the gate %s: %s", o.By, o.Gate, o.Reason))
	}
	if takesUp { // the gates of a beginning are not asked
		return
	}
	u.Overrides = s.Overrides
	if why := u.backupFirst(digest); why != "" {
		c.Notes = append(c.Notes, "before the first host: "+why)
	}
	for _, why := range u.Check(digest).holding() {
		c.Notes = append(c.Notes, "it would wait now for "+why)
	}
}

// sourceless notes that hosts cannot fetch a release, if nobody says where it lies.
func (u Upgrade) sourceless(c *Change, digest string, sources annotation.Sources) {
	if _, has := u.Release(digest); !has && sources == (annotation.Sources{}) && u.Sources == (annotation.Sources{}) {
		c.Notes = append(c.Notes, "no host has it, and no source is named: hosts wait until one is, with --from-registry or --from-folder")
	}
}

// Fetch says what has all hosts fetch a release, and installs nothing. The error is a Refusal.
func (u Upgrade) Fetch(image string, sources annotation.Sources) (Change, error) {
	digest := Digest(image)
	if err := u.readable(); err != nil {
		return Change{}, err
	}
	switch {
	case u.asked():
		return Change{}, refuse("an upgrade is under way or wanted: hosts fetch by themselves what it needs")
	case digest == u.Running:
		return Change{Nothing: "the site runs " + u.Name(digest) + " already"}, nil
	case u.Running == "":
		return Change{}, &Refusal{Why: "no host tells which release the site runs", Unknown: true}
	}
	c := Change{Annotations: map[string]*string{}, What: fmt.Sprintf("all hosts fetch %s, and install nothing", u.Name(digest))}
	u.put(c.Annotations, annotation.OfferOf, digest)
	if sources != (annotation.Sources{}) {
		u.put(c.Annotations, annotation.SourcesOf, encoded(sources))
	}
	if len(c.Annotations) == 0 {
		return Change{Nothing: u.Name(digest) + " is offered already"}, nil
	}
	u.sourceless(&c, digest, sources)
	return c, nil
}

// Forget says what takes an offer back.
func (u Upgrade) Forget() (Change, error) {
	if err := u.readable(); err != nil {
		return Change{}, err
	}
	c := Change{Annotations: map[string]*string{}, What: "no release is offered any more", Notes: []string{"what lies on hosts goes when they fetch another release"}}
	u.put(c.Annotations, annotation.OfferOf, "")
	if len(c.Annotations) == 0 {
		return Change{Nothing: "no release is offered"}, nil
	}
	return c, nil
}

// backupFirst says that a backup is taken before the first host; empty if a good one is
// young enough, or the gate is skipped.
func (u Upgrade) backupFirst(digest string) string {
	f, known := u.facts(digest)
	if !known || u.Record.Started {
		return ""
	}
	f.Backups.Value.Wanted = true
	for _, g := range gate.Gates(f, gate.Begin) {
		if g.ID == gate.BackupGate && g.Verdict == gate.Wait && u.skipped(g) == "" {
			return g.Why
		}
	}
	return ""
}

func soakOf(s Start, u Upgrade) string {
	if s.Soak != "" {
		return s.Soak
	}
	if u.SoakOff {
		return annotation.SoakOff
	}
	return plainDuration(u.Soak)
}

func plainDuration(d time.Duration) string {
	text := d.String()
	text = strings.TrimSuffix(text, "0s")
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// overrides adds those of a person to those that stand there for the same upgrade. Those
// of an earlier upgrade go: they were decided for another moment.
func (u Upgrade) overrides(to map[string]*string, again bool, more []annotation.Override) {
	var all []annotation.Override
	if again {
		all = slices.Clone(u.Overrides)
	}
	for _, o := range more {
		i := slices.IndexFunc(all, func(a annotation.Override) bool { return a.Gate == o.Gate })
		switch {
		case i < 0:
			all = append(all, o)
		case all[i].Reason != o.Reason || all[i].By != o.By:
			all[i] = o
		}
	}
	switch {
	case len(all) == 0 && again: // what stands there and is not readable is left alone
	case len(all) == 0:
		u.put(to, annotation.OverridesOf, "")
	case !reflect.DeepEqual(all, u.Overrides):
		u.put(to, annotation.OverridesOf, encoded(all))
	}
}

// put sets an annotation if it changes, and removes it for an empty value; a soak that
// is not given stays.
func (u Upgrade) put(to map[string]*string, name, value string) {
	has, there := u.Version.Annotations[name]
	switch {
	case value == has && there, value == "" && (!there || name == annotation.SoakOf):
	case value == "":
		to[name] = nil
	default:
		to[name] = &value
	}
}

func encoded(v any) string {
	out, err := json.Marshal(v)
	if err != nil {
		return "" // the values above can all be written
	}
	return string(out)
}

// Rollback says what takes the site back to the release of before the upgrade.
func (u Upgrade) Rollback() (Change, error) {
	r := u.Record
	if err := u.readable(); err != nil {
		return Change{}, err
	}
	switch {
	case !r.Started && u.Wish.Release != "" && u.Wish.Release != u.Running && u.Running != "":
		// Nothing has begun yet: the wish is taken back.
		return Change{Image: u.image(u.Running), Annotations: map[string]*string{}, What: "the wish for " + u.Name(u.Wish.Release) + " is taken back; no host was touched"}, nil
	case !r.Started && u.site().Open().Started:
		return Change{}, refuse("the record of the upgrade is gone: take the upgrade up, and then go back: holdfast upgrade start %s", u.Running)
	case !r.Started:
		return Change{}, refuse("no upgrade is under way, so there is no way back to take")
	}
	if err := u.follows(r.From); err != nil {
		return Change{}, err
	}
	c := Change{Annotations: map[string]*string{}, What: "the site goes back to " + u.Name(r.From) + ": parts in the cluster first, then whoever came last"}
	if u.Wish.Release != r.From {
		c.Image = u.image(r.From)
	}
	u.put(c.Annotations, annotation.CommitOf, "")
	if u.Wish.Paused != "" {
		c.Annotations[annotation.PausedBy] = nil
		c.Notes = append(c.Notes, "its pause ends: "+u.Wish.Paused)
	}
	if c.Image == "" && len(c.Annotations) == 0 {
		return Change{Nothing: "the site goes back to " + u.Name(r.From) + " already"}, nil
	}
	r.Returning, r.Turns = true, nil
	c.Turns = u.plan(r)
	if len(c.Turns) == 0 {
		c.Notes = append(c.Notes, "no host has left it")
	}
	return c, nil
}

// image names a release as the history does, or by its digest alone.
func (u Upgrade) image(digest string) string {
	for _, h := range u.Version.Status.History {
		if Digest(h.Image) == digest {
			return h.Image
		}
	}
	return digest
}

// asked reports whether an upgrade is under way or wanted.
func (u Upgrade) asked() bool {
	return u.Record.Started || u.Wish.Release != "" && u.Wish.Release != u.Running
}

// Pause says what keeps further hosts from beginning.
func (u Upgrade) Pause(reason string) (Change, error) {
	if err := u.readable(); err != nil {
		return Change{}, err
	}
	if !u.asked() {
		return Change{}, refuse("no upgrade is under way, so there is nothing to pause")
	}
	if u.Wish.Paused == reason {
		return Change{Nothing: "it is paused already: " + reason}, nil
	}
	return Change{Annotations: map[string]*string{annotation.PausedBy: &reason}, What: "no further host begins, and nothing is committed, until: holdfast upgrade resume", Notes: []string{"a host that is at work ends its step"}}, nil
}

// Resume says what ends a pause.
func (u Upgrade) Resume() (Change, error) {
	if err := u.readable(); err != nil {
		return Change{}, err
	}
	if u.Wish.Paused == "" {
		hint := ""
		if u.Record.Returning {
			hint = "; the site goes back, and to go on to the new release after all: holdfast upgrade start " + u.Record.To
		}
		return Change{Nothing: "nobody has paused an upgrade" + hint}, nil
	}
	return Change{Annotations: map[string]*string{annotation.PausedBy: nil}, What: "the upgrade goes on"}, nil
}

// Commit says what closes the way back at once.
func (u Upgrade) Commit() (Change, error) {
	r := u.Record
	if err := u.readable(); err != nil {
		return Change{}, err
	}
	switch phase, why := u.Phase(); {
	case !r.Started:
		return Change{}, refuse("no upgrade is under way, so there is nothing to commit")
	case r.NoWayBack:
		return Change{Nothing: "the way back is closed already"}, nil
	case r.Returning:
		return Change{}, refuse("the site goes back to %s, so there is nothing to commit", u.Name(r.From))
	case phase != cluster.Proving:
		return Change{}, refuse("not all of the site runs %s yet: %s. Commit once `holdfast upgrade status` says %s", u.Name(r.To), why, cluster.Proving)
	case u.Wish.Commit:
		return Change{Nothing: "the commit is wanted already"}, nil
	}
	c := Change{
		Annotations: map[string]*string{annotation.CommitOf: &r.Upgrade}, What: fmt.Sprintf("the way back to %s is closed: after it only restoring a backup of etcd leads there, and what was written since is lost", u.Name(r.From)),
	}
	if !u.SoakOff && r.Healthy < u.Soak {
		c.Notes = append(c.Notes, fmt.Sprintf("the soak is cut off: healthy for %s of %s", r.Healthy.Round(time.Second), plainDuration(u.Soak)))
	}
	if f, known := u.facts(r.To); known {
		for _, g := range gate.Gates(f, gate.Close) {
			if g.Closed() && g.Verdict != gate.Unknown && u.skipped(g) == "" {
				c.Notes = append(c.Notes, "it waits first: "+g.Why)
			}
		}
	}
	if u.Wish.Paused != "" {
		c.Notes = append(c.Notes, "it is paused ("+u.Wish.Paused+"): nothing is committed until: holdfast upgrade resume")
	}
	return c, nil
}

// plan plays who has a turn after whom, with the function that decides it, as if
// everything went well.
func (u Upgrade) plan(r cluster.Record) [][]string {
	s := u.site()
	s.Record, s.Wish = r, cluster.Wish{Release: r.To, Upgrade: r.Upgrade}
	goal, end := r.To, parachute.Accepted
	if r.Returning {
		goal, end, s.Wish.Release = r.From, parachute.Returned, r.From
	}
	var out [][]string
	for i := range s.Hosts {
		h, yes := &s.Hosts[i], state.Known(true)
		if r.Returning && !h.Journal.Step.AtRest() { // who is at work goes back at once
			out, h.Running = append(out, []string{h.Name}), state.Known(goal)
		}
		h.Present, h.Well, h.Whole, h.Old, h.Held = yes, yes, yes, yes, ""
		h.Journal = parachute.Journal{Since: h.Journal.Since}
	}
	for range 4 * (len(s.Hosts) + 1) {
		step := cluster.Next(s)
		if step.Do != cluster.Write || !step.Record.Started || step.Phase == cluster.Proving {
			break
		}
		s.Record = step.Record
		if len(step.Record.Turns) == 0 {
			continue
		}
		out = append(out, step.Record.Turns)
		for i := range s.Hosts {
			if slices.Contains(step.Record.Turns, s.Hosts[i].Name) {
				s.Hosts[i].Running, s.Hosts[i].Journal.Step, s.Hosts[i].Journal.Upgrade = state.Known(goal), end, r.Upgrade
			}
		}
	}
	return out
}

// Text writes what follows, for a person who is asked whether he agrees.
func (c Change) Text() string {
	if c.Nothing != "" {
		return "nothing to do: " + c.Nothing + "\n"
	}
	var out strings.Builder
	out.WriteString(c.What + "\n")
	for i, turn := range c.Turns {
		fmt.Fprintf(&out, "  %d. %s\n", i+1, strings.Join(turn, " and "))
	}
	for _, n := range c.Notes {
		out.WriteString("note: " + n + "\n")
	}
	return page.Printable(out.String())
}

// Refused is why the operator does not follow the present wish; empty if it does.
func (u Upgrade) Refused() string {
	if c, ok := u.condition("ReleaseAccepted"); ok && c.Status == configv1.ConditionFalse {
		return c.Message
	}
	return ""
}
