package agent

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/replace"
	"github.com/holdfast/holdfast/internal/model/retired"
	"github.com/holdfast/holdfast/internal/model/state"
)

func TestAnOustedHostWritesItDownAndSwitchesItselfOff(t *testing.T) {
	entry := &retired.Host{Name: "cp-2", Machine: "old", ControlPlane: true, When: time.Unix(1, 0), Again: time.Unix(2, 0)}
	out := replace.Self{Installed: true, MachineID: "old", Etcd: state.Known(false), Entry: state.Known(entry), Node: state.Known("new")}
	member := out
	member.Node = state.Known("old")
	var self replace.Self
	var did []string
	full := true
	p := &place{
		log: slog.New(slog.DiscardHandler), self: func(context.Context) replace.Self { return self },
		note: func(string) error {
			if full {
				return errors.New("no space left on device")
			}
			did = append(did, "note")
			return nil
		},
		off: func(context.Context) error { did = append(did, "off"); return nil },
	}
	look := func(s replace.Self, wantErr bool, want ...string) {
		t.Helper()
		self = s
		if _, err := p.step(t.Context()); err != nil != wantErr || !slices.Equal(did, want) {
			t.Errorf("%v, %v, want %v", did, err, want)
		}
	}
	look(out, false) // two looks have to agree
	look(member, false)
	look(out, false)
	look(out, true) // it stays on until it has written it down, or it would act again after a boot
	full = false
	look(out, false, "note", "off")
}
