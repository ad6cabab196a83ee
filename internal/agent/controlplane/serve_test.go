package controlplane

import (
	"crypto/x509"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/keys"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

// docs/facts/life.md#certificates, L-C8, L-C11 and L-C30: nothing keeps the former one,
// also after a clock that was ahead.
func TestTheConfigurationServersCertificateFollowsTheClock(t *testing.T) {
	now := sitetest.Created
	a := New(Options{Site: sitetest.New(t, sitetest.TwoDual), Log: quietLog, Now: func() time.Time { return now }})
	s := &serving{Agent: a}
	last := ""
	for _, step := range []struct {
		pass time.Duration
		anew bool
	}{
		{0, true},
		{keys.ServingLifetime*2/3 - time.Second, false},
		{time.Second, true},
		{400 * 24 * time.Hour, true},  // the machine was suspended
		{-400 * 24 * time.Hour, true}, // the clock was ahead, and is right again
		{-12 * 24 * time.Hour, true},  // or it is behind
		{time.Hour, false},
	} {
		now = now.Add(step.pass)
		pair, err := s.get()
		if err != nil {
			t.Fatal(err)
		}
		leaf, err := x509.ParseCertificate(pair.Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		if now.Before(leaf.NotBefore) || now.After(leaf.NotAfter) {
			t.Errorf("at %s it is valid from %s to %s", now, leaf.NotBefore, leaf.NotAfter)
		}
		if anew := leaf.SerialNumber.String() != last; anew != step.anew {
			t.Errorf("after %s: made anew %t, want %t", step.pass, anew, step.anew)
		}
		last = leaf.SerialNumber.String()
	}
}
