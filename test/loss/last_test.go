package loss_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
)

// TestTheLastOfThreeControlPlanesGivesWhatItHas burns two of three control planes right after a write
// that no backup has. The last one serves nobody any more. A person takes a backup of its stopped etcd,
// and the site that is restored from it has that write.
func TestTheLastOfThreeControlPlanesGivesWhatItHas(t *testing.T) {
	s := up(t, 3)
	last, dir := s.ControlPlanes()[0], t.TempDir()
	s.create(secretOf("till", "before"))
	s.create(secretOf("late", "after"))
	for _, h := range s.ControlPlanes()[1:] {
		s.burns(h)
	}
	const command = "holdfast-agent backup --stopped-etcd"
	if out, err := s.Sh(t.Context(), last, command); host.ExitCode(err) != 7 {
		t.Fatalf("while etcd runs: %s, %v", out, err)
	}
	s.on(last, "echo /etc/kubernetes/manifests/etcd.yaml >> /etc/holdfast/leave-deleted")
	s.on(last, "mv /etc/kubernetes/manifests/etcd.yaml /root/etcd.yaml")
	// A person types no faster: by then the agent would have put the manifest back.
	if err := host.Sleep(t.Context(), 15*time.Second); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	s.eventually(2*time.Minute, "a backup of the stopped etcd", func() error {
		out, err := s.Sh(t.Context(), last, command)
		if err == nil {
			t.Logf("after %.0f s: %s", time.Since(began).Seconds(), out)
		}
		return err
	})
	file := s.fetches(last, dir)
	if err := s.Down(t.Context()); err != nil {
		t.Fatal(err)
	}

	again := filepath.Join(dir, "site")
	if _, err := host.Run(t.Context(), host.Command(*program, "restore", "--from", file, "--dir", again)); err != nil {
		t.Fatal(err)
	}
	r := up(t, 3, "--restored="+again)
	r.eventually(wholeWithin, "the site is whole", func() error { return r.Whole(t.Context()) })
	r.has("till", "before")
	r.has("late", "after")
}
