package life_test

import (
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
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
