package vip_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/lab"
)

// The promises for clients, and their names.
const (
	hostLostMost = 800 * time.Millisecond
	gracefulMost = 300 * time.Millisecond
	refusedMost  = 2 * time.Second
	hangingMost  = 3 * time.Second
	usualRuns    = 20
	noAnswer     = "no answer"
	lastFailure  = "last failure"
	apiServer    = "kube-apiserver"
	balancer     = "haproxy"
	vrrpDaemon   = "keepalived"
	// restartWithin is longer than kubelet's pause before it restarts a program
	// that ended repeatedly.
	restartWithin = 6 * time.Minute
)

// TestNothingHappens lets clients use an unbroken site. It shows that later
// failures are not the clients' fault.
func TestNothingHappens(t *testing.T) {
	event(t, "nothing happens", 1, func(tr *trial) {
		since := tr.Now()
		tr.Eventually(time.Minute, "ten seconds have passed", func() error {
			if left := 10*time.Second - time.Since(since); left > 0 {
				return fmt.Errorf("%s are left", left)
			}
			return nil
		})
		tr.NothingFailed("nothing happens", since, tr.Clients()...)
	})
}

func TestTheHoldersPowerIsCut(t *testing.T) {
	event(t, "power cut of the VIP's holder", usualRuns, func(tr *trial) {
		host, _ := tr.holder()
		w := tr.moves(host)
		tr.Inject(lab.Fault{Kind: lab.FaultPowerCut, Host: host})
		tr.moved(w, hostLostMost)
		tr.promise(noAnswer, hostLostMost)
		tr.calm(w.began, func() { tr.BootedAgain(host, w.began) })
	})
}

func TestTheHolderIsRebooted(t *testing.T) {
	event(t, "reboot of the VIP's holder", usualRuns, func(tr *trial) {
		host, _ := tr.holder()
		w := tr.moves(host)
		tr.Now()
		tr.On(host, "systemctl --no-block reboot")
		tr.moved(w, 0) // systemd takes its time until it stops the holder's services
		tr.promise(noAnswer, gracefulMost)
		tr.calm(w.began, func() { tr.BootedAgain(host, w.began) })
	})
}

// TestTheHolderIsPutIntoStandby is the planned way of a two-node cluster: the
// host stops etcd and kubelet.
func TestTheHolderIsPutIntoStandby(t *testing.T) {
	if *planes != 2 {
		t.Skip("only two control planes have a standby")
	}
	event(t, "standby of the VIP's holder", usualRuns, func(tr *trial) {
		host, peer := tr.holder()
		since := tr.Now()
		tr.On(host, "pcs node standby "+host)
		tr.Eventually(restartWithin, "etcd of "+host+" has ended", func() error {
			if list := tr.processes(host, "etcd"); len(list) > 0 {
				return fmt.Errorf("it runs: %v", list)
			}
			return nil
		})
		tr.Eventually(restartWithin, "the virtual IPs are where the API lives", func() error {
			var errs []error
			for _, vip := range tr.vips {
				if now, err := tr.Holder(vip); err != nil || now != peer {
					errs = append(errs, fmt.Errorf("%s is held by %q: %w", vip, now, err))
				}
			}
			return errors.Join(errs...)
		})
		tr.promise(noAnswer, gracefulMost)
		tr.calm(since, func() { tr.On(host, "pcs node unstandby "+host) })
	})
}

func TestHAProxyOfTheHolderIsKilled(t *testing.T) {
	event(t, "haproxy of the VIP's holder killed", usualRuns, func(tr *trial) {
		host, _ := tr.holder()
		since := tr.kill(host, balancer)
		tr.promise(noAnswer, hostLostMost)
		tr.calm(since, nil)
	})
}

func TestKeepalivedOfTheHolderIsKilled(t *testing.T) {
	event(t, "keepalived of the VIP's holder killed", usualRuns, func(tr *trial) {
		host, _ := tr.holder()
		since := tr.kill(host, vrrpDaemon)
		tr.promise(noAnswer, hostLostMost)
		tr.calm(since, nil)
	})
}

func TestAnAPIServerIsKilled(t *testing.T) {
	for _, where := range []string{"on the VIP's holder", "beside the VIP's holder"} {
		t.Run(where, func(t *testing.T) {
			event(t, "API server killed "+where, usualRuns, func(tr *trial) {
				since := tr.kill(tr.place(where), apiServer)
				tr.promise(lastFailure, refusedMost)
				tr.calm(since, nil)
			})
		})
	}
}

func TestAnAPIServerHangs(t *testing.T) {
	for _, where := range []string{"on the VIP's holder", "beside the VIP's holder"} {
		t.Run(where, func(t *testing.T) {
			event(t, "API server frozen "+where, usualRuns, func(tr *trial) {
				host := tr.place(where)
				since := time.Now()
				tr.Inject(lab.Fault{Kind: lab.FaultProcessStop, Host: host, Process: apiServer})
				tr.promise(lastFailure, hangingMost)
				tr.calm(since, func() { tr.Mend(host, lab.FaultProcessStop) })
			})
		})
	}
}

// place returns the host that the words name.
func (tr *trial) place(where string) string {
	tr.Helper()
	host, peer := tr.holder()
	if where == "on the VIP's holder" {
		return host
	}
	return peer
}

// kill kills the processes of a name on a host, and waits until others have
// replaced them.
func (tr *trial) kill(host, name string) time.Time {
	tr.Helper()
	before := tr.processes(host, name)
	if len(before) == 0 {
		tr.Fatalf("%s does not run on %s", name, host)
	}
	since := time.Now()
	tr.Inject(lab.Fault{Kind: lab.FaultProcessKill, Host: host, Process: name})
	tr.Eventually(restartWithin, name+" runs again on "+host, func() error {
		now := tr.processes(host, name)
		if len(now) == 0 || slices.ContainsFunc(now, func(p lab.Process) bool { return slices.Contains(before, p) }) {
			return fmt.Errorf("its processes are %v, they were %v", now, before)
		}
		return nil
	})
	tr.Trial.Took(name+" runs again", time.Since(since))
	return since
}
