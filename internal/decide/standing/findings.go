package standing

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	etcdv1 "github.com/openshift/api/etcd/v1"

	"github.com/holdfast/holdfast/internal/decide/explain"
	"github.com/holdfast/holdfast/internal/decide/pacemakerstatus"
	"github.com/holdfast/holdfast/internal/decide/page"
	"github.com/holdfast/holdfast/internal/model/state"
)

// findings are all that is not as it should be, the worst first.
func (d describer) findings() []Finding {
	out := []Finding{}
	out = append(out, d.ofHosts()...)
	out = append(out, d.ofReport()...)
	out = append(out, d.ofSetUp()...)
	out = append(out, d.ofVIPs()...)
	out = append(out, d.ofNodes()...)
	out = append(out, d.ofSite()...)
	out = append(out, d.ofMembers()...)
	out = append(out, d.ofOperators()...)
	out = append(out, d.ofSources()...)
	for i := range out {
		out[i].Page = cmp.Or(out[i].Page, pageOf(out[i].ID))
	}
	slices.SortStableFunc(out, func(a, b Finding) int { return rank(a.Level) - rank(b.Level) })
	return out
}

func rank(l Level) int {
	switch l {
	case Critical:
		return 0
	case Warning:
		return 1
	case Note:
	}
	return 2
}

// ofHosts is what hosts of two say for themselves: a person is needed, or the
// last step failed.
func (d describer) ofHosts() []Finding {
	var out []Finding
	for _, h := range d.Hosts {
		if !h.Explanation.Known {
			continue
		}
		e := h.Explanation.Value
		switch e.Status {
		case explain.NeedsHuman:
			out = append(out, d.human(h.Name, e))
		case explain.Waiting, explain.Stopped:
			out = append(out, Finding{
				ID: HostWaits, Level: d.whereWritten(Warning), What: h.Name + " waits: " + e.Summary, Means: "If that lasts longer than a minute, read why.",
				Type: "sudo holdfast explain", On: h.Name,
			})
		case explain.Healthy, explain.Degraded, explain.Unknown, explain.Unmanaged:
		}
		for _, p := range e.Problems {
			out = append(out, Finding{
				ID: EtcdKeeperTroubled, Level: Note, What: "etcd's agent on " + h.Name + ": " + p, Means: "It tries again by itself.",
				Type: "sudo holdfast explain etcd", On: h.Name,
			})
		}
	}
	return out
}

// asked is whether a host needs a person.
func (d describer) asked() bool {
	return slices.ContainsFunc(d.Hosts, func(h Host) bool {
		return h.Explanation.Known && h.Explanation.Value.Status == explain.NeedsHuman
	})
}

// whereWritten makes something critical where the cluster takes no writes.
func (d describer) whereWritten(otherwise Level) Level {
	if d.writes() == Yes {
		return otherwise
	}
	return Critical
}

// human is what a host waits for a person with. The first thing that can be
// typed is shown; the others are in its own explanation.
func (d describer) human(host string, e explain.Explanation) Finding {
	f := Finding{
		ID: PersonNeeded, Level: d.whereWritten(Warning), What: host + " needs a person: " + e.Reason, Means: e.Summary + ".",
		Type: "sudo holdfast explain", On: host,
	}
	for i, a := range e.Next {
		if i == 0 && a.Command == "" {
			f.Means += " First: " + a.Does + "."
		}
		if a.Command != "" {
			f.Type = sudo(a.Command)
			f.Means += " The command " + a.Does + "."
			break
		}
	}
	return f
}

// sudo is a command of holdfast as a person types it on a host.
func sudo(command string) string {
	if strings.HasPrefix(command, "holdfast ") {
		return "sudo " + command
	}
	return command
}

// ofSetUp is a pair that is none yet.
func (d describer) ofSetUp() []Finding {
	if d.size() != 2 || !d.SetUp.Known || d.SetUp.Value.Done {
		return nil
	}
	return []Finding{{
		ID: NotSetUp, Level: Warning, What: "the two hosts are not set up to survive each other yet: " + d.SetUp.Value.Doing,
		Means: "holdfast-operator goes on by itself, step by step; until then the loss of a host stops the cluster.",
		Type:  "kubectl get etcds.operator.openshift.io cluster -o yaml",
	}}
}

// ofVIPs are addresses that nobody has, or more than one.
func (d describer) ofVIPs() []Finding {
	var out []Finding
	for _, v := range d.VIPs {
		name := v.Kind + " VIP " + v.Address.String()
		list, lost := d.holders(v)
		if len(v.Forged) > 0 {
			out = append(out, Finding{
				ID: VIPForgedAdverts, Level: Critical, What: "adverts for " + name + " come from " + strings.Join(v.Forged, ", ") + ", which did not send them",
				Means: "Somebody on the network tries to take the address from its holder. Find that port in the switch, and shut it.",
				Type:  "nft list table inet holdfast_vrrp", On: oneHost,
			})
		}
		switch {
		case len(v.Claims) > 0:
			out = append(out, Finding{
				ID: VIPForeignHolder, Level: Critical, What: name + " is also answered for by " + strings.Join(v.Claims, ", ") + ", which is no host of this cluster",
				Means: "Clients reach now the one, now the other.",
				Type:  "ip neighbour show " + v.Address.String(),
			})
		case len(v.Left) > 0:
			out = append(out, Finding{
				ID: VIPLeftBehind, Level: Warning, What: name + " is also answered for by " + strings.Join(v.Left, ", ") + ", which announces it to nobody",
				Means: "It was left there, or a switch answers for it. Clients may reach either; no other host is kept from it.",
				Type:  "sudo systemctl restart holdfast-agent", On: v.Left[0],
			})
		case len(list) > 1:
			out = append(out, Finding{
				ID: VIPHeldTwice, Level: Critical, What: fmt.Sprintf("%s: %s say that they have it", name, strings.Join(list, " and ")),
				Means: "For a third of a second that is how it moves. If it lasts, the two do not hear each other's VRRP.",
				Type:  "sudo tcpdump -ni any 'ip proto 112 or ip6 proto 112'", On: list[0],
			})
		case v.Holders.Known && len(list)+len(lost) == 0 && d.writes() == No:
			out = append(out, Finding{
				ID: VIPWithoutWrites, Level: Note, What: "nobody has the " + name, Means: "It follows: a host without etcd takes none. It comes back with it.",
				Type: "sudo holdfast explain", On: oneHost,
			})
		case v.Holders.Known && len(list)+len(lost) == 0:
			out = append(out, Finding{
				ID: VIPWithoutHolder, Level: Critical, What: "nobody has the " + name, Means: "Nobody reaches the " + v.Kind + " there.",
				Type: "sudo holdfast-agent monitor", On: oneHost,
			})
		}
	}
	return out
}

// ofNodes are kubelets that are not ready, cordons, and hosts whose network is
// not set up. On two hosts the report of Pacemaker says the first, and more.
func (d describer) ofNodes() []Finding {
	var out []Finding
	for _, h := range d.Hosts {
		k := h.Kubelet
		if k.Known && !k.Value.Ready && d.offline(h.Name) == nil {
			out = append(out, Finding{
				ID: NodeNotReady, Level: Warning, What: fmt.Sprintf("node %s is not ready%s: %s", h.Name, d.long(k.Value.Since), cmp.Or(k.Value.Why, "its kubelet reports nothing")),
				Means: "Its pods are started elsewhere after a while.",
				Type:  "systemctl status kubelet", On: h.Name,
			})
		}
		if k.Known && k.Value.Cordoned {
			out = append(out, Finding{
				ID: NodeCordoned, Level: Note, What: "node " + h.Name + " is cordoned", Means: "No new pods come to it.",
				Type: "kubectl uncordon " + h.Name,
			})
		}
		if h.Trouble.Known && h.Trouble.Value != "" {
			out = append(out, Finding{
				ID: NetworkTroubled, Level: Warning, What: "network of " + h.Name + ": " + h.Trouble.Value, Means: "Its virtual IPs may not be set up as the cluster wants them.",
				Type: "sudo holdfast-agent monitor", On: h.Name,
			})
		}
		out = append(out, d.ofLoops(h)...)
		out = append(out, ofFirewalls(h)...)
	}
	return out
}

// failing is how long a loop may fail before a person is told: most go on by
// themselves within seconds.
const failing = time.Minute

// ofLoops is one finding of the loops of a host's agent that fail or hang: an API
// that is away has several of them fail. It says what is wrong with the one that
// is so for longest.
func (d describer) ofLoops(h Host) []Finding {
	var list []state.Loop
	for _, l := range h.Loops.Value {
		if since, _ := unwell(l); !since.IsZero() && d.age(since) > failing {
			list = append(list, l)
		}
	}
	if len(list) == 0 {
		return nil
	}
	slices.SortStableFunc(list, func(a, b state.Loop) int {
		first, _ := unwell(a)
		second, _ := unwell(b)
		return first.Compare(second)
	})
	since, words := unwell(list[0])
	what := fmt.Sprintf("agent of %s: %s: %s%s", h.Name, list[0].Name, words, d.long(since))
	if list[0].Error != "" {
		what += ": " + strings.ReplaceAll(list[0].Error, "\n", "; ")
	}
	if len(list) > 1 {
		var names []string
		for _, l := range list[1:] {
			names = append(names, l.Name)
		}
		what += "; also " + strings.Join(names, ", ")
	}
	means := "It tries again by itself. Until it succeeds, this part of its work stands still."
	if list[0].Hangs {
		means = "This part of its work stands still until it ends or the agent is started anew."
	}
	return []Finding{{
		ID: AgentLoopFailing, Level: Warning, What: what, Means: means,
		Type: "sudo journalctl -u holdfast-agent", On: h.Name,
	}}
}

// unwell is since when a loop fails or hangs, and which of the two; zero where it
// is well.
func unwell(l state.Loop) (time.Time, string) {
	switch {
	case l.Hangs:
		return l.Since, "it hangs"
	case l.Error != "":
		return l.FailingSince, "it fails"
	}
	return time.Time{}, ""
}

// ofFirewalls are firewalls of the site that refuse what the cluster needs.
func ofFirewalls(h Host) []Finding {
	var out []Finding
	for _, f := range h.Firewalls.Value {
		refused := slices.Concat(f.Cluster, f.Pods, f.Applications)
		if len(refused) == 0 {
			continue
		}
		level, means := Warning, "Clients of applications that come by this host get no answer."
		if len(f.Cluster)+len(f.Pods) > 0 {
			level, means = Critical, "Other hosts and pods get no answer there, as with a broken cable."
		}
		out = append(out, Finding{
			ID: FirewallRefuses, Level: level, What: f.Name + " on " + h.Name + " refuses " + strings.Join(refused, ", "), Means: means,
			Type: "sudo holdfast doctor firewall", On: h.Name,
		})
	}
	return out
}

// ofMembers are members of etcd that are not well where no Pacemaker says so.
func (d describer) ofMembers() []Finding {
	if d.size() == 2 && d.Pacemaker.Known {
		return nil
	}
	var out []Finding
	for _, h := range d.controlPlanes() {
		m := h.Member
		if !m.Known {
			continue
		}
		what := ""
		switch {
		case state.Is(m.Value.Listed, false):
			what = "is no member of etcd"
		case state.Is(m.Value.Running, false), state.Is(m.Value.Healthy, false):
			what = "has an etcd that does not serve"
		case m.Value.Learner:
			what = "has an etcd that still catches up"
		default:
			continue
		}
		out = append(out, Finding{
			ID: EtcdMember, Level: Warning, What: h.Name + " " + what, Means: "It does not count for the quorum.",
			Type: "kubectl -n kube-system logs etcd-" + h.Name + " --tail 50",
		})
	}
	return out
}

// maxOperators are as many as one finding names.
const maxOperators = 3

func (d describer) ofOperators() []Finding {
	var out []Finding
	for i, o := range d.Operators.Value {
		if i == maxOperators {
			out = append(out, Finding{ID: OperatorNotWell, Level: Warning, What: fmt.Sprintf("%d more ClusterOperators are not well", len(d.Operators.Value)-i), Type: "kubectl get clusteroperators", Means: "See their messages."})
			break
		}
		out = append(out, Finding{
			ID: OperatorNotWell, Level: Warning, What: "ClusterOperator " + o.Name + " is " + o.State + ": " + o.Why,
			Means: "What it looks after is not as it should be; its message says what.",
			Type:  "kubectl get clusteroperator " + o.Name + " -o yaml",
		})
	}
	return out
}

// ofSources are places that did not answer, and reports that are old.
func (d describer) ofSources() []Finding {
	var out []Finding
	said := false
	for _, s := range d.Sources {
		if s.Failed == "" {
			continue
		}
		switch s.Kind {
		case FromAPI:
			if !said || d.answers() { // by several ways it is silent once
				out = append(out, d.noAPI(s))
			}
			said = true
		case FromHost, FromLab:
			out = append(out, Finding{ID: HostSilent, Level: Note, What: "no data from " + s.Name + ": " + s.Failed, Means: "Facts that only it knows are missing above.", Type: "sudo holdfast status", On: s.Name})
		}
	}
	if d.size() == 2 && d.stale() {
		out = append(out, d.ofSilence())
	}
	return out
}

// noAPI is an API that does not answer: where a host answered it has said more
// already.
func (d describer) noAPI(s Source) Finding {
	f := Finding{
		ID: APISilent, Level: Critical, What: "the " + s.Name + " does not answer: " + s.Failed,
		Means: "Either the cluster takes no writes, or the way to it is broken. A control plane tells more without it.",
		Type:  "sudo holdfast status", On: oneHost,
	}
	switch {
	case d.answers():
		f.Level, f.Means = Warning, "Another way to it works: the API is well, and whoever uses this way does not reach it."
		f.Type = "holdfast vip check"
	case slices.ContainsFunc(d.Sources, func(s Source) bool { return s.Kind != FromAPI && s.Failed == "" }):
		f.Means = "It needs an etcd that takes writes, and a way to it. Without an answer here, that host's API server is not there."
		f.Type = "curl -sk https://127.0.0.1:6443/readyz"
	}
	return f
}

func (d describer) ofSilence() Finding {
	level := Warning
	if d.age(d.Pacemaker.At) > tooOld {
		level = Critical
	}
	return Finding{
		ID: PacemakerStatusStale, Level: level, What: fmt.Sprintf("no host has reported on Pacemaker for %s", page.Duration(d.age(d.Pacemaker.At))),
		Means: "What is shown of Pacemaker and of fencing is not of now: a host could be lost and nobody would see it here.",
		Type:  "systemctl status holdfast-agent pacemaker", On: "both hosts",
	}
}

// offline is the node that Pacemaker says is not there, nil for one that is.
func (d describer) offline(host string) *etcdv1.PacemakerClusterNodeStatus {
	if !d.reported() || pacemakerstatus.Holds(nodeConditions(d.node(host)), etcdv1.NodeOnlineConditionType) {
		return nil
	}
	return d.node(host)
}
