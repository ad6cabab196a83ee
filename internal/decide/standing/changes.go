package standing

import (
	"cmp"
	"slices"
	"strings"

	"github.com/holdfast/holdfast/internal/decide/finding"
)

// same reports whether two cells differ at most in what changes by itself.
func (c Cell) same(o Cell) bool { return cmp.Or(c.State, c.Text) == cmp.Or(o.State, o.Text) }

// same reports whether two sentences differ at most in what changes by itself.
func (r Redundancy) same(o Redundancy) bool {
	return cmp.Or(r.Cause, r.Sentence) == cmp.Or(o.Cause, o.Sentence)
}

// Changes describes what is different in a later view, one sentence each, for
// readers who follow a log. The mere passing of time is no change.
func Changes(before, after View) []string {
	var out []string
	say := func(same bool, what, now string) {
		if !same {
			out = append(out, what+now)
		}
	}
	say(before.Status == after.Status, "status: ", string(after.Status))
	say(before.Redundancy.same(after.Redundancy), "", after.Redundancy.Sentence)
	old := map[string]HostLine{}
	for _, h := range before.Hosts {
		old[h.Name] = h
	}
	for _, h := range after.Hosts {
		o := old[h.Name]
		say(o.Power.same(h.Power), h.Name+": power ", h.Power.Text)
		say(o.Kubelet.same(h.Kubelet), h.Name+": kubelet ", h.Kubelet.Text)
		say(o.Record.same(h.Record), h.Name+": record ", h.Record.Text)
		say(o.Etcd.same(h.Etcd), h.Name+": etcd ", h.Etcd.Text)
	}
	if now := after.Upgrade; now != nil {
		say(before.Upgrade.Same(now), "upgrade: ", now.Sentence())
	}
	holders := map[string]Cell{}
	for _, v := range before.VIPs {
		holders[v.Address] = v.Holder
	}
	for _, v := range after.VIPs {
		say(holders[v.Address].same(v.Holder), v.Kind+" VIP "+v.Address+": ", v.Holder.Text)
	}
	return append(out, findingChanges(before.Findings, after.Findings)...)
}

func findingChanges(before, after []finding.Finding) []string {
	var out []string
	for _, f := range after {
		if !slices.ContainsFunc(before, f.Same) {
			out = append(out, string(f.Severity)+": "+f.Problem)
		}
	}
	for _, f := range before {
		if !slices.ContainsFunc(after, f.Same) {
			out = append(out, "resolved: "+strings.TrimSpace(f.Problem))
		}
	}
	return out
}
