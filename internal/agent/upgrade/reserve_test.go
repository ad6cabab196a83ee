package upgrade

import (
	"os"
	"testing"

	"github.com/holdfast/holdfast/internal/decide/upgrade/parachute"
)

// TestU49_WhatAReturnNeedsOfTheDiskIsKeptForIt from before the switch until it returns, and no
// longer.
func TestU49_WhatAReturnNeedsOfTheDiskIsKeptForIt(t *testing.T) {
	m, _, _ := onDisk(t, parachute.Worker)
	kept := func() int64 {
		info, err := os.Stat(m.store.path(reserveFile))
		if err != nil {
			return 0
		}
		return info.Size()
	}
	if _, err := m.arm(t.Context(), oldOne, newOne); err != nil || kept() != reserveSize {
		t.Fatalf("%v, %d bytes are kept", err, kept())
	}
	for step, want := range map[parachute.Step]int64{parachute.Proving: reserveSize, parachute.Returning: 0} { //nolint:exhaustive // one step before the return, and the return
		if err := m.store.Reserve(); err != nil {
			t.Fatal(err)
		}
		_, number, err := m.store.Read()
		if err != nil {
			t.Fatal(err)
		}
		if err := m.store.Write(parachute.Journal{From: oldOne, To: newOne, Step: step}, number+1); err != nil {
			t.Fatal(err)
		}
		for range 2 { // a crash has it done again; the link leads nowhere in this folder
			if err := m.switchBack(); err == nil {
				t.Fatal("a release that is not there is chosen")
			}
		}
		if got := kept(); got != want {
			t.Errorf("at %s %d bytes are kept, want %d", step, got, want)
		}
	}
	if err := m.store.Reserve(); err != nil {
		t.Fatal(err)
	}
	if err := m.disarm(t.Context()); err != nil || kept() != 0 {
		t.Errorf("%v, %d bytes are kept once the way has ended", err, kept())
	}
}
