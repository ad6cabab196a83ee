package controlplane

import (
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/keys"
	"github.com/holdfast/holdfast/internal/decide/joining"
	"github.com/holdfast/holdfast/internal/decide/upgrade/gate"
	"github.com/holdfast/holdfast/internal/install/release"
	"github.com/holdfast/holdfast/internal/model/payload"
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

// It lives no longer than the site's certificates, of which each agent knows the life from its own disk.
func TestTheConfigurationServersCertificateFollowsTheSitesPeriod(t *testing.T) {
	now := sitetest.Created
	s := &serving{Agent: New(Options{Site: sitetest.New(t, sitetest.OneNone+"certificateValidityPeriod: 10m\n"), Log: quietLog, Now: func() time.Time { return now }})}
	last := ""
	for _, step := range []struct {
		pass time.Duration
		anew bool
	}{
		{0, true},
		{6 * time.Minute, false},
		{time.Minute, true},
		{11 * time.Minute, true},
		{-time.Hour, true}, // the clock was ahead
	} {
		now = now.Add(step.pass)
		pair, err := s.get()
		if err != nil {
			t.Fatal(err)
		}
		if left := pair.Leaf.NotAfter.Sub(now); left <= 0 || left > 10*time.Minute {
			t.Errorf("after %s it lives for %s", step.pass, left)
		}
		if anew := pair.Leaf.SerialNumber.String() != last; anew != step.anew {
			t.Errorf("after %s: made anew %t, want %t", step.pass, anew, step.anew)
		}
		last = pair.Leaf.SerialNumber.String()
	}
}

// A loop that looks too seldom would miss the third that is left of the shortest life.
func TestTheAgentLooksOftenEnoughForTheShortestLife(t *testing.T) {
	shortest := keys.ClientLife(10 * time.Minute)
	if shortest != 10*time.Minute {
		t.Fatalf("the shortest life is %s", shortest)
	}
	for name, every := range map[string]time.Duration{"agent account": identityEvery, "operator certificate": operatorKeyEvery} {
		if every > shortest/20 {
			t.Errorf("%s looks every %s, of a life of %s", name, every, shortest)
		}
	}
}

// The clock was months behind when the certificate was made, and was set since: the host's own counter has
// seen no time pass.
func TestTheConfigurationServersCertificateFollowsAClockThatIsSet(t *testing.T) {
	now := time.Now()
	s := &serving{Agent: New(Options{Site: sitetest.New(t, sitetest.TwoDual), Log: quietLog, Now: func() time.Time { return now }})}
	if _, err := s.get(); err != nil {
		t.Fatal(err)
	}
	ended, err := keys.Serving(s.Site, nil, now.Add(-keys.ServingLifetime-time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	s.ready = &ended
	if pair, err := s.get(); err != nil || now.After(pair.Leaf.NotAfter) {
		t.Errorf("it serves one that ended on %s (%v)", pair.Leaf.NotAfter, err)
	}
}

// A host that joins waits from the switch to another minor release of Kubernetes until this host
// has risen, and no longer.
func TestAHostJoinsWithNoNewerKubeletThanThisHostStarts(t *testing.T) {
	root := t.TempDir()
	older, newer := strings.Repeat("a", 64), strings.Repeat("b", 64)
	lead := func(path, target string) {
		t.Helper()
		at := filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(at); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, at); err != nil {
			t.Fatal(err)
		}
	}
	kubelet := func(target string) { t.Helper(); lead(payload.Kubelet, target) }
	runs := func(name string) { t.Helper(); lead(payload.CurrentRelease, name) }
	about := func(digest string) (gate.Release, error) {
		switch digest {
		case "sha256:" + older:
			return gate.Release{Kubernetes: gate.Version{Major: 1, Minor: 35, Patch: 4}}, nil
		case "sha256:" + newer:
			return gate.Release{Kubernetes: gate.Version{Major: 1, Minor: 36}}, nil
		}
		return gate.Release{}, errors.New("no such release")
	}
	for _, step := range []struct {
		what  string
		do    func()
		waits bool
	}{
		{"no release is in place", func() {}, false},
		{"the site runs the old release", func() { runs(older); kubelet(payload.CurrentRelease + payload.Kubelet) }, false},
		{"its kubelet is held for the switch", func() { kubelet(filepath.Join(payload.ReleasesDir, older, payload.Kubelet)) }, false},
		{"the host runs the new release", func() { runs(newer) }, true},
		{"it goes back", func() { runs(older) }, false},
		{"it runs the new one again", func() { runs(newer) }, true},
		{"it rises", func() { kubelet(payload.CurrentRelease + payload.Kubelet) }, false},
	} {
		step.do()
		given, err := release.Current(root)
		if err != nil {
			t.Fatal(err)
		}
		would, own, err := kubelets(root, given, about)
		if err != nil {
			t.Fatal(err)
		}
		err = joining.Wait(would, own)
		if (err != nil) != step.waits || err != nil && !strings.Contains(err.Error(), "from Kubernetes 1.35 to 1.36") {
			t.Errorf("%s: %v, want a wait: %t", step.what, err, step.waits)
		}
	}
	if New(Options{Site: sitetest.New(t, sitetest.TwoDual), Log: quietLog}).giver().Kubelets == nil {
		t.Error("nothing that gives configurations asks for this")
	}
}
