package kube

import (
	"testing"
	"time"
)

// TestAClientLeavesACertificateBeforeItEnds: a third of a life is left when it is renewed.
func TestAClientLeavesACertificateBeforeItEnds(t *testing.T) {
	for life, want := range map[time.Duration]time.Duration{
		0: 5 * time.Minute, 10 * time.Minute: 30 * time.Second, time.Hour: 3 * time.Minute, 365 * 24 * time.Hour: 5 * time.Minute,
	} {
		got := followPause(life)
		if got != want {
			t.Errorf("with a life of %s it looks every %s, want %s", life, got, want)
		}
	}
}
