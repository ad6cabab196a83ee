package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/cli/command"
)

func TestMistakesOfAKubeconfigAreToldAtOnce(t *testing.T) {
	there := filepath.Join(t.TempDir(), "there")
	if err := os.WriteFile(there, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, errs := runLine(t, "kubeconfig", "Alice Smith", "--life", "366d", "--file", there)
	for _, want := range []string{`name "Alice Smith": may contain only`, "--life 8784h0m0s: must be 10m to 365d", "exists already"} {
		if code != command.ExitUsage || !strings.Contains(errs, want) {
			t.Errorf("exit code %d, no %q in %s", code, want, errs)
		}
	}
	for _, life := range []string{"9m", "0d", "-1d", "week"} {
		if code, _, errs := runLine(t, "kubeconfig", "alice", "--life", life, "--file", there+"2"); code != command.ExitUsage || !strings.Contains(errs, "--life") {
			t.Errorf("%s: exit code %d: %s", life, code, errs)
		}
	}
}
