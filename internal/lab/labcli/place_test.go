package labcli

import (
	"slices"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/lab"
)

func TestThePlaceOfALabSaysHowEachHostIsReached(t *testing.T) {
	b, err := lab.New("/labs", lab.Options{Spec: lab.Spec{Name: "edge", ControlPlanes: 2, Workers: 1}})
	if err != nil {
		t.Fatal(err)
	}
	st := lab.DaemonStatus{Hosts: []lab.HostStatus{{Name: "cp-1", PID: 17}, {Name: "cp-2"}, {Name: "worker-1", PID: 18}}}
	p := placeFrom(b, st, "/bin/holdfast-lab")
	if p.Name != "edge" || p.Log != b.LogPath() || len(p.Hosts) != 3 {
		t.Fatalf("place %+v", p)
	}
	for i, want := range []struct {
		name, root   string
		controlPlane bool
	}{{"cp-1", "/proc/17/root", true}, {"cp-2", "", true}, {"worker-1", "/proc/18/root", false}} {
		if h := p.Hosts[i]; h.Name != want.name || h.Root != want.root || h.ControlPlane != want.controlPlane {
			t.Errorf("host %d: %+v, want %+v", i, h, want)
		}
	}
	for got, want := range map[string][]string{
		"exec --name edge cp-2 --":         p.Hosts[1].Exec,
		"exec --name edge --enter cp-2 --": p.Hosts[1].Enter,
	} {
		if !slices.Equal(append([]string{"/bin/holdfast-lab"}, strings.Fields(got)...), want) {
			t.Errorf("words %q, want %q", want, got)
		}
	}
	var out strings.Builder
	if err := printPlace(&out, p); err != nil || !strings.Contains(out.String(), "cp-2      - (it is off)") {
		t.Errorf("text %q, %v", out.String(), err)
	}
}

// The running binary starts the daemon, so the line that starts it must be a
// command line of this program.
func TestTheDaemonIsStartedByACommandLineOfThisProgram(t *testing.T) {
	b, err := lab.New(t.TempDir(), lab.Options{Spec: lab.Spec{Name: "edge", ControlPlanes: 1}})
	if err != nil {
		t.Fatal(err)
	}
	start := lab.SelfLauncher(b)
	if start.Name != "/proc/self/exe" {
		t.Errorf("started is %s", start.Name)
	}
	t.Setenv("HOLDFAST_LABS", t.TempDir())
	code, _, errs := runLine(t, start.Args...)
	if code != 1 || !strings.Contains(errs, "no such lab: edge") {
		t.Errorf("%v: exit code %d, %s", start.Args, code, errs)
	}
}

func TestLinesToTypeNextNameTheProgramThatHandsOver(t *testing.T) {
	b, err := lab.New(t.TempDir(), lab.Options{Spec: lab.Spec{Name: "edge", ControlPlanes: 1}})
	if err != nil {
		t.Fatal(err)
	}
	for called, want := range map[string]string{
		"_output/bin/holdfast-lab": "_output/bin/holdfast lab status --name edge",
		"holdfast-lab":             "holdfast lab status --name edge",
	} {
		if got := labLine(called, b, "status"); got != want {
			t.Errorf("called as %s: %q, want %q", called, got, want)
		}
	}
}
