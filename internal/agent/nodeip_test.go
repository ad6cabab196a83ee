package agent

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/cli/command"
)

// nodeIPView describes a host with two addresses on the link of the VIP and one
// on another.
const nodeIPView = `{
  "settings": {
    "machineNetworks": ["10.98.0.0/24", "10.97.0.0/24"], "apiVIPs": ["10.98.0.5"], "managedVIPs": true
  },
  "addresses": [
    {"interface": "eth0", "index": 2, "prefix": "10.97.0.11/24", "usable": true},
    {"interface": "eth1", "index": 3, "prefix": "10.98.0.11/24", "usable": true},
    {"interface": "eth1", "index": 3, "prefix": "10.98.0.22/24", "usable": true}
  ]
}`

// nodeIP runs the command on a file and returns its exit code and its output.
func nodeIP(t *testing.T, dir string, args ...string) (int, string) {
	t.Helper()
	var out bytes.Buffer
	line := append([]string{"node-ip"}, args...)
	line = append(line, "--view", filepath.Join(dir, "view.json"), "--kept", filepath.Join(dir, "kept.json"))
	code := Run(t.Context(), command.Streams{In: strings.NewReader(""), Out: &out, Err: &out}, line)
	return code, out.String()
}

func TestNodeIP(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "view.json"), []byte(nodeIPView), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"it is shown", []string{"show"}, command.ExitOK, "10.98.0.11\n"},
		{"and chosen", []string{"set", "--hint", "10.97.0.1"}, command.ExitOK, "10.97.0.11\n"},
		{"a choice is kept", []string{"show"}, command.ExitOK, "10.97.0.11\n"},
		{"also by the next set", []string{"set"}, command.ExitOK, "10.97.0.11\n"},
		{"until another is asked for", []string{"set", "--hint", "10.98.0.1"}, command.ExitOK, "10.98.0.11\n"},
		{"with its reason", []string{"show", "-o", "json"}, command.ExitOK, `{
  "addresses": [
    "10.98.0.11"
  ],
  "interface": "eth1",
  "reason": "it was chosen before"
}
`},
		{"all mistakes at once", []string{"set", "-o", "yaml", "--hint", "here"}, command.ExitUsage, "holdfast-agent: --output yaml: use text or json\n--hint \"here\": give an IP address\n"},
	} {
		if code, got := nodeIP(t, dir, step.args...); code != step.code || got != step.want {
			t.Errorf("%s: exit code %d, %s", step.name, code, got)
		}
	}
}

func TestNodeIPSaysWhyThereIsNone(t *testing.T) {
	dir := t.TempDir()
	text := strings.ReplaceAll(nodeIPView, "10.98.0.0/24", "192.0.2.0/24")
	text = strings.ReplaceAll(text, `"10.97.0.0/24"`, `"198.51.100.0/24"`)
	text = strings.ReplaceAll(text, `"10.98.0.5"`, `"192.0.2.5"`)
	if err := os.WriteFile(filepath.Join(dir, "view.json"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	code, got := nodeIP(t, dir, "set")
	if code != command.ExitFailed || !strings.Contains(got, "no usable IPv4 address inside the machine networks 192.0.2.0/24, 198.51.100.0/24") {
		t.Errorf("exit code %d, %s", code, got)
	}
	if _, err := os.Stat(filepath.Join(dir, "kept.json")); !os.IsNotExist(err) {
		t.Errorf("something was kept: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "view.json"), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if code, got := nodeIP(t, dir, "show"); code != command.ExitUsage || !strings.Contains(got, "is not a view of a network") {
		t.Errorf("exit code %d, %s", code, got)
	}
}
