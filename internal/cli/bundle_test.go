package cli

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/cli/place"
	support "github.com/holdfast/holdfast/internal/report/bundle"
)

// bundleOf runs the command with the given items.
func bundleOf(ctx context.Context, g gathered, args ...string) (out, errs string, err error) {
	var o, e bytes.Buffer
	cmd := newSupportBundleWith(Streams{Out: &o, Err: &e}, &bundleFlags{ //nolint:contextcheck // cobra hands the context to each command
		gather: func(context.Context, *bundleFlags) (gathered, error) { return g, nil },
		now:    func() time.Time { return time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC) },
	})
	cmd.SetArgs(args)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetOut(&o)
	err = cmd.ExecuteContext(ctx)
	return o.String(), e.String(), err
}

func item(name, text string, err error) support.Item {
	return support.Item{Path: name, From: "cp-1", What: "what " + name + " says", Collect: func(context.Context) ([]byte, error) { return []byte(text), err }}
}

func TestABundleIsAFileForItsOwnerAlone(t *testing.T) {
	t.Chdir(t.TempDir())
	out, errs, err := bundleOf(t.Context(), gathered{name: "cp-1", notes: []string{"a note"}, items: []support.Item{item("a", "text", nil), item("b", "", errors.New("broken"))}})
	const want = "holdfast-support-cp-1-20261120T090000Z.tar.gz"
	if err != nil || out != want+"\n" {
		t.Fatalf("%v: %q", err, out)
	}
	info, err := os.Stat(want)
	if err != nil || info.Mode().Perm() != 0o600 || info.Size() == 0 {
		t.Errorf("%v %v", info, err)
	}
	for _, says := range []string{"what a says\n", "what b says: not collected", "note: a note", "1 of 2 items could not be collected"} {
		if !strings.Contains(errs, says) {
			t.Errorf("progress lacks %q:\n%s", says, errs)
		}
	}
}

func TestAnInterruptedBundleLeavesNoFile(t *testing.T) {
	dir := t.TempDir()
	ctx, interrupt := context.WithCancel(t.Context())
	g := gathered{name: "x", items: []support.Item{item("a", strings.Repeat("text", 1<<18), nil), {
		Path: "b", Collect: func(context.Context) ([]byte, error) { interrupt(); return []byte("half"), nil },
	}, item("c", "never", nil)}}
	_, _, err := bundleOf(ctx, g, "-o", filepath.Join(dir, "x.tar.gz"))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestADryRunCollectsNothingAndListsEverything(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	g := gathered{name: "x", notes: []string{"no API"}, items: []support.Item{{
		Path: "a/b", From: "cp-1", What: "things", Collect: func(context.Context) ([]byte, error) { t.Error("collected"); return nil, nil },
	}}}
	out, _, err := bundleOf(t.Context(), g, "--dry-run")
	if err != nil || !strings.Contains(out, "cp-1  a/b  things") || !strings.Contains(out, "note: no API") {
		t.Errorf("%v: %s", err, out)
	}
	if left, _ := filepath.Glob("*"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestAllMistakesOfABundlesCommandLineAreSaidAtOnce(t *testing.T) {
	there := filepath.Join(t.TempDir(), "there")
	if err := os.WriteFile(there, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, err := bundleOf(t.Context(), gathered{}, "-o", there, "--since", "1s", "--lab", "x", "--kubeconfig", "y", "--exec", "ssh")
	if _, usage := errors.AsType[*UsageError](err); !usage {
		t.Fatalf("%v", err)
	}
	for _, want := range []string{"--since", "--lab", "exists already", "--exec"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not said: %v", want, err)
		}
	}
	if text, err := os.ReadFile(there); err != nil || string(text) != "mine" {
		t.Error("an old file was changed")
	}
}

func TestABundleOfNothingIsAnError(t *testing.T) {
	_, _, err := bundleOf(t.Context(), gathered{name: "x", items: []support.Item{item("a", "", errors.New("refused"))}}, "-o", filepath.Join(t.TempDir(), "x"))
	if err == nil || !strings.Contains(err.Error(), "nothing could be collected") {
		t.Errorf("%v", err)
	}
}

func TestWithoutAPIOrHostABundleSaysWhatToGive(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	f := &bundleFlags{since: time.Hour, place: place.Flags{Exec: place.DefaultExec}}
	_, err := gatherBundle(t.Context(), f)
	if err == nil || !strings.Contains(err.Error(), "--hosts") {
		t.Errorf("%v", err)
	}
	f.place.Hosts = []string{"cp-1", "cp-2"}
	g, err := gatherBundle(t.Context(), f)
	if err != nil || len(g.hosts) != 2 || len(g.items) < 120 || len(g.notes) == 0 {
		t.Errorf("%v: %d hosts, %d things, %q", err, len(g.hosts), len(g.items), g.notes)
	}
}
