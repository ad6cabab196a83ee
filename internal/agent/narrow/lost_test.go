package narrow

import (
	"testing"

	"github.com/holdfast/holdfast/internal/decide/narrow"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/powercut"
)

// TestAPlanForTwoIsTakenBackWithoutAHostThatIsLostForGood by a person's word, though the host that does it is
// cut anywhere. If the word was wrong, the other host takes its part back when somebody says so there.
func TestAPlanForTwoIsTakenBackWithoutAHostThatIsLostForGood(t *testing.T) {
	for _, stage := range []narrow.Stage{narrow.Preparing, narrow.Dressing, narrow.Pairing} {
		for at := 0; ; at++ {
			p := newTrio(t)
			if err := p.store(0).PutNarrowWish(wish); err != nil {
				t.Fatal(err)
			}
			p.play(t, p.at(t, 1, stage))
			p.off = 1
			abort := wish
			abort.Abort = true
			if err := p.store(0).PutNarrowWish(abort); err != nil {
				t.Fatal(err)
			}
			p.play(t, p.at(t, 0, narrow.TakingBack))
			abort.Lost = true
			if err := p.store(0).PutNarrowWish(abort); err != nil {
				t.Fatal(err)
			}
			p.cut = powercut.Cut{At: at}
			p.play(t, func() bool { return p.plan(t, 0).Stage.Over() && p.lock.ID == "" })
			done := p.cut.At == at // the run ended before the cut
			if a := p.plan(t, 0); a.Stage != narrow.Aborted || a.Lost != names[1] || !p.plain || !p.member || !p.node || p.hosts[0] != (side{record: state.EtcdNone}) {
				t.Fatalf("%s, cut %d: %+v, %+v: %v", stage, at, a, p.hosts[0], p.log)
			}
			p.off, p.cut = -1, powercut.Cut{}
			there := wish
			there.Abort = true
			if err := p.store(1).PutNarrowWish(there); err != nil {
				t.Fatal(err)
			}
			p.play(t, func() bool { return p.over(t) })
			if b := p.plan(t, 1); b.Stage != narrow.Aborted || p.hosts[1] != (side{record: state.EtcdNone}) {
				t.Fatalf("%s, cut %d: left on %s: %+v, %+v", stage, at, names[1], b, p.hosts[1])
			}
			if at > 0 && done {
				break
			}
		}
	}
}
