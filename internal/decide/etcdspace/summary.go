package etcdspace

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/decide/page"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Annotations of a Node about the space of etcd on its host.
const (
	// Annotation holds the Summary of a host. Its agent writes it.
	Annotation = state.AnnotationDomain + "etcd-space"
	// WantedOf is a wish for a defragmentation now: a Wish. Administrators write it. It stays
	// until the next one: the host says in its Summary which one it has answered.
	WantedOf = state.AnnotationDomain + "etcd-defragment-wanted"
)

// Report is what the agent of a control plane found last. It lies on its host.
type Report struct {
	Host    string    `json:"host"`
	At      time.Time `json:"at"`
	Members []Member  `json:"members,omitempty"`
	Verdict Verdict   `json:"verdict"`
	// IfAsked is what would follow if a person asked this host for a defragmentation.
	IfAsked Verdict `json:"ifAsked"`
	// Journal is what the agent remembers of its own work.
	Journal Journal `json:"journal"`
	Summary Summary `json:"summary"`
}

// Full reports whether the alarm NOSPACE is raised, as a host saw it a moment ago.
func (r Report) Full(now time.Time) bool {
	return len(r.Summary.NoSpace) > 0 && now.Sub(r.At).Abs() < Fresh
}

// Summary is what a control plane says about the space of its member. A reader ignores fields
// that it does not know.
type Summary struct {
	// At is the time at which it was written.
	At time.Time `json:"at"`
	// Size, InUse and Quota are of this host's member, zero if it does not answer.
	Size  int64 `json:"size,omitempty"`
	InUse int64 `json:"inUse,omitempty"`
	Quota int64 `json:"quota,omitempty"`
	// Voters is how many etcd lists, zero if that is not known.
	Voters int `json:"voters,omitempty"`
	// NoSpace has the members that raised the alarm NOSPACE.
	NoSpace []string `json:"noSpace,omitempty"`
	// Verdict is the step that is due, IfAsked what would follow if a person asked this host.
	Verdict Verdict `json:"verdict"`
	IfAsked Verdict `json:"ifAsked"`
	// Failed counts the failures in a row, Error is that of the last one.
	Failed  int    `json:"failed,omitempty"`
	Error   string `json:"error,omitempty"`
	GivenUp bool   `json:"givenUp,omitempty"`
	Done    Done   `json:"done,omitzero"`
	// Wish is a person's wish that stands and has no answer yet; Verdict says for what it waits.
	Wish string `json:"wish,omitempty"`
	// Asked is the last wish that was answered, and Answer the answer.
	Asked  string `json:"asked,omitempty"`
	Answer Answer `json:"answer,omitzero"`
}

// Begun is the rule of a defragmentation that runs.
const Begun = "begun"

// Summarize returns what a host says. v is the step that is due, ifAsked what would follow for a
// person, wish the wish that stands.
func Summarize(f Facts, v, ifAsked Verdict, wish string) Summary {
	m, j := f.Own.Value, f.Journal
	return Summary{
		Size: m.Size, InUse: m.InUse, Quota: m.Quota, Voters: f.Voters, NoSpace: f.NoSpace, Verdict: v, IfAsked: ifAsked,
		Failed: j.Failed, Error: j.Error, GivenUp: j.GivenUp(f.Uptime), Done: j.Done, Wish: wish, Asked: j.Asked, Answer: j.Answer,
	}
}

// Percent returns how much of its quota the database takes.
func (s Summary) Percent() int64 { return Member{Size: s.Size, Quota: s.Quota}.Percent() }

// Free returns how much a defragmentation would give back.
func (s Summary) Free() int64 { return Member{Size: s.Size, InUse: s.InUse}.free() }

// News says how soon a Summary is written where another one stands. Every write goes to every
// host.
type News int

// The kinds of news, the lesser first.
const (
	Nothing News = iota
	// Quiet can wait: a person finds it later.
	Quiet
	// Loud is written at once: somebody waits for it, or has to act.
	Loud
)

// moved is the share of the quota, in percent, by which sizes have to change to be news.
const moved = 5

// News returns what is new since an earlier Summary. Sizes change all the time, and so do reasons
// in words that have sizes in them, and what little a person could gain: none of it is news.
func (s Summary) News(before Summary) News {
	switch {
	case s.loud() != before.loud():
		return Loud
	case s.quiet() != before.quiet(), s.Error != before.Error, s.far(s.Size, before.Size), s.far(s.InUse, before.InUse):
		return Quiet
	}
	return Nothing
}

type loud struct {
	noSpace           string
	low, begun, rests bool
	failed            int
	done              int64
	wish, asked       string
}

func (s Summary) loud() loud {
	wish := s.Wish
	if wish != "" {
		wish += " " + s.Verdict.Rule
	}
	return loud{
		noSpace: strings.Join(s.NoSpace, " "), low: s.Percent() >= Low, begun: s.Verdict.Rule == Begun, rests: s.GivenUp,
		failed: s.Failed, done: s.Done.At.UnixNano(), wish: wish, asked: s.Asked,
	}
}

type quiet struct {
	rule, host string
	quota      int64
	voters     int
}

func (s Summary) quiet() quiet {
	return quiet{rule: s.Verdict.Rule, host: s.Verdict.Host, quota: s.Quota, voters: s.Voters}
}

func (s Summary) far(a, b int64) bool { return s.Quota > 0 && max(a-b, b-a)*100 >= s.Quota*moved }

// Fresh is the greatest age of a Report while the agent works: it looks every half minute, and a
// defragmentation takes up to a minute and a half.
const Fresh = 3 * time.Minute

// Over returns hosts with what a Report of this moment knows better than their Nodes.
func (r Report) Over(hosts []Host) []Host {
	out := slices.Clone(hosts)
	host := func(name string) *Host {
		i := slices.IndexFunc(out, func(h Host) bool { return h.Name == name })
		if i < 0 {
			out, i = append(out, Host{Name: name, Summary: Summary{Verdict: r.Verdict}}), len(out)
		}
		return &out[i]
	}
	for _, m := range r.Members {
		h := host(m.Name)
		h.Size, h.InUse, h.Quota, h.Silent = m.Size, m.InUse, m.Quota, ""
	}
	own := host(r.Host)
	own.Summary, own.Silent = r.Summary, ""
	for i := range out {
		out[i].NoSpace, out[i].Verdict = r.Summary.NoSpace, r.Verdict
	}
	return out
}

// maxWhy bounds each text of a Summary.
const maxWhy = 300

// Text encodes a Summary. It bounds everything that can grow.
func (s Summary) Text() (string, error) {
	for _, text := range []*string{&s.Verdict.Why, &s.IfAsked.Why, &s.Error, &s.Answer.Failed, &s.Answer.Refused} {
		*text = page.OneLine(*text, maxWhy)
	}
	out, err := json.Marshal(s)
	return string(out), err
}

// ErrNothingSaid is returned if a host has reported nothing about the space of its etcd.
var ErrNothingSaid = errors.New("its agent has reported nothing about the space of etcd")

// ReadSummary decodes a Summary. An empty text is ErrNothingSaid.
func ReadSummary(text string) (Summary, error) {
	var s Summary
	if text == "" {
		return s, ErrNothingSaid
	}
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return Summary{}, fmt.Errorf("annotation %s: not readable: %w", Annotation, err)
	}
	return s, nil
}

// Host is the report of one control plane.
type Host struct {
	Name string
	Summary
	// Silent says why there is no report; empty if there is one.
	Silent string
	// Wanted is the wish that stands at its Node.
	Wanted string
}

// HostOf reads the report in the annotations of a Node.
func HostOf(name string, annotations map[string]string) Host {
	h := Host{Name: name, Wanted: annotations[WantedOf]}
	var err error
	if h.Summary, err = ReadSummary(annotations[Annotation]); err != nil {
		h.Silent = err.Error()
	}
	return h
}

// Says returns what a host does about a wish, and whether it has answered it.
func (h Host) Says(wish string) (text string, done bool) {
	switch {
	case h.Silent != "":
		return h.Silent, false
	case h.Asked == wish && h.Answer.Refused+h.Answer.Failed != "":
		return "was not defragmented: " + h.Answer.Refused + h.Answer.Failed, true
	case h.Asked == wish:
		return "defragmented, " + h.Answer.Done.String(), true
	case h.Verdict.Rule == Begun:
		return "is defragmented", false
	case h.Wish == wish && h.Verdict.Step != None && h.Verdict.Host == h.Name:
		return h.Verdict.Why, false
	case h.Wish == wish:
		return "waits: " + h.Verdict.Why, false
	}
	return "has not heard of it yet", false
}

// Choose returns the host that is asked for a defragmentation if nobody names one: of those for
// which that leads to something, the one with most to gain. ready are those whose kubelet reports.
func Choose(hosts []Host, ready map[string]bool) (Host, error) {
	var fit []Host
	var why []string
	for _, h := range hosts {
		switch {
		case h.Silent != "":
			why = append(why, h.Name+": "+h.Silent)
		case !ready[h.Name]:
			why = append(why, h.Name+": it is not ready")
		case h.IfAsked.Final():
			why = append(why, h.Name+": "+h.IfAsked.Why)
		default:
			fit = append(fit, h)
		}
	}
	if len(fit) == 0 {
		return Host{}, fmt.Errorf("no control plane can be defragmented: %s", strings.Join(why, "; "))
	}
	return slices.MaxFunc(fit, func(a, b Host) int { return int(a.Free()>>20) - int(b.Free()>>20) }), nil
}
