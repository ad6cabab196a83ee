package doctor

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/decide/finding"
	"github.com/holdfast/holdfast/internal/model/state"
)

// lose makes one fact unknown. It keeps its value where keep is set, as a source
// may that failed after it had answered.
func lose(of reflect.Value, i int, keep bool) bool {
	f := of.Field(i)
	if f.Kind() != reflect.Struct || !f.FieldByName("Known").IsValid() || !f.FieldByName("Value").IsValid() {
		return false
	}
	f.FieldByName("Known").SetBool(false)
	if !keep {
		f.FieldByName("Value").SetZero()
	}
	return true
}

// ill makes something wrong with each source, so that a value that still counts shows.
func ill() Facts {
	f := wellTwo()
	f.Cluster.Nodes.Value[1].Kubelet, f.Cluster.Nodes.Value[1].Machine = "v1.36.4", f.Cluster.Nodes.Value[0].Machine
	f.Cluster.Budgets.Value = []Budget{budget(2, 2)}
	f.Cluster.Unenforced.Value = []string{"a/1"}
	f.Cluster.Workloads.Value = []Workload{{Kind: "DaemonSet", Namespace: "x", Name: "kured", Replicas: 2, Images: []string{"kured"}}, {Kind: "Deployment", Namespace: "y", Name: "y", Replicas: 2}}
	f.Cluster.Metal.Value = []BareMetalHost{{Namespace: "metal", Name: "cp-1", BMC: true, Online: true}}
	f.Cluster.Remedies.Value = []RemediationRule{{Kind: "NodeHealthCheck", Name: "x", Node: "cp-1"}}
	f.Cluster.DNS.Value = []DNSService{{Name: "kube-dns"}}
	h := &f.Hosts[1]
	h.Called.Value, h.Addresses.Value = "localhost", []OwnAddress{{Address: "10.0.0.2"}}
	h.Clock.Value, h.Swap.Value, h.Offset.Value = Clock{}, 1<<30, Offset{Low: time.Minute, High: time.Minute}
	h.Watchdogs.Value, h.Rebooters.Value, h.RingLacks.Value = []string{"sbd"}, []string{"kured"}, "crypto_hash"
	h.Etcd.Value = Etcd{Size: 99 << 20, Quota: 100 << 20, FsyncP99: time.Second, Writes: 5000}
	h.Devices.Value[0].Ours = false
	h.BMCs.Value[0].Verified, h.BMCs.Value[0].Proven, h.BMCs.Value[0].Delay = false, time.Time{}, 0
	h.Certificates.Value[1].Ends = now
	h.Firewall.Value.Site = []state.SiteFirewall{{Name: "ufw", Cluster: []string{"2379/tcp"}}}
	h.Names.Value[0].Addresses = []string{"10.0.0.66"}
	return f
}

// TestWhatIsNotKnownCountsForNothing loses each fact of the cluster and of a host:
// what the fact was before must not matter to any check.
func TestWhatIsNotKnownCountsForNothing(t *testing.T) {
	for name, facts := range map[string]func() Facts{"well": wellTwo, "ill": ill} {
		for _, of := range []reflect.Type{reflect.TypeFor[Cluster](), reflect.TypeFor[Host]()} {
			for i := range of.NumField() {
				results := func(keep bool) ([]Result, bool) {
					f := facts()
					at := reflect.ValueOf(&f.Cluster).Elem()
					if of == reflect.TypeFor[Host]() {
						at = reflect.ValueOf(&f.Hosts[1]).Elem()
					}
					ok := lose(at, i, keep)
					return Examine(f), ok
				}
				kept, ok := results(true)
				gone, _ := results(false)
				if diff := cmp.Diff(gone, kept); ok && diff != "" {
					t.Errorf("%s, without %s.%s: %s", name, of.Name(), of.Field(i).Name, diff)
				}
			}
		}
	}
}

func TestWhereEachLimitLies(t *testing.T) {
	apart := func(a, b Offset) func(*Facts) {
		return func(f *Facts) { f.Hosts[0].Offset, f.Hosts[1].Offset = state.Known(a), state.Known(b) }
	}
	exact := func(d time.Duration) Offset { return Offset{Low: d, High: d} }
	size := func(size, used, quota uint64) func(*Facts) {
		return func(f *Facts) {
			f.Hosts[1].Etcd.Value.Size, f.Hosts[1].Etcd.Value.InUse, f.Hosts[1].Etcd.Value.Quota = size, used, quota
		}
	}
	disk := func(p99 time.Duration, writes uint64) func(*Facts) {
		return func(f *Facts) { f.Hosts[1].Etcd.Value.FsyncP99, f.Hosts[1].Etcd.Value.Writes = p99, writes }
	}
	clock := func(low, high time.Duration) func(*Facts) {
		return bmc(1, func(b *BMC) { b.Shows.Value.Offset.Value = Offset{Low: low, High: high} })
	}
	for _, c := range []one{
		{"clocks apart by half a second", "clock-apart", apart(exact(0), exact(500*time.Millisecond)), finding.OK, "at most 500ms apart"},
		{"a moment more", "clock-apart", apart(exact(0), exact(501*time.Millisecond)), finding.Warning, "at least 501ms apart"},
		{"and the other way round", "clock-apart", apart(exact(501*time.Millisecond), exact(0)), finding.Warning, "at least 501ms apart"},
		{"clocks apart by five seconds", "clock-apart", apart(exact(0), exact(5*time.Second)), finding.Warning, "at least 5s apart"},
		{"a moment more than that", "clock-apart", apart(exact(5001*time.Millisecond), exact(0)), finding.Critical, "at least 5s apart"},
		{"up to four seconds, the first ahead", "clock-apart", apart(Offset{High: 4 * time.Second}, exact(0)), finding.OK, "at most 4s apart"},
		{"up to more, the first ahead", "clock-apart", apart(Offset{High: 4001 * time.Millisecond}, exact(0)), finding.Unknown, "up to 4s apart"},
		{"up to more, the second ahead", "clock-apart", apart(exact(0), Offset{High: 4001 * time.Millisecond}), finding.Unknown, "up to 4s apart"},

		{"10 ms for a write", "etcd-disk", disk(10*time.Millisecond, 1000), finding.OK, "10ms"},
		{"more than that", "etcd-disk", disk(11*time.Millisecond, 1000), finding.Warning, "11ms"},
		{"100 ms for a write", "etcd-disk", disk(100*time.Millisecond, 1000), finding.Warning, "100ms"},
		{"more than that too", "etcd-disk", disk(101*time.Millisecond, 1000), finding.Critical, "101ms"},
		{"a second is told to the hundredth of a millisecond", "etcd-disk", disk(time.Second, 1000), finding.Critical, "about 1s"},
		{"1 s and 4 ms is told to the tenth of a second", "etcd-disk", disk(1040*time.Millisecond, 1000), finding.Critical, "about 1s"},
		{"one write too few", "etcd-disk", disk(time.Second, 999), finding.Unknown, "no usable figures"},

		{"79 % of the quota", "etcd-space", size(799, 799, 1000), finding.OK, "79 %"},
		{"80 % of the quota", "etcd-space", size(800, 800, 1000), finding.Warning, "80 %"},
		{"94 % of the quota", "etcd-space", size(949, 949, 1000), finding.Warning, "94 %"},
		{"95 % of the quota", "etcd-space", size(950, 950, 1000), finding.Critical, "95 %"},
		{"no quota is told", "etcd-space", size(100, 100, 0), finding.Unknown, "quota of etcd on cp-2"},
		{"256 MiB, nearly empty", "etcd-space", size(256<<20, 1, 2<<30), finding.OK, ""},
		{"more, nearly empty", "etcd-space", size(257<<20, 1, 2<<30), finding.Note, "defragmentation"},
		{"more, half full", "etcd-space", size(400<<20, 200<<20, 2<<30), finding.OK, ""},

		{"a delay of the least", "fence-delay", bmc(1, func(b *BMC) { b.Delay = 4 * time.Second }), finding.OK, ""},
		{"a delay of twice the slowest fence", "fence-delay", bmc(0, func(b *BMC) { b.Slowest = 10 * time.Second }), finding.OK, ""},
		{"a delay of the slowest fence", "fence-delay", bmc(0, func(b *BMC) { b.Slowest = 20 * time.Second }), finding.Critical, "both would be switched off"},
		{"a proof of half a year", "fence-proven", bmc(0, func(b *BMC) { b.Proven = now.Add(-183 * day) }), finding.OK, "183 days ago"},
		{"a moment older", "fence-proven", bmc(0, func(b *BMC) { b.Proven = now.Add(-183*day - time.Second) }), finding.Note, "183 days ago"},
		{"a BMC's clock a minute ahead", "fence-clock", clock(time.Minute, 2*time.Minute), finding.OK, ""},
		{"a moment more ahead", "fence-clock", clock(time.Minute+time.Second, 2*time.Minute), finding.Note, "at least 1m1s off"},
		{"a BMC's clock a minute behind", "fence-clock", clock(-2*time.Minute, -time.Minute), finding.OK, ""},
		{"a pinned certificate that nobody saw", "fence-certificate", bmc(1, func(b *BMC) { b.Pinned, b.Shows.Known, b.Shows.Value.Ends = true, false, now.Add(20*day) }), finding.OK, "is pinned"},
		{"a certificate that ends now", "fence-certificate", bmc(1, func(b *BMC) { b.Shows.Value.Ends = now }), finding.Critical, "the BMC is refused, and cannot fence"},
		{"one that another release pinned", "fence-certificate", bmc(1, func(b *BMC) { b.Pinned, b.Shows.Value.Fingerprint = true, "cd34" }), finding.OK, "is pinned"},
		{"one that was not shown", "fence-certificate", bmc(1, func(b *BMC) { b.Pinned, b.Fingerprint = true, "ab12" }), finding.OK, "is pinned"},
	} {
		t.Run(c.name, c.run)
	}
}

func TestWhatTheWayToABMCHasInCommonWithTheRing(t *testing.T) {
	oneLink := func(change func(*Ring, *BMC)) func(*Facts) {
		return func(f *Facts) {
			h := &f.Hosts[0]
			h.Rings.Value = h.Rings.Value[:1]
			change(&h.Rings.Value[0], &h.BMCs.Value[0])
		}
	}
	for _, c := range []one{
		{"neither interface is known", "fence-network", oneLink(func(r *Ring, b *BMC) { r.Interface, b.Interface = "", "" }), finding.OK, "nothing visible in common"},
		{"neither interface is known, of a bond", "fence-network", oneLink(func(r *Ring, b *BMC) { r.Interface, b.Interface, r.Bond = "", "", 2 }), finding.OK, "nothing visible in common"},
		{"a gateway between them", "fence-network", oneLink(func(r *Ring, b *BMC) { b.Address, b.Gateway = "10.0.0.99", "10.0.0.1" }), finding.OK, "nothing visible in common"},
		{"a subnet that nobody knows", "fence-network", oneLink(func(r *Ring, b *BMC) { r.Subnet, b.Address = "", "10.0.0.99" }), finding.OK, "nothing visible in common"},
		{"switches of the ring alone are known", "fence-network", oneLink(func(r *Ring, b *BMC) { r.Switches, b.Interface = []string{"sw-1"}, "eth0" }), finding.Warning, "share the interface eth0"},
		{"switches of the BMC alone are known", "fence-network", oneLink(func(r *Ring, b *BMC) { b.Switches, b.Interface = []string{"sw-1"}, "eth0" }), finding.Warning, "share the interface eth0"},
		{"other switches, though on one interface", "fence-network", oneLink(func(r *Ring, b *BMC) {
			r.Switches, b.Switches, b.Interface = []string{"sw-1"}, []string{"sw-2"}, "eth0"
		}), finding.OK, "nothing visible in common"},
		{"a ring without links", "fence-network", func(f *Facts) { f.Hosts[0].Rings.Value = nil }, finding.OK, ""},
	} {
		t.Run(c.name, c.run)
	}
}

func TestWhoseMachineIsWhose(t *testing.T) {
	machines := func(fencing bool, list ...state.Machine) func(*Facts) {
		return func(f *Facts) {
			f.Topology.Fencing = fencing
			for i, m := range list {
				f.Cluster.Nodes.Value[i].Machine = m.String()
			}
		}
	}
	worker := func(f *Facts) {
		w := node("w-1")
		w.ControlPlane, w.Machine = false, f.Cluster.Nodes.Value[0].Machine
		f.Cluster.Nodes.Value = append(f.Cluster.Nodes.Value, w)
	}
	for _, c := range []one{
		{"a worker does not count", "machine-identity", worker, finding.OK, ""},
		{"without serial numbers they are not the same", "machine-identity", machines(true, state.Machine{UUID: "a"}, state.Machine{UUID: "b"}), finding.OK, ""},
		{"without UUIDs they are not the same", "machine-identity", machines(true, state.Machine{Serial: "a"}, state.Machine{Serial: "b"}), finding.OK, ""},
		{"one serial number", "machine-identity", machines(true, state.Machine{UUID: "a", Serial: "x"}, state.Machine{UUID: "b", Serial: "x"}), finding.Warning, "cp-2: it has the serial number x of cp-1"},
		{"two that tell nothing are not the same", "machine-identity", machines(true, state.Machine{}, state.Machine{}), finding.Note, "cp-2: its SMBIOS"},
	} {
		t.Run(c.name, c.run)
	}
	f := wellMany("cp-1", "cp-2", "cp-3")
	machines(false, state.Machine{}, state.Machine{UUID: "a"}, state.Machine{UUID: "a"})(&f)
	r := examine(t, f, "machine-identity")
	if len(r.Findings) != 1 || r.Findings[0].Severity != finding.Note || r.Findings[0].Subject != "cp-3" {
		t.Errorf("without fencing nobody is recognised by that: %+v", r.Findings)
	}
}

func TestWhichPodsKeepADrainFromItsEnd(t *testing.T) {
	closed := func(f *Facts) { f.Cluster.Nodes.Value[1].Closed = true }
	alone := func(name, on string) Pod { return but(pod(name, on), func(p *Pod) { p.Alone = true }) }
	for _, c := range []one{
		{"two of one host, and one may go at a time", "drain-blocked", with(pods(pod("a", "cp-1"), pod("b", "cp-1")), budgets(budget(2, 1))), finding.OK, ""},
		{"two that must not share a host", "drain-blocked", with(pods(alone("a", "cp-1"), alone("b", "cp-1"), alone("c", "cp-2")), budgets(budget(3, 2))), finding.Warning, "some have no other host without a pod of the same set"},
		{"two that must not share a host, and one host is free", "drain-blocked", with(pods(alone("a", "cp-1")), budgets(budget(2, 1))), finding.OK, ""},
		{"the free host takes none", "drain-blocked", with(pods(alone("a", "cp-1"), alone("b", "cp-1")), budgets(budget(2, 1)), closed), finding.Warning, "of 2 pods on one host some have no other host"},
		{"a budget that is not computed yet", "drain-blocked", with(budgets(func() Budget { b := budget(2, 2); b.Observed = false; return b }())), finding.Unknown, "has not computed the allowed disruptions yet"},
	} {
		t.Run(c.name, c.run)
	}
}

func TestAWorkloadWithoutABudgetIsToldWithItsHosts(t *testing.T) {
	bare := func(list ...Pod) func(*Facts) {
		return func(f *Facts) {
			f.Cluster.Budgets.Value = nil
			f.Cluster.Pods.Value = append(list, nameServer("cp-1"), nameServer("cp-2"))
		}
	}
	for _, c := range []one{
		{"all on one host", "drain-unprotected", bare(pod("a", "cp-1"), pod("b", "cp-1")), finding.Warning, "all its pods run on cp-1"},
		{"on both hosts", "drain-unprotected", bare(pod("a", "cp-1"), pod("b", "cp-2")), finding.Note, "no budget for its 2 replicas"},
		{"one is on no host yet", "drain-unprotected", bare(pod("a", "cp-1"), pod("b", "")), finding.Warning, "all its pods run on cp-1"},
		{"pods of another namespace do not count", "drain-unprotected", bare(pod("a", "cp-1"), but(pod("b", "cp-2"), func(p *Pod) { p.Namespace = "x" })), finding.Warning, "all its pods run on cp-1"},
		{"pods with other labels do not count", "drain-unprotected", bare(pod("a", "cp-1"), but(pod("b", "cp-2"), func(p *Pod) { p.Labels = map[string]string{"app": "x"} })), finding.Warning, "all its pods run on cp-1"},
	} {
		t.Run(c.name, c.run)
	}
}

func TestAFirewallThatIsNotJudgedIsNotPraised(t *testing.T) {
	site := func(f state.SiteFirewall) func(*Facts) {
		return func(facts *Facts) { facts.Hosts[1].Firewall.Value.Site = []state.SiteFirewall{f} }
	}
	f := wellTwo()
	site(state.SiteFirewall{Name: "ufw", Applications: []string{"80/tcp"}})(&f)
	r := examine(t, f, "firewall")
	if said := fmt.Sprint(r.Findings); strings.Contains(said, "ufw allows everything") {
		t.Errorf("it refuses something: %s", said)
	}
	for _, c := range []one{
		{"it allows all", "firewall", site(state.SiteFirewall{Name: "ufw"}), finding.OK, "ufw allows everything that is needed"},
		{"it is not judged", "firewall", site(state.SiteFirewall{Name: "nft", Unjudged: true}), finding.Unknown, "what nft on cp-2 refuses"},
	} {
		t.Run(c.name, c.run)
	}
}

// An alert leads to the check that explains it.
func TestEachAlertOfACheckLeadsToIt(t *testing.T) {
	got := map[string]string{}
	for _, c := range Checks() {
		for _, a := range c.Alerts {
			got[a] = string(c.ID)
		}
	}
	want := map[string]string{
		"HoldfastFailoverCapacity": "failover-capacity", "HoldfastFenceDelayTooShort": "fence-delay", "HoldfastFencingNotVerified": "fence-proven",
		"HoldfastCertificateEnds": "certificates", "HoldfastCertificateEndsWhileAHostIsOff": "certificates", "HoldfastCertificateNotRenewed": "certificates",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if c, ok := Find("fence-delay"); !ok || c.ID != "fence-delay" {
		t.Error("a check is not found by its name")
	}
	if slices.ContainsFunc(Checks(), func(c Check) bool { return c.ID == "" || c.Title == "" }) {
		t.Error("a check has no name")
	}
}
