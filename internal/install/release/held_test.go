package release

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/model/payload"
)

// minors builds two releases with different kubelets.
func minors(t *testing.T) (old, next *Store) {
	t.Helper()
	made := func(binary, component string) *Store {
		opts := testOptions(t)
		image := testImages[2]
		image.Files = append(slices.Clone(image.Files), payload.ImageFile{Component: component, Binary: binary, Path: payload.Kubelet})
		opts.Images = []payload.ImageSpec{testImages[0], testImages[1], image}
		return open(t, build(t, opts).Output)
	}
	return made("one", "beta"), made("alphad", "alpha")
}

// pair names the release of the programs that a host starts, and that of its kubelet, as
// the links lead there.
func pair(t *testing.T, root string, stores map[string]*Store) string {
	t.Helper()
	current, err := Current(root)
	check(t, err)
	kubelet, err := Kubelet(root)
	check(t, err)
	target, err := os.Readlink(filepath.Join(root, payload.Kubelet))
	check(t, err)
	digest, _, err := digestFile(filepath.Join(root, target))
	check(t, err)
	var names [2]string
	for name, s := range stores {
		if s.manifest.Digest == current {
			names[0] = name
		}
		if s.manifest.Digest == kubelet && s.brings()[payload.Kubelet] == digest {
			names[1] = name
		}
	}
	return names[0] + "+" + names[1]
}

// TestKubeletStaysThatOfTheOldReleaseUntilTheHostIsRaised plays the way, both of its ends,
// and each of them cut anywhere: a host never has the kubelet of the new release beside
// programs of the old one.
func TestKubeletStaysThatOfTheOldReleaseUntilTheHostIsRaised(t *testing.T) {
	old, next := minors(t)
	stores := map[string]*Store{"old": old, "new": next}
	before := func(root string) {
		mustPlace(t, root, old, next)
		check(t, Switch(root, old.manifest.Digest))
	}
	onTheWay := func(root string) {
		before(root)
		check(t, SwitchHolding(root, next.manifest.Digest, old.manifest.Digest))
	}
	for what, c := range map[string]struct {
		start func(string)
		to    *Store
		held  string
		seen  []string
	}{
		"the way":    {before, next, old.manifest.Digest, []string{"old+old", "new+old"}},
		"the return": {onTheWay, old, "", []string{"new+old", "old+old"}},
		"the raise":  {onTheWay, next, "", []string{"new+old", "new+new"}},
	} {
		act := func(d disk) error { return d.switchTo(c.to.manifest.Digest, c.held) }
		at := map[string]bool{}
		cutEverywhere(t, 2, again(t, c.start), act, func(root string) {
			got := pair(t, root, stores)
			at[got] = true
			if !slices.Contains(c.seen, got) {
				t.Errorf("%s: cut, the host has %s", what, got)
			}
			check(t, act(on(root)))
			if got, want := pair(t, root, stores), c.seen[1]; got != want {
				t.Errorf("%s: at the end the host has %s, want %s", what, got, want)
			}
			clean(t, root)
		})
		if len(at) != 2 {
			t.Errorf("%s: the cuts saw only %v", what, at)
		}
	}
}

func TestAHostThatHoldsNothingHasItsLinksThroughTheCurrentRelease(t *testing.T) {
	old, next := minors(t)
	root := t.TempDir()
	mustPlace(t, root, old, next)
	link := filepath.Join(root, payload.Kubelet)
	for _, do := range []func() error{
		func() error { return Switch(root, old.manifest.Digest) },
		func() error { return Switch(root, next.manifest.Digest) },
		func() error { return SwitchHolding(root, old.manifest.Digest, next.manifest.Digest) },
		func() error { return Switch(root, old.manifest.Digest) },
	} {
		check(t, do())
		target, err := os.Readlink(link)
		check(t, err)
		now, err := Current(root)
		check(t, err)
		kubelet, err := Kubelet(root)
		check(t, err)
		if holds := target != payload.CurrentRelease+payload.Kubelet; holds != (kubelet != now) {
			t.Errorf("it leads to %s, with %s and the kubelet of %s", target, now, kubelet)
		}
	}
	if kubelet, err := Kubelet(t.TempDir()); err != nil || kubelet != "" {
		t.Errorf("a host without releases: %q %v", kubelet, err)
	}
}

func TestAKubeletThatIsHeldIsKnownAndItsReleaseStays(t *testing.T) {
	old, next := minors(t)
	third, root := thirdStore(t), t.TempDir()
	mustPlace(t, root, old, next, third)
	check(t, Switch(root, old.manifest.Digest))
	if err := SwitchHolding(root, next.manifest.Digest, third.manifest.Digest); err == nil || !strings.Contains(err.Error(), "it has no /usr/local/bin/kubelet") {
		t.Errorf("a release without a kubelet is held: %v", err)
	}
	if now, err := Current(root); err != nil || now != old.manifest.Digest {
		t.Errorf("it switched all the same: %s %v", now, err)
	}
	check(t, SwitchHolding(root, next.manifest.Digest, old.manifest.Digest))
	if got, err := Changed(root, next.manifest.Digest); err != nil || len(got) != 0 {
		t.Errorf("changed: %v %v", got, err)
	}
	check(t, os.Remove(on(root).at(previousLink)))
	if err := idle(t, root).remove(old.manifest.Digest); err == nil || !strings.Contains(err.Error(), "starts its kubelet") {
		t.Errorf("its release goes: %v", err)
	}
	path := filepath.Join(on(root).at(old.name()), payload.Kubelet)
	check(t, os.Remove(path))
	write(t, path, "mine")
	if got, err := Changed(root, next.manifest.Digest); err != nil || !slices.Equal(got, []string{payload.Kubelet}) {
		t.Errorf("a kubelet that somebody changed: %v %v", got, err)
	}
}
