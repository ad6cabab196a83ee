package host

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/model/state"
)

// systemd has systemctl be a script that loads the file of a unit as systemd does, and fails at it
// while there is a file of the name returned. ran has what each start ran.
func systemd(t *testing.T, unit string) (fails, ran string) {
	t.Helper()
	dir := t.TempDir()
	const script = `#!/bin/sh
case "$1" in
daemon-reload) [ ! -e "$DIR/fails" ] || { rm "$DIR/fails"; exit 1; }; cp "$UNIT" "$DIR/loaded"; echo reload >>"$DIR/ran" ;;
show) if [ "$2" = --property=UnitFileState ]; then [ ! -e "$DIR/enabled" ] || echo enabled; elif [ ! -e "$DIR/loaded" ] || cmp -s "$UNIT" "$DIR/loaded"; then echo no; else echo yes; fi ;;
start) cat "$DIR/loaded" >>"$DIR/ran" ;;
enable) echo enable >>"$DIR/ran"; touch "$DIR/enabled" ;;
esac
`
	if err := os.WriteFile(filepath.Join(dir, "systemctl"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":/usr/bin:/bin")
	t.Setenv("DIR", dir)
	t.Setenv("UNIT", unit)
	return filepath.Join(dir, "fails"), filepath.Join(dir, "ran")
}

// systemd ran the former file of a unit whose new one it had failed to read once.
func TestAUnitStartsByItsPresentFileAlsoAfterAReloadThatFailed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.service")
	fails, ran := systemd(t, path)
	start := func(text string) error {
		return StartUnit(t.Context(), "x.service", state.File{Path: path, Data: []byte(text + "\n"), Mode: state.DefaultFileMode})
	}
	if err := start("first"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(fails, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := start("second"); err == nil || !strings.Contains(err.Error(), "daemon-reload") {
		t.Errorf("the reload failed: %v", err)
	}
	for range 2 {
		if err := start("second"); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(ran)
	if want := "reload\nfirst\nreload\nsecond\nsecond\n"; err != nil || string(got) != want {
		t.Errorf("%v, systemd did %q, want %q", err, got, want)
	}
}

// Each start of an agent enables a unit: only the first one has something to do, also if systemd failed
// in between.
func TestAUnitIsEnabledOnceAndItsFilesAreReadAnew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.service")
	fails, ran := systemd(t, path)
	enable := func(text string) error {
		return EnableUnit(t.Context(), "x.service", []state.File{{Path: path, Data: []byte(text + "\n"), Mode: state.DefaultFileMode}})
	}
	if err := os.WriteFile(fails, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := enable("first"); err == nil || !strings.Contains(err.Error(), "daemon-reload") {
		t.Errorf("got %v", err)
	}
	for _, text := range []string{"first", "first", "second", "second"} {
		if err := enable(text); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(ran)
	if want := "enable\nreload\n"; err != nil || string(got) != want {
		t.Errorf("%v, systemd did %q, want %q", err, got, want)
	}
}
