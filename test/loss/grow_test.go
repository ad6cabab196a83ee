package loss_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/lab"
	"github.com/holdfast/holdfast/internal/model/state"
)

// The limits are for a full machine; the figures are told.
const (
	widenWithin = 4 * time.Minute
	aloneWithin = 3 * time.Minute
	// takesOverWithin has room for a fence whose answers are slow.
	takesOverWithin = 2 * time.Minute
)

// TestASiteGrowsFromOneControlPlaneToTwo makes a lone control plane one of two while clients
// write, cuts its power before the second one is there, lets that one in, and then loses the
// first one.
func TestASiteGrowsFromOneControlPlaneToTwo(t *testing.T) {
	s := up(t, 1, "--spare-control-planes=1")
	const first, second = "cp-1", "cp-2"
	w := s.write(first)

	began := time.Now()
	join := s.becomesOneOfTwo(first, second)
	t.Logf("the first host was one of two after %.0f s", time.Since(began).Seconds())
	w.paused("until then", stepPause)

	w.startsAlone(first)
	s.letsIn(first, second, join)

	lost := time.Now()
	s.power(first, "cut")
	s.eventually(takesOverWithin, "the new host takes over", func() error { return s.sole(second) })
	t.Logf("the new host had taken over %.0f s after the first one lost its power", time.Since(lost).Seconds())
	s.power(first, "on")
	s.eventually(wholeWithin, "the site is whole", func() error { return s.Whole(t.Context()) })
	w.judge()
}

// becomesOneOfTwo makes a lone control plane one of two, and returns the join file of the second one.
func (s site) becomesOneOfTwo(first, second string) (join string) {
	s.Helper()
	s.installConfig(first, 2, "/root/two.yaml")
	// Without the new machine the command waits: it is ended early, and asked again how far the plan is.
	command := fmt.Sprintf("holdfast topology apply --install-config /root/two.yaml --address %s --without-backup --yes --by test --timeout 5s", s.Address(second, lab.V4))
	if out, err := s.Sh(s.Context(), first, command); err == nil || !strings.Contains(fmt.Sprint(out, err), "to follow it: sudo holdfast topology apply") {
		s.Fatalf("the plan does not begin: %s, %v", out, err)
	}
	s.eventually(widenWithin, "the first host is one of two", func() error {
		out, err := s.Sh(s.Context(), first, "holdfast topology apply --by test --join-file /root/join.ign --timeout 3s")
		if strings.Contains(fmt.Sprint(out, err), "install the new machine") {
			return nil
		}
		return fmt.Errorf("%s, %w", out, err)
	})
	return s.on(first, "cat /root/join.ign")
}

// letsIn installs the second of two control planes, and waits until the site is whole.
func (s site) letsIn(first, second, join string) {
	s.Helper()
	s.install(second, join)
	installed := time.Now()
	s.on(first, fmt.Sprintf("holdfast topology apply --by test --timeout %s", joinWithin))
	s.Logf("the new host was whole %.0f s after it was switched on", time.Since(installed).Seconds())
	s.eventually(wholeWithin, "the site is whole", func() error { return s.Whole(s.Context()) })
	s.on(first, "holdfast fencing verify")
}

// startsAlone cuts the power of a host without a peer, and waits until clients write again.
func (w *writes) startsAlone(name string) {
	w.Helper()
	w.power(name, "cut")
	cut := time.Now()
	w.power(name, "on")
	w.eventually(aloneWithin, name+" starts alone, without a person", func() error {
		if w.rec.Last("") < w.rec.At(cut) {
			return errors.New("nobody has written since")
		}
		return nil
	})
	w.Logf("clients wrote again %.0f s after a power cut of the host without a peer", time.Since(cut).Seconds())
}

// power switches a host at its power supply, as a person would.
func (s site) power(name, how string) {
	s.Helper()
	if _, err := s.Holdfast(s.Context(), "lab", "power", "--name", s.LabName(), name, how); err != nil {
		s.Fatal(err)
	}
}

// giveFile copies a file of this machine to root of a host.
func (s site) giveFile(name, from, to string) {
	s.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		s.Fatal(err)
	}
	root, err := s.Lab.Root(s.Context(), s.Power, name)
	if err != nil {
		s.Fatal(err)
	}
	if err := host.WriteFileAtomic(filepath.Join(root, to), data, state.SecretFileMode); err != nil {
		s.Fatal(err)
	}
}
