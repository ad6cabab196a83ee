package lab_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// looks are the commands whose whole output is stored for each host of a lab
// that failed, by the name of the file.
var looks = map[string]string{
	"journal":   "journalctl --no-pager -o short-precise --utc",
	"pacemaker": "crm_mon -1 -A -f -o -n 2>&1; corosync-quorumtool 2>&1; corosync-cfgtool -s 2>&1; true",
	"pods":      "crictl ps -a 2>&1; true",
	"objects":   "kubectl --kubeconfig /etc/kubernetes/admin.conf --request-timeout 5s get nodes,csr,jobs,pods,events -A -o wide 2>&1; true",
}

// why is a script that says in a few lines why a host is not done: Jobs of the
// set-up that failed, and the last errors of its journal.
const why = `
kubectl --kubeconfig /etc/kubernetes/admin.conf --request-timeout 3s get pods -A --no-headers 2>/dev/null | grep -vE 'Running|Completed' | head -4
systemctl --failed --no-legend --plain | head -3
journalctl --no-pager -o short-iso -p err -n 4 | cut -c1-220
`

// explainFailure stores the journals and the state of a lab that failed in a
// directory of its own, and logs last what a reader of CI's end of output needs.
func explainFailure(t *testing.T, name string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "holdfast-"+name+"-") //nolint:usetesting // it outlives the test
	if err != nil {
		t.Error(err)
		return
	}
	for _, host := range []string{"cp-1", "cp-2"} {
		for file, script := range looks {
			out := onHost(t, name, host, script)
			if err := os.WriteFile(filepath.Join(dir, host+"-"+file+".txt"), out, 0o600); err != nil {
				t.Error(err)
			}
		}
	}
	t.Logf("journals and state of the hosts: %s", dir)
	t.Logf("%s", status(t, name))
	for _, host := range []string{"cp-1", "cp-2"} {
		t.Logf("%s:\n%s", host, strings.TrimSpace(string(onHost(t, name, host, why))))
	}
}

// onHost runs a script on a host of a lab. Its output ends with the error, if
// there is one.
func onHost(t *testing.T, name, host, script string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, program(t), "lab", "exec", "--name", name, host, "--", "sh", "-c", script).CombinedOutput()
	if err != nil {
		out = append(out, "\n"+err.Error()+"\n"...)
	}
	return out
}
