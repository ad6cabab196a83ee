package keeper

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/podman"
	"github.com/holdfast/holdfast/internal/model/state"
)

// podOf is a manifest of etcd with an image of one letter.
func podOf(t *testing.T, image string) string {
	t.Helper()
	text, err := os.ReadFile("../render/etcdmanifest/testdata/pod-ipv4.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for line := range strings.Lines(string(text)) {
		if before, _, ok := strings.Cut(line, "image: "); ok {
			line = before + "image: " + image + "\n"
		}
		out.WriteString(line)
	}
	return out.String()
}

// TestAManifestIsReadAgainOnceItsTimeOrItsSizeChanged: a look happens every second,
// and a manifest changes now and then.
func TestAManifestIsReadAgainOnceItsTimeOrItsSizeChanged(t *testing.T) {
	p := etcdProcess(t)
	p.parameters = state.EtcdParameters{PodManifest: filepath.Join(t.TempDir(), "pod.yaml"), OOM: -5}
	at := time.Now().Add(-time.Hour)
	for _, c := range []struct {
		what, image, want string
		at                time.Time
	}{
		{"it was never read", "a", "a", at},
		{"same time, same size: what was read counts", "b", "a", at},
		{"another time", "c", "c", at.Add(time.Second)},
		{"an earlier time", "d", "d", at},
		{"another size", "dd", "dd", at},
	} {
		keep(t, p.parameters.PodManifest, podOf(t, c.image))
		if err := os.Chtimes(p.parameters.PodManifest, c.at, c.at); err != nil {
			t.Fatal(err)
		}
		spec, err := p.wanted()
		if err != nil || spec.Image != c.want {
			t.Errorf("%s: %q, %v", c.what, spec.Image, err)
		}
	}
	keep(t, p.parameters.PodManifest, "no manifest")
	if _, err := p.wanted(); err == nil {
		t.Error("a manifest that cannot be read is none")
	}
	if err := os.Chtimes(p.parameters.PodManifest, at, at); err != nil {
		t.Fatal(err)
	}
	keep(t, p.parameters.PodManifest, podOf(t, "e"))
	if spec, err := p.wanted(); err != nil || spec.Image != "e" {
		t.Errorf("after one that could not be read: %q, %v", spec.Image, err)
	}
	if err := os.Remove(p.parameters.PodManifest); err != nil {
		t.Fatal(err)
	}
	if _, err := p.wanted(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a manifest: %v", err)
	}
	if is, err := p.Outdated(); is || err != nil {
		t.Errorf("the running etcd is left alone: %t, %v", is, err)
	}
}

// TestKubeletsEtcdIsNeitherStartedNorStopped: until the hand-over only kubelet does.
func TestKubeletsEtcdIsNeitherStartedNorStopped(t *testing.T) {
	p := etcdProcess(t)
	var did []string
	p.stop = func(context.Context, time.Duration) error { did = append(did, "stop"); return nil }
	if err := p.files.WriteWish(state.EtcdWishNote{Wish: state.EtcdStopped, Boot: "boot-2"}); err != nil {
		t.Fatal(err)
	}
	keep(t, p.files.Path(StaticPodPath), "")
	for what, do := range map[string]func(context.Context) error{"start": p.Start, "stop": p.Stop, "restart": p.Restart} {
		if err := do(t.Context()); err == nil || !strings.Contains(err.Error(), "kubelet runs") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if len(did) > 0 {
		t.Errorf("did %v", did)
	}
	if err := os.Remove(p.files.Path(StaticPodPath)); err != nil {
		t.Fatal(err)
	}
	if err := p.Stop(t.Context()); err != nil || len(did) != 1 {
		t.Errorf("after the hand-over: %v, did %v", err, did)
	}
	if err := p.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "was stopped by Pacemaker while the etcd keeper did not answer") {
		t.Errorf("Pacemaker stopped it without the keeper: %v", err)
	}
}

func TestAnEndThatFailsIsToldAndTheLockIsNotAskedFor(t *testing.T) {
	p := etcdProcess(t)
	p.locked = func(string) (bool, error) { t.Error("it was asked"); return false, nil }
	failed := errors.New("no such container")
	p.stop, p.kill = func(context.Context, time.Duration) error { return failed }, func(context.Context) error { return failed }
	for what, end := range map[string]func(context.Context) error{"stop": p.Stop, "kill": p.Kill} {
		if err := end(t.Context()); !errors.Is(err, failed) {
			t.Errorf("%s: %v", what, err)
		}
	}
	p.stop = func(context.Context, time.Duration) error { return nil }
	p.locked = func(string) (bool, error) { return false, errors.New("the disk hangs") }
	if err := p.Stop(t.Context()); err == nil || err.Error() != "the disk hangs" {
		t.Errorf("nobody knows whether its data are free: %v", err)
	}
}

func TestAStartedEtcdIsAwaitedUntilItHoldsItsData(t *testing.T) {
	runs := func(context.Context) (podman.Process, error) { return podman.Process{Running: true, PID: 7}, nil }
	for what, c := range map[string]struct {
		started error
		locked  func(string) (bool, error)
		look    func(context.Context) (podman.Process, error)
		want    string // of the error, none where it is empty
	}{
		"it holds them":            {nil, func(string) (bool, error) { return true, nil }, runs, ""},
		"it ended":                 {nil, func(string) (bool, error) { return false, nil }, func(context.Context) (podman.Process, error) { return podman.Process{}, nil }, "etcd ended as soon as it was started"},
		"its lock cannot be asked": {nil, func(string) (bool, error) { return false, errors.New("the disk hangs") }, runs, "the disk hangs"},
		"it was not started":       {errors.New("no image"), func(string) (bool, error) { return true, nil }, runs, "no image"},
	} {
		p, killed := etcdProcess(t), false
		p.locked, p.look = c.locked, c.look
		p.kill = func(context.Context) error { killed = true; return nil }
		err := p.await(t.Context(), c.started)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) || killed != (err != nil) {
			t.Errorf("%s: %v, killed %t", what, err, killed)
		}
	}
}

// TestALogThatLostItsEndGetsNoVote: a stand-in asks for the furthest position that was
// seen of its own cluster.
func TestALogThatLostItsEndGetsNoVote(t *testing.T) {
	var s standIn
	for _, c := range []struct {
		cluster state.MemberID
		seen    uint64
		want    uint64
	}{{1, 5, 5}, {1, 9, 9}, {1, 7, 9}, {2, 3, 3}, {2, 4, 4}, {1, 1, 1}} {
		s.reached(c.cluster, c.seen)
		if s.cluster != c.cluster || s.index != c.want {
			t.Errorf("at %d of cluster %d: %+v", c.seen, c.cluster, s)
		}
	}
}

func TestAStandInThatRefusesIsNotStartedAgainAtOnce(t *testing.T) {
	s := standIn{tried: time.Now()}
	if err := s.Start(t.Context(), 2, state.EtcdRecord{}); err != nil {
		t.Errorf("it is left alone for a while: %v", err)
	}
}

func TestAFolderThatCannotBeWatchedIsToldWithItsReason(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	keep(t, file, "")
	err := watchFiles(t.Context(), func() {}, filepath.Join(file, "below"))
	if err == nil || !strings.HasPrefix(err.Error(), "watch evidence: ") {
		t.Errorf("%v", err)
	}
}

func TestWhatAppearsInAnyFolderWakes(t *testing.T) {
	dirs := []string{filepath.Join(t.TempDir(), "new", "one"), t.TempDir()}
	ctx, stop := context.WithCancel(t.Context())
	woken, ended := make(chan struct{}, 64), make(chan error, 1)
	go func() { ended <- watchFiles(ctx, func() { woken <- struct{}{} }, dirs...) }()
	for _, dir := range dirs {
		for seen := false; !seen; { // until the watch has begun
			keep(t, filepath.Join(dir, "evidence.json"), time.Now().String())
			select {
			case <-woken:
				seen = true
			case <-time.After(20 * time.Millisecond):
			}
		}
		for len(woken) > 0 {
			<-woken
		}
	}
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
