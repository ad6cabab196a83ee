package vrrp

import (
	"testing"
	"time"
)

// TestAParentThatHasJustStartedIsNotEndedForItsPredecessor: on a host that was busy after the switch of an
// upgrade, keepalived came back so late that each new parent was ended as it started.
func TestAParentThatHasJustStartedIsNotEndedForItsPredecessor(t *testing.T) {
	const limit = 15 * time.Second
	start := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	var c Childless
	for _, look := range []struct {
		what   string
		at     time.Duration
		parent int
		end    bool
	}{
		{"nobody runs", 0, 0, false},
		{"the first one, 20 s later", 20 * time.Second, 7, false},
		{"it has 15 s", 20*time.Second + limit - 1, 7, false},
		{"and not more", 20*time.Second + limit, 7, true},
		{"the next one has them anew", 36 * time.Second, 8, false},
		{"it is gone", 40 * time.Second, 0, false},
		{"one with the same number", 60 * time.Second, 8, false},
		{"the clock went back", 10 * time.Second, 8, false},
		{"it counts from there", 25 * time.Second, 8, true},
	} {
		var end bool
		if c, end = c.Look(look.parent, start.Add(look.at), limit); end != look.end {
			t.Errorf("%s: ended %v", look.what, end)
		}
	}
}
