package life_test

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/holdfast/holdfast/internal/decide/finding"
)

// person writes a kubeconfig for a person's commands, whose token outlives the
// certificates of the lab, and returns its path.
func (s *site) person(t *testing.T) string {
	t.Helper()
	path, err := s.Lab.WriteKubeconfig(t.Context(), s.Power)
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := clientcmd.LoadFromFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name := range cfg.AuthInfos {
		cfg.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: s.access.BearerToken}
	}
	out := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*cfg, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// says runs a command as a person would, and checks its exit code. It returns what
// the command printed.
func (tr *trial) says(want int, args ...string) string {
	tr.Helper()
	cmd := exec.CommandContext(tr.Context(), *program, append(args, "--kubeconfig", tr.kubeconfig)...) // #nosec G204 -- a test's own words
	began := time.Now()
	out, err := cmd.CombinedOutput()
	code := cmd.ProcessState.ExitCode()
	tr.Logf("holdfast %v: code %d after %.0f s\n%s", args, code, time.Since(began).Seconds(), out)
	if code != want {
		tr.Errorf("holdfast %v ended with code %d (%v), want %d", args, code, err, want)
	}
	return string(out)
}

// tells checks that a command ends with a code, and that its text names each of
// these, wherever its lines are broken.
func (tr *trial) tells(code int, names []string, args ...string) {
	tr.Helper()
	out := strings.Join(strings.Fields(tr.says(code, args...)), " ")
	for _, name := range names {
		if !strings.Contains(out, name) {
			tr.Errorf("holdfast %v does not tell %q", args, name)
		}
	}
}

// found returns what the status says is wrong of one kind about a host or a pool;
// empty if it says nothing.
func (tr *trial) found(id finding.ID, subject string) string {
	tr.Helper()
	cmd := exec.CommandContext(tr.Context(), *program, "status", "-o", "json", "--kubeconfig", tr.kubeconfig) // #nosec G204 -- a test's own words
	out, _ := cmd.Output()                                                                                    // its exit code says how the whole cluster is
	var view struct {
		Findings []struct {
			ID      finding.ID `json:"id"`
			Subject string     `json:"subject"`
			Problem string     `json:"problem"`
		} `json:"findings"`
	}
	if err := json.Unmarshal(out, &view); err != nil {
		tr.Fatalf("holdfast status -o json: %v\n%s", err, out)
	}
	for _, f := range view.Findings {
		if f.ID == id && f.Subject == subject {
			return f.Problem
		}
	}
	return ""
}
