package keeper

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// TestHowFarTheThirdMemberIs: what nobody measured a moment ago, of that very member, is unknown.
func TestHowFarTheThirdMemberIs(t *testing.T) {
	word := state.EtcdThirdWord{Plan: "p1", Host: "gamma", Address: netip.MustParseAddr("192.0.2.13"), Member: 0xc}
	other, nameless := word, word
	other.Member, nameless.Member = 0xd, 0
	for sentence, c := range map[string]struct {
		word  state.EtcdThirdWord
		id    state.MemberID
		has   uint64
		err   error
		later time.Duration
		want  state.Fact[uint64]
	}{
		"it lacks some":            {word, 0xc, 900, nil, 0, state.Known(uint64(100))},
		"it has all":               {word, 0xc, 1000, nil, 0, state.Known(uint64(0))},
		"it has more by now":       {word, 0xc, 1001, nil, 0, state.Known(uint64(0))},
		"another member answers":   {word, 0xd, 1000, nil, 0, state.Fact[uint64]{}},
		"it is silent":             {word, 0, 0, errors.New("refused"), 0, state.Fact[uint64]{}},
		"it was silent since":      {word, 0xc, 1000, nil, thirdStale + 1, state.Fact[uint64]{}},
		"the word names no member": {nameless, 0, 1000, nil, 0, state.Fact[uint64]{}},
	} {
		t.Run(sentence, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				asked := ""
				l := &thirdLog{applied: func(_ context.Context, url string) (state.MemberID, uint64, error) {
					asked = url
					return c.id, c.has, c.err
				}, own: func() uint64 { return 1000 }}
				if got := l.behind(c.word); got.Known {
					t.Errorf("before a question: %+v", got)
				}
				l.once(t.Context())
				time.Sleep(c.later)
				if got := l.behind(c.word); got != c.want {
					t.Errorf("%+v, want %+v", got, c.want)
				}
				if got := l.behind(other); got.Known {
					t.Errorf("the answer counts for another member: %+v", got)
				}
				if c.word.Member != 0 && asked != "https://192.0.2.13:2379" {
					t.Errorf("asked %q", asked)
				}
			})
		})
	}
}

// TestNobodyIsAskedWhileNoWordNamesAMember: a pair that does not widen does nothing for it.
func TestNobodyIsAskedWhileNoWordNamesAMember(t *testing.T) {
	word := state.EtcdThirdWord{Plan: "p1", Host: "gamma", Address: netip.MustParseAddr("192.0.2.13"), Member: 0xc}
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		asked := 0
		l := &thirdLog{applied: func(context.Context, string) (state.MemberID, uint64, error) {
			asked++
			return 0xc, 1000, nil
		}, own: func() uint64 { return 1000 }, wake: make(chan struct{}, 1)}
		ended := make(chan error)
		go func() { ended <- l.ask(ctx) }()
		for _, step := range []struct {
			word        state.EtcdThirdWord
			least, most int
		}{{state.EtcdThirdWord{}, 0, 0}, {word, 30, 40}, {state.EtcdThirdWord{}, 0, 1}, {word, 30, 40}} {
			asked = 0
			l.behind(step.word)
			time.Sleep(10 * time.Second)
			synctest.Wait()
			if asked < step.least || asked > step.most {
				t.Errorf("%+v: asked %d times in 10 s", step.word, asked)
			}
		}
		if got := l.behind(word); got != state.Known(uint64(0)) {
			t.Errorf("%+v", got)
		}
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// TestNobodyStartsEtcdBeforePacemakerAsksButAmongThree: docs/adr/0097.
func TestNobodyStartsEtcdBeforePacemakerAsksButAmongThree(t *testing.T) {
	for sentence, c := range map[string]struct {
		rule    string
		foreign bool
		want    bool
	}{
		"nobody takes over any more": {state.EtcdRuleMajorityStart, false, true},
		"kubelet starts it":          {state.EtcdRuleMajorityStart, true, false},
		"another rule":               {"equal.start", false, false},
	} {
		k := &Keeper{Process: &world{foreign: c.foreign}}
		if got := k.permitted(state.EtcdWishNote{Wish: state.EtcdNotAsked}, state.EtcdSnapshot{}, state.EtcdVerdict{Action: state.EtcdStart, Rule: c.rule}); got != c.want {
			t.Errorf("%s: %t", sentence, got)
		}
	}
}
