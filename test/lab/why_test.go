package lab_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	lablib "github.com/holdfast/holdfast/internal/lab" // lab is a function here
	"github.com/holdfast/holdfast/test/labsite"
)

// why is a script that says in a few lines why a host is not done: pods that do
// not run, Jobs of the set-up among them, and the last errors of its journal.
const why = `
kubectl --kubeconfig /etc/kubernetes/admin.conf --request-timeout 3s get pods -A --no-headers 2>/dev/null | grep -vE 'Running|Completed' | head -4
systemctl --failed --no-legend --plain | head -3
journalctl --no-pager -o short-iso -p err -n 100 | grep -v 'Failed to find module' | tail -4 | cut -c1-220
`

// explainFailure keeps the logs of all hosts of a lab that failed, which the end of
// the lab would take along, and logs last what a reader of CI's end of output needs.
func explainFailure(t *testing.T, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if dir, err := keepLogs(ctx, name); err != nil {
		t.Errorf("the logs of all hosts are lost: %v", err)
	} else {
		t.Logf("logs of all hosts: %s", dir)
	}
	t.Logf("%s", status(t, name))
	for _, host := range []string{"cp-1", "cp-2"} {
		out, err := exec.CommandContext(ctx, program(t), "lab", "exec", "--name", name, host, "--", "sh", "-c", why).CombinedOutput()
		if err != nil {
			out = append(out, err.Error()...)
		}
		t.Logf("%s:\n%s", host, strings.TrimSpace(string(out)))
	}
}

// keepLogs collects the logs, without secrets, into a folder outside of the lab.
func keepLogs(ctx context.Context, name string) (dir string, err error) {
	l, err := lablib.Open(labsite.Root(), name)
	if err != nil {
		return "", err
	}
	from, _, collectErr := l.Collect(ctx, lablib.NewClient(l)) // it may have some hosts' all the same
	if from == "" {
		return "", collectErr
	}
	if dir, err = os.MkdirTemp("", "holdfast-"+name+"-"); err != nil {
		return "", err
	}
	return dir, errors.Join(collectErr, os.CopyFS(dir, os.DirFS(from)))
}
