package labcli

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/lab"
)

func TestALabThatCannotBeMovedIsAMistakeOfTheLine(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: without it the commands say only that")
	}
	root := t.TempDir()
	t.Setenv("HOLDFAST_LABS", root)
	data, err := json.Marshal(lab.Options{Spec: lab.Spec{Name: defaultLab, ControlPlanes: 2, Workers: 1, FarWorkers: 1}})
	dir := filepath.Join(root, defaultLab)
	if err := errors.Join(err, os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, "lab.json"), data, 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"move", "move --live", "install-config --moved --out -"} {
		code, out, errs := runLine(t, strings.Fields(line)...)
		if code != command.ExitUsage || out != "" || !strings.Contains(errs, "move: 1 far workers: a lab with a second machine network stays where it is") {
			t.Errorf("%s: exit %d, %q, %q", line, code, out, errs)
		}
	}
	if after, err := os.ReadFile(filepath.Join(dir, "lab.json")); err != nil || string(after) != string(data) {
		t.Errorf("the lab has changed: %s (%v)", after, err)
	}
}

func TestAMoveTellsWhichHostsDoNotKnowOfIt(t *testing.T) {
	spec, err := lab.Spec{Name: "edge", ControlPlanes: 2, Families: []lab.Family{lab.V4, lab.V6}}.WithDefaults().In(true)
	if err != nil {
		t.Fatal(err)
	}
	b, err := lab.New("/labs", lab.Options{Spec: spec})
	if err != nil {
		t.Fatal(err)
	}
	where := "lab edge is in 10.77.0.0/24 fd77::/64\n  gateway and DNS  10.77.0.1 fd77::1\n  API              10.77.0.5 fd77::5\n  ingress          10.77.0.6 fd77::6\n"
	var status strings.Builder
	if err := printRest(&status, lab.Status{Networks: b.Layout.MachineNetworks()}); err != nil || !strings.Contains(status.String(), "\nmachine network: 10.77.0.0/24 fd77::/64\n") {
		t.Errorf("the status says %s (%v)", status.String(), err)
	}
	runs := b.Layout.Hosts[:1]
	for got, want := range map[string]string{
		movedText(b, nil, false, "holdfast-lab"): where,
		movedText(b, runs, true, "holdfast-lab"): where + "cp-1 runs, and has 10.77.0.11/24 fd77::11/64\n",
		movedText(b, runs, false, "holdfast-lab"): where + "cp-1 runs, and keeps its addresses until it is switched off and on\n" +
			"to give them their new addresses at once: holdfast lab move --name edge --live\n",
	} {
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
	back, err := spec.In(false)
	if err != nil {
		t.Fatal(err)
	}
	if b, err = lab.New("/labs", lab.Options{Spec: back}); err != nil {
		t.Fatal(err)
	}
	if got := movedText(b, runs, false, "holdfast-lab"); !strings.HasSuffix(got, ": holdfast lab move --name edge --back --live\n") || strings.Contains(got, "10.77") {
		t.Errorf("back: %s", got)
	}
}
