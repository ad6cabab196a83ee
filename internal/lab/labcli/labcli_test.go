package labcli

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/lab"
)

// runLine runs one command line and returns exit code, output and errors.
func runLine(t *testing.T, line ...string) (code int, out, errs string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = Run(t.Context(), command.Streams{In: strings.NewReader(""), Out: &stdout, Err: &stderr}, line)
	return code, stdout.String(), stderr.String()
}

func TestAWrongLabCommandLineIsRefusedBeforeAnythingIsDone(t *testing.T) {
	root := t.TempDir()
	t.Setenv("HOLDFAST_LABS", root)
	tests := []struct {
		line string
		want string
	}{
		{"up --name Not-A-Name", `name: "Not-A-Name": must be 1 to 16 characters of a-z and 0-9`},
		{"up --control-planes 4", "control planes: 4: must be 1, 2, 3 or 5"},
		{"up --control-planes 2 --platform none", "platform: none: a lab has no load balancer"},
		{"up --control-planes 1 --spare-control-planes 1 --platform none", "platform: none: a site without virtual IPs cannot grow"},
		{"up --spare-control-planes 2", "spare control planes: 2: must be 0 to 3 together with the control planes"},
		{"install-config", "--out: name a file"},
		{"install-config --moved", "--out: name a file"},
		{"move cp-1", "takes no arguments, got"},
		{"install-config --control-planes 2", "--out: name a file, because the install-config holds the passwords of BMCs; - prints it"},
		{"machine", "takes the arguments HOST, got 0"},
		{"machine cp-1 -o yaml", `output "yaml": must be text or json`},
		{"up --families v5", `families: "v5": must be v4, v6, v4,v6 or v6,v4`},
		{"up --workers 21", "workers: 21: must be 0 to 20"},
		{"up --post-delay -3s", "POST delay: -3s: must not be negative"},
		{"up now", "takes no arguments, got"},
		{"upp", "did you mean up?"},
		{"down --name ..", `name: "..": must be 1 to 16`},
		{"status -o yaml", `output "yaml": must be text or json`},
		{"list -o yaml", `output "yaml": must be text or json`},
		{"power cp-1", "takes the arguments HOST ACTION, got 1"},
		{"exec cp-1", "takes the arguments HOST -- COMMAND..., got 1"},
		{"fault meteor cp-1", "unknown command"},
		{"fault drop cp-1", `drop: direction "": must be in or out`},
		{"fault drop cp-1 --direction in --nic wifi", `drop: NIC "wifi": must be machine or fencing`},
		{"fault loss cp-1 --percent 200", "loss: percent 200: must be 1 to 100"},
		{"fault slow-disk cp-1", "slow-disk: delay 0s: must be 1ms to 1m0s"},
		{"fault bmc cp-1 polite", `quirk "polite": there is no such quirk`},
		{"fault bmc cp-1 says=Maybe", "quirk says"},
		{"fault clear --kind drip", `fault "drip": there is no such fault`},
		{"power cp-1 onn", `action "onn": there is no such action`},
	}
	for _, tt := range tests {
		t.Run(tt.line, func(t *testing.T) {
			code, out, errs := runLine(t, strings.Fields(tt.line)...)
			if code != command.ExitUsage || out != "" || !strings.Contains(errs, tt.want) {
				t.Errorf("exit %d, out %q, errors %q; want exit %d and %q", code, out, errs, command.ExitUsage, tt.want)
			}
		})
	}
	if left, err := os.ReadDir(root); err != nil || len(left) != 0 {
		t.Errorf("left in the labs' directory: %v (%v)", left, err)
	}
}

func TestWithoutALabTheCommandsSayWhereToLook(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: without it the commands say only that")
	}
	t.Setenv("HOLDFAST_LABS", t.TempDir())
	for _, line := range []string{
		"status", "kubectl -- get nodes", "shell cp-1", "exec cp-1 -- true", "logs cp-1",
		"power cp-1 on", "fault power-cut cp-1", "fault clear", "kubeconfig", "daemon",
		"machine cp-1", "install-config --control-planes 2 --out -", "install-config --moved --out -", "move", "move --back --live",
	} {
		code, _, errs := runLine(t, strings.Fields(line)...)
		if code != command.ExitFailed || !strings.Contains(errs, "no such lab: default (see 'holdfast lab list')") {
			t.Errorf("%s: exit %d, %q", line, code, errs)
		}
	}
	if code, out, _ := runLine(t, "list", "-o", "json"); code != command.ExitOK || strings.TrimSpace(out) != "[]" {
		t.Errorf("list: exit %d, %q", code, out)
	}
}

func TestAHostThatALabDoesNotHaveIsAMistakeOfTheLine(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: without it the commands say only that")
	}
	root := t.TempDir()
	t.Setenv("HOLDFAST_LABS", root)
	data, err := json.Marshal(lab.Options{Spec: lab.Spec{Name: defaultLab, ControlPlanes: 1}})
	dir := filepath.Join(root, defaultLab)
	if err := errors.Join(err, os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, "lab.json"), data, 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"shell cp-9", "exec cp-9 -- true", "logs cp-9", "power cp-9 on", "power cp-9 On --bmc",
		"fault power-cut cp-9", "fault clear --host cp-9", "machine cp-9",
	} {
		code, _, errs := runLine(t, strings.Fields(line)...)
		if code != command.ExitUsage || !strings.Contains(errs, `host "cp-9": lab default has no such host`) {
			t.Errorf("%s: exit %d, %q", line, code, errs)
		}
	}
}

func TestEveryLabCommandHasHelpWithAnExample(t *testing.T) {
	var check func(*cobra.Command)
	check = func(cmd *cobra.Command) {
		if cmd.Short == "" || cmd.Example == "" && !cmd.Hidden {
			t.Errorf("%s: short %q, example %q", cmd.CommandPath(), cmd.Short, cmd.Example)
		}
		for _, child := range cmd.Commands() {
			check(child)
		}
	}
	check(newRoot(command.Streams{}))
}

// Users copy the examples, so each must be an accepted command line.
func TestTheExampleOfEveryFaultIsAcceptedByItsCommand(t *testing.T) {
	t.Setenv("HOLDFAST_LABS", t.TempDir())
	for _, d := range faultDocs {
		line := strings.Fields(faultExample(d.kind))
		code, _, errs := runLine(t, append([]string{"fault"}, line...)...)
		if code == command.ExitUsage {
			t.Errorf("%s: %s", faultExample(d.kind), errs)
		}
	}
}

func TestEveryFaultHasACommand(t *testing.T) {
	for _, k := range lab.FaultKinds() {
		if !slices.ContainsFunc(faultDocs, func(d faultDoc) bool { return d.kind == k }) {
			t.Errorf("fault %s has no command", k)
		}
	}
}

func TestFaultsCompleteWhatTheyTake(t *testing.T) {
	t.Setenv("HOLDFAST_LABS", t.TempDir())
	for line, want := range map[string]string{
		"filter-port cp-1":                      "2380/tcp",
		"stop-process cp-1":                     "pacemaker-controld",
		"kill-process cp-1":                     "podman-etcd serve",
		"freeze-cgroup cp-1 --process":          "etcd",
		"filter-port cp-1 2380/tcp --direction": "both",
		"drop cp-1 --direction":                 "out",
	} {
		_, out, _ := runLine(t, append(append([]string{"__complete", "fault"}, strings.Fields(line)...), "")...)
		if !slices.Contains(strings.Split(out, "\n"), want) {
			t.Errorf("%s: %q is not offered: %q", line, want, out)
		}
	}
}

func TestAFaultIsFoundByItsOtherNamesAndTakesItsSecondWord(t *testing.T) {
	t.Setenv("HOLDFAST_LABS", t.TempDir())
	for line, want := range map[string]int{
		"switch-port-down cp-1":                     command.ExitFailed,
		"stop-process cp-1 corosync":                command.ExitFailed,
		"kill-process cp-1 corosync --process etcd": command.ExitUsage,
		"stop-process cp-1":                         command.ExitUsage,
		"filter-port cp-1 etcd":                     command.ExitUsage,
		"filter-port cp-1 2380/tcp":                 command.ExitFailed,
	} {
		if code, _, errs := runLine(t, append([]string{"fault"}, strings.Fields(line)...)...); code != want {
			t.Errorf("%s: exit %d, want %d (there is no lab): %s", line, code, want, errs)
		}
	}
}
