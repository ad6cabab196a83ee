package carry

import (
	"context"
	"errors"
	"slices"
	"testing"
)

// play is an agent whose rounds are a list.
type play struct {
	rounds []Round
	told   []string
}

func (p *play) look(context.Context) (*Round, error) {
	if len(p.rounds) == 0 {
		return nil, nil
	}
	r := p.rounds[0]
	p.rounds = p.rounds[1:]
	r.Tell = func(failed error) error {
		if failed != nil {
			p.told = append(p.told, failed.Error())
			return nil
		}
		p.told = append(p.told, r.Words)
		return nil
	}
	return &r, nil
}

func acts(words string, err error) Round {
	return Round{Words: words, Act: func(context.Context) error { return err }}
}

func TestAnAgentActsUntilItHasToWaitOrNothingIsLeft(t *testing.T) {
	wrong, late := errors.New("it failed"), errors.New("it could not be written")
	for sentence, c := range map[string]struct {
		rounds []Round
		want   error
		told   []string
		did    string
		left   int
	}{
		"it acts until there is nothing to decide": {[]Round{acts("one", nil), acts("two", nil)}, nil, []string{"one", "two"}, "two", 0},
		"it waits":                     {[]Round{acts("one", nil), {Wait: func() error { return nil }}, acts("two", nil)}, nil, []string{"one"}, "one", 1},
		"it rests":                     {[]Round{{Rest: func() error { return late }}, acts("two", nil)}, late, nil, "", 1},
		"an act that failed ends it":   {[]Round{acts("one", wrong), acts("two", nil)}, wrong, []string{"it failed"}, "", 1},
		"what it waits for is written": {[]Round{{Wait: func() error { return late }}}, late, nil, "", 0},
	} {
		p := &play{rounds: c.rounds}
		out, err := Steps(t.Context(), p.look)
		if !errors.Is(err, c.want) || !slices.Equal(p.told, c.told) || out.Changed != c.did || len(p.rounds) != c.left {
			t.Errorf("%s: %v, told %v, did %q, %d left", sentence, err, p.told, out.Changed, len(p.rounds))
		}
	}
}

func TestNobodyReadsOfAnActThatEndedTheAgent(t *testing.T) {
	ended := errors.New("the agent ends")
	ctx, end := context.WithCancelCause(t.Context())
	p := &play{rounds: []Round{{Words: "one", Act: func(context.Context) error { end(ended); return errors.New("cut off") }}}}
	if _, err := Steps(ctx, p.look); !errors.Is(err, ended) || len(p.told) > 0 {
		t.Errorf("%v, told %v", err, p.told)
	}
}

func TestWhatAnAgentDoesIsWrittenOnceIfItDoesNotChange(t *testing.T) {
	var last *string
	writes := 0
	put := func(s string) error { last = &s; writes++; return nil }
	for _, now := range []string{"a", "a", "b"} {
		if err := Tell(now, func() (*string, error) { return last, nil }, put); err != nil {
			t.Fatal(err)
		}
	}
	if writes != 2 {
		t.Errorf("%d writes", writes)
	}
	if err := Tell("b", func() (*string, error) { return nil, errors.New("unreadable") }, put); err != nil || writes != 3 {
		t.Errorf("what cannot be read is written again: %v, %d writes", err, writes)
	}
}
