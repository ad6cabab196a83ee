package life_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
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
	return tr.starts(args...).ends(want)
}

// running is a command of a person that runs beside the test.
type running struct {
	tr    *trial
	args  []string
	cmd   *exec.Cmd
	began time.Time

	mu      sync.Mutex
	printed bytes.Buffer
}

// starts starts a command as a person would. The end of the test ends it.
func (tr *trial) starts(args ...string) *running {
	tr.Helper()
	r := &running{tr: tr, args: args, began: time.Now()}
	r.cmd = exec.CommandContext(tr.Context(), *program, append(args, "--kubeconfig", tr.kubeconfig)...) // #nosec G204 -- a test's own words
	r.cmd.Stdout, r.cmd.Stderr = r, r
	if err := r.cmd.Start(); err != nil {
		tr.Fatal(err)
	}
	return r
}

// Write takes in what the command prints.
func (r *running) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.printed.Write(p)
}

// said returns what the command has printed so far.
func (r *running) said() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.printed.String()
}

// ends waits for the end of the command, and checks its exit code. It returns what
// the command printed.
func (r *running) ends(want int) string {
	r.tr.Helper()
	if code, err := r.wait(); code != want {
		r.tr.Errorf("holdfast %v ended with code %d (%v), want %d", r.args, code, err, want)
	}
	return r.said()
}

// interrupts ends the command as a person does who presses Ctrl-C.
func (r *running) interrupts() {
	r.tr.Helper()
	if err := r.cmd.Process.Signal(os.Interrupt); err != nil {
		r.tr.Errorf("interrupt holdfast %v: %v", r.args, err)
	}
	_, _ = r.wait()
}

func (r *running) wait() (code int, err error) {
	r.tr.Helper()
	err = r.cmd.Wait()
	code = r.cmd.ProcessState.ExitCode()
	r.tr.Logf("holdfast %v: code %d after %.0f s\n%s", r.args, code, time.Since(r.began).Seconds(), r.said())
	return code, err
}

// mayBegin waits until the dry run of a command says that nothing is in its way.
func (tr *trial) mayBegin(args ...string) {
	tr.Helper()
	tr.Eventually(settledWithin, "nothing is in the way of holdfast "+strings.Join(args, " "), func() error {
		if code, err := tr.starts(append(args, "--dry-run")...).wait(); code != 0 {
			return fmt.Errorf("the dry run ended with code %d: %w", code, err)
		}
		return nil
	})
}

// inOneLine returns a text with its lines joined, wherever they were broken.
func inOneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// tells checks that a command ends with a code, and that its text names each of
// these, wherever its lines are broken.
func (tr *trial) tells(code int, names []string, args ...string) {
	tr.Helper()
	out := inOneLine(tr.says(code, args...))
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
