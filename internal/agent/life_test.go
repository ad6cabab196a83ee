package agent

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestAHostOfAFormerLifeSwitchesItselfOffBeforeAnythingStarts(t *testing.T) {
	full := errors.New("no space left on device")
	for name, c := range map[string]struct {
		out, succeeded string
		unread, noted  error
		want           string
		did            []string
	}{
		"nobody answers":                    {want: "no later life"},
		"the restored site answers":         {succeeded: "restored", want: "switches itself off: restored", did: []string{"note", "off"}},
		"it is out already":                 {out: "restored", want: "nothing of the cluster starts here: restored"},
		"what it wrote down cannot be read": {unread: full, succeeded: "restored", want: "switches itself off", did: []string{"note", "off"}},
		"the disk is full":                  {noted: full, succeeded: "restored", want: "switches itself off", did: []string{"note", "off"}},
		"unreadable, and nobody answers":    {unread: full, want: "no later life"},
	} {
		var did []string
		b := bootLook{
			out:       func() (string, error) { return c.out, c.unread },
			succeeded: func(context.Context) string { return c.succeeded },
			note:      func(string) error { did = append(did, "note"); return c.noted },
			off:       func(context.Context) error { did = append(did, "off"); return nil },
		}
		said, err := b.look(t.Context())
		if !strings.Contains(said, c.want) || !slices.Equal(did, c.did) || !errors.Is(err, c.noted) {
			t.Errorf("%s: %q, %v, did %v, want %q and %v", name, said, err, did, c.want, c.did)
		}
	}
}
