package member

import (
	"errors"
	"testing"

	"github.com/holdfast/holdfast/internal/model/state"
)

// TestWhatAPlanSaysAboutAThirdHost: a word that cannot be read may say that one comes, and a host that
// nobody brings is not measured: who measures hears that there is none.
func TestWhatAPlanSaysAboutAThirdHost(t *testing.T) {
	word := state.EtcdThirdWord{Plan: "p1", Host: "gamma", Member: 0xc}
	for sentence, c := range map[string]struct {
		word state.Fact[state.EtcdThirdWord]
		err  error
		want state.EtcdThird
	}{
		"none comes":     {state.Known(state.EtcdThirdWord{}), nil, state.EtcdThird{Word: state.Known(state.EtcdThirdWord{})}},
		"one comes":      {state.Known(word), nil, state.EtcdThird{Coming: true, Word: state.Known(word), Behind: state.Known(uint64(7))}},
		"it is torn":     {state.Fact[state.EtcdThirdWord]{}, errors.New("torn"), state.EtcdThird{Coming: true}},
		"it took a turn": {state.Known(word), errors.New("late"), state.EtcdThird{Coming: true}},
	} {
		o := newObserver(t, &seen{})
		o.Third = func() (state.Fact[state.EtcdThirdWord], error) { return c.word, c.err }
		o.Behind = func(w state.EtcdThirdWord) state.Fact[uint64] {
			if w != c.word.Value {
				t.Errorf("%s: asked about %+v", sentence, w)
			}
			return state.Known(uint64(7))
		}
		if got := look(t, o, state.EtcdWishNote{}).Third; got != c.want {
			t.Errorf("%s: %+v, want %+v", sentence, got, c.want)
		}
	}
	if got := look(t, newObserver(t, &seen{}), state.EtcdWishNote{}).Third; got != (state.EtcdThird{}) {
		t.Errorf("nobody looks: %+v", got)
	}
}
