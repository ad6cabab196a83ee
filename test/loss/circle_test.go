package loss_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// TestASiteGrowsToThreeControlPlanesAndShrinksBack takes one site from one control plane to two, to three, back to
// two and back to one, while clients write through the virtual IP. After each step each host loses its power once:
// whatever the site was before, it is now what a new one of that number is. Tests of each step alone look closer.
func TestASiteGrowsToThreeControlPlanesAndShrinksBack(t *testing.T) {
	s := up(t, 1, "--spare-control-planes=2")
	const first, second, third = "cp-1", "cp-2", "cp-3"
	w := s.writeAt("vip", s.Lab.Layout.APIVIPs[0])

	w.step("from one to two", func() { s.letsIn(first, second, s.becomesOneOfTwo(first, second)) })
	for _, lost := range []string{second, first} {
		w.goesOnWithout(lost)
		s.eventually(wholeWithin, "the site is whole with "+lost, func() error { return errors.Join(s.Whole(t.Context()), s.healthy(first), s.healthy(second)) })
	}

	w.step("from two to three", func() {
		s.bringsThird(first, third)
		s.followThree(first)
	})
	for _, lost := range []string{third, second, first} {
		s.eventually(wholeWithin, "the site is whole", func() error { return s.Whole(t.Context()) })
		w.goesOnWithout(lost)
	}
	for _, name := range []string{first, second, third} {
		s.eventually(wholeWithin, "three vote", func() error { return s.vote(name, 3) })
		s.nothingOfTwo(name)
	}

	w.step("from three to two", func() {
		s.installConfig(first, 2, "/root/two.yaml")
		s.narrows(first, first, second)
	})
	s.switchesOff(third)
	pair := func() {
		s.eventually(wholeWithin, "the two are a healthy pair", func() error {
			return errors.Join(s.pairOf(first, second, third), s.healthy(first), s.healthy(second))
		})
	}
	for _, lost := range []string{second, first} {
		pair()
		w.goesOnWithout(lost)
	}
	pair()

	s.on(second, "systemctl poweroff --no-block")
	s.eventually(goesOnWithin, first+" goes on alone", func() error { return s.sole(first) })
	w.step("from two to one", func() {
		s.installConfig(first, 1, "/root/one.yaml")
		s.becomesAlone(first)
	})
	s.nothingOfTwo(first)
	w.startsAlone(first)
	s.eventually(wholeWithin, first+" says that it is healthy", func() error { return s.healthy(first) })
	if nodes := s.on(first, "kubectl --kubeconfig "+state.AdminKubeconfig+" get nodes -o name"); strings.TrimSpace(nodes) != "node/"+first {
		t.Errorf("the site of one has the Nodes %s", nodes)
	}
	w.judge()
}

// step takes a site to another number of control planes, and checks for how long nobody could write meanwhile.
func (w *writes) step(what string, do func()) {
	w.Helper()
	began := time.Now()
	w.from = w.rec.Since()
	do()
	w.Logf("%s: %.0f s", what, time.Since(began).Seconds())
	w.paused(what, stepPause)
}
