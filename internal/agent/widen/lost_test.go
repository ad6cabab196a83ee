package widen

import (
	"testing"

	"github.com/holdfast/holdfast/internal/decide/widen"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/powercut"
)

// TestAThirdHostThatIsLostRightAfterItsVoteIsTakenBack by a person's word, though the host that does it
// is cut anywhere.
func TestAThirdHostThatIsLostRightAfterItsVoteIsTakenBack(t *testing.T) {
	for at := 0; ; at++ {
		p := newPair(t)
		p.burnt = true
		if err := p.store(0).PutWidenWish(wish); err != nil {
			t.Fatal(err)
		}
		doing := func() string {
			d, err := p.store(0).WidenDoing()
			if err != nil || d == nil {
				return ""
			}
			return d.Rule
		}
		p.play(t, func() bool { return doing() == "letting.lost" })
		abort := wish
		abort.Abort = true
		if err := p.store(0).PutWidenWish(abort); err != nil {
			t.Fatal(err)
		}
		p.play(t, func() bool { return true })
		if doing() != "letting.lost" || p.voters != 3 {
			t.Fatalf("without a word about the machine: %s, %d vote", doing(), p.voters)
		}
		abort.Gone = true
		if err := p.store(0).PutWidenWish(abort); err != nil {
			t.Fatal(err)
		}
		p.cut = powercut.Cut{At: at}
		p.play(t, func() bool { return p.over(t) && p.words == [2]state.EtcdThirdWord{} })
		if a := p.plan(t, 0); a.Stage != widen.Aborted || !a.Gone || p.voters != 2 || p.learner != 0 || p.node {
			t.Fatalf("cut %d: %+v: %v", at, a, p.log)
		}
		for _, act := range []widen.Act{widen.KubeletBoot, widen.Maintain, widen.StopEtcd} {
			if p.done[0][act] || p.done[1][act] {
				t.Errorf("cut %d: the plan went forward: %v", at, p.log)
			}
		}
		if at > 0 && p.cut.At == at { // the run ended before the cut
			if at < 10 {
				t.Fatalf("only %d effects", at)
			}
			return
		}
	}
}

// TestAThirdHostThatIsLostWhileEtcdMovesIsNotWaitedForOnceSomebodySaysSo, though either of the two hosts
// is cut anywhere meanwhile.
func TestAThirdHostThatIsLostWhileEtcdMovesIsNotWaitedForOnceSomebodySaysSo(t *testing.T) {
	for at := 0; ; at++ {
		p := newPair(t)
		if err := p.store(0).PutWidenWish(wish); err != nil {
			t.Fatal(err)
		}
		p.play(t, func() bool {
			p.burnt = p.burnt || p.done[0][widen.KubeletBoot]
			d, err := p.store(0).WidenDoing()
			return err == nil && d != nil && d.Rule == "hand.lost"
		})
		if p.done[0][widen.StopEtcd] || p.done[1][widen.StopEtcd] {
			t.Fatalf("etcd moves while a member is lost: %v", p.log)
		}
		said := wish
		said.Gone = true
		if err := p.store(0).PutWidenWish(said); err != nil {
			t.Fatal(err)
		}
		p.cut = powercut.Cut{At: at}
		p.play(t, func() bool { return p.over(t) })
		if a, b := p.plan(t, 0), p.plan(t, 1); a.Stage != widen.Whole || !a.Gone || !b.Gone || p.voters != 3 {
			t.Fatalf("cut %d: %+v, %+v: %v", at, a, b, p.log)
		}
		if at > 0 && p.cut.At == at { // the run ended before the cut
			if at < 20 {
				t.Fatalf("only %d effects", at)
			}
			return
		}
	}
}
