package keeper

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

func TestWhatABMCSaidIsForgottenWhileItIsSlowToSayItAgain(t *testing.T) {
	answer, changed := make(chan string), make(chan struct{}, 1)
	b := &bmc{stale: time.Millisecond, power: func(context.Context, string) (string, time.Duration, error) { return <-answer, 0, nil }}
	b.set(state.Known("Off"))
	said := make(chan state.Fact[string])
	go func() {
		got, _ := b.question(t.Context(), func() { changed <- struct{}{} })
		said <- got
	}()
	<-changed
	if got := b.state(); got.Known {
		t.Errorf("it still says %q", got.Value)
	}
	answer <- "On"
	if got := <-said; !state.Is(got, "On") {
		t.Errorf("got %+v", got)
	}
}
