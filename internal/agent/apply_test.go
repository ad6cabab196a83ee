package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/testkit/golden"
)

const hostConfig = `{"ignition":{"version":"3.4.0"},"storage":{
"directories":[{"path":"/srv/x","mode":448}],
"files":[{"path":"/etc/secret.key","mode":384,"overwrite":true,"contents":{"source":"data:,TOPSECRET"}},
 {"path":"/etc/motd","mode":420,"overwrite":true,"contents":{"source":"data:,hello%0Aworld%0A"}}],
"links":[{"path":"/etc/localtime","target":"../usr/share/zoneinfo/UTC","overwrite":true}]}}`

// applyHost returns a root directory laid out as a host, and a function that runs
// apply on it.
func applyHost(t *testing.T) (string, func(stdin string, args ...string) (int, string, string)) {
	t.Helper()
	root := t.TempDir()
	for path, data := range map[string]string{"/etc/motd": "hello\nthere\n", "/etc/secret.key": "OLDSECRET"} {
		if err := os.MkdirAll(filepath.Dir(root+path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(root+path, []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root, func(stdin string, args ...string) (int, string, string) {
		var out, errs bytes.Buffer
		streams := command.Streams{In: strings.NewReader(stdin), Out: &out, Err: &errs}
		tool := &cobra.Command{Use: "holdfast-agent"}
		tool.AddCommand(newApply(streams))
		code := command.Run(context.Background(), tool, streams, append([]string{"apply", "--root", root}, args...))
		return code, out.String(), errs.String()
	}
}

func TestADryRunReadsAsTheGolden(t *testing.T) {
	root, apply := applyHost(t)
	for name, args := range map[string][]string{"dry-run.txt": {"--dry-run"}, "dry-run.json": {"--dry-run", "-o", "json"}} {
		code, out, errs := apply(hostConfig, append(args, "--ignition", "-")...)
		if code != command.ExitOK || errs != "" {
			t.Fatalf("exit code %d: %s", code, errs)
		}
		golden.Check(t, filepath.Join("apply", name), []byte(out))
	}
	if data, err := os.ReadFile(root + "/etc/motd"); err != nil || string(data) != "hello\nthere\n" {
		t.Errorf("the dry run changed a file: %q, %v", data, err)
	}
}

func TestExitCodesOfApply(t *testing.T) {
	root, apply := applyHost(t)
	file := filepath.Join(t.TempDir(), "host.ign")
	if err := os.WriteFile(file, []byte(hostConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name  string
		stdin string
		args  []string
		code  int
		says  string
	}{
		{"a file that is not there", "", []string{"--ignition", "/nowhere"}, command.ExitUsage, "no such file"},
		{"not a configuration", "{}", []string{"--ignition", "-"}, command.ExitUsage, "holdfast-agent: ignition"},
		{"a disk", `{"ignition":{"version":"3.4.0"},"storage":{"disks":[{"device":"/dev/sda","wipeTable":true}]}}`, []string{"--ignition", "-"}, command.ExitUsage, "storage.disks: a package-based host keeps its disks"},
		{"a form that is none", hostConfig, []string{"--ignition", "-", "-o", "xml"}, command.ExitUsage, "use text or json"},
		{"an argument", hostConfig, []string{"x"}, command.ExitUsage, "see 'holdfast-agent apply --help'"},
		{"nobody answers", "", []string{"--ignition", "https://127.0.0.1:1/x", "--wait", "0s"}, command.ExitFailed, "fetch https://127.0.0.1:1/x: given up"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			code, out, errs := apply(tt.stdin, tt.args...)
			if code != tt.code || !strings.Contains(errs, tt.says) {
				t.Errorf("exit code %d, want %d; %s%s lacks %q", code, tt.code, out, errs, tt.says)
			}
		})
	}
	if entries, err := os.ReadDir(root); err != nil || len(entries) != 1+1 { // etc, and var for the lock
		t.Errorf("a failure left %v, %v", entries, err)
	}
}

func TestApplyTwiceSaysNothingToDo(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may give files to root")
	}
	root, apply := applyHost(t)
	code, out, errs := apply(hostConfig, "--ignition", "-")
	want := "directory:/srv/x (absent)\nfile:/etc/motd (other contents)\nfile:/etc/secret.key (other contents)\nlink:/etc/localtime (absent)\ndone, 4 steps\n"
	if code != 0 || out != want {
		t.Fatalf("exit code %d: %q %s", code, out, errs)
	}
	if info, err := os.Stat(root + "/etc/secret.key"); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key: %v, %v", info, err)
	}
	code, out, _ = apply(hostConfig, "--ignition", "-", "-o", "json")
	var res struct {
		Applied bool
		Steps   []any
	}
	if err := json.Unmarshal([]byte(out), &res); err != nil || code != 0 || !res.Applied || res.Steps == nil || len(res.Steps) != 0 {
		t.Errorf("second run: %d %s, %v", code, out, err)
	}
	if code, out, _ = apply(hostConfig, "--ignition", "-"); code != 0 || out != "nothing to do\n" {
		t.Errorf("third run: %d %q", code, out)
	}
}
