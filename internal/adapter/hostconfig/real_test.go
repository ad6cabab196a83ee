package hostconfig

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/adapter/host"
)

// TestTheRealSystemctlDoesWhatTheFakeDoes plays the same configurations with the
// machine's own systemctl, which works on the folder.
func TestTheRealSystemctlDoesWhatTheFakeDoes(t *testing.T) {
	if _, err := exec.LookPath("systemctl"); err != nil {
		t.Skipf("NOT TESTED: %v", err)
	}
	m := newMachine(t)
	const vendor = "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n"
	m.put(t, "/usr/lib/systemd/system/vendor.service", vendor, 0o644)
	m.put(t, "/usr/lib/systemd/system/old.service", vendor, 0o644)
	systemctl := func(args ...string) (string, error) {
		out, err := host.Run(t.Context(), host.Command("systemctl", append([]string{"--root=" + m.root}, args...)...))
		return strings.TrimSpace(string(out)), err
	}
	if _, err := systemctl("enable", "old.service"); err != nil {
		t.Fatal(err)
	}
	words := func() string {
		var out []string
		for _, u := range []string{"new.service", "old.service", "vendor.service"} {
			word, _ := systemctl("is-enabled", u) // the exit code repeats the word
			if word == "" {
				word = "not-found" // systemd before 253 says that as an error
			}
			out = append(out, word)
		}
		links, err := filepath.Glob(filepath.Join(m.root, "/etc/systemd/system/*.wants/*"))
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(out, len(links))
	}
	before := m.look(t)
	for _, step := range []struct {
		name string
		spec *spec
		want string
	}{
		{"rendered-worker-1", first(), "[enabled disabled masked] 1"},
		{"rendered-worker-2", second(), "[static enabled enabled] 2"},
		{"rendered-worker-1", first(), "[enabled disabled masked] 1"},
		{"", nil, "[not-found enabled disabled] 1"},
	} {
		m.has(t, step.name, step.spec)
		w := m.writer()
		fake := w.Files.Run
		w.Files.Run = func(ctx context.Context, c host.Cmd) ([]byte, error) {
			if c.Name == "systemctl" {
				return host.Run(ctx, c)
			}
			return fake(ctx, c)
		}
		if _, err := w.Write(t.Context()); err != nil {
			t.Fatalf("%q: %v", step.name, err)
		}
		if got := words(); got != step.want {
			t.Errorf("%q: %s, want %s", step.name, got, step.want)
		}
		if cfg, err := w.Store.Config(step.name); err != nil {
			t.Error(err)
		} else if left, err := w.Differences(t.Context(), cfg); err != nil || len(left) > 0 {
			t.Errorf("%q: %q, %v", step.name, left, err)
		}
	}
	if diff := cmp.Diff(before, m.look(t)); diff != "" {
		t.Error(diff)
	}
}
