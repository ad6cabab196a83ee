package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/backup"
	"github.com/holdfast/holdfast/internal/decide/etcdspace"
	"github.com/holdfast/holdfast/internal/decide/rollout"
)

// A program gets JSON from each run, also from one that follows nothing or changes nothing.
func TestWhatIsAskedOfAHostIsToldToPrograms(t *testing.T) {
	c := hostSite(t)
	saysSpace(t, c, "cp-1", spacious())
	summary, err := backup.Summary{At: time.Now(), Schedule: "0 3 * * * UTC", Period: 24 * time.Hour, Keep: 5, Since: time.Now(), Targets: []string{"nas"}}.Text()
	if err != nil {
		t.Fatal(err)
	}
	writesNode(t, c, "cp-1", func(n *corev1.Node) { n.Annotations[backup.Annotation] = summary })
	programs := hostFlags{output: "json"}
	for sentence, one := range map[string]struct {
		run    func(Streams) error
		wish   string // the annotation with the wish; empty for a dry run
		host   string
		begins bool
	}{
		"a backup": {func(s Streams) error {
			return (&backupNowFlags{backupFlags: backupFlags{hostFlags: programs}, noWait: true}).run(t.Context(), c, s)
		}, backup.WantedOf, "cp-1", false},
		"a backup, dry": {func(s Streams) error {
			return (&backupNowFlags{backupFlags: backupFlags{hostFlags: programs}, dryRun: true}).run(t.Context(), c, s)
		}, "", "cp-1", true},
		"a defragmentation": {func(s Streams) error {
			return (&defragmentFlags{hostFlags: programs, noWait: true, yes: true}).run(t.Context(), c, s)
		}, etcdspace.WantedOf, "cp-1", false},
		"a defragmentation, dry": {func(s Streams) error {
			return (&defragmentFlags{hostFlags: programs, dryRun: true}).run(t.Context(), c, s)
		}, "", "cp-1", true},
		"a reboot": {func(s Streams) error {
			return rebootFlags{hostFlags: programs, noWait: true}.run(t.Context(), c, s, "w-1")
		}, rollout.RebootWanted, "w-1", false},
		"updates": {func(s Streams) error {
			return patchFlags{rebootFlags: rebootFlags{hostFlags: programs, noWait: true}}.run(t.Context(), c, s, "w-2")
		}, rollout.PatchWanted, "w-2", false},
	} {
		var out bytes.Buffer
		if err := one.run(Streams{In: strings.NewReader(""), Out: &out, Err: io.Discard}); command.ExitCode(err) != command.ExitOK {
			t.Errorf("%s: %v", sentence, err)
		}
		var got asked
		if err := json.Unmarshal(out.Bytes(), &got); err != nil || got.Host != one.host {
			t.Errorf("%s: %v: %s", sentence, err, out.String())
		}
		wish := ""
		if one.wish != "" {
			wish = nodeOf(t, c, one.host).Annotations[one.wish]
		}
		if got.Wish != wish || (wish == "") != (one.wish == "") || one.begins != (got.BeginsNow != nil && *got.BeginsNow) {
			t.Errorf("%s: %s, the wish is %q", sentence, out.String(), wish)
		}
	}
}

// A dry run asks no host, so it cannot say what is in the way of a backup that does not wait for a lost one.
func TestADryRunOfABackupNamesNoLostHost(t *testing.T) {
	var out bytes.Buffer
	err := (&backupNowFlags{gone: "cp-2", dryRun: true}).run(t.Context(), hostSite(t), Streams{In: strings.NewReader(""), Out: &out, Err: io.Discard})
	if command.ExitCode(err) != command.ExitUsage || !strings.Contains(err.Error(), "leave --dry-run or --is-gone out") || out.Len() > 0 {
		t.Errorf("%v: %s", err, out.String())
	}
}
