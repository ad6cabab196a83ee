package agent

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/deleted"
)

// TestThePageOfARestoreInPlaceRestoresWhatWasPrepared: with the snapshot itself an upgrade, a boot or a Job
// of the day of the backup would begin by itself.
func TestThePageOfARestoreInPlaceRestoresWhatWasPrepared(t *testing.T) {
	text, err := os.ReadFile("../../docs/runbook/etcd-restore.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	typed := regexp.MustCompile(`holdfast-agent two-node (\S+) (/\S+) (/\S+)`).FindStringSubmatch(page)
	if typed == nil {
		t.Fatal("the page does not prepare the backup")
	}
	cmd, args, err := newTwoNode(command.Streams{}).Find(typed[1:])
	if err != nil || cmd.Name() != typed[1] || cmd.ValidateArgs(args) != nil {
		t.Errorf("%q: %v", typed[0], err)
	}
	for _, file := range regexp.MustCompile(`etcdutl snapshot (?:restore|status) (\S+)`).FindAllStringSubmatch(page, -1) {
		if file[1] != typed[3] {
			t.Errorf("%q is not the file that was prepared, %s", file[0], typed[3])
		}
	}
	// A file that is there is refused, and what is told is to outlive that: no pipe hides the exit code.
	remove, prepare, read := "rm -f "+typed[3], typed[0]+" > ", " && cat "
	for _, words := range []string{remove, prepare, read} {
		at := strings.Index(page, words)
		if at < 0 {
			t.Fatalf("the page lacks %q behind the words before it", words)
		}
		page = page[at:]
	}
	page = string(text)
	for _, part := range []string{"configmap holdfast-release", "holdfast-agent bring --part\"", "$bring objects && $bring operator", "$bring kube-proxy", "holdfast upgrade start"} {
		if !strings.Contains(page, part) {
			t.Errorf("the page does not say %q", part)
		}
	}
	if n := strings.Count(page, "etcdutl snapshot restore"); n != 1 {
		t.Errorf("etcd is restored %d times", n)
	}
	if !strings.Contains(page, deleted.LeavePath) {
		t.Errorf("the page does not keep the agent from putting manifests back: %s", deleted.LeavePath)
	}
}
