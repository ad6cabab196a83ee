package agent

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/deleted"
)

// TestWhoStopsEtcdKeepsItsManifestAwayFirst: else the agent puts it back, and etcd runs again before its
// data are copied.
func TestWhoStopsEtcdKeepsItsManifestAwayFirst(t *testing.T) {
	page, err := os.ReadFile("../../docs/runbook/restore.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"the help": newBackup(command.Streams{}).Example, "the page": string(page), "the refusal": whileEtcdRuns} {
		if stays, stops := strings.Index(text, etcdStays), strings.Index(text, etcdStops); stays < 0 || stops < stays {
			t.Errorf("%s: %d, %d", name, stays, stops)
		}
	}
	listed := strings.Fields(etcdStays)[1]
	specs := deleted.Specs(deleted.Kind{ControlPlane: true})
	i := slices.IndexFunc(specs, func(s deleted.Spec) bool { return s.Path == listed })
	if i < 0 || !strings.Contains(etcdStops, " "+listed+" ") {
		t.Fatalf("%q is no file that the agent puts back", listed)
	}
	gone := deleted.Input{Now: time.Now(), Files: []deleted.File{{Spec: specs[i], Kept: true, Gone: time.Minute}}}
	if v := deleted.Decide(gone); !slices.Equal(v.Put, []string{listed}) {
		t.Errorf("what is not in the list: %+v", v)
	}
	gone.Leave = []string{listed}
	if v := deleted.Decide(gone); len(v.Put)+len(v.Lost) > 0 {
		t.Errorf("what is in the list: %+v", v)
	}
}
