package standing

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast/holdfast/internal/decide/finding"
	"github.com/holdfast/holdfast/internal/decide/noderole"
	"github.com/holdfast/holdfast/internal/decide/page"
)

// ofSite compares what redundancy needs with what the site has: people and
// controllers delete Nodes, labels and objects of hosts that still run.
func (d describer) ofSite() []finding.Finding {
	var out []finding.Finding
	for _, h := range d.Hosts {
		out = append(out, withoutFiles(h)...)
		if d.registered(h) == No {
			out = append(out, d.withoutNode(h))
			continue
		}
		out = append(out, d.withoutLabels(h)...)
	}
	out = append(out, d.withoutHosts()...)
	for _, h := range d.controlPlanes() {
		out = append(out, d.withoutPeers(h)...)
	}
	return append(out, d.withoutObjects()...)
}

// registered reports whether the API has a host's Node. The API's own list goes
// before what a host knows of it.
func (d describer) registered(h Host) Answer {
	switch {
	case d.Nodes.Known:
		return answer(slices.Contains(d.Nodes.Value, h.Name))
	case h.Registered.Known:
		return answer(h.Registered.Value)
	}
	return Unknown
}

// withoutFiles returns a finding for each thing that somebody deleted on a host.
func withoutFiles(h Host) []finding.Finding {
	if !h.Deleted.Known {
		return nil
	}
	var out []finding.Finding
	for _, l := range h.Deleted.Value {
		f := finding.Finding{
			ID: DeletedOnHost, Subject: h.Name, Variant: l.What, Severity: finding.Warning, Problem: "on " + h.Name + ": " + l.Problem, Meaning: l.Meaning,
		}
		if l.Command != "" {
			f.Commands = finding.On(h.Name, l.Command)
		}
		out = append(out, f)
	}
	return out
}

func (d describer) withoutNode(h Host) finding.Finding {
	if by := d.Retired.Value[h.Name]; d.Retired.Known && by != "" {
		return finding.Finding{
			ID: NodeRetired, Subject: h.Name, Severity: finding.Note, Problem: h.Name + " has no Node: it was " + by,
			Meaning: "Nothing makes its Node again. Wipe the host before it gets to the network again.",
		}
	}
	f := finding.Finding{
		ID: NodeDeleted, Subject: h.Name, Severity: finding.Warning, Problem: h.Name + " has no Node: it was deleted",
		Meaning:  "Its kubelet runs on but cannot report; its pods are deleted after 40 s. Its agent, or that of another control plane, makes it again within seconds, at most three times in ten minutes. If that lasts:",
		Commands: finding.On(h.Name, "sudo systemctl restart kubelet"),
	}
	if d.there(h) == No && d.offline(h.Name) != nil {
		f.Meaning, f.Commands = "The host registers again when it is back.", nil
	}
	return f
}

// withoutLabels finds role labels that a Node lacks.
func (d describer) withoutLabels(h Host) []finding.Finding {
	if !h.Labels.Known {
		return nil
	}
	lost := noderole.Missing(h.Labels.Value, d.MastersSchedulable.Known && d.MastersSchedulable.Value, h.ControlPlane)
	if len(lost) == 0 {
		return nil
	}
	return []finding.Finding{{
		ID: NodeLabelsLost, Subject: h.Name, Variant: strings.Join(lost, ", "), Severity: finding.Warning, Problem: fmt.Sprintf("node %s lacks %s", h.Name, labels(lost)),
		Meaning:  "Nothing that selects nodes by these labels will use this node. A control plane's agent sets them again within seconds; if that lasts, read its log: journalctl -u holdfast-agent.",
		Commands: finding.Anywhere("kubectl label node " + h.Name + " " + strings.Join(lost, "= ") + "="),
	}}
}

func labels(list []string) string {
	if len(list) == 1 {
		return "the label " + list[0]
	}
	return "the labels " + strings.Join(list, " and ")
}

// withoutHosts finds control planes whose names no source knows.
func (d describer) withoutHosts() []finding.Finding {
	known := len(d.controlPlanes())
	if !d.Nodes.Known || known == 0 || known >= d.size() {
		return nil
	}
	return []finding.Finding{{
		ID: NodesMissing, Variant: fmt.Sprint(known), Severity: finding.Warning, Problem: fmt.Sprintf("the API lists %d of %s", known, page.Count(d.size(), "control plane")),
		Meaning: "The Nodes of the others were deleted, or never existed. A control plane can report more.", Commands: finding.On(oneHost, "sudo holdfast status"),
	}}
}

// withoutPeers finds control planes that this one leaves out of its VRRP peers
// or its balancer. A lost host's report is out of date and does not count.
func (d describer) withoutPeers(h Host) []finding.Finding {
	if !h.Peers.Known || d.there(h) == No {
		return nil
	}
	var out []finding.Finding
	for _, o := range d.controlPlanes() {
		vrrp, backend := slices.Contains(h.Peers.Value.VRRP, o.Name), slices.Contains(h.Peers.Value.Backends, o.Name)
		if o.Name != h.Name && !vrrp {
			out = append(out, finding.Finding{
				ID: VIPPeerMissing, Subject: h.Name, Variant: o.Name, Severity: finding.Warning, Problem: fmt.Sprintf("%s does not have %s among its VRRP peers for the API VIP", h.Name, o.Name),
				Meaning:  "The two do not receive each other's VRRP adverts: both may hold the VIP at once, or one of them is outside its network and cannot hold it.",
				Commands: finding.On(h.Name, "sudo holdfast-agent monitor"),
			})
		}
		if !backend {
			out = append(out, finding.Finding{
				ID: BackendMissing, Subject: h.Name, Variant: o.Name, Severity: finding.Warning, Problem: fmt.Sprintf("the API's balancer on %s has no backend for %s", h.Name, o.Name),
				Meaning:  "While the other API servers are down, this balancer finds none.",
				Commands: finding.On(h.Name, "sudo holdfast-agent monitor"),
			})
		}
	}
	return out
}

// maxObjects is the number of objects that one finding names.
const maxObjects = 4

// withoutObjects finds objects of the cluster itself that somebody deleted.
func (d describer) withoutObjects() []finding.Finding {
	if !d.Missing.Known || len(d.Missing.Value) == 0 {
		return nil
	}
	var names []string
	for i, o := range d.Missing.Value {
		if i == maxObjects {
			names = append(names, fmt.Sprintf("%d more", len(d.Missing.Value)-i))
			break
		}
		names = append(names, strings.TrimSpace(o.Kind+" "+strings.TrimPrefix(o.Namespace+"/"+o.Name, "/")))
	}
	o := d.Missing.Value[0]
	where := ""
	if o.Namespace != "" {
		where = "-n " + o.Namespace + " "
	}
	return []finding.Finding{{
		ID: ObjectsDeleted, Variant: strings.Join(names, ", "), Severity: finding.Warning, Problem: "the API lacks " + strings.Join(names, ", "),
		Meaning:  "They belong to the cluster and were deleted. Those that can be recreated safely are back within a minute; the page says what to do about the rest.",
		Commands: finding.Anywhere("kubectl " + where + "get " + strings.ToLower(cmp.Or(o.Kind, "all")) + " " + o.Name),
	}}
}
