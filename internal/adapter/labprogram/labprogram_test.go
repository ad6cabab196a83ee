package labprogram

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/cli/command"
)

// pretended returns a holdfast-lab that runs this script.
func pretended(t *testing.T, script string) Program {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, Name), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	p, err := in(dir)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestAProgramThatIsNotThereIsNamedWithTheWayToGetIt(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, Name)
	_, err := in(dir)
	if err == nil || !strings.Contains(err.Error(), path+" does not exist: build it with 'make build'") {
		t.Errorf("missing: %v", err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := in(dir); err == nil || !strings.Contains(err.Error(), path+" is not an executable file") {
		t.Errorf("not executable: %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := in(dir); err == nil || !strings.Contains(err.Error(), path+" is not an executable file") {
		t.Errorf("a folder: %v", err)
	}
}

func TestAPlaceIsWhatTheLabSays(t *testing.T) {
	p := pretended(t, `echo "$*" >&2; [ "$*" = "place --name edge --output json" ] && echo '{"name": "edge", "kubeconfig": "/k", "hosts": [{"name": "cp-1", "controlPlane": true, "root": "/r", "exec": ["x", "cp-1"]}]}'`)
	got, err := p.Place(t.Context(), "edge")
	if err != nil {
		t.Fatal(err)
	}
	if path, err := got.APIAccess(); path != "/k" || err != nil {
		t.Errorf("kubeconfig %q, %v", path, err)
	}
	if len(got.Hosts) != 1 || !got.Hosts[0].ControlPlane || got.Hosts[0].Root != "/r" || !slices.Equal(got.Hosts[0].Exec, []string{"x", "cp-1"}) {
		t.Errorf("hosts %+v", got.Hosts)
	}
}

func TestALabWithoutAClusterSaysWhyThereIsNoKubeconfig(t *testing.T) {
	p := pretended(t, `echo '{"name": "edge", "noKubeconfig": "lab edge has no cluster", "hosts": []}'`)
	got, err := p.Place(t.Context(), "edge")
	if err != nil {
		t.Fatal(err)
	}
	if path, err := got.APIAccess(); path != "" || err == nil || err.Error() != "lab edge has no cluster" {
		t.Errorf("kubeconfig %q, %v", path, err)
	}
}

func TestWhatTheLabRefusesIsToldAsItsOwnWordsWithItsExitCode(t *testing.T) {
	_, err := pretended(t, `echo 'holdfast-lab: no such lab: edge' >&2; exit 2`).Place(t.Context(), "edge")
	if err == nil || err.Error() != "no such lab: edge" || command.ExitCode(err) != command.ExitUsage {
		t.Errorf("exit code %d: %v", command.ExitCode(err), err)
	}
	_, err = pretended(t, `exit 3`).Place(t.Context(), "edge")
	if err == nil || !strings.Contains(err.Error(), "place --name edge --output json: exit status 3") {
		t.Errorf("one that says nothing: %v", err)
	}
	_, err = pretended(t, `echo lab edge is up`).Place(t.Context(), "edge")
	if err == nil || !strings.Contains(err.Error(), "is of another build than this program (run 'make build')") {
		t.Errorf("one of another build: %v", err)
	}
}

func TestWordsAreCompletedByTheLab(t *testing.T) {
	p := pretended(t, `[ "$*" = "__complete fault drop " ] && printf 'cp-1\tfirst\ncp-2\n:4\n' && echo 'Completion ended' >&2`)
	list, directive, err := p.Complete(t.Context(), "fault", "drop", "")
	if err != nil || directive != 4 || !slices.Equal(list, []string{"cp-1\tfirst", "cp-2"}) {
		t.Errorf("%q, directive %d, %v", list, directive, err)
	}
	if _, _, err := pretended(t, `echo cp-1`).Complete(t.Context(), ""); err == nil || !strings.Contains(err.Error(), `its last line is "cp-1"`) {
		t.Errorf("without a directive: %v", err)
	}
}
