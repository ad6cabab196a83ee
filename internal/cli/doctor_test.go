package cli

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/cli/place"
	decide "github.com/holdfast/holdfast/internal/decide/doctor"
	"github.com/holdfast/holdfast/internal/decide/finding"
	"github.com/holdfast/holdfast/internal/decide/hostreport"
	"github.com/holdfast/holdfast/internal/model/state"
)

// doctorOn runs doctor on recorded facts.
func doctorOn(t *testing.T, facts decide.Facts, args ...string) (int, string, string) {
	t.Helper()
	text, err := json.Marshal(map[string]any{"facts": facts})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "facts.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return runLine(t, append([]string{"doctor", "--facts", path}, args...)...)
}

// swapping returns the facts of a single host with that much swap. Nothing else
// is known of it.
func swapping(swap state.Fact[uint64]) decide.Facts {
	return decide.Facts{
		At: time.Date(2026, 11, 20, 3, 0, 0, 0, time.UTC), Topology: decide.Topology{ControlPlanes: 1},
		Hosts: []decide.Host{{Name: "cp-1", Source: decide.Asked, Swap: swap, Certificates: state.Known([]decide.Certificate{{Path: "x.crt"}})}},
	}
}

func TestTheExitCodeOfDoctorIsThatOfTheWorst(t *testing.T) {
	for _, c := range []struct {
		name   string
		swap   state.Fact[uint64]
		checks []string
		want   int
	}{
		{"nothing", state.Known[uint64](0), []string{"swap"}, 0},
		{"a warning", state.Known[uint64](1 << 30), []string{"swap"}, command.ExitAttention},
		{"not seen", state.Fact[uint64]{}, []string{"swap"}, command.ExitUnknown},
		{"a warning, and something not seen", state.Known[uint64](1 << 30), []string{"swap", "clock-sync"}, command.ExitAttention},
		{"critical", state.Known[uint64](1 << 30), nil, command.ExitPerson},
		{"a check that is not for one host", state.Known[uint64](1 << 30), []string{"ring-links"}, 0},
	} {
		if code, out, errs := doctorOn(t, swapping(c.swap), c.checks...); code != c.want || errs != "" {
			t.Errorf("%s: exit code %d, want %d: %s%s", c.name, code, c.want, out, errs)
		}
	}
}

func TestDoctorPrintsForPersonsAndPrograms(t *testing.T) {
	facts := swapping(state.Known[uint64](1 << 30))
	_, text, _ := doctorOn(t, facts, "swap")
	if !strings.Contains(text, "WARNING swap") || !strings.Contains(text, "$ swapoff -a") || strings.Contains(text, "\x1b") || strings.Contains(text, "why:") {
		t.Errorf("%s", text)
	}
	if _, wide, _ := doctorOn(t, facts, "swap", "-o", "wide"); !strings.Contains(wide, "why: If memory of etcd") {
		t.Errorf("%s", wide)
	}
	for format, read := range map[string]func([]byte, any) error{"json": json.Unmarshal, "yaml": func(b []byte, v any) error { return yaml.Unmarshal(b, v) }} {
		var got doctorOutput
		_, text, _ := doctorOn(t, facts, "swap", "-o", format)
		if err := read([]byte(text), &got); err != nil || got.Verdict != finding.Warning || len(got.Checks) != 1 || got.Facts.Hosts[0].Swap.Value != 1<<30 {
			t.Errorf("%s: %v\n%s", format, err, text)
		}
	}
}

func TestWhatDoctorPrintsAsJSONIsJudgedAgainTheSame(t *testing.T) {
	facts := swapping(state.Known[uint64](1 << 30))
	_, text, _ := doctorOn(t, facts, "-o", "json")
	path := filepath.Join(t.TempDir(), "again.json")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, again, _ := runLine(t, "doctor", "--facts", path, "-o", "json"); code != command.ExitPerson || again != text {
		t.Errorf("%d\n%s\n%s", code, text, again)
	}
}

func TestAWrongLineOfDoctorNamesAllMistakes(t *testing.T) {
	code, _, errs := runLine(t, "doctor", "no-such", "--explain", "nor-this", "--list", "--exec", "ssh root")
	if code != ExitUsage {
		t.Errorf("exit code %d", code)
	}
	for _, want := range []string{`check "no-such"`, `check "nor-this"`, "--list, --explain: one of them", "--exec: {}"} {
		if !strings.Contains(errs, want) {
			t.Errorf("%q is not in %s", want, errs)
		}
	}
	for _, args := range [][]string{{"--facts", "/nonexistent"}, {"--facts", "x", "--disk"}, {"-o", "xml"}, {"--lab", "a", "--hosts", "b"}} {
		if code, _, errs := runLine(t, append([]string{"doctor"}, args...)...); code != ExitUsage {
			t.Errorf("%v: %d %s", args, code, errs)
		}
	}
	path := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(path, []byte(`{"checks":[]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := runLine(t, "doctor", "--facts", path); code != ExitUsage || !strings.Contains(errs, "the file holds no facts") {
		t.Errorf("%d %s", code, errs)
	}
}

func TestDoctorListsAndExplainsEveryCheck(t *testing.T) {
	_, list, _ := runLine(t, "doctor", "--list")
	for _, c := range decide.Checks() {
		if !strings.Contains(list, "\n"+string(c.ID)+" ") {
			t.Errorf("%s is not listed", c.ID)
		}
		if code, text, _ := runLine(t, "doctor", "--explain", string(c.ID)); code != ExitOK || !strings.Contains(text, c.Title) || !strings.Contains(text, "  $ "+c.Lines[0]) {
			t.Errorf("%s: %d\n%s", c.ID, code, text)
		}
	}
	var all []checkOutput
	if _, text, _ := runLine(t, "doctor", "--list", "-o", "json"); json.Unmarshal([]byte(text), &all) != nil || len(all) != len(decide.Checks()) {
		t.Errorf("%s", text)
	}
}

func TestAHostIsAskedThroughItsAgent(t *testing.T) {
	says := func() string {
		h := decide.Host{Name: "cp-2", From: time.Now(), To: time.Now(), Swap: state.Known[uint64](0)}
		text, err := json.Marshal(hostreport.Report{Host: "cp-2", Doctor: state.See(h, "cp-2", time.Now())})
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	older := func() string { return "unknown command" }
	for _, c := range []struct {
		name, host string
		text       func() string
		err        error
		asked      bool
		trouble    string
	}{
		{"it answers", "cp-2", says, nil, true, ""},
		{"it does not", "cp-2", older, errors.New("ssh: no route"), false, "ssh: no route"},
		{"an older agent", "cp-2", older, nil, false, "another version of holdfast, or none"},
		{"another host answers", "cp-1", says, nil, false, "another host answers there: cp-2"},
	} {
		var line []string
		asked := place.Host{Name: c.host, Run: func(_ context.Context, args ...string) ([]byte, error) {
			line = args
			return []byte(c.text()), c.err
		}}
		h := ask(t.Context(), asked, true)
		if h.Name != c.host || (h.Source == decide.Asked) != c.asked || !strings.Contains(strings.Join(h.Trouble, ""), c.trouble) {
			t.Errorf("%s: %+v", c.name, h)
		}
		if strings.Join(line, " ") != "holdfast-agent report -o json --only checks,disk" {
			t.Errorf("%s: %q", c.name, line)
		}
		if c.asked && (!h.Offset.Known || h.Offset.Value.Low > 0 || h.Offset.Value.High < 0) {
			t.Errorf("%s: its clock is this one: %+v", c.name, h.Offset)
		}
	}
}

func TestDoctorThatSeesNothingSaysHowToSeeMore(t *testing.T) {
	if _, err := os.Stat("/etc/holdfast/site.json"); err == nil {
		t.Skip("NOT TESTED: this machine is a host of a cluster")
	}
	missing := noAPI(t)
	code, out, errs := runLine(t, "doctor", "--kubeconfig", missing)
	if code != ExitFailed || out != "" || !strings.Contains(errs, "--kubeconfig or --hosts") || !strings.Contains(errs, "127.0.0.1:1") {
		t.Errorf("%d %s %s", code, out, errs)
	}
	code, _, errs = runLine(t, "doctor", "--kubeconfig", missing, "--hosts", "cp-1", "--exec", "sh -c exit\\ 7 {}")
	if code != ExitFailed || !strings.Contains(errs, "cp-1: ") {
		t.Errorf("the host's own trouble is said too: %d %s", code, errs)
	}
}

func TestDoctorTellsWhatWillHaveExpired(t *testing.T) {
	facts := swapping(state.Known[uint64](1 << 30))
	facts.Hosts[0].Certificates = state.Known([]decide.Certificate{{Path: "/var/lib/kubelet/pki/kubelet.crt", Ends: facts.At.Add(365 * 24 * time.Hour)}})
	facts.Cluster.Ends = state.Known([]decide.Ending{})
	for _, c := range []struct {
		in   string
		want int
		text string
	}{
		{"400d", command.ExitAttention, "/var/lib/kubelet/pki/kubelet.crt expires in 365 days, on 2027-11-20"},
		{"8760h", command.ExitAttention, "/var/lib/kubelet/pki/kubelet.crt expires in 365 days"},
		{"364d", 0, ""},
	} {
		code, out, errs := doctorOn(t, facts, "--in", c.in)
		if code != c.want || errs != "" || !strings.Contains(out, c.text) || strings.Contains(out, "swap") {
			t.Errorf("--in %s: exit code %d\n%s%s", c.in, code, out, errs)
		}
	}
	for _, args := range [][]string{
		{"--in", "-1d"}, {"--in", "36501d"}, {"--in", "400"}, {"--in", "-5h"}, {"--in", "d"}, {"--in", "400d", "swap"}, {"--in", "400d", "--explain", "swap"},
	} {
		if code, _, errs := doctorOn(t, facts, args...); code != command.ExitUsage || !strings.Contains(errs, "--in") {
			t.Errorf("%v: exit code %d: %s", args, code, errs)
		}
	}
}

// TestACommandThatFindsNoClusterSaysWhyIfThatIsKnown: an API may answer and be no site's.
func TestACommandThatFindsNoClusterSaysWhyIfThatIsKnown(t *testing.T) {
	for _, c := range []struct {
		why  error
		want string
	}{{nil, "give --kubeconfig or --hosts"}, {errors.New("no route"), "give --kubeconfig or --hosts: no route"}} {
		if err := noCluster(c.why); !strings.HasSuffix(err.Error(), c.want) {
			t.Errorf("%v: %v", c.why, err)
		}
	}
}
