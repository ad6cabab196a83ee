package standing

import (
	"fmt"
	"slices"

	"github.com/holdfast/holdfast/internal/decide/finding"
	"github.com/holdfast/holdfast/internal/decide/rotation"
)

// ofRotations finds what people are told of authorities that are being replaced. Package
// rotation says what that is.
func (d describer) ofRotations() []finding.Finding {
	var hosts []rotation.Said
	for _, h := range d.Hosts {
		if h.Authorities.Known {
			hosts = append(hosts, rotation.Said{Name: h.Name, Control: h.ControlPlane, Ready: d.takesPart(h), Reports: h.Authorities.Value})
		}
	}
	var out []finding.Finding
	for _, t := range rotation.Troubles(d.Now, hosts) {
		out = append(out, d.rotation(t))
	}
	return out
}

// takesPart reports whether a host is ready to do its part of a rotation.
func (d describer) takesPart(h Host) bool {
	return h.Kubelet.Known && h.Kubelet.Value.Ready && d.there(h) != No
}

// rotation returns the finding for a rotation that is under way, or that left a host out.
func (d describer) rotation(t rotation.Trouble) finding.Finding {
	f := finding.Finding{ID: RotationUnfinished, Subject: string(t.Authority), Severity: finding.Note, Page: pageCAs}
	if t.Late {
		f.Severity = finding.Warning
	}
	if t.Unreadable {
		f.Variant = "unreadable"
		f.Problem = fmt.Sprintf("what is wished about %s cannot be read", t.Authority)
		f.Meaning = "No host goes on with its rotation, and no upgrade begins. Somebody edited the Secret: put it right, or take the wish away and rotate anew."
		f.Commands = slices.Concat(finding.Anywhere("holdfast ca show"), finding.Anywhere(rotation.TakeAway(t.Authority)), continues(t.Authority))
		return f
	}
	if t.Restored {
		f.Variant = "restored"
		f.Problem = fmt.Sprintf("etcd was restored from before the last rotation of %s", t.Authority)
		f.Meaning = "The control planes keep the authority that they have: the one that etcd names was replaced. Replace it once more, so that what lies in etcd follows."
		f.Commands = append(finding.Anywhere("holdfast ca show"), continues(t.Authority)...)
		return f
	}
	if t.Phase == rotation.Done {
		f.Variant = t.Host
		f.Problem = fmt.Sprintf("%s was replaced, and %s uses another one", t.Authority, t.Host)
		if t.Why != "" {
			f.Problem += ": " + t.Why
		}
		f.Meaning = "Other hosts do not trust what it shows. Its agent puts that right within minutes; its log says what keeps it from that."
		f.Commands = finding.On(t.Host, "sudo journalctl -u holdfast-agent -g authorit")
		return f
	}
	f.Variant = string(t.Phase) + ": " + t.Why
	f.Problem = fmt.Sprintf("%s has been in rotation%s, phase %s: %s", t.Authority, d.long(t.Began), t.Phase, t.Why)
	f.Meaning = "Both authorities are trusted meanwhile, and no upgrade begins. The rotation goes on only while the command runs; type it again to continue."
	if t.Late {
		f.Meaning += " It takes longer than it should."
	}
	f.Commands = append(finding.Anywhere("holdfast ca show"), continues(t.Authority)...)
	return f
}

// continues returns the command that takes the next step. Kubeconfigs elsewhere do not
// follow the Kubernetes CA.
func continues(a rotation.Authority) []finding.Command {
	if a == rotation.KubernetesCA {
		return finding.On(oneHost, "sudo holdfast ca rotate "+string(a))
	}
	return finding.Anywhere("holdfast ca rotate " + string(a))
}
