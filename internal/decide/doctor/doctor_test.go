package doctor

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/decide/finding"
	"github.com/holdfast/holdfast/internal/model/state"
)

// examine runs one check.
func examine(t *testing.T, f Facts, id finding.ID) Result {
	t.Helper()
	r := Examine(f, id)
	if len(r) != 1 {
		t.Fatalf("%s gave %d results", id, len(r))
	}
	return r[0]
}

func TestNothingIsSaidOfTwoHostsThatAreWell(t *testing.T) {
	for _, r := range Examine(wellTwo()) {
		if r.Severity != finding.OK || len(r.Unseen) > 0 || len(r.Commands) > 0 {
			t.Errorf("%s: %s %v %v", r.ID, r.Severity, r.Findings, r.Unseen)
		}
	}
}

func TestOfOneAndThreeHostsOnlyWhatAppliesIsChecked(t *testing.T) {
	ids := func(f Facts) string {
		var out []string
		for _, r := range Examine(f) {
			out = append(out, string(r.ID))
			if r.Severity != finding.OK {
				t.Errorf("%d hosts, %s: %s %v %v", f.Topology.ControlPlanes, r.ID, r.Severity, r.Findings, r.Unseen)
			}
		}
		return strings.Join(out, " ")
	}
	one := wellMany("cp-1")
	one.Cluster.Pods.Value = one.Cluster.Pods.Value[:1]
	if got, want := ids(one), "power-reboots clock-sync clock-behind etcd-disk etcd-space nodes certificates host-name host-address swap firewall network-policies mirrors names nic-arp nic-router-advertisements"; got != want {
		t.Errorf("one host: %s", got)
	}
	if got, want := ids(wellMany("cp-1", "cp-2", "cp-3")), "power-reboots machine-identity clock-sync clock-behind clock-apart etcd-disk etcd-space nodes certificates versions host-name host-address swap firewall network-policies mirrors names nic-arp nic-router-advertisements cluster-dns drain-blocked drain-unprotected failover-capacity"; got != want {
		t.Errorf("three hosts: %s", got)
	}
	if len(Examine(wellTwo())) != len(Checks()) {
		t.Error("two hosts with fencing are what every check is for")
	}
}

// one is a change of one fact and the result that it must lead to.
type one struct {
	name   string
	check  finding.ID
	change func(*Facts)
	want   finding.Severity
	says   string // a part of what is found, or not seen
}

func (c one) run(t *testing.T) {
	t.Helper()
	f := wellTwo()
	c.change(&f)
	r := examine(t, f, c.check)
	text := strings.Join(r.Unseen, "\n")
	for _, x := range r.Findings {
		text += "\n" + x.Subject + ": " + x.Problem
	}
	if r.Severity != c.want || !strings.Contains(text, c.says) {
		t.Errorf("%s, want %s with %q:\n%s", r.Severity, c.want, c.says, text)
	}
	if (r.Severity != finding.OK && r.Severity != finding.Unknown) != (len(r.Commands) > 0) {
		t.Errorf("severity %s and %d things to type", r.Severity, len(r.Commands))
	}
}

func remedy(kind, node string, selector *metav1.LabelSelector) func(*Facts) {
	return func(f *Facts) {
		f.Cluster.Remedies.Value = []RemediationRule{{Kind: kind, Name: "x", Node: node, Selector: selector}}
	}
}

func metal(change func(*BareMetalHost)) func(*Facts) {
	return func(f *Facts) {
		h := BareMetalHost{Namespace: "metal", Name: "cp-1", BMC: true, Online: true}
		change(&h)
		f.Cluster.Metal.Value = []BareMetalHost{h}
	}
}

func runs(kind, name, image string, replicas int32) func(*Facts) {
	return func(f *Facts) {
		f.Cluster.Workloads.Value = []Workload{{Kind: kind, Namespace: "x", Name: name, Replicas: replicas, Images: []string{image}}}
	}
}

func TestOtherPowerManagersAtWorkAreFound(t *testing.T) {
	exists := metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: state.LabelControlPlane, Operator: metav1.LabelSelectorOpDoesNotExist}}}
	for _, c := range []one{
		{"metal3 with its power", "power-metal3", metal(func(*BareMetalHost) {}), finding.Warning, "not detached"},
		{"metal3, known by what it was given to", "power-metal3", metal(func(h *BareMetalHost) { h.Name, h.Consumer = "rack-7", "cp-2" }), finding.Warning, "not detached"},
		{"metal3, known by its host name", "power-metal3", metal(func(h *BareMetalHost) { h.Name, h.Hostname = "rack-7", "cp-2.one.site" }), finding.Warning, "not detached"},
		{"metal3, known by a label", "power-metal3", metal(func(h *BareMetalHost) { h.Name, h.ControlPlane = "rack-7", true }), finding.Warning, "not detached"},
		{"metal3, detached", "power-metal3", metal(func(h *BareMetalHost) { h.Detached = true }), finding.OK, "detached"},
		{"metal3, of another host", "power-metal3", metal(func(h *BareMetalHost) { h.Name = "cp-11" }), finding.OK, ""},
		{"metal3, without a BMC", "power-metal3", metal(func(h *BareMetalHost) { h.BMC = false }), finding.OK, ""},
		{"metal3 is to switch it off", "power-metal3", metal(func(h *BareMetalHost) { h.Online = false }), finding.Critical, "online: false"},
		{"metal3 is to reboot it, detached or not", "power-metal3", metal(func(h *BareMetalHost) { h.Reboots, h.Detached = true, true }), finding.Critical, "requests a reboot"},
		{"metal3 cannot be read", "power-metal3", func(f *Facts) { f.Cluster.Metal = state.Fact[[]BareMetalHost]{} }, finding.Unknown, "BareMetalHosts"},

		{"a health check of all nodes", "power-remediation", remedy("NodeHealthCheck", "", &metav1.LabelSelector{}), finding.Critical, "cp-1, cp-2"},
		{"a health check of others", "power-remediation", remedy("NodeHealthCheck", "", &exists), finding.OK, ""},
		{"a health check of nobody", "power-remediation", remedy("NodeHealthCheck", "", nil), finding.OK, ""},
		{"a remediation of a control plane", "power-remediation", remedy("SelfNodeRemediation", "cp-2", nil), finding.Critical, "SelfNodeRemediation x: it selects control planes: cp-2"},
		{"one of a control plane that the API has lost", "power-remediation", func(f *Facts) {
			remedy("FenceAgentsRemediation", "cp-2", nil)(f)
			f.Cluster.Nodes.Value = f.Cluster.Nodes.Value[:1]
		}, finding.Critical, "cp-2"},
		{"one of a worker", "power-remediation", remedy("FenceAgentsRemediation", "w-1", nil), finding.OK, ""},
		{"the agents of medik8s run", "power-remediation", runs("DaemonSet", "ds", "quay.io/medik8s/self-node-remediation-operator:v0.9", 2), finding.Warning, "SelfNodeRemediation is running"},
		{"they are scaled to nothing", "power-remediation", runs("Deployment", "node-healthcheck-controller-manager", "x", 0), finding.OK, ""},

		{"a fence device of somebody else", "power-devices", func(f *Facts) {
			f.Hosts[0].Devices.Value = append(f.Hosts[0].Devices.Value, Device{ID: "ipmi-cp-2", Agent: "fence_ipmilan"})
		}, finding.Warning, "ipmi-cp-2: a fence device of fence agent fence_ipmilan"},
		{"one host's configuration is enough, it is the same on both", "power-devices", func(f *Facts) { f.Hosts[0].Devices = state.Fact[[]Device]{} }, finding.OK, ""},
		{"no host's configuration is known", "power-devices", func(f *Facts) {
			f.Hosts[0].Devices, f.Hosts[1].Devices = state.Fact[[]Device]{}, state.Fact[[]Device]{}
		}, finding.Unknown, "Pacemaker"},
		{"sbd", "power-watchdog", func(f *Facts) { f.Hosts[1].Watchdogs.Value = []string{"sbd.service runs"} }, finding.Critical, "cp-2: sbd"},
		{"a watchdog", "power-watchdog", func(f *Facts) { f.Hosts[1].Watchdogs.Value = []string{"watchdog.service runs"} }, finding.Warning, "cp-2"},
		{"kured by its image", "power-reboots", runs("DaemonSet", "reboots", "ghcr.io/kubereboot/kured:1.16@sha256:00", 2), finding.Warning, "kured is running"},
		{"a registry that is called like it is not it", "power-reboots", runs("DaemonSet", "web", "kured.site/web:1", 2), finding.OK, ""},
		{"unattended upgrades that reboot", "power-reboots", func(f *Facts) { f.Hosts[0].Rebooters.Value = []string{"unattended-upgrades reboots the host"} }, finding.Warning, "cp-1: unattended"},
		{"a host that nobody asked", "power-reboots", func(f *Facts) { f.Hosts[0] = Host{Name: "cp-1"} }, finding.Unknown, "automatic reboots of cp-1"},
	} {
		t.Run(c.name, c.run)
	}
}

func bmc(i int, change func(*BMC)) func(*Facts) {
	return func(f *Facts) { change(&f.Hosts[i].BMCs.Value[0]) }
}

func TestFencingThatWouldNotWorkIsFound(t *testing.T) {
	for _, c := range []one{
		{"equal fence delays", "fence-delay", bmc(1, func(b *BMC) { b.Delay = 0 }), finding.Critical, "both wait 0s"},
		{"equal delays that are not zero", "fence-delay", bmc(0, func(b *BMC) { b.Delay = 20 * time.Second }), finding.Critical, "both wait 20s"},
		{"the other host may be the one that waits", "fence-delay", func(f *Facts) {
			f.Hosts[0].BMCs.Value[0].Delay, f.Hosts[1].BMCs.Value[0].Delay = 20*time.Second, 0
		}, finding.OK, "cp-1 waits 20s longer than cp-2"},
		{"a delay that the BMC outlasts", "fence-delay", bmc(0, func(b *BMC) { b.Slowest = 21 * time.Second }), finding.Critical, "both would be switched off"},
		{"the BMC of the one that waits may be slow", "fence-delay", bmc(1, func(b *BMC) { b.Slowest = 21 * time.Second }), finding.OK, ""},
		{"a delay that is hardly enough", "fence-delay", bmc(0, func(b *BMC) { b.Slowest = 11 * time.Second }), finding.Warning, "less than twice"},
		{"a delay below the least", "fence-delay", bmc(1, func(b *BMC) { b.Delay = 2500 * time.Millisecond }), finding.Warning, "less than 3s"},
		{"a host without a device", "fence-delay", func(f *Facts) { f.Hosts[0].BMCs.Value = []BMC{} }, finding.Critical, "cp-1: it has no fence device"},
		{"a host whose devices nobody saw", "fence-delay", func(f *Facts) { f.Hosts[0].BMCs = state.Fact[[]BMC]{} }, finding.Unknown, "fence devices of cp-1"},

		{"BMC and ring on one interface, in the only link", "fence-network", func(f *Facts) {
			f.Hosts[0].Rings.Value = f.Hosts[0].Rings.Value[:1]
			f.Hosts[0].BMCs.Value[0].Interface = "eth0"
		}, finding.Warning, "share the interface eth0"},
		{"BMC and ring on one bond", "fence-network", func(f *Facts) {
			f.Hosts[0].Rings.Value = f.Hosts[0].Rings.Value[:1]
			f.Hosts[0].Rings.Value[0].Bond = 2
			f.Hosts[0].BMCs.Value[0].Interface = "eth0"
		}, finding.Warning, "share the bond eth0"},
		{"a second link of the ring is apart", "fence-network", bmc(0, func(b *BMC) { b.Interface = "eth0" }), finding.OK, "nothing visible in common with the ring's link 10.0.1.1"},
		{"BMC and ring in one subnet", "fence-network", func(f *Facts) {
			f.Hosts[0].Rings.Value = f.Hosts[0].Rings.Value[:1]
			f.Hosts[0].BMCs.Value[0].Address = "10.0.0.99"
		}, finding.Warning, "share the subnet 10.0.0.0/24"},
		{"one switch by LLDP, though subnets differ", "fence-network", func(f *Facts) {
			f.Hosts[1].Rings.Value = f.Hosts[1].Rings.Value[:1]
			f.Hosts[1].Rings.Value[0].Switches, f.Hosts[1].BMCs.Value[0].Switches = []string{"sw-1"}, []string{"sw-1"}
		}, finding.Warning, "share the switch sw-1"},
		{"a bond over two switches, one of which has the BMC", "fence-network", func(f *Facts) {
			f.Hosts[1].Rings.Value = f.Hosts[1].Rings.Value[:1]
			f.Hosts[1].Rings.Value[0].Switches, f.Hosts[1].BMCs.Value[0].Switches = []string{"sw-1", "sw-2"}, []string{"sw-1"}
		}, finding.OK, ""},
		{"a BMC whose name does not resolve", "fence-network", bmc(0, func(b *BMC) { b.Address = "" }), finding.Critical, "does not resolve"},
		{"a ring that nobody saw", "fence-network", func(f *Facts) { f.Hosts[0].Rings = state.Fact[[]Ring]{} }, finding.Unknown, "ring of cp-1"},

		{"never tried", "fence-proven", bmc(0, func(b *BMC) { b.Proven = time.Time{} }), finding.Warning, "cp-1: it has never proven cp-2 to be off"},
		{"tried long ago", "fence-proven", bmc(0, func(b *BMC) { b.Proven = now.Add(-200 * day) }), finding.Note, "200 days ago"},
		{"any certificate is taken", "fence-certificate", bmc(1, func(b *BMC) { b.Verified = false }), finding.Critical, "cp-2: the certificate of the BMC of cp-1 is not pinned yet"},
		{"a pinned certificate, and another one is shown", "fence-certificate", bmc(1, func(b *BMC) { b.Pinned, b.Fingerprint, b.Shows.Value.Fingerprint = true, "ab12", "cd34" }), finding.Critical, "cp-2: the BMC of cp-1 shows another certificate (SHA-256 cd34) than the pinned one (SHA-256 ab12)"},
		{"a pinned certificate that is shown", "fence-certificate", bmc(1, func(b *BMC) { b.Pinned, b.Fingerprint, b.Shows.Value.Fingerprint = true, "ab12", "ab12" }), finding.OK, "pinned"},
		{"a pin that nobody compared", "fence-certificate", bmc(1, func(b *BMC) { b.Pinned, b.FirstSight = true, true }), finding.OK, "pinned, as first shown"},
		{"a pinned one that ends soon", "fence-certificate", bmc(1, func(b *BMC) { b.Pinned, b.Shows.Value.Ends = true, now.Add(20*day) }), finding.Note, "expires in 20 days: once the BMC makes a new one"},
		{"a certificate that ends", "fence-certificate", bmc(1, func(b *BMC) { b.Shows.Value.Ends = now.Add(20 * day) }), finding.Warning, "of cp-1 expires in 20 days: after that the BMC is refused"},
		{"a certificate that ended", "fence-certificate", bmc(1, func(b *BMC) { b.Shows.Value.Ends = now.Add(-3 * day) }), finding.Critical, "expired 3 days ago: the BMC is refused"},
		{"the date of a pinned one does not count", "fence-certificate", bmc(1, func(b *BMC) { b.Pinned, b.Shows.Value.Ends = true, now.Add(-3*day) }), finding.OK, "pinned"},
		{"a BMC that did not answer", "fence-certificate", bmc(1, func(b *BMC) { b.Shows = state.Fact[Shown]{} }), finding.Unknown, "certificate of the BMC of cp-1: it did not answer cp-2"},
		{"BMC time ahead", "fence-clock", bmc(1, func(b *BMC) { b.Shows.Value.Offset.Value = Offset{Low: time.Hour, High: 61 * time.Minute} }), finding.Note, "cp-2: the clock of the BMC of cp-1 is at least 1h0m0s off"},
		{"BMC time behind", "fence-clock", bmc(1, func(b *BMC) { b.Shows.Value.Offset.Value = Offset{Low: -61 * time.Minute, High: -time.Hour} }), finding.Note, "at least 1h0m0s off"},
		{"a BMC that tells no time", "fence-clock", bmc(1, func(b *BMC) { b.Shows.Value.Offset = state.Fact[Offset]{} }), finding.OK, "reports no time"},
		{"a BMC without an answer", "fence-clock", bmc(1, func(b *BMC) { b.Shows = state.Fact[Shown]{} }), finding.Unknown, "clock of the BMC of cp-1"},
		{"two machines with one UUID", "machine-identity", func(f *Facts) {
			f.Cluster.Nodes.Value[1].Machine = state.Machine{UUID: "uuid-cp-1", Serial: "2"}.String()
		}, finding.Warning, "cp-2: it has the UUID uuid-cp-1 of cp-1"},
		{"a machine that tells nothing", "machine-identity", func(f *Facts) { f.Cluster.Nodes.Value[1].Machine = state.Machine{}.String() }, finding.Note, "neither UUID nor serial number"},
		{"a machine that was not asked yet", "machine-identity", func(f *Facts) { f.Cluster.Nodes.Value[1].Machine = "" }, finding.OK, ""},
	} {
		t.Run(c.name, c.run)
	}
}

func TestTheRingIsJudgedByWhatIsVisible(t *testing.T) {
	single := func(change func(*Ring)) func(*Facts) {
		return func(f *Facts) {
			for i := range f.Hosts {
				f.Hosts[i].Rings.Value = f.Hosts[i].Rings.Value[:1]
				change(&f.Hosts[i].Rings.Value[0])
			}
		}
	}
	for _, c := range []one{
		{"one Corosync link only", "ring-links", single(func(*Ring) {}), finding.Warning, "cp-1: Corosync has only one link, over eth0 (10.0.0.1)"},
		{"one link over a bond", "ring-links", single(func(r *Ring) { r.Bond = 2 }), finding.Note, "a bond of 2 interfaces"},
		{"two links over one interface", "ring-links", func(f *Facts) { f.Hosts[0].Rings.Value[1].Interface = "eth0" }, finding.Warning, "all 2 links of Corosync go over eth0"},
		{"two links over interfaces that are not known", "ring-links", func(f *Facts) {
			f.Hosts[0].Rings.Value[0].Interface, f.Hosts[0].Rings.Value[1].Interface = "", ""
		}, finding.OK, ""},
		{"no address of the host", "ring-links", func(f *Facts) { f.Hosts[0].Rings.Value = []Ring{} }, finding.Warning, "has no address of this host"},
		{"MTUs that differ", "ring-mtu", func(f *Facts) { f.Hosts[1].Rings.Value[1].MTU = 1500 }, finding.Warning, "link 1: cp-1 has 9000 on eth1, cp-2 has 1500 on eth1"},
		{"an MTU that is not known", "ring-mtu", func(f *Facts) { f.Hosts[1].Rings.Value[1].MTU = 0 }, finding.Unknown, "MTU of 10.0.1.2 on cp-2"},
	} {
		t.Run(c.name, c.run)
	}
}

func TestClocksDisksAndWhatEndsAreFound(t *testing.T) {
	ahead := func(low, high time.Duration) func(*Facts) {
		return func(f *Facts) { f.Hosts[1].Offset = state.Known(Offset{low, high}) }
	}
	fsyncs := func(p99 time.Duration, writes uint64) func(*Facts) {
		return func(f *Facts) { f.Hosts[1].Etcd.Value.FsyncP99, f.Hosts[1].Etcd.Value.Writes = p99, writes }
	}
	size := func(size, used uint64) func(*Facts) {
		return func(f *Facts) { f.Hosts[1].Etcd.Value.Size, f.Hosts[1].Etcd.Value.InUse = size, used }
	}
	disk := func(quota, size uint64) func(*Facts) {
		return func(f *Facts) { f.Hosts[1].Etcd.Value.Quota, f.Hosts[1].Etcd.Value.Disk = quota, size }
	}
	end := func(in time.Duration, authority bool) func(*Facts) {
		return func(f *Facts) {
			f.Hosts[1].Certificates.Value[1] = Certificate{Path: "x.crt", Ends: now.Add(in), Authority: authority}
		}
	}
	for _, c := range []one{
		{"a clock that nobody keeps", "clock-sync", func(f *Facts) { f.Hosts[0].Clock.Value = Clock{} }, finding.Warning, "no time service is running"},
		{"a service without sources", "clock-sync", func(f *Facts) { f.Hosts[0].Clock.Value.Synchronised = false }, finding.Warning, "although chrony is running"},
		{"clocks apart", "clock-apart", ahead(2*time.Second, 3*time.Second), finding.Warning, "cp-1 and cp-2: their clocks are at least 2s apart"},
		{"clocks apart, behind", "clock-apart", ahead(-3*time.Second, -2*time.Second), finding.Warning, "at least"},
		{"clocks far apart", "clock-apart", ahead(6*time.Minute, 7*time.Minute), finding.Critical, "apart"},
		{"told to the second only, and equal as far as that goes", "clock-apart", ahead(-time.Second, time.Second), finding.OK, "at most 1s apart"},
		{"measured too loosely to tell", "clock-apart", ahead(-5*time.Second, 5*time.Second), finding.Unknown, "may be up to 5s apart"},
		{"a clock that nobody could read", "clock-apart", func(f *Facts) { f.Hosts[1].Offset = state.Fact[Offset]{} }, finding.Unknown, "cp-2"},

		{"a disk that is too slow for etcd", "etcd-disk", fsyncs(11*time.Millisecond, 5000), finding.Warning, "took at most about 11ms"},
		{"a disk at the recommendation", "etcd-disk", fsyncs(10*time.Millisecond, 5000), finding.OK, ""},
		{"a disk that stops etcd", "etcd-disk", fsyncs(time.Second, 5000), finding.Critical, "cp-2"},
		{"etcd has written too little to tell", "etcd-disk", fsyncs(time.Second, 999), finding.Unknown, "measure with --disk"},
		{"an own measurement", "etcd-disk", func(f *Facts) {
			f.Hosts[1].Etcd = state.Fact[Etcd]{}
			f.Hosts[1].Disk = state.Known(Disk{Path: "/var/lib/etcd", Writes: 90, P99: 40 * time.Millisecond, Worst: 90 * time.Millisecond})
		}, finding.Warning, "durable within 40ms, the slowest of 90 took 90ms"},
		{"80 % of the quota", "etcd-space", size(1700<<20, 1600<<20), finding.Warning, "83 %"},
		{"95 % of the quota", "etcd-space", size(2000<<20, 1900<<20), finding.Critical, "97 %"},
		{"half of it is empty", "etcd-space", size(1000<<20, 400<<20), finding.Note, "defragmentation"},
		{"a small one may be empty", "etcd-space", size(100<<20, 1<<20), finding.OK, ""},
		{"a disk that is too small for the quota that the site chose", "etcd-space", disk(4<<30, 17<<30), finding.Warning, "it must have 18432 MiB"},
		{"a disk that is large enough", "etcd-space", disk(4<<30, 18<<30), finding.OK, ""},
		{"etcd's own quota asks nothing of a disk", "etcd-space", disk(2<<30, 3<<30), finding.OK, ""},
		{"etcd that does not answer", "etcd-space", func(f *Facts) { f.Hosts[0].Etcd = state.Fact[Etcd]{} }, finding.Unknown, "of cp-1"},

		{"a boot in 1970", "clock-behind", func(f *Facts) {
			f.Hosts[1].To = time.Unix(300, 0)
			f.Hosts[1].Certificates.Value[1].Begins = now.Add(-100 * day)
		}, finding.Critical, "its clock says 1970-01-01 00:05 UTC, and /etc/kubernetes/pki/apiserver.crt is not valid before 2026-08-12 03:00 UTC: the clock is behind"},
		{"a certificate of now", "clock-behind", func(f *Facts) { f.Hosts[1].Certificates.Value[1].Begins = now }, finding.OK, ""},
		{"one that comes a second later", "clock-behind", func(f *Facts) { f.Hosts[1].Certificates.Value[1].Begins = now.Add(time.Second) }, finding.Critical, "not valid before"},
		{"nobody knows when they were issued", "clock-behind", func(*Facts) {}, finding.OK, ""},
		{"no certificates are seen", "clock-behind", func(f *Facts) { f.Hosts[1].Certificates = state.Fact[[]Certificate]{} }, finding.Unknown, "certificates of cp-2"},

		{"29 days", "certificates", end(29*day, false), finding.Warning, "x.crt expires in 29 days"},
		{"6 days", "certificates", end(6*day, false), finding.Critical, "expires in 6 days"},
		{"hours", "certificates", end(30*time.Hour, false), finding.Critical, "expires in 30 hours"},
		{"it ended", "certificates", end(-50*time.Hour, false), finding.Critical, "expired 2 days ago"},
		{"an authority's last year", "certificates", end(300*day, true), finding.Note, "expires in 300 days"},
		{"31 days of a leaf", "certificates", end(31*day, false), finding.OK, ""},

		{"kubelets that differ", "versions", func(f *Facts) { f.Cluster.Nodes.Value[1].Kubelet = "v1.36.4" }, finding.Warning, "kubelet: v1.36.3 on cp-1; v1.36.4 on cp-2"},
		{"runtimes that differ", "versions", func(f *Facts) { f.Cluster.Nodes.Value[1].Runtime = "containerd://2.4.2" }, finding.Note, "container runtime"},
		{"a Node was deleted", "nodes", func(f *Facts) { f.Cluster.Nodes.Value = f.Cluster.Nodes.Value[:1] }, finding.Critical, "1 of 2 control planes have a Node"},
		{"a role label was taken off", "nodes", func(f *Facts) { delete(f.Cluster.Nodes.Value[1].Labels, state.LabelMaster) }, finding.Warning, "its Node lacks node-role.kubernetes.io/master"},
		{"L73: a lease changed on a living site", "host-address", func(f *Facts) { f.Hosts[1].Addresses.Value[0].Interface = "" }, finding.Critical, "no interface has 10.0.0.2, by which kubelet, etcd and its peers know it"},
		{"L73: a host whose network cannot be read has lost nothing", "host-address", func(f *Facts) { f.Hosts[1].Addresses = state.Fact[[]OwnAddress]{} }, finding.Unknown, "own addresses of cp-2"},
		{"L74: DHCP gave a living host another name", "host-name", func(f *Facts) { f.Hosts[1].Called.Value = "cp-2.site.example" }, finding.Warning, `this host is called "cp-2.site.example" now, and its node "cp-2"`},
		{"L-M41: a person writes a file of mirrors that containerd ignores", "mirrors", func(f *Facts) {
			f.Hosts[1].Mirrors.Value = []Mirror{{Path: "/etc/containerd/certs.d/docker.io/hosts.toml", Why: "line 2, column 1: cannot be read as TOML"}}
		}, finding.Warning, "containerd ignores /etc/containerd/certs.d/docker.io/hosts.toml: line 2, column 1: cannot be read as TOML"},
		{"L-M41: a host of an earlier build says nothing of its mirrors", "mirrors", func(f *Facts) { f.Hosts[1].Mirrors = state.Fact[[]Mirror]{} }, finding.Unknown, "mirrors of cp-2"},
		{"L74: a host of an earlier build says nothing of it", "host-name", func(f *Facts) { f.Hosts[1].Called = state.Fact[string]{} }, finding.Unknown, "name of the kernel of cp-2"},
		{"swap", "swap", func(f *Facts) { f.Hosts[0].Swap.Value = 2 << 30 }, finding.Warning, "2048 MiB"},
		{"policies that nobody enforces", "network-policies", func(f *Facts) {
			f.Cluster.Unenforced.Value = []string{"a/1", "a/2", "a/3", "a/4", "a/5", "b/1", "b/2"}
		}, finding.Warning, "7 NetworkPolicies are not enforced: a/1, a/2, a/3, a/4, a/5 and 2 more"},
		{"packets that anybody forges", "ring-crypto", func(f *Facts) { f.Hosts[1].RingLacks.Value = "crypto_hash" }, finding.Critical, "corosync.conf sets no crypto_hash"},
		{"firewalld as RHEL has it", "firewall", func(f *Facts) {
			f.Hosts[1].Firewall.Value.Site = []state.SiteFirewall{{Name: "firewalld", Cluster: []string{"protocol vrrp", "2379-2380/tcp"}, Pods: []string{"10.128.0.0/14"}}}
		}, finding.Critical, "firewalld refuses ports that hosts need from each other: protocol vrrp, 2379-2380/tcp"},
		{"a firewall that refuses applications", "firewall", func(f *Facts) {
			f.Hosts[0].Firewall.Value.Site = []state.SiteFirewall{{Name: "ufw", Applications: []string{"80/tcp"}}}
		}, finding.Warning, "through this host: 80/tcp"},
		{"a firewall that is open", "firewall", func(f *Facts) { f.Hosts[0].Firewall.Value.Site = []state.SiteFirewall{{Name: "ufw"}} }, finding.OK, "ufw allows everything that is needed"},
		{"rules that nobody can judge", "firewall", func(f *Facts) {
			f.Hosts[0].Firewall.Value.Site = []state.SiteFirewall{{Name: "chain input of table inet filter", Unjudged: true}}
		}, finding.Unknown, ""},
		{"no table of ours", "firewall", func(f *Facts) { f.Hosts[0].Firewall.Value.Ours = false }, finding.Warning, "lacks Holdfast's rules"},
		{"a person wants none", "firewall", func(f *Facts) { f.Hosts[0].Firewall.Value = Firewall{Off: true} }, finding.Note, "switched off in /etc/holdfast/firewall"},
		{"a name that does not resolve", "names", func(f *Facts) { f.Hosts[0].Names.Value[0].Problem = "no such host" }, finding.Warning, "api.one.site does not resolve: no such host"},
		{"a name that leads elsewhere", "names", func(f *Facts) { f.Hosts[0].Names.Value[0].Addresses = []string{"10.0.0.6"} }, finding.Warning, "resolves to 10.0.0.6, not to 10.0.0.5"},
		{"a load balancer of the site may be anywhere", "names", func(f *Facts) { f.Hosts[0].Names.Value[0].Want = nil }, finding.OK, ""},
	} {
		t.Run(c.name, c.run)
	}
}

func TestWhatIsToBeTypedNamesTheHostsOfThisCluster(t *testing.T) {
	f := wellTwo()
	f.Hosts[0].Name, f.Hosts[1].Name = "north", "south"
	f.Hosts[1].BMCs.Value[0].Delay = 0
	if r := examine(t, f, "fence-delay"); !strings.Contains(fmt.Sprint(r.Commands), "--hosts north,south") {
		t.Errorf("%q", r.Commands)
	}
}

func TestWhatWasFoundIsSaidAlsoWhereSomethingElseWasNotSeen(t *testing.T) {
	f := wellTwo()
	f.Hosts[0].Swap, f.Hosts[1].Swap = state.Fact[uint64]{}, state.Known[uint64](1<<30)
	r := examine(t, f, "swap")
	if r.Severity != finding.Warning || len(r.Findings) != 1 || len(r.Unseen) != 1 {
		t.Errorf("%+v", r)
	}
}

func TestAnEmptyListIsKnownAfterItWasPublished(t *testing.T) {
	b, err := json.Marshal(wellTwo())
	if err != nil {
		t.Fatal(err)
	}
	var back Facts
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Examine(wellTwo()), Examine(back)); diff != "" {
		t.Error(diff)
	}
}

func TestEachCheckSaysWhyAndWhatToType(t *testing.T) {
	seen := map[finding.ID]bool{}
	for _, c := range Checks() {
		if seen[c.ID] || c.Title == "" || len(c.Meaning) < 80 || len(c.Lines) == 0 || strings.HasSuffix(c.Title, ".") {
			t.Errorf("%+v", c)
		}
		seen[c.ID] = true
		if _, ok := Find(c.ID); !ok {
			t.Errorf("%s is not found", c.ID)
		}
	}
	if _, ok := Find("nonsense"); ok {
		t.Error("a check that there is not is found")
	}
}
