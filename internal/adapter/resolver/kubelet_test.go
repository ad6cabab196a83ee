package resolver

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/render/resolvconf"
)

// kubeletWaits runs the line of kubelet's unit as systemd would, below root and
// with fewer attempts.
func kubeletWaits(t *testing.T, root string) *exec.Cmd {
	t.Helper()
	line := strings.NewReplacer("$$", "$", "/var/lib/", root+"/", "/run/", root+"/", "-gt 100", "-gt 3").Replace(resolvconf.KubeletWait)
	line = strings.TrimSuffix(strings.TrimPrefix(line, "ExecStartPre=-/bin/sh -c '"), "'\n")
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", line)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

func touch(t *testing.T, root, path string) {
	t.Helper()
	at := filepath.Join(root, strings.TrimPrefix(strings.TrimPrefix(path, "/var/lib"), "/run"))
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at, nil, 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestKubeletWaitsForTheResolverButNeverForEver(t *testing.T) {
	const turn = 200 * time.Millisecond
	const waits = 3 * turn // on a busy machine a program that does not wait needs more than a turn
	took := func(cmd *exec.Cmd, start time.Time) time.Duration {
		t.Helper()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
		return time.Since(start)
	}
	root, start := t.TempDir(), time.Now()
	if d := took(kubeletWaits(t, root), start); d >= waits {
		t.Errorf("a host whose resolver was never ours waited %s", d)
	}
	touch(t, root, resolvconf.ManagedPath)
	start = time.Now()
	if d := took(kubeletWaits(t, root), start); d < waits {
		t.Errorf("without an agent it waited only %s", d)
	}
	start = time.Now()
	if d := took(kubeletWaits(t, root), start); d >= waits {
		t.Errorf("it waited again in the same boot, %s", d)
	}
}

func TestKubeletStartsOnceTheResolverIsReady(t *testing.T) {
	root := t.TempDir()
	touch(t, root, resolvconf.ManagedPath)
	cmd := kubeletWaits(t, root)
	touch(t, root, resolvconf.ReadyPath)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if host.Exists(filepath.Join(root, "holdfast/resolver/waited")) {
		t.Error("it waited in vain")
	}
}
