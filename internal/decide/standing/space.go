package standing

import (
	"slices"

	"github.com/holdfast/holdfast/internal/decide/etcdspace"
	"github.com/holdfast/holdfast/internal/decide/finding"
	"github.com/holdfast/holdfast/internal/decide/page"
)

// spaces returns what the control planes say of the space of etcd.
func (d describer) spaces() []etcdspace.Host {
	var out []etcdspace.Host
	for _, h := range d.controlPlanes() {
		if h.Space.Known {
			out = append(out, h.Space.Value)
		}
	}
	return out
}

// full returns the trouble of an etcd that takes no writes for lack of space.
func (d describer) full() (etcdspace.Trouble, bool) {
	list := etcdspace.Troubles(d.spaces())
	i := slices.IndexFunc(list, func(t etcdspace.Trouble) bool { return t.Kind == etcdspace.Full })
	if i < 0 {
		return etcdspace.Trouble{}, false
	}
	return list[i], true
}

// ofSpace returns the findings about the space of etcd, which package etcdspace decides.
func (d describer) ofSpace() []finding.Finding {
	var out []finding.Finding
	for _, t := range etcdspace.Troubles(d.spaces()) {
		f := spaceWords[t.Kind](t)
		f.Subject, f.Variant = t.Subject, string(t.Kind)
		out = append(out, f)
	}
	return out
}

// spaceWords words each kind of trouble.
var spaceWords = map[etcdspace.Kind]func(t etcdspace.Trouble) finding.Finding{
	etcdspace.Full: func(t etcdspace.Trouble) finding.Finding {
		meaning := "The cluster takes no writes; reads and deletions pass. "
		if t.Mends {
			meaning += "The agents compact, defragment and take the alarm back by themselves, which takes some ten minutes: " + t.Next + "."
		} else {
			meaning += "The agents wait: " + t.Next + ". Delete what nobody needs; it passes."
		}
		return finding.Finding{ID: EtcdFull, Severity: finding.Critical, Problem: "etcd is full: " + t.Why, Meaning: meaning, Commands: finding.On(oneHost, "sudo holdfast etcd status")}
	},
	etcdspace.Short: func(t etcdspace.Trouble) finding.Finding {
		f := finding.Finding{
			ID: EtcdShort, Severity: finding.Warning, Problem: "etcd on " + t.Subject + " is at " + t.Why,
			Meaning:  "At the quota the cluster takes no writes. The agents find nothing to do: " + t.Next + ". Find out what fills it.",
			Commands: finding.Anywhere("kubectl get --raw /metrics | grep '^apiserver_resource_objects{' | sort -t' ' -k2 -g | tail"),
		}
		switch {
		case t.Mends:
			f.Severity, f.Meaning, f.Commands = finding.Note, page.Capital(t.Next)+", which gives space back.", finding.Anywhere("holdfast etcd status")
		case t.Urgent:
			f.Severity = finding.Critical
		}
		return f
	},
	etcdspace.GivenUp: func(t etcdspace.Trouble) finding.Finding {
		return finding.Finding{
			ID: EtcdDefragmentFails, Severity: finding.Warning, Problem: "the defragmentation of etcd on " + t.Subject + " failed " + t.Why,
			Meaning: page.Capital(t.Next) + ". To have it try now, ask for it.", Commands: finding.Anywhere("holdfast etcd defragment --host " + t.Subject),
		}
	},
	etcdspace.Waste: func(t etcdspace.Trouble) finding.Finding {
		return finding.Finding{
			ID: EtcdWaste, Severity: finding.Note, Problem: "etcd on " + t.Subject + " holds space that nothing uses: " + t.Why,
			Meaning: "It is the only member, and the API does not answer while it is defragmented: you choose the time.", Commands: finding.Anywhere("holdfast etcd defragment"),
		}
	},
}
