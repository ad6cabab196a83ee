package twonode_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/lab"
)

// busyGap is the allowed gap on a busy machine where clients should notice
// nothing.
const busyGap = 2 * time.Second

func TestKubelet(t *testing.T) {
	restarted := func(tr *trial, harm string) {
		host := tr.leads
		before := tr.processes(host, "kubelet")
		tr.now()
		tr.on(host, harm)
		tr.eventually(2*time.Minute, "another kubelet runs", func() error {
			now := tr.processes(host, "kubelet")
			if len(now) == 0 || fmt.Sprint(now) == fmt.Sprint(before) {
				return fmt.Errorf("kubelet: %v", now)
			}
			return nil
		})
		tr.noGapAbove(busyGap)
		tr.healthyAgain()
		tr.sameProcess(host)
		tr.fenced(0)
	}
	scenario(t, "kubelet stopped", 1, func(tr *trial) { restarted(tr, "systemctl stop kubelet") })
	scenario(t, "kubelet killed", 1, func(tr *trial) { restarted(tr, "systemctl kill -s KILL kubelet") })
	scenario(t, "kubelet cannot start", 1, func(tr *trial) {
		host := tr.leads
		tr.now()
		tr.on(host, staysAway("/var/lib/kubelet/config.yaml")+"; mv /var/lib/kubelet/config.yaml /var/lib/kubelet/config.yaml.away; systemctl kill -s KILL kubelet")
		pause(tr.Context(), 40*time.Second)
		tr.noGapAbove(busyGap)
		tr.sameProcess(host)
		tr.ended = time.Now()
		tr.on(host, "mv /var/lib/kubelet/config.yaml.away /var/lib/kubelet/config.yaml; "+mayReturn)
		tr.eventually(wholeWithin, "kubelet runs and stays", func() error {
			_, err := tr.Sh(tr.Context(), host, "systemctl is-active kubelet && curl -fsS --max-time 2 http://127.0.0.1:10248/healthz")
			return err
		})
		tr.healthyAgain()
		tr.sameProcess(host)
		tr.fenced(0)
	})
}

func TestEtcdKilled(t *testing.T) {
	kill := func(tr *trial, hosts ...string) {
		members := tr.members()
		for _, h := range hosts {
			tr.fault(lab.Fault{Kind: lab.FaultProcessKill, Host: h, Process: "etcd"})
		}
		tr.survivor = hosts[0]
		tr.writable(hosts[0], backWithin)
		tr.healthyAgain()
		tr.kept(members)
		tr.fenced(0)
	}
	scenario(t, "etcd killed, the leader", 3, func(tr *trial) { kill(tr, tr.leads) })
	scenario(t, "etcd killed, the follower", 3, func(tr *trial) { kill(tr, tr.other(tr.leads)) })
	scenario(t, "etcd killed on both", 3, func(tr *trial) { kill(tr, tr.leads, tr.other(tr.leads)) })
}

func TestEtcdFrozen(t *testing.T) {
	scenario(t, "etcd frozen, the leader", 1, func(tr *trial) { tr.frozen(tr.leads) })
	scenario(t, "etcd frozen, the follower", 1, func(tr *trial) { tr.frozen(tr.other(tr.leads)) })
}

// frozen freezes etcd and expects that it is restarted in place: another process runs
// before anybody thaws the frozen one.
func (tr *trial) frozen(host string) {
	members := tr.members()
	tr.survivor = tr.other(host)
	tr.fault(lab.Fault{Kind: lab.FaultProcessStop, Host: host, Process: "etcd"})
	tr.writable(tr.other(host), 3*time.Minute)
	tr.eventually(2*time.Minute, "another etcd runs on "+host, func() error {
		if now := tr.processes(host, "etcd"); len(now) == 0 || fmt.Sprint(now) == fmt.Sprint(tr.etcd[host]) {
			return fmt.Errorf("etcd: %v", now)
		}
		return nil
	})
	if _, err := tr.Power.Clear(tr.Context(), lab.ClearRequest{Host: host}); err != nil {
		tr.Fatal(err)
	}
	tr.healthyAgain()
	tr.kept(members)
	tr.sameProcess(tr.other(host))
	tr.fenced(0)
}

func TestEtcdDataDamaged(t *testing.T) {
	for _, part := range []string{"db", "wal", "member"} {
		scenario(t, "etcd's data damaged: "+part, 1, func(tr *trial) {
			host := tr.other(tr.leads)
			if tr.number%2 == 1 {
				host = tr.leads
			}
			tr.survivor = tr.other(host)
			tr.fault(lab.Fault{Kind: lab.FaultEtcdDamage, Host: host, Part: part})
			if len(tr.processes(host, "etcd")) > 0 {
				_ = tr.Power.Inject(tr.Context(), lab.Fault{Kind: lab.FaultProcessKill, Host: host, Process: "etcd"}) // it may have ended by itself
			}
			tr.writable(tr.survivor, backWithin)
			tr.healthyAgain()
			tr.sameProcess(tr.survivor)
			tr.fenced(0)
		})
	}
}

func TestEtcdDiskFull(t *testing.T) {
	scenario(t, "etcd's disk full", 1, func(tr *trial) {
		host := tr.other(tr.leads)
		tr.survivor = tr.other(host)
		tr.fault(lab.Fault{Kind: lab.FaultDiskFull, Host: host})
		// The log's files are made in advance, so only a restart needs space.
		_ = tr.Power.Inject(tr.Context(), lab.Fault{Kind: lab.FaultProcessKill, Host: host, Process: "etcd"})
		full := time.Now()
		tr.writable(tr.survivor, backWithin)
		pause(tr.Context(), time.Until(full.Add(30*time.Second)))
		tr.mend(host, lab.FaultDiskFull)
		tr.writable(tr.survivor, backWithin)
		tr.healthyAgain()
		tr.sameProcess(tr.survivor)
		tr.fenced(0)
	})
	scenario(t, "etcd's disk slow, 300 ms", 1, func(tr *trial) {
		host := tr.other(tr.leads)
		tr.fault(lab.Fault{Kind: lab.FaultSlowDisk, Host: host, Delay: 300 * time.Millisecond})
		pause(tr.Context(), 20*time.Second)
		tr.mend(host, lab.FaultSlowDisk)
		tr.healthyAgain()
		tr.sameProcess(tr.other(host))
		tr.fenced(0)
	})
}

func TestTheAgentsProcessDies(t *testing.T) {
	scenario(t, "podman-etcd killed", 1, func(tr *trial) {
		host := tr.leads
		tr.now()
		tr.on(host, "systemctl kill --kill-whom=main -s KILL podman-etcd")
		tr.eventually(30*time.Second, "the agent answers again", func() error {
			_, err := tr.Etcd(tr.Context(), host)
			return err
		})
		tr.noGapAbove(busyGap)
		tr.healthyAgain()
		tr.sameProcess(host)
		tr.fenced(0)
	})
}

func TestEtcdDiskReplaced(t *testing.T) {
	scenario(t, "etcd's disk replaced, with its record", 1, func(tr *trial) {
		host := tr.other(tr.leads)
		tr.survivor = tr.other(host)
		tr.fault(lab.Fault{Kind: lab.FaultEtcdDamage, Host: host, Part: "disk"})
		_ = tr.Power.Inject(tr.Context(), lab.Fault{Kind: lab.FaultProcessKill, Host: host, Process: "etcd"}) // it may have ended by itself
		tr.writable(tr.survivor, backWithin)
		tr.healthyAgain()
		tr.sameProcess(tr.survivor)
		tr.fenced(0)
	})
}
