// Package people says what an administrator reads of an upgrade, and what each of his
// verbs writes or why it does not count. It knows only what the API shows: the
// ClusterVersion, the record, and what the agent of each host tells of it.
package people

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast/holdfast/internal/decide/backup"
	"github.com/holdfast/holdfast/internal/decide/noderole"
	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/decide/upgrade/cluster"
	"github.com/holdfast/holdfast/internal/decide/upgrade/clusterversion"
	"github.com/holdfast/holdfast/internal/decide/upgrade/gate"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Objects is what the API has of an upgrade.
type Objects struct {
	Now time.Time
	// Version is the ClusterVersion; nil if there is none.
	Version *configv1.ClusterVersion
	// Record is the text of the record, empty for none; it is unknown if nobody could
	// read it.
	Record state.Fact[string]
	// Plan says which plan replaces a control plane or adds one; empty for none.
	Plan  state.Fact[string]
	Hosts []Host
}

// Host is what the API has of one host.
type Host struct {
	Name   string
	Worker bool
	// Labelled is true if its Node is labelled as a control plane's, which no kubelet can do.
	Labelled bool
	// VIP is true while it holds a virtual IP.
	VIP bool
	// Ready is what its Node says, Kubelet the version of its kubelet.
	Ready   state.Fact[bool]
	Kubelet state.Fact[gate.Version]
	// Told is what its agent tells; Silent says why that is not known.
	Told   state.Fact[annotation.Host]
	Silent string
	// Backups is what it tells of its backups.
	Backups backup.Host
}

// HostOf reads a host from its Node.
func HostOf(n *corev1.Node) Host {
	_, control := n.Labels[state.LabelControlPlane]
	h := Host{Name: n.Name, Labelled: control, Worker: !control && n.Labels[noderole.Claim] != string(state.RoleMaster), Backups: backup.HostOf(n.Name, n.Annotations)}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status != corev1.ConditionUnknown {
			h.Ready = state.Known(c.Status == corev1.ConditionTrue)
		} else if c.Type == corev1.NodeReady {
			h.Ready = state.Known(false) // it has not reported for 40 s
		}
	}
	if v, err := gate.ParseVersion(n.Status.NodeInfo.KubeletVersion); err == nil {
		h.Kubelet = state.Known(v)
	}
	if r := state.ParseAnnotation[state.VIPReport](n.Annotations[state.AnnotationVIPs]); r.Known {
		h.VIP = len(r.Value.Holds) > 0
	}
	text := n.Annotations[annotation.HostOf]
	told, err := annotation.Decode[annotation.Host](text)
	switch {
	case text == "":
		h.Silent = "its agent tells nothing of releases"
	case err != nil:
		h.Silent = "what its agent tells is not known: " + err.Error()
	default:
		h.Told = state.Known(told)
	}
	return h
}

// running is the release that runs on the host.
func (h Host) running() state.Fact[string] {
	r := h.Told.Value.Facts.Release
	r.Known = r.Known && h.Told.Known
	r.Value = Digest(r.Value)
	return r
}

// Upgrade is what is known of the upgrade of a site, or that there is none.
type Upgrade struct {
	Objects
	// Record is what the operator remembers. Unread says why it is not known; empty if
	// it is.
	Record cluster.Record
	Unread string
	Wish   cluster.Wish
	// Running is the digest of the release that the site runs while no upgrade is under
	// way; empty if nobody knows it.
	Running string
	// Overrides are the gates that are skipped.
	Overrides []annotation.Override
	Sources   annotation.Sources
	Soak      time.Duration
	SoakOff   bool
}

// Read reads what the API has of an upgrade. What cannot be read is unknown.
func Read(o Objects) Upgrade {
	u := Upgrade{Objects: o, Soak: annotation.DefaultSoak}
	slices.SortFunc(u.Hosts, func(a, b Host) int { return cmp.Compare(a.Name, b.Name) })
	if record, err := readRecord(o.Record); err != nil {
		u.Unread = err.Error()
	} else {
		u.Record = record
	}
	u.Running = u.siteRuns()
	if o.Version == nil {
		return u
	}
	w := clusterversion.WishOf(*o.Version, u.Record)
	u.Wish, u.Overrides, u.Sources, u.Soak, u.SoakOff = w.Wish, w.Overrides, w.Sources, w.Soak, w.SoakOff
	// A wish belongs to the upgrade that is under way, also if it was made again.
	u.Wish.Upgrade = u.Record.Upgrade
	return u
}

// readRecord reads the record of the operator.
func readRecord(text state.Fact[string]) (cluster.Record, error) {
	if !text.Known {
		return cluster.Record{}, errors.New("the record of the upgrade could not be read")
	}
	said, err := annotation.Decode[annotation.Record](text.Value)
	if err != nil {
		return cluster.Record{}, fmt.Errorf("the record of the upgrade: %w", err)
	}
	r := said.Of()
	r.From, r.To = Digest(r.From), Digest(r.To)
	return r, nil
}

// siteRuns is the release that a site runs: by the record, by the history, and else
// what all control planes run.
func (u Upgrade) siteRuns() string {
	if u.Record.Started {
		return u.Record.From
	}
	if u.Version != nil {
		for _, h := range u.Version.Status.History {
			if h.State == configv1.CompletedUpdate && h.Image != "" {
				return Digest(h.Image)
			}
		}
	}
	only := ""
	for _, h := range u.Hosts {
		r := h.running()
		if h.Worker {
			continue
		}
		if !r.Known || only != "" && only != r.Value {
			return ""
		}
		only = r.Value
	}
	return only
}

var hex = regexp.MustCompile(`^[0-9a-f]{64}$`)

// Digest returns the digest of a name of a release, as sha256:HEX; empty if it has none.
func Digest(image string) string {
	digest, _ := clusterversion.Digest(image)
	return digest
}

// ParseImage checks a name of a release that a person typed: a digest, alone or after
// an "@", or its digits. Nothing but a digest says what a release is made of.
func ParseImage(text string) (string, error) {
	image := text
	if hex.MatchString(text) {
		image = "sha256:" + text
	}
	if Digest(image) == "" {
		return "", fmt.Errorf("%q: a release is named by its digest: sha256: and 64 hex digits, or REPOSITORY@sha256:...; 'holdfast release inspect' shows it", text)
	}
	return image, nil
}

// Release returns what hosts say of a release, if one of them has it. The word of a control
// plane counts before that of a worker.
func (u Upgrade) Release(digest string) (gate.Release, bool) {
	hosts := slices.Clone(u.Hosts)
	slices.SortStableFunc(hosts, func(a, b Host) int { // control planes first
		switch {
		case a.Labelled == b.Labelled:
			return 0
		case a.Labelled:
			return -1
		}
		return 1
	})
	for _, h := range hosts {
		for _, r := range h.Told.Value.Releases() {
			if h.Told.Known && digest != "" && Digest(r.Digest) == digest {
				r.Digest = digest
				return r, true
			}
		}
	}
	return gate.Release{}, false
}

// Digests lists the releases that lie on hosts or run there, sorted.
func (u Upgrade) Digests() []string {
	var out []string
	for _, h := range u.Hosts {
		for _, r := range h.Told.Value.Releases() {
			if r.Digest != "" {
				out = append(out, Digest(r.Digest))
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Name names a release for people: by what it calls itself, and the beginning of its
// digest.
func (u Upgrade) Name(digest string) string {
	brief := short(digest)
	if r, known := u.Release(digest); known && r.Name != "" {
		return r.Name + " (" + brief + ")"
	}
	if u.Version != nil {
		for _, h := range u.Version.Status.History {
			if Digest(h.Image) == digest && h.Version != "" {
				return h.Version + " (" + brief + ")"
			}
		}
	}
	return cmp.Or(brief, "a release that is not known")
}

// short returns as much of a digest as people compare.
func short(digest string) string {
	const enough = 19 // sha256: and twelve digits
	if hex.MatchString(strings.TrimPrefix(digest, "sha256:")) {
		return digest[:enough]
	}
	return digest
}

// site is the site as package cluster decides about it. What only the operator knows is
// unknown, and no gate is asked.
func (u Upgrade) site() cluster.Site {
	s := cluster.Site{Now: u.Now, Record: u.Record, Wish: u.Wish, Running: u.Running, Soak: u.Soak, SoakOff: u.SoakOff}
	to := cmp.Or(s.Offers(), u.Record.To)
	for _, h := range u.Hosts {
		told := h.Told.Value
		host := cluster.Host{Name: h.Name, Worker: h.Worker, VIP: h.VIP, Present: h.Ready, Well: h.Ready, Running: h.running(), Journal: told.Journal, Held: told.Held, Said: told.At, Raised: told.Raised}
		if told.Facts.Whole.Known {
			host.Whole = state.Known(slices.ContainsFunc(told.Facts.Whole.Value, func(d string) bool { return Digest(d) == to }))
			host.Old = state.Known(slices.ContainsFunc(told.Facts.Whole.Value, func(d string) bool { return Digest(d) == u.Record.From }))
		}
		s.Hosts = append(s.Hosts, host)
	}
	return s
}

// condition returns a condition of the ClusterVersion, if the operator has seen the
// present wish.
func (u Upgrade) condition(kind configv1.ClusterStatusConditionType) (configv1.ClusterOperatorStatusCondition, bool) {
	if !u.Seen() {
		return configv1.ClusterOperatorStatusCondition{}, false
	}
	for _, c := range u.Version.Status.Conditions {
		if c.Type == kind {
			return c, true
		}
	}
	return configv1.ClusterOperatorStatusCondition{}, false
}

// Seen reports whether the operator has seen what the ClusterVersion wants now.
func (u Upgrade) Seen() bool {
	return u.Version != nil && u.Version.Status.ObservedGeneration == u.Version.Generation
}
