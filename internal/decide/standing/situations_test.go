package standing

import (
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/etcdmember"
	"github.com/holdfast/holdfast/internal/decide/explain"
	"github.com/holdfast/holdfast/internal/decide/pacemakerstatus"
	"github.com/holdfast/holdfast/internal/decide/rollout"
	"github.com/holdfast/holdfast/internal/model/corosync"
	"github.com/holdfast/holdfast/internal/model/crmmon"
	"github.com/holdfast/holdfast/internal/model/state"
)

var (
	now   = time.Date(2026, 11, 20, 12, 0, 30, 0, time.UTC)
	since = now.Add(-75 * time.Hour)
	api   = Source{Kind: FromAPI, Name: "API at https://10.98.0.5:6443", Took: 21 * time.Millisecond}
	onCP1 = Source{Kind: FromHost, Name: "cp-1"}
)

const corpus = "../../../test/corpus/"

// recorded returns what hosts report in a recorded state of Pacemaker.
func recorded(t *testing.T, name string, etcd *state.EtcdReport) Facts {
	t.Helper()
	return recordedWith(t, name, etcd, nil)
}

// anotherCertificate is what the agent on cp-1 reports if a BMC shows a new
// certificate.
var anotherCertificate = map[string]state.BMCProblem{
	"cp-2": {Repair: state.PinCertificate, Words: "it shows another certificate (SHA-256 " + strings.Repeat("cd", 32) + ") than the pinned one (SHA-256 " + strings.Repeat("ab", 32) +
		"): compare it with the BMC's own page; if the BMC has a new one, accept it on the host that fences: 'holdfast fencing pin cp-2'"},
}

// recordedWith is like recorded, with results of BMC tests.
func recordedWith(t *testing.T, name string, etcd *state.EtcdReport, found map[string]state.BMCProblem) Facts {
	t.Helper()
	in := pacemakerstatus.Input{Host: "cp-1", Found: found}
	dir := filepath.Join(corpus, "pacemaker/cases", name, "cp-1")
	text, err := os.ReadFile(filepath.Join(dir, "crm_mon.xml"))
	must(t, err)
	cluster, err := crmmon.Parse(text, time.UTC)
	must(t, err)
	conf, err := os.ReadFile(filepath.Join(dir, "corosync.conf"))
	must(t, err)
	corosync, err := corosync.Parse(conf)
	must(t, err)
	in.Cluster, in.Corosync = state.Known(cluster), state.Known(corosync)
	if etcd != nil {
		in.Etcd = state.Known(*etcd)
	}
	status := pacemakerstatus.Timed(pacemakerstatus.Status(in), nil, since)
	f := pair()
	f.Pacemaker = Know(status, "the API", now.Add(-12*time.Second))
	return f
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// etcdReport returns what the etcd keeper on cp-1 reported in a recorded state.
func etcdReport(t *testing.T, name string) *state.EtcdReport {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(corpus, "pacemaker/cases", name, "cp-1/etcd.json"))
	must(t, err)
	var r state.EtcdReport
	must(t, json.Unmarshal(data, &r))
	return &r
}

// snapshot explains a recorded snapshot of etcd, with the hosts renamed to cp-1
// and cp-2.
func snapshot(t *testing.T, name string) explain.Explanation {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(corpus, "etcd", name+".json"))
	must(t, err)
	var file struct {
		Snapshot state.EtcdSnapshot `json:"snapshot"`
	}
	must(t, json.Unmarshal([]byte(strings.NewReplacer("alpha", "cp-1", "beta", "cp-2").Replace(string(data))), &file))
	return explain.Etcd(explain.Input{Source: explain.FromAgent, Report: state.EtcdReport{
		Wish: state.EtcdStarted, Snapshot: file.Snapshot, Verdict: etcdmember.Decide(file.Snapshot), At: now,
	}})
}

func addr(text string) netip.Addr { return netip.MustParseAddr(text) }

func ready(at time.Time) Seen[Kubelet] { return Know(Kubelet{Ready: true, Since: at}, "the API", now) }

func host(name string, addresses ...string) Host {
	h := Host{Name: name, ControlPlane: true, Worker: true, Kubelet: ready(since)}
	for _, a := range addresses {
		h.Addresses = append(h.Addresses, addr(a))
	}
	return h
}

// pair returns two hosts as the API reports them.
func pair() Facts {
	return Facts{
		Now: now, Cluster: "store-17", Sources: []Source{api}, ControlPlanes: Know(2, "the API", now),
		Hosts:       []Host{host("cp-1", "10.98.0.11"), host("cp-2", "10.98.0.12")},
		SetUp:       Know(SetUp{Done: true}, "the API", now),
		ManagedVIPs: Know(true, "the API", now),
		VIPs: []VIP{
			{Address: addr("10.98.0.5"), Kind: "API", Holders: Know([]string{"cp-1"}, "the hosts", now)},
			{Address: addr("10.98.0.6"), Kind: "ingress", Holders: Know([]string{"cp-2"}, "the hosts", now)},
		},
		Operators: Know([]Operator(nil), "the API", now),
	}
}

// onTheHost adds what the daemons of both hosts report.
func onTheHost(f Facts) Facts {
	record := func(s state.EtcdState) Seen[state.EtcdRecord] {
		return Know(state.EtcdRecord{State: s}, "cp-1", now)
	}
	f.Sources = append(f.Sources, onCP1)
	for i := range f.Hosts {
		f.Hosts[i].Record = record(state.EtcdPair)
		f.Hosts[i].Member = Know(Member{Running: state.Known(true), Listed: state.Known(true), Healthy: state.Known(true), Leader: i == 0, Behind: state.Known(uint64(i * 3))}, "cp-1", now)
	}
	f.Hosts[1].LastFence = Know(Fence{At: now.Add(-50 * time.Hour), By: "cp-1", Off: true, Took: 1234 * time.Millisecond}, "cp-1", now)
	return f
}

// withoutAPI removes the facts that only the API knows.
func withoutAPI(f Facts) Facts {
	f.Sources = []Source{{Kind: FromAPI, Name: "API at https://10.98.0.5:6443", Failed: "no answer within 1.5s"}, onCP1}
	f.SetUp, f.Operators = Seen[SetUp]{}, Seen[[]Operator]{}
	for i := range f.Hosts {
		f.Hosts[i].Kubelet = Seen[Kubelet]{}
	}
	f.Pacemaker.From = "cp-1"
	return f
}

func notReady(why string) Seen[Kubelet] {
	return Know(Kubelet{Silent: true, Why: why, Since: now.Add(-40 * time.Second)}, "the API", now)
}

// many returns control planes without Pacemaker.
func many(n int, addresses ...string) Facts {
	f := Facts{
		Now: now, Cluster: "edge", Sources: []Source{api}, ControlPlanes: Know(n, "the API", now),
		VIPs: []VIP{
			{Address: addr(addresses[0]), Kind: "API", Holders: Know([]string{"cp-1"}, "the hosts", now)},
			{Address: addr(addresses[1]), Kind: "ingress", Holders: Know([]string{"cp-1"}, "the hosts", now)},
		},
	}
	for i := range n {
		h := host("cp-"+string(rune('1'+i)), strings.TrimSuffix(addresses[0], "5")+"1"+string(rune('1'+i)))
		h.Member = Know(Member{Running: state.Known(true), Healthy: state.Known(true)}, "the API", now)
		f.Hosts = append(f.Hosts, h)
	}
	return f
}

// configured returns what a Node says of the configuration of its host, which had
// rendered-master-1 before.
func configured(h rollout.Host) Seen[rollout.Host] {
	h.Current, h.Ready = "rendered-master-1", true
	if h.Desired == "" {
		h.Desired = h.Current
	}
	return Know(h, "the API", now)
}

// situations returns what administrators may find, by name.
func situations(t *testing.T) map[string]Facts {
	out := map[string]Facts{}
	out["healthy-pair"] = onTheHost(recorded(t, "healthy", etcdReport(t, "healthy")))
	out["healthy-pair-from-afar"] = recorded(t, "healthy", etcdReport(t, "healthy"))

	f := onTheHost(recorded(t, "lost-fenced", etcdReport(t, "lost-fenced")))
	f.Hosts[0].Record.Value.State = state.EtcdSole
	f.Hosts[1].Record, f.Hosts[1].Member = Seen[state.EtcdRecord]{}, Know(Member{Listed: state.Known(false)}, "cp-1", now)
	f.Hosts[1].Kubelet = notReady("Kubelet stopped posting node status.")
	f.Hosts[1].LastFence.Value.At = now.Add(-38 * time.Second)
	f.VIPs[1].Holders.Value = []string{"cp-1", "cp-2"} // the lost host cannot withdraw its claim
	f.Incidents = Know([]Incident{{ID: "2026-11-20T115950Z-cp-2", At: now.Add(-40 * time.Second), Kind: "under-way", Summary: "cp-1 went on without cp-2, which was fenced after 1.9s; etcd took writes again after 4.2s"}}, "cp-1", now)
	out["peer-lost"] = f

	out["peer-lost-from-afar"] = recorded(t, "lost-fenced", etcdReport(t, "lost-fenced"))

	report := etcdReport(t, "back-after-a-fence")
	report.Snapshot.Local.Members.Value[1].Learner = true
	f = onTheHost(recorded(t, "back-after-a-fence", report))
	f.Hosts[0].Record.Value.State, f.Hosts[1].Record.Value.State = state.EtcdSole, state.EtcdLearner
	f.Hosts[1].Member.Value.Learner, f.Hosts[1].Member.Value.Behind = true, state.Known(uint64(18231))
	out["resyncing"] = f

	out["fencing-not-available"] = recorded(t, "device-cannot-start", etcdReport(t, "healthy"))
	out["fencing-another-certificate"] = recordedWith(t, "device-cannot-start", etcdReport(t, "healthy"), anotherCertificate)
	out["fencing-unverified"] = recorded(t, "device-on-its-own-target", etcdReport(t, "healthy"))
	out["fencing-disabled"] = recorded(t, "fencing-disabled", etcdReport(t, "healthy"))
	f = withoutAPI(recorded(t, "lost-fence-failed", nil))
	f.Hosts[0].Explanation = Know(snapshot(t, "14-leadership-lost"), "cp-1", now)
	out["lost-fence-failed"] = f
	out["maintenance"] = recorded(t, "maintenance-mode", etcdReport(t, "healthy"))
	out["etcd-failed"] = recorded(t, "etcd-failed", nil)

	f = recorded(t, "healthy", etcdReport(t, "healthy"))
	f.Pacemaker.At = now.Add(-12 * time.Minute)
	out["stale"] = f

	f = withoutAPI(onTheHost(recorded(t, "healthy", etcdReport(t, "healthy"))))
	f.Hosts[0].Explanation = Know(explain.Etcd(explain.Input{Source: explain.FromAgent, Report: *etcdReport(t, "healthy")}), "cp-1", now)
	out["api-gone"] = f

	f = withoutAPI(recorded(t, "no-quorum", nil))
	f.Hosts[0].Explanation = Know(snapshot(t, "70-03-older-alone"), "cp-1", now)
	f.Hosts[0].Record = Know(state.EtcdRecord{State: state.EtcdPair}, "cp-1", now)
	f.Hosts[0].Member = Know(Member{Running: state.Known(false)}, "cp-1", now)
	f.VIPs[0].Holders.Value, f.VIPs[1].Holders.Value = nil, nil
	out["human-needed"] = f

	f = withoutAPI(pair())
	f.Pacemaker.Why = "Pacemaker does not answer on this host"
	f.Sources[1].Failed = "only root may: run it with sudo"
	out["nothing-known"] = f

	f = onTheHost(recorded(t, "healthy", etcdReport(t, "healthy")))
	f.VIPs[0].Holders.Value = []string{"cp-2", "cp-1"}
	f.VIPs[1].Claims = []string{"3e:e1:f7:97:3e:d3"}
	out["vip-two-holders"] = f

	f = onTheHost(recorded(t, "healthy", etcdReport(t, "healthy")))
	f.VIPs[0].Left = []string{"cp-2"}
	f.VIPs[1].Forged = []string{"3e:e1:f7:97:3e:d3 in the name of 10.98.0.12"}
	out["vip-left-behind-and-forged"] = f

	f = onTheHost(recorded(t, "healthy", etcdReport(t, "healthy")))
	f.Hosts[1].Firewalls = Know([]state.SiteFirewall{
		{Name: "firewalld", Cluster: []string{"protocol vrrp", "2379-2380/tcp", "5405-5412/udp"}, Pods: []string{"10.128.0.0/14"}},
		{Name: "chain input of table inet filter", Unjudged: true},
	}, "cp-2", now)
	f.Hosts[0].Firewalls = Know([]state.SiteFirewall{{Name: "ufw", Applications: []string{"80/tcp", "443/tcp"}}}, "cp-1", now)
	out["firewalls"] = f

	f = onTheHost(recorded(t, "healthy", etcdReport(t, "healthy")))
	f.Hosts[0].Loops = Know([]state.Loop{
		{Name: "taints", Runs: 7},
		{Name: "joining hosts", Error: "no API server answers in time", Failures: 9, FailingSince: now.Add(-50 * time.Second)}, // not for a minute yet
		{Name: "incidents", Error: "write report: no space left on device\nsync: input/output error", Failures: 3, FailingSince: now.Add(-200 * time.Second)},
		{Name: "encryption keys", Error: "x", Failures: 3, FailingSince: now.Add(-90 * time.Second)},
	}, "cp-1", now)
	f.Hosts[1].Loops = Know([]state.Loop{{Name: "pacemaker status", Since: now.Add(-5 * time.Minute), Hangs: true}}, "cp-2", now)
	out["agent-loops"] = f

	f = onTheHost(recorded(t, "healthy", etcdReport(t, "healthy")))
	f.Hosts[0].Config = configured(rollout.Host{Name: "cp-1", State: rollout.Done})
	f.Hosts[1].Config = configured(rollout.Host{
		Name: "cp-2", Desired: "rendered-master-2", State: rollout.Working, Stage: rollout.Drains, Reason: "waits until its pods have moved", Unschedulable: true, Given: now.Add(-100 * time.Minute),
		Draining: now.Add(-99 * time.Minute), InTheWay: "shop/till-0: PodDisruptionBudget till lets none go: of 1 pods 1 are ready, and 1 have to be",
	})
	f.Hosts[1].Kubelet.Value.Cordoned, f.Hosts[1].Kubelet.Value.Moves = true, true
	f.Pools = Know([]rollout.PoolState{{Name: "master", Config: "rendered-master-2", Lacking: 2, Since: now.Add(-100 * time.Minute), Progress: "0 of 2 hosts have rendered-master-2; cp-2 is at work"}}, "the API", now)
	out["configuration-under-way"] = f

	f = many(3, "10.98.0.5", "10.98.0.6")
	f.Hosts[0].Config = configured(rollout.Host{Name: "cp-1", State: rollout.Degraded, Stage: rollout.Changed, Reason: "somebody changed /etc/chrony/chrony.conf"})
	f.Hosts[1].Config = configured(rollout.Host{Name: "cp-2", Desired: "rendered-master-2", State: rollout.Degraded, Reason: "the host was not ready 10m0s after: till.service failed"})
	f.Hosts[2].Config = configured(rollout.Host{Name: "cp-3", Desired: "rendered-master-2", State: rollout.Unreconcilable, Reason: "spec.config.storage.files[0].path: /boot/x is not a path that a MachineConfig may write"})
	for i, c := range []rollout.Host{
		{State: rollout.Working, Stage: rollout.WaitsForBoot, Reason: "needs a reboot: kernel arguments changed", Given: now.Add(-25 * time.Hour)},
		{State: rollout.Done, Given: now.Add(-11 * time.Minute)},
		{State: rollout.Working, Stage: rollout.Held, Reason: "waits with its reboot: the cluster may not carry on without it: cp-2 is a learner", Given: now.Add(-20 * time.Minute)},
	} {
		w := host("worker-"+string(rune('1'+i)), "10.98.0.2"+string(rune('1'+i)))
		w.ControlPlane, c.Name, c.Desired = false, w.Name, "rendered-worker-2"
		w.Config = configured(c)
		f.Hosts = append(f.Hosts, w)
	}
	f.Pools = Know([]rollout.PoolState{
		{Name: "edge", Config: "rendered-edge-2", Refused: "MachineConfig 50-a: spec.config: x\nMachineConfig 50-b: spec.config: y"},
		{Name: "store", Config: "rendered-store-2", Paused: true, Lacking: 2, Since: now.Add(-8 * 24 * time.Hour), Progress: "0 of 2 hosts have rendered-store-2; the pool is paused"},
	}, "the API", now)
	out["configurations-that-need-a-person"] = f

	f = onTheHost(recorded(t, "healthy", etcdReport(t, "healthy")))
	f.Hosts[0].Config, f.Hosts[1].Config = configured(rollout.Host{Name: "cp-1", State: rollout.Done}), configured(rollout.Host{Name: "cp-2", State: rollout.Done})
	f.Pools = Know([]rollout.PoolState{{
		Name: "master", Config: "rendered-master-2", Lacking: 2, Since: now.Add(-time.Minute),
		Progress: "0 of 2 hosts have rendered-master-2; the cluster may not carry on without cp-1: cp-1 cannot be fenced",
	}}, "the API", now)
	out["configuration-waits-for-redundancy"] = f

	f = onTheHost(recorded(t, "healthy", etcdReport(t, "healthy")))
	f.Hosts[0].Config = configured(rollout.Host{Name: "cp-1", State: rollout.Done, Required: "the kernel 6.1.0-28-amd64 is installed, and 6.1.0-27-amd64 runs", UpdatesFailed: "nothing was changed: run apt-get update: exit status 100"})
	f.Hosts[1].Config = configured(rollout.Host{
		Name: "cp-2", Ready: true, Desired: "rendered-master-2", Current: "rendered-master-2", State: rollout.Working, Reason: "installs 2 updates: libc6, openssl", Given: now.Add(-100 * 24 * time.Hour),
		Required: "its packages ask for it", UpdatesFailed: "refused: the updates would remove tripwire", Wish: rollout.Wish{Patch: true, Wanted: "2026-11-23T03:00:00Z", From: "boot-1", Given: now.Add(-2 * time.Minute)},
	})
	out["updates"] = f

	f = pair()
	f.SetUp = Know(SetUp{Doing: "step 2 of 5, Pacemaker is set up on cp-2"}, "the API", now)
	out["pair-not-set-up"] = f

	out["single"] = many(1, "10.98.0.5", "10.98.0.6")
	f = many(1, "10.98.0.5", "10.98.0.6")
	f.Sources = []Source{{Kind: FromAPI, Name: "API at https://10.98.0.5:6443", Failed: "connection refused"}, onCP1}
	f.Hosts[0].Kubelet, f.Hosts[0].Member = Seen[Kubelet]{}, Seen[Member]{}
	out["single-api-gone"] = f

	out["three"] = many(3, "10.98.0.5", "10.98.0.6")
	f = many(3, "10.98.0.5", "10.98.0.6")
	f.Heartbeat = Know(now.Add(-11*time.Minute), "the API", now)
	out["three-that-write-nothing"] = f
	f = many(3, "10.98.0.5", "10.98.0.6")
	f.Hosts[2].Kubelet = notReady("Kubelet stopped posting node status.")
	f.Hosts[2].Member = Know(Member{Healthy: state.Known(false)}, "the API", now)
	f.Operators = Know([]Operator{{Name: "network", State: "degraded", Why: "cp-3 does not answer"}}, "the API", now)
	out["three-one-lost"] = f

	f = many(3, "fd98::5", "fd98::6")
	w := host("worker-1", "fd98::21")
	w.ControlPlane = false
	w.Kubelet.Value.Cordoned = true
	f.Hosts = append(f.Hosts, w)
	out["three-ipv6"] = f

	f = onTheHost(recorded(t, "healthy", etcdReport(t, "healthy")))
	f.Hosts[0].Addresses = append(f.Hosts[0].Addresses, addr("fd98::11"))
	f.Hosts[1].Addresses = append(f.Hosts[1].Addresses, addr("fd98::12"))
	f.VIPs = append(f.VIPs,
		VIP{Address: addr("fd98::5"), Kind: "API", Holders: Know([]string{"cp-1"}, "the hosts", now)},
		VIP{Address: addr("fd98::6"), Kind: "ingress", Holders: Know([]string{}, "the hosts", now)})
	out["dual-stack-nobody-has-a-vip"] = f
	return out
}
