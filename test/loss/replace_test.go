package loss_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/lab"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/test/labsite"
	"github.com/holdfast/holdfast/test/twonode/client"
)

// The limits are for a full machine, on which an installation takes six minutes. What
// the product promises is judged by the history of the writes, and told in figures.
const (
	retireWithin = 3 * time.Minute
	joinWithin   = 15 * time.Minute
	wholeWithin  = 10 * time.Minute
)

// Issue 21 allows for these pauses in which nobody writes: while a host is replaced, and while a site gets
// another number of control planes.
const (
	replacePause = time.Second
	stepPause    = 5 * time.Second
)

// installedLife is the life of certificates of a site that asks for none.
const installedLife = 365 * 24 * time.Hour

// TestALostControlPlaneIsReplaced has a machine of the same name take the place of a lost host.
func TestALostControlPlaneIsReplaced(t *testing.T) {
	s := up(t, 2)
	lost := s.ControlPlanes()[1]
	s.replaces(lost, lost)
}

// TestALostControlPlaneIsReplacedUnderAnotherName has the new machine come with a name of its own.
func TestALostControlPlaneIsReplacedUnderAnotherName(t *testing.T) {
	s := up(t, 2, "--spare-control-planes=1")
	s.replaces(s.ControlPlanes()[1], "cp-3")
}

// replaces burns one of two hosts with its BMC, lets the other go on by a person's word,
// replaces the lost one by another machine while clients write, and then wakes the lost
// machine up with its old disks.
func (s site) replaces(lost, name string) {
	s.Helper()
	stays := s.ControlPlanes()[0]
	old, _ := s.Lab.Layout.Host(lost)
	s.on(stays, "holdfast backup now --host "+stays+" --reason test")

	s.burns(lost)
	s.eventually(5*time.Minute, stays+" goes on alone", func() error { return s.confirm(stays, lost) })
	began := time.Now()
	log, err := s.LogEnd()
	if err != nil {
		s.Fatal(err)
	}
	w := s.write(stays)

	next, wakes := s.other(lost, name)
	s.put(stays, "/root/bmc", next.BMC.Password+"\n")
	command := fmt.Sprintf("holdfast host replace %s --yes --by test --bmc-address %s --bmc-certificate-verification Disabled "+
		"--bmc-username %s --bmc-password-file /root/bmc --keep-bmc-account --join-file /root/join.ign", lost, next.BMC.URL(), next.BMC.Username)
	if name != lost {
		command += " --new-name " + name
	}
	if out, err := s.Sh(s.Context(), stays, command+" --timeout 1m"); err == nil || !strings.Contains(err.Error()+out, "--is-gone SERIAL") {
		s.Fatalf("a host whose BMC is silent is replaced without a person's word: %s, %v", out, err)
	}
	command += " --is-gone " + old.Serial
	out, err := s.Sh(s.Context(), stays, fmt.Sprintf("%s --timeout %s", command, retireWithin))
	if !strings.Contains(fmt.Sprint(out, err), "install the new machine") {
		s.Fatalf("the plan does not come to the new machine: %s, %v", out, err)
	}
	s.Logf("the lost host was taken out in %.0f s", time.Since(began).Seconds())
	s.eventually(time.Minute, "the join file", func() error {
		_, err := s.ReadFile(s.Context(), stays, "/root/join.ign")
		return err
	})
	s.install(name, s.on(stays, "cat /root/join.ign"))
	installed := time.Now()
	s.on(stays, fmt.Sprintf("holdfast host replace %s --timeout %s", lost, joinWithin))
	s.Logf("the new host was whole %.0f s after it was switched on", time.Since(installed).Seconds())
	s.eventually(wholeWithin, "the site is whole", func() error { return s.Whole(s.Context()) })
	s.on(stays, "holdfast fencing verify")
	fenced, err := s.Fenced(s.Context(), began)
	s.Logf("fenced since the confirmation: %v, %v", fenced, err) // a full machine may have cost a token
	cuts, err := s.Resets(log, labsite.ForceOff)
	s.Logf("BMCs were asked to cut the power since then: %v, %v", cuts, err)

	w.paused("while a lost host was replaced", replacePause)
	s.wakes(wakes)
	s.eventually(wholeWithin, "the site is whole after the old host woke up", func() error { return s.Whole(s.Context()) })
	s.eventually(wholeWithin, "the site says that it is healthy", func() error { return s.healthy(stays) })

	// Pacemaker may bring retired peers back from its memory when another host decides for it.
	s.power(stays, "cut")
	s.eventually(takesOverWithin, "the new host takes over", func() error { return s.sole(name) })
	s.power(stays, "on")
	s.eventually(wholeWithin, "the site is whole after the new host took over", func() error { return s.Whole(s.Context()) })
	w.judge()
	s.eventually(wholeWithin, "the site says that it is healthy", func() error { return s.healthy(stays) })
	if err := s.Doctor(s.Context(), s.Logf, installedLife); err != nil {
		s.Error(err)
	}
}

// sole returns an error until a host goes on alone.
func (s site) sole(name string) error { return s.records(name, state.EtcdSole) }

// records returns an error unless the record of a host says something.
func (s site) records(name string, want state.EtcdState) error {
	r, err := s.Etcd(s.Context(), name)
	if got := r.Snapshot.Record.Value.State; err == nil && got != want {
		err = fmt.Errorf("the record of %s says %s, not %s", name, got, want)
	}
	return err
}

// holdsNone fails the test if a host has one of the site's virtual IPs.
func (s site) holdsNone(name string) {
	s.Helper()
	for _, vip := range append(s.Lab.Layout.APIVIPs[:1:1], s.Lab.Layout.IngressVIPs[0]) {
		if holders := s.Lab.Holders(vip); slices.Contains(holders, name) {
			s.Errorf("%s is held by %v", vip, holders)
		}
	}
}

// other returns the machine that takes the place of a lost host, and what the lab calls the
// lost one from now on.
func (s site) other(lost, name string) (next lab.Host, old string) {
	s.Helper()
	if name == lost {
		return s.swap(lost), lost + "-old1"
	}
	s.Retire(lost)
	next, there := s.Lab.Layout.Host(name)
	if !there {
		s.Fatalf("the lab has no spare %s", name)
	}
	return next, lost
}

// confirm gives a person's word that a host is off, once the protocol takes it.
func (s site) confirm(stays, lost string) error {
	r, err := s.Etcd(s.Context(), stays)
	if err == nil && r.Snapshot.Record.Value.State == state.EtcdSole {
		return nil
	}
	out, err := s.Sh(s.Context(), stays, fmt.Sprintf("holdfast quorum confirm --phrase '%s is off' --reason test", lost))
	if err == nil {
		err = fmt.Errorf("not alone yet: %s", out)
	}
	return err
}

// swap puts another machine in the place of a host.
func (s site) swap(name string) lab.Host {
	s.Helper()
	if _, err := s.Holdfast(s.Context(), "lab", "swap", "--name", s.LabName(), name); err != nil {
		s.Fatal(err)
	}
	if err := s.Reopen(); err != nil {
		s.Fatal(err)
	}
	h, _ := s.Lab.Layout.Host(name)
	return h
}

// install gives a new machine its join file, and switches it on.
func (s site) install(name, ignition string) {
	s.Helper()
	file := filepath.Join(s.TempDir(), "join.ign")
	if err := os.WriteFile(file, []byte(ignition), 0o600); err != nil {
		s.Fatal(err)
	}
	for _, args := range [][]string{{"lab", "ignition", "--name", s.LabName(), name, file}, {"lab", "power", "--name", s.LabName(), name, "on"}} {
		if _, err := s.Holdfast(s.Context(), args...); err != nil {
			s.Fatal(err)
		}
	}
	if err := s.Reopen(); err != nil {
		s.Fatal(err)
	}
}

// put writes a file of root on a host.
func (s site) put(name, path, text string) {
	s.Helper()
	root, err := s.Lab.Root(s.Context(), s.Power, name)
	if err != nil {
		s.Fatal(err)
	}
	if err := host.WriteFileAtomic(filepath.Join(root, path), []byte(text), state.SecretFileMode); err != nil {
		s.Fatal(err)
	}
}

// offWithin is the time in which a replaced host that wakes up has to boot, reach the API
// and switch itself off. It has the address of the new host meanwhile.
const offWithin = 5 * time.Minute

// wakes switches the replaced machine on, with its old disks and its old address, and checks that
// it starts nothing, holds no virtual IP, and switches itself off.
func (s site) wakes(old string) {
	s.Helper()
	if err := s.Clear(s.Context(), lab.ClearRequest{Host: old}); err != nil {
		s.Fatal(err)
	}
	s.staysInert(old)
}

// staysInert follows a host that was taken out and is switched on again.
func (s site) staysInert(old string) {
	s.Helper()
	woke := time.Now()
	s.eventually(time.Minute, "the host that was taken out boots", func() error {
		if h, err := s.PowerOf(s.Context(), old); err != nil || h.Power != lab.PowerOn {
			return errors.Join(err, fmt.Errorf("power %s", h.Power))
		}
		return nil
	})
	s.eventually(offWithin, "the host that was taken out switches itself off", func() error {
		s.holdsNone(old)
		// a host that goes down stops what runs in it: nsenter then stops itself, and would wait for ever
		ctx, stop := context.WithTimeout(s.Context(), 20*time.Second)
		defer stop()
		if out, err := s.Sh(ctx, old, "pgrep -x etcd || pgrep -x kubelet"); err == nil {
			s.Errorf("the host that was taken out runs etcd or kubelet: %s", out)
		}
		if h, err := s.PowerOf(s.Context(), old); err != nil || h.Power != lab.PowerOff {
			return errors.Join(err, fmt.Errorf("power %s", h.Power))
		}
		return nil
	})
	cuts, err := os.ReadFile(filepath.Join(s.Lab.Dir, "daemon.log"))
	if err != nil || !strings.Contains(string(cuts), `msg="host ended by itself" host=`+old) {
		s.Errorf("%s did not go off by itself (%v)", old, err)
	}
	s.Logf("the host that was taken out switched itself off %.0f s after its boot", time.Since(woke).Seconds())
}

// writes are writes to the API of the host that stays.
type writes struct {
	site
	rec  *client.Recorder
	load *client.Load
	from time.Duration
}

func (s site) write(name string) *writes {
	s.Helper()
	return s.writeAt(name, s.Address(name, lab.V4))
}

// writeAt has clients write through an address.
func (s site) writeAt(name string, address netip.Addr) *writes {
	s.Helper()
	config, err := s.Token(s.Context(), 8*time.Hour)
	if err != nil {
		s.Fatal(err)
	}
	w := &writes{site: s, rec: client.NewRecorder()}
	target := client.Target{Name: name, Address: netip.AddrPortFrom(address, 6443).String()}
	shape := client.Shape{Targets: []client.Target{target}, Pause: 100 * time.Millisecond}
	s.eventually(time.Minute, "the API knows the clients' account", func() (err error) {
		w.load, err = client.StartAPI(s.Context(), w.rec, shape, fmt.Sprintf("r%d", time.Now().UnixMilli()), s.Lab.Dial, config)
		return err
	})
	s.eventually(time.Minute, "clients write", func() error {
		if w.rec.Last("") == 0 {
			return fmt.Errorf("no write was acknowledged")
		}
		return nil
	})
	w.from = w.rec.Since()
	return w
}

// paused fails if nobody wrote for longer than a limit between the first write and now. Where -widen-cut
// cuts the power of a host meanwhile, nobody promises a limit, and the figure is only told.
func (w *writes) paused(what string, most time.Duration) {
	w.Helper()
	gap := w.rec.Copy().Gap("", w.from, w.rec.Since())
	told := fmt.Sprintf("%s nobody wrote for %.1f s, from %.0f s on", what, gap.Length.Seconds(), gap.From.Seconds())
	if w.Log(told); gap.Length > most && *cutAt == "" {
		w.Errorf("%s; want %s at most", told, most)
	}
}

// judge ends the writes: none that was acknowledged may be lost.
func (w *writes) judge() {
	w.Helper()
	if err := w.load.Stop(w.Context()); err != nil {
		w.Error(err)
	}
	h := w.rec.Copy()
	gap := h.Gap("", w.from, h.End())
	w.Logf("%d operations; nobody wrote for %.1f s, from %.0f s on", len(h.Ops), gap.Length.Seconds(), gap.From.Seconds())
	if err := client.Check(h); err != nil {
		w.Errorf("acknowledged writes: %v", err)
	}
}
