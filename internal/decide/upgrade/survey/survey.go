// Package survey turns what was read of a site into the facts from which an upgrade is
// decided: those of the gates, and those of the next step. What was not read, is too
// old or contradicts itself stays unknown.
package survey

import (
	"cmp"
	"slices"
	"strings"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	etcdv1 "github.com/openshift/api/etcd/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/holdfast/holdfast/internal/decide/upgrade/cluster"
	"github.com/holdfast/holdfast/internal/decide/upgrade/clusterversion"
	"github.com/holdfast/holdfast/internal/decide/upgrade/gate"
	"github.com/holdfast/holdfast/internal/model/payload"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Seen is what was read of a site at one moment.
type Seen struct {
	Now     time.Time
	Version configv1.ClusterVersion
	Record  cluster.Record
	Nodes   []corev1.Node
	// TwoNode is true if Pacemaker runs etcd of two control planes.
	TwoNode bool
	// ControlPlanes is how many the site has by its configuration.
	ControlPlanes state.Fact[int]
	// Pacemaker is the status of PacemakerCluster. It is not asked of another site.
	Pacemaker state.Fact[etcdv1.PacemakerClusterStatus]
	// Etcd has the answers of the members, by the names of their hosts. One that did not
	// answer is missing. Equal is true if the data of all members were compared and
	// are equal.
	Etcd  map[string]Member
	Equal state.Fact[bool]
	Pools state.Fact[[]mcfgv1.MachineConfigPool]
	// Zones returns the time zone of a name, for maintenance windows.
	Zones func(name string) (*time.Location, error)
	// Rotations names the authorities whose rotation is under way, Incidents the
	// incidents that are open.
	Rotations, Incidents state.Fact[[]string]
	// Plan says which plan replaces a control plane or adds one; empty for none.
	Plan state.Fact[string]
	// Slow is what costs more to find out, and may be some minutes old.
	Slow Slow
	// Leaders names leaders of Kubernetes that do not renew their lease.
	Leaders state.Fact[[]string]
	// Parts are in the order in which they follow.
	Parts []cluster.Part
}

// Slow is what is read less often.
type Slow struct {
	Deprecated state.Fact[[]gate.Use]
	// Observed is for how long uses of APIs were looked for.
	Observed                             time.Duration
	Webhooks, Budgets, Immovable, Stored state.Fact[[]string]
	// Refused says which API servers refuse what lies there.
	Refused state.Fact[[]string]
	// Starts are those of pods.
	Starts state.Fact[[]Start]
}

// Survey is what is known of a site.
type Survey struct {
	Facts gate.Facts
	// Site lacks the closed gates: Closed adds them.
	Site cluster.Site
	// Releases are all that hosts have told of, by their digests. The word of a control plane
	// counts before that of a worker.
	Releases map[string]gate.Release
	// Wish is what a person wants, with the mistakes in it.
	Wish  clusterversion.Wish
	hosts []host
	told  Told
}

// Of surveys a site.
func Of(s Seen) Survey {
	out := Survey{Releases: map[string]gate.Release{}, Wish: clusterversion.WishOf(s.Version, s.Record)}
	for i := range s.Nodes {
		out.hosts = append(out.hosts, hostOf(&s.Nodes[i], s))
	}
	slices.SortFunc(out.hosts, func(a, b host) int { return strings.Compare(a.node.Name, b.node.Name) })
	out.hear(true)
	out.hear(false)
	out.Site = out.site(s)
	out.told = out.tellsOfBackups(s.Now)
	out.Site.Ask = out.told.ask(out.Site)
	out.Facts = out.facts(s)
	return out
}

// hear takes the descriptions of releases that nobody has told of before: of control planes, or
// of the other hosts. Root on a worker writes what he likes into its Node, but no kubelet can
// label its Node as a control plane's.
func (v Survey) hear(control bool) {
	for _, h := range v.hosts {
		if _, labelled := h.node.Labels[state.LabelControlPlane]; labelled != control {
			continue
		}
		for _, r := range h.said.Releases() {
			if _, told := v.Releases[r.Digest]; !told && r.Digest != "" {
				v.Releases[r.Digest] = r
			}
		}
	}
}

func (v Survey) site(s Seen) cluster.Site {
	running := v.running(s)
	site := cluster.Site{Now: s.Now, Record: s.Record, Wish: v.Wish.Wish, Running: running, Parts: s.Parts, Raises: cluster.Raises(v.Releases[running], v.Releases[s.Record.To]), PartsReturn: knows(v.Releases[running], payload.FormatRollout), Plan: s.Plan.Value, ControlPlanes: s.ControlPlanes.Value, Soak: v.Wish.Soak, SoakOff: v.Wish.SoakOff, MaxUnavailable: 1}
	to := s.Record.To
	if !s.Record.Started {
		to = cmp.Or(site.Offers(), site.Wish.Release)
		site.Wish.Start = site.Wish.Start && running != "" // the way back must lead somewhere
	}
	for _, h := range v.hosts {
		site.Hosts = append(site.Hosts, h.site(s, to))
	}
	if i := slices.IndexFunc(s.Pools.Value, func(p mcfgv1.MachineConfigPool) bool { return p.Name == workers }); i >= 0 {
		site.MaxUnavailable = mayBeAway(s.Pools.Value[i].Spec.MaxUnavailable, site.Hosts)
	}
	return site
}

// mayBeAway returns how many workers may be away by their pool: a number or a percentage of
// them, rounded down, and at least one, as for configurations.
func mayBeAway(most *intstr.IntOrString, hosts []cluster.Host) int {
	all := 0
	for _, h := range hosts {
		if h.Worker {
			all++
		}
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(most, all, false)
	if err != nil { // also where the pool says nothing
		return 1
	}
	return max(n, 1)
}

// knows reports whether a release says that it has a format.
func knows(r gate.Release, format string) bool {
	_, has := r.Formats[format]
	return has
}

// running returns the digest of the release that a site runs while no upgrade is under
// way: that of all control planes that say so. It is empty if they say nothing or
// different things.
func (v Survey) running(s Seen) string {
	if s.Record.Started {
		return s.Record.From
	}
	out := ""
	for _, h := range v.hosts {
		switch r := h.facts.Release; {
		case h.worker || !r.Known || r.Value == out:
		case out != "":
			return lastCompleted(s.Version.Status.History)
		default:
			out = r.Value
		}
	}
	return out
}

func lastCompleted(history []configv1.UpdateHistory) string {
	for _, h := range history {
		if h.State == configv1.CompletedUpdate {
			return h.Image
		}
	}
	return ""
}

func (v Survey) facts(s Seen) gate.Facts {
	from := v.Releases[v.Site.Running]
	f := gate.Facts{
		Now: s.Now, From: from, Level: gate.Version{Major: from.Kubernetes.Major, Minor: from.Kubernetes.Minor}, Soak: v.Wish.Soak,
		ControlPlanes: s.ControlPlanes, Etcd: etcdOf(s, v.hosts), Upgrade: state.Known(""), Plan: s.Plan, Incidents: s.Incidents, Work: v.work(s), Window: v.window(s),
		Deprecated: s.Slow.Deprecated, Observed: s.Slow.Observed, Webhooks: s.Slow.Webhooks, Budgets: s.Slow.Budgets, Immovable: s.Slow.Immovable, StoredVersions: s.Slow.Stored,
		Leaders: s.Leaders, Refused: s.Slow.Refused, Sandboxes: v.sandboxes(s),
		Backups: v.told.Backups(v.Site, from.Digest),
	}
	if v.Wish.SoakOff {
		f.Soak = 0
	}
	if s.Record.Started {
		f.Upgrade = state.Known(s.Record.To)
	}
	if to, known := v.Releases[v.to()]; known {
		f.To = &to
	}
	for _, h := range v.hosts {
		f.Hosts = append(f.Hosts, h.facts)
	}
	return f
}

// Available returns the releases that lie on all hosts and could follow the one that runs: the
// offered one, and later ones, the latest at the end. There are none while an upgrade is
// under way.
func (v Survey) Available() []gate.Release {
	if v.Site.Record.Started || v.Site.Running == "" {
		return nil
	}
	running := v.Releases[v.Site.Running]
	var out []gate.Release
	for digest, r := range v.Releases {
		follows := digest == v.Site.Offers() || r.Version.Compare(running.Version) > 0
		if digest != v.Site.Running && follows && v.everywhere(digest) {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(x, y gate.Release) int {
		return cmp.Or(x.Version.Compare(y.Version), strings.Compare(x.Digest, y.Digest))
	})
	return out
}

// everywhere reports whether each host tells that a release lies there whole.
func (v Survey) everywhere(digest string) bool {
	return !slices.ContainsFunc(v.hosts, func(h host) bool {
		return !slices.ContainsFunc(h.said.Releases(), func(r gate.Release) bool { return r.Digest == digest })
	})
}

// to is the digest of the release that is wanted or on its way, empty for none.
func (v Survey) to() string {
	switch {
	case v.Site.Record.Started:
		return v.Site.Record.To
	case v.Site.Wish.Release == v.Site.Running:
		return ""
	}
	return v.Site.Wish.Release
}

// Gates asks the gates of the present stage. Where the descriptions of the releases are
// not known, nothing else can be asked.
func (v Survey) Gates() gate.Judgement {
	var first []gate.Gate
	unknown := func(what string) {
		first = append(first, gate.Gate{ID: "release", Verdict: gate.Unknown, Severity: gate.Must, Why: what + " is not known", Way: "Find out with `holdfast status` why no host tells of it"})
	}
	if v.Facts.From.Digest == "" {
		unknown("what the release is that the site runs")
	}
	if v.to() != "" && v.Facts.To == nil {
		unknown("what the wanted release is")
	}
	if first != nil {
		return gate.Judgement{Closed: first}
	}
	out := v.judge(cluster.Stage(v.Site))
	if why := v.wrongVersion(); why != "" && cluster.Stage(v.Site) == gate.Begin {
		out.Closed = append(out.Closed, gate.Gate{ID: "release", Verdict: gate.Block, Severity: gate.Must, Why: why, Way: "Name the version of the release, or leave it out"})
	}
	return out
}

// judge asks the gates of a stage, with the overrides of a person.
func (v Survey) judge(at gate.Stage) gate.Judgement {
	var overrides []gate.Override
	for _, o := range v.Wish.Overrides {
		overrides = append(overrides, gate.Override(o))
	}
	return gate.Judge(gate.Gates(v.Facts, at), overrides)
}

// wrongVersion says if the wish names another version than its release has.
func (v Survey) wrongVersion() string {
	if v.Wish.Version == "" || v.Facts.To == nil || v.Wish.Release != v.Facts.To.Digest || sameVersion(v.Wish.Version, v.Facts.To.Version) {
		return ""
	}
	return "spec.desiredUpdate.version is " + v.Wish.Version + ", and the release that spec.desiredUpdate.image names is " + v.Facts.To.Version.String()
}

func sameVersion(text string, version gate.Version) bool {
	read, err := gate.ParseVersion(text)
	return err == nil && read == version
}

// Upgradeable says whether an upgrade could begin.
func (v Survey) Upgradeable() gate.Condition {
	if v.Facts.From.Digest == "" {
		return gate.Condition{Status: "Unknown", Reason: "FactsUnknown", Message: "not known: which release the site runs"}
	}
	return gate.Upgradeable(v.Facts)
}

// Next returns the next step, with the gates that are asked for it.
func (v Survey) Next() (cluster.Step, gate.Judgement) {
	judged := v.Gates()
	v.Site.Closed = judged.Closed
	next := cluster.Next(v.Site)
	if !next.Record.NoWayBack || v.Site.Record.NoWayBack {
		return next, judged
	}
	last := v.judge(gate.Close) // the way back would be closed now
	v.Site.Last = last.Closed
	judged.Closed, judged.Skipped, judged.Risks = append(judged.Closed, last.Closed...), append(judged.Skipped, last.Skipped...), append(judged.Risks, last.Risks...)
	return cluster.Next(v.Site), judged
}

// Arrived reports whether all hosts and parts are where they shall be.
func (v Survey) Arrived() bool {
	goal := v.Goal()
	if goal == "" {
		return false
	}
	for _, h := range v.Site.Hosts {
		if !h.Journal.Step.AtRest() || !state.Is(h.Running, goal) {
			return false
		}
	}
	return !v.Site.Record.Started || !slices.ContainsFunc(v.Site.Parts, func(p cluster.Part) bool { return !state.Is(p.Release, goal) || !state.Is(p.Pending, "") })
}

// Goal is the digest of the release to which the site goes, or which it runs.
func (v Survey) Goal() string {
	switch r := v.Site.Record; {
	case r.Started && !r.Returning:
		return r.To
	default:
		return v.Site.Running
	}
}
