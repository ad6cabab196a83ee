package rehearsal

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/twonode"
)

// TestARehearsalGivesAFenceWhatPacemakerHas: with less time a slow BMC fails
// only here; with more it passes only here.
func TestARehearsalGivesAFenceWhatPacemakerHas(t *testing.T) {
	in := twonode.Input{Cluster: "c", Self: "cp-1", Nodes: []twonode.Node{{Name: "cp-1", Address: "10.0.0.1"}, {Name: "cp-2", Address: "10.0.0.2"}}}
	properties := twonode.Wanted(in).Properties
	i := slices.IndexFunc(properties, func(s twonode.Setting) bool { return strings.Contains(s.Name, "stonith-timeout") })
	if i < 0 {
		t.Fatal("no stonith-timeout")
	}
	if has, err := time.ParseDuration(properties[i].Value); err != nil || has != fenceTimeout {
		t.Errorf("Pacemaker has %s for a fence, a rehearsal %s, %v", has, fenceTimeout, err)
	}
}
