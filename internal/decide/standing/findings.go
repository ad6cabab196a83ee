package standing

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	etcdv1 "github.com/openshift/api/etcd/v1"

	"github.com/holdfast/holdfast/internal/decide/explain"
	"github.com/holdfast/holdfast/internal/decide/finding"
	"github.com/holdfast/holdfast/internal/decide/pacemakerstatus"
	"github.com/holdfast/holdfast/internal/decide/page"
	"github.com/holdfast/holdfast/internal/model/state"
)

// findings returns everything that is not as it should be, the worst first.
func (d describer) findings() []finding.Finding {
	out := []finding.Finding{}
	out = append(out, d.ofHosts()...)
	out = append(out, d.ofReport()...)
	out = append(out, d.ofSetUp()...)
	out = append(out, d.ofVIPs()...)
	out = append(out, d.ofNodes()...)
	out = append(out, d.ofConfigurations()...)
	out = append(out, d.ofPlans()...)
	out = append(out, d.ofRotations()...)
	out = append(out, d.ofKeys()...)
	out = append(out, d.ofRenewals()...)
	out = append(out, d.ofUpgrade()...)
	out = append(out, d.ofBackups()...)
	out = append(out, d.ofSpace()...)
	out = append(out, d.ofSite()...)
	out = append(out, d.ofMembers()...)
	out = append(out, d.ofOwnOperator()...)
	out = append(out, d.ofOperators()...)
	out = append(out, d.ofSources()...)
	for i := range out {
		out[i].Page = cmp.Or(out[i].Page, pageOf(out[i].ID))
	}
	slices.SortStableFunc(out, func(a, b finding.Finding) int { return finding.Compare(a.Severity, b.Severity) })
	return out
}

// ofHosts finds what hosts of two report about themselves: they need an
// administrator, they wait, or their last step failed.
func (d describer) ofHosts() []finding.Finding {
	var out []finding.Finding
	for _, h := range d.Hosts {
		if !h.Explanation.Known {
			continue
		}
		e := h.Explanation.Value
		switch e.Status {
		case explain.NeedsHuman:
			out = append(out, d.human(h.Name, e))
		case explain.Waiting, explain.Stopped:
			out = append(out, finding.Finding{
				ID: HostWaits, Subject: h.Name, Variant: e.Rule, Severity: d.whereWritten(finding.Warning), Problem: h.Name + " waits: " + e.Summary, Meaning: "If that lasts longer than a minute, find out why.",
				Commands: finding.On(h.Name, "sudo holdfast explain"),
			})
		case explain.Healthy, explain.Degraded, explain.Unknown, explain.Unmanaged:
		}
		for _, p := range e.Problems {
			out = append(out, finding.Finding{
				ID: EtcdKeeperTroubled, Subject: h.Name, Variant: p, Severity: finding.Note, Problem: "etcd keeper on " + h.Name + ": " + p, Meaning: "It retries by itself.",
				Commands: finding.On(h.Name, "sudo holdfast explain etcd"),
			})
		}
	}
	return out
}

// asked reports whether a host needs an administrator.
func (d describer) asked() bool {
	return slices.ContainsFunc(d.Hosts, func(h Host) bool {
		return h.Explanation.Known && h.Explanation.Value.Status == explain.NeedsHuman
	})
}

// whereWritten returns the given severity, or Critical unless the cluster is known
// to take writes.
func (d describer) whereWritten(otherwise finding.Severity) finding.Severity {
	if d.writes() == Yes {
		return otherwise
	}
	return finding.Critical
}

// human is the finding for a host that waits for an administrator. It shows the
// first command that can be typed; the host's own explanation has the others.
func (d describer) human(host string, e explain.Explanation) finding.Finding {
	f := finding.Finding{
		ID: PersonNeeded, Subject: host, Variant: e.Rule, Severity: d.whereWritten(finding.Warning), Problem: host + " needs an administrator: " + e.Reason, Meaning: e.Summary + ".",
		Commands: finding.On(host, "sudo holdfast explain"),
	}
	for i, a := range e.Next {
		if i == 0 && a.Command == "" {
			f.Meaning += " First: " + a.Does + "."
		}
		if a.Command != "" {
			f.Commands = finding.On(host, sudo(a.Command))
			f.Meaning += " The command " + a.Does + "."
			break
		}
	}
	return f
}

// sudo returns a command as an administrator types it on a host.
func sudo(command string) string {
	if strings.HasPrefix(command, "holdfast ") {
		return "sudo " + command
	}
	return command
}

// ofSetUp finds two hosts that are not set up as a pair yet.
func (d describer) ofSetUp() []finding.Finding {
	if d.size() != 2 || !d.SetUp.Known || d.SetUp.Value.Done {
		return nil
	}
	return []finding.Finding{{
		ID: NotSetUp, Variant: d.SetUp.Value.Doing, Severity: finding.Warning, Problem: "the two hosts are not yet set up to survive each other's loss: " + d.SetUp.Value.Doing,
		Meaning:  "holdfast-operator continues by itself, step by step; until it is done, the loss of a host stops the cluster.",
		Commands: finding.Anywhere("kubectl get etcds.operator.openshift.io cluster -o yaml"),
	}}
}

// ofVIPs finds VIPs that nobody holds or several hold, and adverts that are
// forged.
func (d describer) ofVIPs() []finding.Finding {
	var out []finding.Finding
	for _, v := range d.VIPs {
		name := v.Kind + " VIP " + v.Address.String()
		list, lost := d.holders(v)
		if len(v.Forged) > 0 {
			out = append(out, finding.Finding{
				ID: VIPForgedAdverts, Subject: v.Address.String(), Variant: strings.Join(v.Forged, ", "), Severity: finding.Critical, Problem: "adverts for " + name + " come from " + strings.Join(v.Forged, ", ") + ", which did not send them",
				Meaning:  "A machine on the network tries to take the address from its holder. Find its port on the switch, and shut it down.",
				Commands: finding.On(oneHost, "nft list table inet holdfast_vrrp"),
			})
		}
		switch {
		case len(v.Claims) > 0:
			out = append(out, finding.Finding{
				ID: VIPForeignHolder, Subject: v.Address.String(), Variant: strings.Join(v.Claims, ", "), Severity: finding.Critical, Problem: name + " is also answered for by " + strings.Join(v.Claims, ", ") + ", which " + one(v.Claims, "is not a host", "are not hosts") + " of this cluster",
				Meaning:  "Clients reach either of them at random.",
				Commands: finding.Anywhere("ip neighbour show " + v.Address.String()),
			})
		case len(v.Left) > 0:
			out = append(out, finding.Finding{
				ID: VIPLeftBehind, Subject: v.Address.String(), Variant: strings.Join(v.Left, ", "), Severity: finding.Warning, Problem: name + " is also answered for by " + strings.Join(v.Left, ", ") + ", which " + one(v.Left, "does", "do") + " not announce it",
				Meaning:  "The address was left on that host, or a switch answers for it. Clients may reach either; other hosts can still take the VIP.",
				Commands: finding.On(v.Left[0], "sudo systemctl restart holdfast-agent"),
			})
		case len(list) > 1:
			out = append(out, finding.Finding{
				ID: VIPHeldTwice, Subject: v.Address.String(), Variant: strings.Join(list, ", "), Severity: finding.Critical, Problem: fmt.Sprintf("%s: %s report that they hold it", name, strings.Join(list, " and ")),
				Meaning:  "For a third of a second this is normal while the address moves. If it lasts, the two hosts do not receive each other's VRRP adverts.",
				Commands: finding.On(list[0], "sudo tcpdump -ni any 'ip proto 112 or ip6 proto 112'"),
			})
		case v.Holders.Known && len(list)+len(lost) == 0 && d.writes() == No:
			out = append(out, finding.Finding{
				ID: VIPWithoutWrites, Subject: v.Address.String(), Severity: finding.Note, Problem: "no host holds the " + name, Meaning: "A host takes no VIP while its etcd takes no writes. The VIP returns when etcd does.",
				Commands: finding.On(oneHost, "sudo holdfast explain"),
			})
		case v.Holders.Known && len(list)+len(lost) == 0:
			out = append(out, finding.Finding{
				ID: VIPWithoutHolder, Subject: v.Address.String(), Severity: finding.Critical, Problem: "no host holds the " + name, Meaning: "Clients cannot reach the " + v.Kind + " at this address.",
				Commands: finding.On(oneHost, "sudo holdfast-agent monitor"),
			})
		}
	}
	return out
}

// one returns the word for one name, or the one for several.
func one(names []string, single, several string) string {
	if len(names) == 1 {
		return single
	}
	return several
}

// ofNodes finds kubelets that are not ready, cordons, and hosts whose network
// is not set up. On two hosts, Pacemaker's report already covers a host that is
// offline.
func (d describer) ofNodes() []finding.Finding {
	var out []finding.Finding
	for _, h := range d.Hosts {
		k := h.Kubelet
		if k.Known && !k.Value.Ready && d.offline(h.Name) == nil {
			meaning := "Its pods are started elsewhere after a while."
			if h.silent() {
				meaning += " If nobody can log in on it either, it has no power or no network: switch it on, or look at its console."
			}
			out = append(out, finding.Finding{
				ID: NodeNotReady, Subject: h.Name, Severity: finding.Warning, Problem: fmt.Sprintf("node %s is not ready%s: %s", h.Name, d.long(k.Value.Since), cmp.Or(k.Value.Why, "no report from its kubelet")),
				Meaning:  meaning,
				Commands: finding.On(h.Name, "systemctl status kubelet"),
			})
		}
		if k.Known && k.Value.Cordoned && !k.Value.Moves { // its configuration says the other
			out = append(out, finding.Finding{
				ID: NodeCordoned, Subject: h.Name, Severity: finding.Note, Problem: "node " + h.Name + " is cordoned", Meaning: "It gets no new pods.",
				Commands: finding.Anywhere("kubectl uncordon " + h.Name),
			})
		}
		if h.Trouble.Known && h.Trouble.Value != "" {
			out = append(out, finding.Finding{
				ID: NetworkTroubled, Subject: h.Name, Variant: h.Trouble.Value, Severity: finding.Warning, Problem: "network of " + h.Name + ": " + h.Trouble.Value, Meaning: "Its virtual IPs may not be set up as the cluster requires.",
				Commands: finding.On(h.Name, "sudo holdfast-agent monitor"),
			})
		}
		out = append(out, d.ofLoops(h)...)
		out = append(out, ofFirewalls(h)...)
	}
	return out
}

// failing is the time after which a loop that fails becomes a finding: most recover
// within seconds.
const failing = time.Minute

// ofLoops makes one finding of all loops of a host's agent that fail or hang,
// because an API that is down makes several fail. Its problem describes the loop that
// has failed for longest.
func (d describer) ofLoops(h Host) []finding.Finding {
	if !h.Loops.Known {
		return nil
	}
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
	why := ""
	if list[0].Error != "" {
		why = ": " + strings.ReplaceAll(list[0].Error, "\n", "; ")
	}
	if len(list) > 1 {
		var names []string
		for _, l := range list[1:] {
			names = append(names, l.Name)
		}
		why += "; also " + strings.Join(names, ", ")
	}
	meaning := "It tries again by itself. Until it succeeds, this part of its work stands still."
	if list[0].Hangs {
		meaning = "This part of its work stands still until it ends or the agent is started anew."
	}
	return []finding.Finding{{
		ID: AgentLoopFailing, Subject: h.Name, Variant: list[0].Name + ": " + words + why, Severity: finding.Warning,
		Problem: fmt.Sprintf("agent of %s: %s: %s%s%s", h.Name, list[0].Name, words, d.long(since), why), Meaning: meaning,
		Commands: finding.On(h.Name, "sudo journalctl -u holdfast-agent"),
	}}
}

// unwell returns since when a loop fails or hangs, and which of the two; zero for a
// healthy loop.
func unwell(l state.Loop) (time.Time, string) {
	switch {
	case l.Hangs:
		return l.Since, "it hangs"
	case l.Error != "":
		return l.FailingSince, "it fails"
	}
	return time.Time{}, ""
}

// ofFirewalls finds firewalls of the site that refuse what the cluster needs.
func ofFirewalls(h Host) []finding.Finding {
	if !h.Firewalls.Known {
		return nil
	}
	var out []finding.Finding
	for _, f := range h.Firewalls.Value {
		refused := slices.Concat(f.Cluster, f.Pods, f.Applications)
		if len(refused) == 0 {
			continue
		}
		severity, meaning := finding.Warning, "Clients that reach applications through this host get no answer."
		if len(f.Cluster)+len(f.Pods) > 0 {
			severity, meaning = finding.Critical, "Other hosts and pods get no answer from this host, as if its cable were broken."
		}
		out = append(out, finding.Finding{
			ID: FirewallRefuses, Subject: h.Name, Variant: f.Name + ": " + strings.Join(refused, ", "), Severity: severity, Problem: f.Name + " on " + h.Name + " refuses " + strings.Join(refused, ", "), Meaning: meaning,
			Commands: finding.On(h.Name, "sudo holdfast doctor firewall"),
		})
	}
	return out
}

// ofMembers finds unhealthy members of etcd, unless Pacemaker reports on them.
func (d describer) ofMembers() []finding.Finding {
	if d.size() == 2 && d.Pacemaker.Known {
		return nil
	}
	out := d.listedStrangers()
	for _, h := range d.controlPlanes() {
		m := h.Member
		if !m.Known {
			continue
		}
		what := ""
		switch {
		case state.Is(m.Value.Listed, false):
			what = "is not a member of etcd"
		case state.Is(m.Value.Running, false), state.Is(m.Value.Healthy, false):
			what = "has an etcd that is not serving"
		case m.Value.Learner:
			what = "has an etcd that is still catching up"
		default:
			continue
		}
		out = append(out, d.ofMember(h, what))
	}
	return out
}

// ofMember is the finding for a member of etcd that does not serve. Nobody can type on a
// host of which nothing is heard: it has to come back, or another one takes its place.
func (d describer) ofMember(h Host, what string) finding.Finding {
	f := finding.Finding{
		ID: EtcdMember, Subject: h.Name, Variant: what, Severity: finding.Warning, Problem: h.Name + " " + what, Meaning: "It does not count for the quorum.",
		Commands: d.lookAtEtcd(h.Name),
	}
	if !h.silent() {
		return f
	}
	f.Meaning += " Bring " + h.Name + " back: its etcd then catches up by itself."
	f.Commands = finding.On(oneHost, "sudo holdfast explain etcd")
	if d.size() > 2 {
		f.Meaning += " Only if it is lost for good, another machine takes its place; the command shows what is in the way of that."
		f.Commands, f.Page = finding.On(oneHost, "sudo holdfast host replace "+h.Name+" --dry-run"), pageReplace
	}
	return f
}

// silent reports whether a host's kubelet stopped reporting.
func (h Host) silent() bool { return h.Kubelet.Known && h.Kubelet.Value.Silent }

// lookAtEtcd returns the command that shows why a member of etcd does not serve. etcd
// has a static pod, but that of two control planes once Pacemaker runs it. The pod's log is
// read on the host: without this member there may be no API to ask.
func (d describer) lookAtEtcd(host string) []finding.Command {
	if d.size() == 2 && (!d.SetUp.Known || d.SetUp.Value.Done) {
		return finding.On(host, "sudo holdfast explain etcd")
	}
	return finding.On(host, "sudo sh -c 'tail -n 50 /var/log/pods/kube-system_etcd-*/etcd/*.log'")
}

// maxOperators is the number of operators that get a finding of their own.
const maxOperators = 3

func (d describer) ofOperators() []finding.Finding {
	if !d.Operators.Known {
		return nil
	}
	var out []finding.Finding
	for i, o := range d.Operators.Value {
		if i == maxOperators {
			out = append(out, finding.Finding{ID: OperatorNotWell, Variant: fmt.Sprint(len(d.Operators.Value)), Severity: finding.Warning, Problem: fmt.Sprintf("%d more ClusterOperators are unhealthy", len(d.Operators.Value)-i), Commands: finding.Anywhere("kubectl get clusteroperators"), Meaning: "See their messages."})
			break
		}
		out = append(out, finding.Finding{
			ID: OperatorNotWell, Subject: o.Name, Variant: o.State + ": " + o.Why, Severity: finding.Warning, Problem: "ClusterOperator " + o.Name + " is " + o.State + ": " + o.Why,
			Meaning:  "Its component is unhealthy; the message gives the cause.",
			Commands: finding.Anywhere("kubectl get clusteroperator " + o.Name + " -o yaml"),
		})
	}
	return out
}

// ofSources finds sources that did not answer, and reports that are old.
func (d describer) ofSources() []finding.Finding {
	var out []finding.Finding
	said := false
	for _, s := range d.Sources {
		if s.Failed == "" {
			continue
		}
		switch s.Kind {
		case FromAPI:
			if !said || d.answers() { // one finding, even if several ways to the API are silent
				out = append(out, d.noAPI(s))
			}
			said = true
		case FromHost, FromLab:
			out = append(out, finding.Finding{ID: HostSilent, Subject: s.Name, Variant: s.Failed, Severity: finding.Note, Problem: "no data from " + s.Name + ": " + s.Failed, Meaning: "Facts that only it knows are missing above.", Commands: finding.On(s.Name, "sudo holdfast status")})
		}
	}
	if silent, is := d.unwritten(); is {
		out = append(out, finding.Finding{
			ID: NothingWritten, Severity: finding.Critical, Problem: "the API answers, but no host has written to it for " + page.Duration(silent),
			Meaning:  "Perhaps etcd is full, or takes no writes for another reason: hosts cannot write here which. Or all kubelets are stopped.",
			Commands: finding.On(oneHost, "sudo holdfast status"),
		})
	}
	switch {
	case d.size() == 2 && d.stale():
		out = append(out, d.ofSilence("no host has reported on Pacemaker for "+page.Duration(d.age(d.Pacemaker.At))))
	case d.size() == 2 && d.SetUp.Known && d.SetUp.Value.Done && !d.Pacemaker.Known && !d.electing:
		out = append(out, d.ofSilence(cmp.Or(d.Pacemaker.Why, "no host has reported on Pacemaker yet")))
	}
	return out
}

// noAPI is the finding for a way to the API that does not answer. Its advice
// depends on whether another way to the API or a host answered.
func (d describer) noAPI(s Source) finding.Finding {
	f := finding.Finding{
		ID: APISilent, Subject: s.Name, Variant: s.Failed, Severity: finding.Critical, Problem: "the " + s.Name + " does not answer: " + s.Failed,
		Meaning:  "Either the cluster takes no writes, or the route to the API is broken. A control plane can report more without the API.",
		Commands: finding.On(oneHost, "sudo holdfast status"),
	}
	switch {
	case d.answers():
		f.Severity, f.Meaning = finding.Warning, "Another route to the API works: the API is healthy, but clients that use this address do not reach it."
		f.Commands = finding.On(oneHost, "sudo holdfast vip check")
	case slices.ContainsFunc(d.Sources, func(s Source) bool { return s.Kind != FromAPI && s.Failed == "" }):
		f.Meaning = "The API needs an etcd that takes writes and a working route. If this command gets no answer, the host's API server is down."
		f.Commands = finding.On(oneHost, "curl -sk https://127.0.0.1:6443/readyz")
	}
	return f
}

// ofSilence is the finding for a pair on whose Pacemaker nobody reports.
func (d describer) ofSilence(problem string) finding.Finding {
	severity, meaning := finding.Warning, "What is shown of Pacemaker and of fencing is out of date: a host could be lost without showing here."
	if !d.Pacemaker.Known {
		meaning = "It is unknown whether the hosts can fence each other: a host could be lost without showing here."
	} else if d.age(d.Pacemaker.At) > tooOld {
		severity = finding.Critical
	}
	return finding.Finding{
		ID: PacemakerStatusStale, Severity: severity, Problem: problem, Meaning: meaning,
		Commands: finding.On("both hosts", "systemctl status holdfast-agent pacemaker"),
	}
}

// offline returns Pacemaker's report on a host that is not online, nil if the
// host is online or no current report covers it.
func (d describer) offline(host string) *etcdv1.PacemakerClusterNodeStatus {
	if !d.reported() || pacemakerstatus.Holds(nodeConditions(d.node(host)), etcdv1.NodeOnlineConditionType) {
		return nil
	}
	return d.node(host)
}
