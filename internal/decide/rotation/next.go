package rotation

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Host is a control plane, or a host that is about to become one, or one that follows
// them.
type Host struct {
	Name  string
	Ready bool
	// Joins is true for a host that says that it becomes a control plane, and is none yet.
	Joins bool
	// Renews is true while it renews its leaf certificates, and restarts programs
	// for them.
	Renews bool
	// ControlPlanes is the number of which the host knows.
	ControlPlanes int
	// NoRoot is true if the host cannot derive a key.
	NoRoot bool
	// Report is nil if the host has not said anything about the authority.
	Report *Report
}

// Seen holds the facts that Next decides from.
type Seen struct {
	Authority Authority
	Wish      Wish
	// Hosts are the control planes. Followers are all other hosts, for an authority
	// that these know too: they have no key, and follow what control planes publish.
	Hosts, Followers []Host
	// Absent names nodes that are not ready and are no control planes. Their pods
	// may hold tokens of the old key.
	Absent []string
	// Tokens names Secrets with a token of another key than the new one. No program
	// renews these.
	Tokens []string
	// Etcd says why etcd could not do without one of the control planes now; empty if
	// it could, or if the authority is not etcd's.
	Etcd string
	// Upgrade says why other work on the site lets none begin, an upgrade or hosts that
	// come or go, and AtWork why none goes on; both are empty without.
	Upgrade, AtWork string
	// Clock says that Now is not what control planes say; empty if it is, within minutes. Hours
	// are counted from times in the wish.
	Clock string
	// Published lists the authorities that the API publishes for other servers; nil
	// for one that it does not publish.
	Published []ID
	// Stale names the ConfigMaps by which pods know the API and that do not hold what
	// the control planes trust, and StaleInfo whether the same is so of the ConfigMap
	// for hosts that join by kubeadm. Both are of the Kubernetes CA alone.
	Stale     []string
	StaleInfo bool
	// Former names pods of the pod network that are older than the time from which on
	// all trust the new authority. They read theirs only when they start. Restart is
	// what starts them anew.
	Former  []string
	Restart string
	Now     time.Time
	// TokenLife is the longest time for which somebody may go on using a token, if an
	// administrator names it now; zero if he does not.
	TokenLife time.Duration
	// Salt is used if a rotation begins.
	Salt []byte
}

// Kind names a step.
type Kind string

// The steps.
const (
	// Refuse: no rotation may begin now; Why gives the reason.
	Refuse Kind = "refuse"
	// Wait: somebody has not done yet what is wished, or is missing.
	Wait Kind = "wait"
	// Hold: it goes on at a time or after something that a person does; waiting here
	// makes no sense.
	Hold Kind = "hold"
	// Ask: Wish is the next wish to write.
	Ask Kind = "ask"
	// Clean: take from what the API publishes all but the new authority.
	Clean Kind = "clean"
	// Inform: write what the control planes trust where hosts that join by kubeadm read
	// it.
	Inform Kind = "inform"
	// Settled: no rotation is under way.
	Settled Kind = "settled"
	// Due: none is under way, and one is to begin: the hosts trust more than one authority,
	// or the wish is older than what they have.
	Due Kind = "due"
)

// Step is the next thing to do.
type Step struct {
	Kind Kind
	Wish Wish
	// Keep is the authority that Clean leaves.
	Keep ID
	// Drops is true for the wish from which on nothing trusts the old authority, and
	// Signs for that from which on clients have to trust the new one.
	Drops, Signs bool
	// Why explains the step to people.
	Why string
}

// Begins reports whether a rotation may begin.
func (s Step) Begins() bool { return s.Kind == Settled || s.Kind == Due }

// Next decides the next step. If no rotation is under way it is Settled or Due, or begins
// one if begin is set. A wish from an older copy of etcd is not under way: nobody follows
// it.
//
// The wish changes only while every host of it is there, and one host has its
// turn after the other. So a host that goes away holds a rotation where it is.
func Next(s Seen, begin bool) Step {
	if !s.Authority.Replaceable() {
		return Step{Kind: Refuse, Why: fmt.Sprintf("this release cannot replace the authority %s", s.Authority)}
	}
	why := s.missing()
	running := s.Wish.Running() && !s.restored()
	switch {
	case !running && cmp.Or(why, s.Clock, s.Etcd, s.Upgrade) != "":
		return Step{Kind: Refuse, Why: cmp.Or(why, s.Clock, s.Etcd, s.Upgrade)}
	case running && s.named() != 0 && s.named() != s.Wish.TokenLife:
		next := s.Wish
		next.TokenLife = s.named()
		return Step{Kind: Ask, Wish: next, Why: fmt.Sprintf("tokens of the old key may be in use for %s: later runs know that too", s.named())}
	case why != "":
		return Step{Kind: Wait, Why: why}
	case running:
		step := s.goOn()
		if wait := cmp.Or(s.Clock, s.Etcd, s.AtWork); step.Kind == Ask && wait != "" {
			return Step{Kind: Wait, Why: wait}
		}
		return step
	}
	if step := s.settled(); !step.Begins() || !begin {
		return step
	}
	return s.ask(Wish{Phase: Trust, Salt: s.Salt, Began: s.Now.UTC().Truncate(time.Second), TokenLife: s.named()})
}

// goOn decides about a rotation that is under way.
func (s Seen) goOn() Step {
	behind := s.behind()
	if slices.Contains(behind, s.Wish.Turn) {
		return Step{Kind: s.patience(), Why: s.waiting(s.Wish.Turn)}
	}
	if len(behind) > 0 {
		next := s.Wish
		next.Turn = behind[0]
		return s.ask(next)
	}
	next := s.Wish
	switch s.Wish.Phase {
	case Trust:
		return s.trusted()
	case Sign:
		return s.signed()
	case Drop:
		if step := s.published(); step.Kind != "" {
			return step
		}
		if len(s.Published) > 1 {
			return Step{Kind: Clean, Keep: s.fresh(), Why: "the old authority is taken from what the API publishes to other servers"}
		}
		next.Phase, next.Turn = Done, ""
		return Step{Kind: Ask, Wish: next, Why: "the rotation is complete"}
	case Done: // it is not under way
	}
	return s.ask(next)
}

// patience says how whoever has its turn is waited for.
func (s Seen) patience() Kind {
	for _, h := range s.all() {
		if h.Name == s.Wish.Turn && h.Report != nil && h.Report.Of == s.Wish.Name() && h.Report.ByPerson {
			return Hold
		}
	}
	return Wait
}

// spread is the time in which every program has read an authority that it follows by
// itself: kubelet renews the copy in a pod within two minutes, and a program that is
// built with Kubernetes' library looks at its files every five. It is twice that.
const spread = 12 * time.Minute

// trusted decides when the new authority signs, once every control plane trusts it.
func (s Seen) trusted() Step {
	next := s.Wish
	next.Phase = Sign
	if s.Published != nil && !slices.Contains(s.Published, s.fresh()) {
		return Step{Kind: Wait, Why: "waiting until the API publishes the new authority to other servers"}
	}
	if s.Authority != KubernetesCA {
		return s.ask(next)
	}
	if step := s.published(); step.Kind != "" {
		return step
	}
	if s.Wish.Trusted.IsZero() {
		next.Phase, next.Trusted = Trust, s.Now.UTC()
		return Step{Kind: Ask, Wish: next, Why: "every control plane trusts the new authority, and the API publishes it"}
	}
	if until := s.Wish.Trusted.Add(spread); s.Now.Before(until) {
		return Step{Kind: Wait, Why: "programs that follow their authority have read it by " + until.UTC().Format(time.RFC3339)}
	}
	if len(s.Former) > 0 {
		return Step{Kind: Hold, Why: fmt.Sprintf("the pod network reads its authority only when it starts, and does not know the new one: %s. Start it anew: %s", strings.Join(s.Former, ", "), s.Restart)}
	}
	step := s.ask(next)
	step.Signs = true
	return step
}

// namedStale is the number of ConfigMaps that are named.
const namedStale = 3

// published returns what is to be done until pods, and hosts that join, find what the
// control planes trust; the zero value for nothing.
func (s Seen) published() Step {
	if n := len(s.Stale); n > 0 {
		return Step{Kind: Wait, Why: fmt.Sprintf("waiting until the controller manager has written what is trusted for pods, %d ConfigMaps to go: %s", n, strings.Join(s.Stale[:min(n, namedStale)], ", "))}
	}
	if s.StaleInfo {
		return Step{Kind: Inform, Why: "what is trusted is written for hosts that join by kubeadm"}
	}
	return Step{}
}

// named returns the life of tokens that is named now, zero for none. Only the key of service
// accounts signs tokens.
func (s Seen) named() time.Duration {
	if s.Authority != ServiceAccountKey {
		return 0
	}
	return s.TokenLife
}

// signed decides when the old authority goes, once nobody signs with it.
func (s Seen) signed() Step {
	next := s.Wish
	if next.Signed.IsZero() {
		next.Signed = s.Now.UTC()
		return Step{Kind: Ask, Wish: next, Why: "every control plane signs with the new authority"}
	}
	if s.Authority == ServiceAccountKey {
		until := next.Signed.Add(cmp.Or(s.named(), next.tokenLife()))
		switch {
		case s.Now.Before(until):
			return Step{Kind: Hold, Why: fmt.Sprintf("tokens of the old key may be in use until %s; run the command again then", until.UTC().Format(time.RFC3339))}
		case len(s.Absent) > 0:
			return Step{Kind: Hold, Why: "not ready: " + strings.Join(s.Absent, ", ") + ". Their pods may use tokens of the old key: bring them back, or delete their Nodes if they are gone for good"}
		case len(s.Tokens) > 0:
			return Step{Kind: Hold, Why: fmt.Sprintf("these Secrets hold tokens of the old key, which nothing renews: %s. Delete each, or its data key token, and give its reader the new token", strings.Join(s.Tokens, ", "))}
		}
	}
	if until := next.Signed.Add(spread); s.Authority == KubernetesCA && s.Now.Before(until) {
		return Step{Kind: Wait, Why: "programs that follow their certificate have read it by " + until.UTC().Format(time.RFC3339)}
	}
	next.Phase = Drop
	step := s.ask(next)
	step.Drops = true
	return step
}

// ask returns the wish with the turn of the first host that it is about.
func (s Seen) ask(w Wish) Step {
	then := s
	then.Wish = w
	behind := then.behind()
	if !slices.Contains(behind, w.Turn) || s.follows(w.Turn) && !s.follows(behind[0]) {
		w.Turn = ""
		if len(behind) > 0 {
			w.Turn = behind[0]
		}
	}
	then.Wish = w
	if w.Turn == "" { // each host has already done it
		return Step{Kind: Ask, Wish: w, Why: "every host is ready for the phase " + string(w.Phase)}
	}
	return Step{Kind: Ask, Wish: w, Why: then.waiting(w.Turn)}
}

// all returns the control planes, and after them the hosts that follow them.
func (s Seen) all() []Host { return slices.Concat(s.Hosts, s.Followers) }

// follows reports whether a host has no key. Such a one cannot do what a phase demands
// before all control planes have.
func (s Seen) follows(host string) bool {
	return slices.ContainsFunc(s.Followers, func(h Host) bool { return h.Name == host })
}

// behind names the hosts that have not done what the wish demands.
func (s Seen) behind() []string { return lacking(s.all(), s.Wish.Name(), s.Wish.Phase) }

// lacking names those of the hosts that have not done what a phase of a rotation demands.
func lacking(hosts []Host, of string, p Phase) []string {
	var out []string
	for _, h := range hosts {
		if h.Report == nil || h.Report.Of != of || !h.Report.has(p) {
			out = append(out, h.Name)
		}
	}
	return out
}

// fresh returns the new authority, as all hosts derive it.
func (s Seen) fresh() ID { return s.Hosts[0].Report.New }

// restored reports whether a control plane says that the wish is older than what it has.
func (s Seen) restored() bool {
	return slices.ContainsFunc(s.Hosts, func(h Host) bool {
		return h.Report != nil && h.Report.Restored && h.Report.Of == s.Wish.Name()
	})
}

// settled says what the hosts have while no rotation is under way.
func (s Seen) settled() Step {
	restored, all := s.restored(), s.all()
	if behind := s.behind(); s.Wish.Phase == Done && !restored && len(behind) > 0 {
		return Step{Kind: Wait, Why: "a rotation was completed without " + strings.Join(behind, " and ") + problems(all, behind)}
	}
	first := all[0].Report
	single := len(first.Trusts) == 1
	for _, h := range all[1:] {
		same := h.Report.Signs == first.Signs && slices.Equal(h.Report.Trusts, first.Trusts)
		if !same && !eachTrusts(all, h.Report.Signs, first.Signs) {
			return Step{Kind: Refuse, Why: fmt.Sprintf("%s and %s have different authorities: compare their files", all[0].Name, h.Name) + problems(all, []string{all[0].Name, h.Name})}
		}
		single = single && same
	}
	anew := fmt.Sprintf(". Replace it, and each has the new one alone: holdfast ca rotate %s", s.Authority)
	switch {
	case restored:
		return Step{Kind: Due, Why: "etcd was restored from before the last rotation, and the hosts keep what they have" + anew}
	case !single:
		return Step{Kind: Due, Why: "no single authority is trusted: " + trusting(all) + anew}
	}
	return Step{Kind: Settled, Why: "all have the same authority and no other one"}
}

// eachTrusts reports whether all hosts trust some authorities: only then nobody is shown
// what he does not trust while a rotation begins.
func eachTrusts(hosts []Host, ids ...ID) bool {
	for _, h := range hosts {
		for _, id := range ids {
			if !slices.Contains(h.Report.Trusts, id) {
				return false
			}
		}
	}
	return true
}

// trusting says what each host trusts.
func trusting(hosts []Host) string {
	var out []string
	for _, h := range hosts {
		var ids []string
		for _, id := range h.Report.Trusts {
			ids = append(ids, id.Short())
		}
		out = append(out, h.Name+" trusts "+cmp.Or(strings.Join(ids, " and "), "what it does not say"))
	}
	return strings.Join(out, ", ")
}

// waiting says for what a host is waited for.
func (s Seen) waiting(host string) string { return waitingFor(s.all(), s.Wish.Phase, host) }

func waitingFor(hosts []Host, p Phase, host string) string {
	does := map[Phase]string{
		Trust: "to trust the new authority beside the old one",
		Sign:  "to sign with the new authority",
		Drop:  "to drop the old authority",
		Done:  "to have the new authority alone",
	}[p]
	return "waiting for " + host + " " + does + problems(hosts, []string{host})
}

// problems says what is in the way of those of the hosts that are named.
func problems(hosts []Host, named []string) string {
	var out strings.Builder
	for _, h := range hosts {
		if slices.Contains(named, h.Name) && h.Report != nil && h.Report.Problem != "" {
			out.WriteString("; " + h.Name + ": " + h.Report.Problem)
		}
	}
	return out.String()
}

// Unable says why the authority cannot be replaced on this site, empty if it can be.
func (s Seen) Unable() string {
	for _, h := range s.all() {
		if h.Report != nil && h.Report.Unable != "" {
			return h.Name + ": " + h.Report.Unable
		}
	}
	return ""
}

// missing says what of the redundancy is missing, empty for nothing.
func (s Seen) missing() string {
	if len(s.Hosts) == 0 {
		return "no control plane is known"
	}
	var away, silent, rootless, renew []string
	of := 0
	for _, h := range s.all() {
		of = max(of, h.ControlPlanes)
		switch {
		case !h.Ready:
			away = append(away, h.Name)
		case h.Report == nil:
			silent = append(silent, h.Name)
		case h.NoRoot:
			rootless = append(rootless, h.Name)
		case h.Renews:
			renew = append(renew, h.Name)
		}
	}
	switch {
	case s.Wish.Running() && slices.Equal(away, []string{s.Wish.Turn}):
		return s.Wish.Turn + " has its turn and is not ready: programs of it start again. Does it last for minutes? Look at that host: holdfast status"
	case len(away) > 0:
		return strings.Join(away, " and ") + " not ready: an absent host would not trust what the others sign; bring it back, or if it is gone for good: " + s.without(away)
	case len(silent) > 0:
		return strings.Join(silent, " and ") + " does not report its authorities: the site was installed before this release could replace them, the host is being installed, or its agent is not running"
	case len(rootless) > 0:
		return strings.Join(rootless, " and ") + " cannot derive a new key: the site was installed before its secrets in etcd were encrypted"
	case s.Unable() != "":
		return s.Unable()
	case len(s.Hosts) < of:
		return fmt.Sprintf("only %d of %d control planes have a Node", len(s.Hosts), of)
	case len(renew) > 0:
		return "renewing certificates now: " + strings.Join(renew, ", ")
	}
	return s.disagree()
}

// without says how a site goes on without hosts that are gone for good.
func (s Seen) without(away []string) string {
	var out []string
	for _, name := range away {
		if s.follows(name) {
			out = append(out, "holdfast host remove "+name+" --is-off "+name)
		} else {
			out = append(out, "holdfast host replace "+name)
		}
	}
	return strings.Join(out, "; ")
}

// disagree names two hosts that derive different authorities from one wish.
func (s Seen) disagree() string {
	var a *Host
	for _, h := range s.Hosts {
		switch {
		case s.Wish.Phase == "" || h.Report.Of != s.Wish.Name() || h.Report.New == "":
		case a == nil:
			a = &h
		case a.Report.New != h.Report.New:
			return fmt.Sprintf("%s and %s derive different keys: the encryptionRoot in their /etc/holdfast/site.json differs", a.Name, h.Name)
		}
	}
	return ""
}
