package cli

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/records"
	"github.com/holdfast/holdfast/internal/decide/hostreport"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/report/observer"
)

func TestTheHistoryShowsWhatThisHostDidLast(t *testing.T) {
	files := records.Files{Root: t.TempDir()}
	lines := strings.Repeat(`{"time":"2026-11-20T08:00:00Z","target":"cp-2","by":"cp-1","action":"reboot","off":true,"phases":{"identify":1,"total":450000000}}`+"\n", historyLength+1) +
		`{"time":"2026-11-20T09:00:00Z","target":"cp-2","by":"cp-1","action":"reboot","off":false,"detail":"no answer\nsecond line","phases":{"identify":1,"total":40000000000}}` + "\n{\"ti"
	if err := host.WriteFileAtomic(files.Path(state.FencingHistoryPath), []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := files.AppendConfirmation(state.ConfirmationEntry{Time: time.Date(2026, 11, 20, 9, 1, 0, 0, time.UTC), Peer: "cp-2", Who: "ops", Why: "burnt", Force: true, Power: "unknown: mute"}); err != nil {
		t.Fatal(err)
	}
	r, err := observer.Below(files.Root, "cp-1").Report(t.Context(), hostreport.History)
	if err != nil {
		t.Fatal(err)
	}
	h, err := historyOf(r)
	if err != nil || len(h.Fences) != historyLength || len(h.Confirmations) != 1 {
		t.Fatalf("%+v, %v", h, err)
	}
	var out bytes.Buffer
	if err := h.print(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"2026-11-20 08:00:00Z  reboot cp-2  off after 0.5s", "FAILED after 40s  no answer\n",
		"forced by ops  BMC of cp-2: unknown: mute  burnt",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
}

func TestWhatPacemakerDoesIsShownBeside(t *testing.T) {
	for name, c := range map[string]struct {
		in   *pacemakerState
		want string
	}{
		"nothing is asked elsewhere": {nil, ""},
		"no answer":                  {&pacemakerState{Problem: "crm_mon: not connected"}, "\nPacemaker\n  crm_mon: not connected\n"},
		"all": {
			&pacemakerState{Cluster: hostreport.Cluster{
				Online: []string{"cp-1"}, Running: map[string][]string{"kubelet": {"cp-1"}, "etcd": {"cp-1"}}, Failures: []string{"etcd_monitor on cp-2: error"},
			}},
			"\nPacemaker\n  online   cp-1\n  etcd     on cp-1\n  kubelet  on cp-1\n  failed:  etcd_monitor on cp-2: error\n  failures stay listed until: pcs resource cleanup\n",
		},
	} {
		var out bytes.Buffer
		if err := c.in.print(&out); err != nil || out.String() != c.want {
			t.Errorf("%s: %q, %v", name, out.String(), err)
		}
	}
}

func TestAHostWithoutAHistorySaysNothing(t *testing.T) {
	r, err := observer.Below(t.TempDir(), "cp-1").Report(t.Context(), hostreport.History)
	if err != nil {
		t.Fatal(err)
	}
	h, err := historyOf(r)
	var out bytes.Buffer
	if err != nil || h.print(&out) != nil || out.Len() != 0 {
		t.Errorf("%q, %v", out.String(), err)
	}
}

// shown matches a block of a page with the output of holdfast for a recorded
// snapshot: the command after a dollar sign, then its output.
var shown = regexp.MustCompile("(?s)```\n\\$ (holdfast [^\n]* --snapshot [^\n]+)\n(.*?)```")

func TestTheRunbookShowsWhatIsPrinted(t *testing.T) {
	t.Chdir("../..")
	pages, err := filepath.Glob("docs/runbook/*.md")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, page := range pages {
		b, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		now := shown.ReplaceAllStringFunc(string(b), func(block string) string {
			found++
			line := shown.FindStringSubmatch(block)[1]
			_, out, errs := runLine(t, strings.Fields(line)[1:]...)
			return "```\n$ " + line + "\n" + out + errs + "```"
		})
		if now == string(b) {
			continue
		}
		if f := flag.Lookup("update"); f != nil && f.Value.String() == "true" {
			if err := os.WriteFile(page, []byte(now), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		t.Errorf("%s does not show what is printed (run the test with -update and read what it wrote)", page)
	}
	if found < 2 {
		t.Errorf("only %d examples were found", found)
	}
}
