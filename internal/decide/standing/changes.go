package standing

import (
	"regexp"
	"strings"

	"github.com/holdfast/holdfast/internal/decide/finding"
)

// moving matches text that changes by itself: how long something has lasted,
// and how far a member is behind.
var moving = regexp.MustCompile(`\b(\d+(\.\d+)?(ms|[dhms]))+\b|\d+ writes?\b|\d{4}-\d\d-\d\dT[0-9:]+Z`)

func still(text string) string { return moving.ReplaceAllString(text, "") }

// Changes describes what is different in a later view, one sentence each, for
// readers who follow a log. The mere passing of time is no change.
func Changes(before, after View) []string {
	var out []string
	say := func(what, old, now string) {
		if still(old) != still(now) {
			out = append(out, what+now)
		}
	}
	say("status: ", string(before.Status), string(after.Status))
	say("", before.Redundancy.Sentence, after.Redundancy.Sentence)
	old := map[string]HostLine{}
	for _, h := range before.Hosts {
		old[h.Name] = h
	}
	for _, h := range after.Hosts {
		o := old[h.Name]
		say(h.Name+": power ", o.Power.Text, h.Power.Text)
		say(h.Name+": kubelet ", o.Kubelet.Text, h.Kubelet.Text)
		say(h.Name+": record ", o.Record.Text, h.Record.Text)
		say(h.Name+": etcd ", o.Etcd.Text, h.Etcd.Text)
	}
	holders := map[string]string{}
	for _, v := range before.VIPs {
		holders[v.Address] = v.Holder.Text
	}
	for _, v := range after.VIPs {
		say(v.Kind+" VIP "+v.Address+": ", holders[v.Address], v.Holder.Text)
	}
	return append(out, findingChanges(before.Findings, after.Findings)...)
}

func findingChanges(before, after []finding.Finding) []string {
	var out []string
	known, now := map[string]bool{}, map[string]bool{}
	for _, f := range before {
		known[still(f.Problem)] = true
	}
	for _, f := range after {
		now[still(f.Problem)] = true
		if !known[still(f.Problem)] {
			out = append(out, string(f.Severity)+": "+f.Problem)
		}
	}
	for _, f := range before {
		if !now[still(f.Problem)] {
			out = append(out, "resolved: "+strings.TrimSpace(f.Problem))
		}
	}
	return out
}
