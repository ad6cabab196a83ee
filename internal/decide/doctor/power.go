package doctor

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/holdfast/holdfast/internal/decide/finding"
	"github.com/holdfast/holdfast/internal/model/state"
)

// powerChecks look for anything else that could switch a host off or restart
// it.
var powerChecks = []Check{
	{
		ID: "power-metal3", Title: "metal3 manages the power of no control plane", For: TwoFencing, judge: judgeMetal3,
		Meaning: "The baremetal-operator switches a host to the power state in its BareMetalHost. On two hosts Pacemaker decides about power by proof; a second controller that does not know the proof can switch off the only running host, or switch on one that has to stay off.",
		Lines: []string{
			"kubectl -n NAMESPACE annotate baremetalhost NAME baremetalhost.metal3.io/detached=",
			"kubectl -n NAMESPACE annotate baremetalhost NAME reboot.metal3.io-     # if it has that annotation",
		},
	},
	{
		ID: "power-remediation", Title: "no operator remediates control planes", For: TwoFencing, judge: judgeRemediation,
		Meaning: "NodeHealthCheck, SelfNodeRemediation and similar operators restart a node that does not report to the API. The survivor looks like that while it takes over: it would be restarted although it holds the only data directory that can take writes.",
		Lines: []string{
			"kubectl edit nodehealthcheck NAME     # use a selector that excludes node-role.kubernetes.io/control-plane",
			"kubectl delete KIND NAME              # a remediation of a control plane",
		},
	},
	{
		ID: "power-devices", Title: "Pacemaker has no fence devices other than Holdfast's", For: TwoFencing, judge: judgeDevices,
		Meaning: "Only fence_holdfast reads back that the host is off and leaves the proof with which the survivor's etcd goes on. A fence by another device is not a proof: the survivor waits for an administrator, or the host is switched off twice.",
		Lines: []string{
			"pcs stonith config",
			"pcs stonith delete DEVICE     # once you know what it is for",
		},
	},
	{
		ID: "power-watchdog", Title: "no watchdog restarts a host by itself", For: TwoFencing, judge: judgeWatchdog,
		Meaning: "SBD and watchdog daemons restart a host that they consider unhealthy, for example one that lost its peer: the survivor. And a host that restarted by itself is not proven to be off.",
		Lines:   []string{"systemctl disable --now sbd.service watchdog.service     # after checking what set them up"},
	},
	{
		ID: "power-reboots", Title: "nothing reboots hosts automatically", For: Everywhere, judge: judgeReboots,
		Meaning: "A tool that reboots hosts for updates does not know whether the other host holds all data at that moment. A host that reboots while its peer is absent or still catching up stops the cluster; on a single host every such reboot does.",
		Lines: []string{
			"echo 'Unattended-Upgrade::Automatic-Reboot \"false\";' > /etc/apt/apt.conf.d/99-no-reboot     # Debian, Ubuntu",
			"kubectl -n NAMESPACE delete daemonset NAME                                                  # kured",
			"holdfast status     # before each reboot by hand: does the cluster survive the loss of that host?",
		},
	},
}

func judgeMetal3(s *sheet) {
	hosts, ok := known(s, "BareMetalHosts", s.Cluster.Metal)
	if !ok {
		return
	}
	for _, h := range hosts {
		about := "BareMetalHost " + h.Namespace + "/" + h.Name
		switch {
		case !h.BMC || !s.isControlPlane(h):
		case h.Reboots:
			s.say(finding.Critical, about, "it belongs to a control plane and requests a reboot")
		case h.Detached:
			s.say(finding.OK, about, "detached: metal3 does not touch its power")
		case !h.Online:
			s.say(finding.Critical, about, "it belongs to a control plane and has online: false: metal3 switches the host off")
		default:
			s.say(finding.Warning, about, "it belongs to a control plane and is not detached: metal3 manages its power")
		}
	}
}

// isControlPlane reports whether a BareMetalHost is a control plane, by its
// label or by any name that may be the host's.
func (s *sheet) isControlPlane(b BareMetalHost) bool {
	if b.ControlPlane {
		return true
	}
	for _, h := range s.Hosts {
		for _, name := range []string{b.Name, b.Hostname, b.Consumer} {
			if first, _, _ := strings.Cut(name, "."); name == h.Name || first != "" && first == h.Name {
				return true
			}
		}
	}
	return false
}

func judgeRemediation(s *sheet) {
	if rules, ok := known(s, "objects that remediate nodes", s.Cluster.Remedies); ok {
		for _, r := range rules {
			if chosen := s.chosen(r); len(chosen) > 0 {
				s.say(finding.Critical, objectName(r.Kind, r.Namespace, r.Name), "it selects control planes: %s", strings.Join(chosen, ", "))
			}
		}
	}
	s.runs(remediators, finding.Warning, "%s is running and can restart nodes: make sure that it never selects a control plane")
}

// chosen returns the control planes that a rule selects.
func (s *sheet) chosen(r RemediationRule) []string {
	var out []string
	for _, n := range s.Cluster.Nodes.Value {
		if n.ControlPlane && (r.Node == n.Name || r.Node == "" && selects(r.Selector, n.Labels)) {
			out = append(out, n.Name)
		}
	}
	if r.Node != "" && len(out) == 0 {
		for _, h := range s.Hosts {
			if h.Name == r.Node {
				out = append(out, h.Name)
			}
		}
	}
	return out
}

// selects reports whether a selector selects labels. An empty selector selects
// everything; a missing or invalid one selects nothing.
func selects(selector *metav1.LabelSelector, set map[string]string) bool {
	sel, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && sel.Matches(labels.Set(set))
}

// program is a program that is recognised by a part of the name of its image or
// object.
type program struct{ part, name string }

var (
	remediators = []program{
		{"self-node-remediation", "SelfNodeRemediation"},
		{"poison-pill", "Poison Pill"},
		{"node-healthcheck", "NodeHealthCheck"},
		{"node-health-check", "NodeHealthCheck"},
		{"fence-agents-remediation", "FenceAgentsRemediation"},
		{"machine-deletion-remediation", "MachineDeletionRemediation"},
		{"machine-api-operator", "MachineHealthCheck"},
	}
	rebooters = []program{
		{"kured", "kured"},
		{"system-upgrade-controller", "the system upgrade controller"},
		{"flatcar-linux-update-operator", "the Flatcar update operator"},
		{"update-agent", "the Flatcar update agent"},
	}
)

// runs reports the given programs that run as a workload.
func (s *sheet) runs(programs []program, severity finding.Severity, format string) {
	workloads, ok := known(s, "workloads", s.Cluster.Workloads)
	if !ok {
		return
	}
	for _, w := range workloads {
		if name := w.is(programs); name != "" && w.Replicas > 0 {
			s.say(severity, objectName(w.Kind, w.Namespace, w.Name), format, name)
		}
	}
}

// is returns the name of the first program that a workload matches, empty for
// none.
func (w Workload) is(programs []program) string {
	for _, p := range programs {
		if strings.Contains(w.Name, p.part) {
			return p.name
		}
		for _, image := range w.Images {
			if strings.Contains(imageName(image), p.part) {
				return p.name
			}
		}
	}
	return ""
}

// imageName returns an image's name without registry, tag and digest: the name
// of a registry says nothing about the program.
func imageName(image string) string {
	image, _, _ = strings.Cut(image, "@")
	image = image[strings.LastIndexByte(image, '/')+1:]
	image, _, _ = strings.Cut(image, ":")
	return image
}

func objectName(kind, namespace, name string) string {
	if namespace == "" {
		return kind + " " + name
	}
	return kind + " " + namespace + "/" + name
}

func judgeDevices(s *sheet) {
	seen := map[string]bool{}
	blind := true
	for _, h := range s.Hosts {
		if !h.Devices.Known {
			continue
		}
		blind = false
		for _, d := range h.Devices.Value {
			if !d.Ours && !seen[d.ID] {
				s.say(finding.Warning, d.ID, "a fence device of fence agent %s that Holdfast's setup did not create", d.Agent)
			}
			seen[d.ID] = true
		}
	}
	if blind { // one host is enough, because both have the same configuration of Pacemaker
		s.notSeen("Pacemaker's configuration, on no host")
	}
}

func judgeWatchdog(s *sheet) {
	eachHost(s, "watchdogs", func(h Host) state.Fact[[]string] { return h.Watchdogs }, func(h Host, list []string) {
		for _, w := range list {
			severity := finding.Warning
			if strings.HasPrefix(w, "sbd") {
				severity = finding.Critical
			}
			s.say(severity, h.Name, "%s", w)
		}
	})
}

func judgeReboots(s *sheet) {
	severity := finding.Warning
	if s.Topology.ControlPlanes < 2 {
		severity = finding.Note
	}
	s.runs(rebooters, severity, "%s is running and reboots hosts")
	eachHost(s, "automatic reboots", func(h Host) state.Fact[[]string] { return h.Rebooters }, func(h Host, list []string) {
		for _, r := range list {
			s.say(severity, h.Name, "%s", r)
		}
	})
}
