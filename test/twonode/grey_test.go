package twonode_test

import (
	"context"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast/holdfast/internal/lab"
)

// One host cannot be reached from outside. It must be fenced, whatever its name
// and whichever host leads, and the other one must go on at once.

func TestGreyCableOut(t *testing.T) {
	unreached(t, "cable out", lab.Fault{Kind: lab.FaultLinkDown})
}

func TestGreyOneWayLoss(t *testing.T) {
	for _, direction := range []string{lab.DirectionIn, lab.DirectionOut} {
		unreached(t, "one-way loss "+direction, lab.Fault{Kind: lab.FaultDrop, Direction: direction})
	}
}

func TestGreyPortForwardsNothing(t *testing.T) {
	unreached(t, "port forwards nothing", lab.Fault{Kind: lab.FaultNoForward})
}

func unreached(t *testing.T, name string, f lab.Fault) {
	t.Helper()
	each(t, name, []part{leading, following}, func(tr *trial, sick string) {
		f.Host = sick
		tr.holdFaults(held{sick: sick, goesOn: tr.other(sick), within: *reachGate, least: 1, most: 1}, f)
		tr.sameProcess(tr.other(sick))
	})
}

// If a filter is between the hosts, neither is at fault: one of them must go
// on.

func TestGreyPeerPortFiltered(t *testing.T) { filtered(t, 2380) }

func TestGreyClientPortFiltered(t *testing.T) { filtered(t, 2379) }

func filtered(t *testing.T, port int) {
	t.Helper()
	for _, direction := range []string{lab.DirectionIn, lab.DirectionOut, lab.DirectionBoth} {
		f := lab.Fault{Kind: lab.FaultFilterPort, Port: port, Protocol: "tcp", Direction: direction}
		each(t, f.String(), either, func(tr *trial, sick string) {
			f.Host = sick
			tr.holdFaults(held{within: *greyGate, most: 1}, f)
		})
	}
}

// A process that hangs on one host costs that host its part, and at most its
// power.

func TestGreyDiskHangs(t *testing.T) {
	each(t, "etcd's disk hangs", []part{leading, following}, func(tr *trial, sick string) {
		tr.holdFaults(held{sick: sick, goesOn: tr.other(sick), within: *greyGate, most: 1}, lab.Fault{Kind: lab.FaultHangDisk, Host: sick})
		tr.sameProcess(tr.other(sick))
	})
}

// TestGreyDiskHangsForAWhile expects that a disk that recovers costs no host
// its power.
func TestGreyDiskHangsForAWhile(t *testing.T) {
	each(t, "etcd's disk hangs for 8 s", []part{leading, following}, func(tr *trial, sick string) {
		tr.hold(held{sick: sick, within: *reachGate}, func() {
			tr.inject(lab.Fault{Kind: lab.FaultHangDisk, Host: sick})
			pause(tr.Context(), 8*time.Second)
			tr.clearHost(sick)
		}, func() {})
	})
}

// TestGreyDiskFull expects that a host whose etcd cannot stay up gives its data
// directory up: nobody's power is touched.
func TestGreyDiskFull(t *testing.T) {
	each(t, "etcd's disk full while it needs more room", []part{leading, following}, func(tr *trial, sick string) {
		tr.hold(held{sick: sick, goesOn: tr.other(sick), within: *greyGate}, func() {
			tr.inject(lab.Fault{Kind: lab.FaultDiskFull, Host: sick})
			tr.fillLog(tr.other(sick))
		}, func() { tr.clearHost(sick) })
	})
}

// fillLog writes more than a file of etcd's log holds, 64 MB, or until nothing can
// be committed any more.
func (tr *trial) fillLog(through string) {
	tr.Helper()
	value := strings.Repeat("x", 1<<20)
	written := 0
	_ = tr.member(tr.Context(), through, func(ctx context.Context, c *clientv3.Client) error { // it ends with the pair's quorum
		for written < 96 {
			if _, err := c.Put(ctx, "/holdfast-test/filling", value); err != nil {
				return err
			}
			written++
		}
		return nil
	})
	tr.Logf("%d MiB were written before nothing could be committed", written)
}

func TestGreyDiskSlow(t *testing.T) {
	each(t, "etcd's disk slow while it is held", []part{leading, following}, func(tr *trial, sick string) {
		tr.holdFaults(held{sick: sick, within: *reachGate}, lab.Fault{Kind: lab.FaultSlowDisk, Host: sick, Delay: 300 * time.Millisecond})
	})
}

func TestGreyGroupFrozen(t *testing.T) {
	each(t, "etcd's control group frozen", []part{leading, following}, func(tr *trial, sick string) {
		tr.holdFaults(held{sick: sick, within: *greyGate, most: 1}, lab.Fault{Kind: lab.FaultFreezeCgroup, Host: sick, Process: "etcd"})
	})
}

// stopped is the allowed cost of a process that no longer runs.
type stopped struct {
	process string
	// stop and kill are the largest numbers of fences of its host.
	stop, kill int
	within     *time.Duration
}

// Processes of a control plane that freeze or die. A process that does not
// belong to the two-node protocol must cost no host its power.
var (
	ofEtcd = []stopped{
		{"conmon", 1, 1, greyGate},
		{"podman-etcd serve", 1, 0, greyGate},
	}
	ofTheStack = []stopped{
		{"corosync", 1, 1, greyGate},
		{"pacemakerd", 1, 1, greyGate},
		{"pacemaker-controld", 1, 1, greyGate},
		{"pacemaker-attrd", 1, 1, greyGate},
		{"pacemaker-fenced", 1, 1, greyGate},
		{"pacemaker-execd", 1, 1, greyGate},
		{"pacemaker-based", 1, 1, greyGate},
		{"pacemaker-schedulerd", 1, 1, greyGate},
	}
	ofKubernetes = []stopped{
		{"containerd", 0, 0, greyGate},
		{"kubelet", 0, 0, greyGate},
		{"kube-apiserver", 0, 0, greyGate},
		{"keepalived", 0, 0, greyGate},
		{"haproxy", 0, 0, greyGate},
	}
)

func TestGreyProcessOfEtcd(t *testing.T) { standstill(t, ofEtcd) }

func TestGreyProcessOfTheStack(t *testing.T) { standstill(t, ofTheStack) }

func TestGreyProcessOfKubernetes(t *testing.T) { standstill(t, ofKubernetes) }

func standstill(t *testing.T, list []stopped) {
	t.Helper()
	for _, p := range list {
		for _, kind := range []lab.FaultKind{lab.FaultProcessStop, lab.FaultProcessKill} {
			most := p.stop
			if kind == lab.FaultProcessKill {
				most = p.kill
			}
			unseen(t, string(kind)+" "+p.process, func(tr *trial) {
				sick := tr.leads
				if tr.number%2 == 1 {
					sick = tr.other(sick)
				}
				tr.holdFaults(held{sick: sick, within: *p.within, most: most}, lab.Fault{Kind: kind, Host: sick, Process: p.process})
			})
		}
	}
}

// byHand is something that an administrator may do to a host at any moment,
// while nothing else is broken.
type byHand struct {
	name     string
	do, undo string // by a shell on the affected host
	fences   int
	within   *time.Duration
}

// byHands lists them. None may cause a fence, unless the action is a fence.
var byHands = []byHand{
	{name: "pcs node standby, unstandby", do: "pcs node standby $HOST", undo: "pcs node unstandby $HOST", within: reachGate},
	{name: "pcs resource restart etcd-clone", do: "timeout 180 pcs resource restart etcd-clone", within: greyGate},
	{name: "pcs resource restart etcd-clone on one host", do: "timeout 180 pcs resource restart etcd-clone $HOST", within: greyGate},
	{name: "pcs resource cleanup", do: "pcs resource cleanup", within: reachGate},
	{name: "pcs resource disable, enable kubelet-clone", do: "pcs resource disable kubelet-clone", undo: "pcs resource enable kubelet-clone", within: reachGate},
	{name: "pcs cluster stop, start", do: "timeout 180 pcs cluster stop --force", undo: "pcs cluster start", within: reachGate},
	{name: "pcs stonith fence", do: "timeout 180 pcs stonith fence $PEER", fences: 1, within: reachGate},
	{name: "maintenance mode on, off", do: "pcs property set maintenance-mode=true", undo: "pcs property set maintenance-mode=false", within: reachGate},
}

func TestGreyByHand(t *testing.T) {
	for _, p := range byHands {
		unseen(t, p.name, func(tr *trial) {
			host := tr.leads
			if tr.number%2 == 1 {
				host = tr.other(host)
			}
			sick, goesOn := host, tr.other(host)
			if p.fences > 0 {
				sick, goesOn = tr.other(host), host
			}
			say := func(script string) {
				if script != "" {
					tr.on(host, "HOST="+host+"; PEER="+tr.other(host)+"; "+script+" 2>&1")
				}
			}
			tr.hold(held{sick: sick, goesOn: goesOn, within: *p.within, least: p.fences, most: p.fences}, func() { say(p.do) }, func() { say(p.undo) })
		})
	}
}

// inject puts a further fault of a trial in force.
func (tr *trial) inject(f lab.Fault) {
	tr.Helper()
	if err := tr.Power.Inject(tr.Context(), f); err != nil {
		tr.Fatal(err)
	}
}

// clearHost clears all faults of a host.
func (tr *trial) clearHost(host string) {
	tr.Helper()
	if _, err := tr.Power.Clear(tr.Context(), lab.ClearRequest{Host: host}); err != nil {
		tr.Fatal(err)
	}
}
