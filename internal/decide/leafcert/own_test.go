package leafcert_test

import (
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/leafcert"
)

// TestFromWhenOnACertificateOfHoldfastsOwnIsLate: with a sixth of its life left, and at once if it is
// of no use.
func TestFromWhenOnACertificateOfHoldfastsOwnIsLate(t *testing.T) {
	for sentence, c := range map[string]struct {
		own  leafcert.Own
		want time.Time
	}{
		"of 120 days":            {leafcert.Own{Ends: noon, Life: 120 * day, Written: noon.Add(-120 * day)}, noon.Add(-20 * day)},
		"of ten minutes":         {leafcert.Own{Ends: noon, Life: 10 * time.Minute, Written: noon.Add(-10 * time.Minute)}, noon.Add(-100 * time.Second)},
		"damaged":                {leafcert.Own{Damaged: true, Life: 120 * day, Written: noon}, noon},
		"with the key of others": {leafcert.Own{Damaged: true, Ends: noon.Add(100 * day), Life: 120 * day, Written: noon}, noon},
	} {
		if got := c.own.Late(); !got.Equal(c.want) {
			t.Errorf("%s: %s, want %s", sentence, got, c.want)
		}
	}
}
