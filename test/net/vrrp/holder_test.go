package vrrp

import (
	"fmt"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast/holdfast/internal/model/state"
	render "github.com/holdfast/holdfast/internal/render/keepalived"
)

// both holds the API VIPs of the rigs.
var both = []netip.Addr{vip4, vip6}

// followed is the longest time of a move; 0.8 s is the longest that is
// promised.
const followed = 800 * time.Millisecond

// moved waits until other hosts have every VIP of a host, and returns the time
// of the slowest move.
func (r *rig) moved(from *testHost) time.Duration {
	r.t.Helper()
	return r.movedWithin(from, followed)
}

func (r *rig) movedWithin(from *testHost, promised time.Duration) time.Duration {
	r.t.Helper()
	return r.eventually("another holder", promised, func() bool {
		for _, vip := range both {
			found := false
			for _, h := range r.others(from) {
				found = found || h.has(vip)
			}
			if !found {
				return false
			}
		}
		return true
	})
}

func TestHardCase01_AHolderThatIsLostIsFollowed(t *testing.T) {
	t.Parallel()
	r := newRig(t, 3)
	r.start(both...)
	h := r.holder(vip4)
	h.unplug()
	r.moved(h)
}

// The parent starts the daemon again, or the agent removes what it left. In
// both cases the address is on only one host again within a second.
func TestHardCase02_AKilledVRRPProcessLeavesNoSecondHolder(t *testing.T) {
	t.Parallel()
	for name, kill := range map[string]func(h *testHost){
		"the process alone":        func(h *testHost) { must(t, syscall.Kill(h.pid(render.VRRPPIDFile), syscall.SIGKILL)) },
		"its parent":               func(h *testHost) { must(t, syscall.Kill(h.pid(render.PIDFile), syscall.SIGKILL)) },
		"B17: the whole container": func(h *testHost) { h.killDaemon() },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 3)
			r.start(both...)
			h := r.holder(vip4)
			kill(h)
			r.moved(h)
			r.settle(both...)
			for _, vip := range both {
				if d := r.overlap(vip); d > 300*time.Millisecond {
					t.Errorf("%s was on two hosts for %s", vip, d)
				}
			}
		})
	}
}

func TestB17_WhatADaemonLeftWhileNoAgentRanIsRemovedWhenOneStarts(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2)
	r.start(both...)
	h := r.holder(vip4)
	must(t, h.agent.Process.Kill())
	_ = h.agent.Wait()
	h.killDaemon()
	r.moved(h)
	if !h.has(vip4) {
		t.Fatal("the test is worth nothing: nothing was left behind")
	}
	h.startAgent()
	r.eventually("it is gone", time.Second, func() bool { return !h.has(vip4) && !h.has(vip6) })
}

func TestHardCase02_AKilledAgentChangesNothingAndComesBackQuietly(t *testing.T) {
	t.Parallel()
	r := newRig(t, 3)
	r.start(both...)
	mark := r.mark()
	for _, h := range r.hosts {
		must(t, h.agent.Process.Kill())
		_ = h.agent.Wait()
		h.startAgent()
	}
	r.never("a VIP moved", 3*time.Second, func() bool { return r.mark() != mark })
}

// The daemon is frozen for 10 s and then goes on. Meanwhile it must have been
// ended, and its addresses removed.
func TestHardCase02_AStoppedDaemonIsEndedAndTheStaleHolderYields(t *testing.T) {
	t.Parallel()
	r := newRig(t, 3)
	r.start(both...)
	h := r.holder(vip4)
	pid := h.pid(render.VRRPPIDFile)
	must(t, syscall.Kill(pid, syscall.SIGSTOP))
	took := r.moved(h)
	r.eventually("the stale one is gone", 2*time.Second, func() bool { return !h.has(vip4) && !h.has(vip6) })
	time.Sleep(10 * time.Second)
	_ = syscall.Kill(pid, syscall.SIGCONT)
	r.settle(both...)
	r.oneHolder(both...)
	t.Logf("the others followed after %s, two held it for %s", took, max(r.overlap(vip4), r.overlap(vip6)))
}

func TestB18_ADaemonThatHoldsNothingAndHangsIsReplaced(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2)
	r.start(both...)
	h := r.others(r.holder(vip4))[0]
	pid, mark := h.pid(render.VRRPPIDFile), r.mark()
	must(t, syscall.Kill(pid, syscall.SIGSTOP))
	r.eventually("another process", 20*time.Second, func() bool { now := h.pid(render.VRRPPIDFile); return now != 0 && now != pid })
	if r.mark() != mark {
		t.Error("a VIP moved")
	}
}

// farewell fails the test if another host followed only because it received
// nothing for the time of three adverts, and not because the holder announced
// that it goes.
func (r *rig) farewell(from *testHost) {
	r.t.Helper()
	for _, h := range r.others(from) {
		if strings.Contains(h.log("keepalived.log"), "Backup received priority 0 advertisement") {
			return
		}
	}
	r.t.Error("the holder went without a word")
}

func TestB16_AnOrderlyStopSaysFarewell(t *testing.T) {
	t.Parallel()
	r := newRig(t, 3)
	r.start(both...)
	h := r.holder(vip4)
	must(t, syscall.Kill(h.pid(render.PIDFile), syscall.SIGTERM))
	r.moved(h)
	r.farewell(h)
	_ = h.daemon.Wait()
	r.settle(both...)
	r.oneHolder(both...)
}

func TestHardCase41_ATermDuringATakeOverLeavesOneHolder(t *testing.T) {
	t.Parallel()
	r := newRig(t, 3)
	r.start(both...)
	for _, ms := range []int{0, 300, 550, 600, 650, 700, 750} {
		first := r.holder(vip4)
		first.unplug()
		time.Sleep(time.Duration(ms) * time.Millisecond)
		stopped := r.others(first)[0]
		must(t, syscall.Kill(stopped.pid(render.PIDFile), syscall.SIGTERM))
		_ = stopped.daemon.Wait()
		r.eventually("the third one holds both", 3*time.Second, func() bool {
			h := r.others(first)
			return h[1].has(vip4) && h[1].has(vip6) && !stopped.has(vip4) && !stopped.has(vip6)
		})
		first.plug()
		stopped.startDaemon()
		time.Sleep(1500 * time.Millisecond)
		r.settle(both...)
	}
}

func TestHardCase41_AFullDiskDoesNotKeepHealthFromKeepalived(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2)
	for _, h := range r.hosts { // before the agent starts, so that the agent sees it
		must(t, os.MkdirAll(h.path("/etc/holdfast"), 0o755))
		must(t, unix.Mount("none", h.path("/etc/holdfast"), "tmpfs", 0, "size=32k"))
		t.Cleanup(func() { _ = unix.Unmount(h.path("/etc/holdfast"), unix.MNT_DETACH) })
	}
	r.start(both...)
	h := r.holder(vip4)
	before, err := os.ReadFile(h.path(render.ConfigPath))
	must(t, err)
	for i := 0; ; i++ {
		if err := os.WriteFile(h.path(fmt.Sprintf("/etc/holdfast/full%d", i)), make([]byte, 1024), 0o600); err != nil {
			break
		}
	}
	h.tell(func(v *state.NetworkView) { // another configuration, and bad health
		v.Nodes = state.Known([]state.Node{nodeOf(1), nodeOf(2), nodeOf(3)})
		v.Balancer = state.Fact[state.Balancer]{}
	})
	r.moved(h)
	if after, err := os.ReadFile(h.path(render.ConfigPath)); err != nil || string(after) != string(before) {
		t.Errorf("the configuration was harmed: %v", err)
	}
	if !strings.Contains(h.log("agent.log"), "no space left") {
		t.Error("the agent does not say that the disk is full")
	}
}

func TestLinkDown_TheHolderYieldsItselfAndAnotherFollows(t *testing.T) {
	t.Parallel()
	r := newRig(t, 3)
	r.start(both...)
	h := r.holder(vip4)
	in(t, r.sw, func() { must(t, linkDown(h.port)) })
	r.moved(h)
	r.eventually("it is gone there", time.Second, func() bool { return !h.has(vip4) && !h.has(vip6) })
}
