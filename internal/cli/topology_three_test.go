package cli

import (
	"os"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

// TestAThirdControlPlaneIsRefusedWithWordsAndNothingIsChanged: the rules are there, and nobody carries
// them out yet (docs/adr/0097).
func TestAThirdControlPlaneIsRefusedWithWordsAndNothingIsChanged(t *testing.T) {
	g, kept := newShrinkRun(t, func(int, *growthRun) { t.Error("the command waits") })
	two := sitetest.TwoDual
	from, to := strings.Index(two, "controlPlane:"), strings.Index(two, "networking:")
	put(t, os.WriteFile(g.file, []byte(two[:from]+"controlPlane: {replicas: 3}\n"+two[to:]), 0o600))
	for name, run := range map[string]func() error{
		"plan":  func() error { return g.plan(t.Context()) },
		"apply": func() error { return g.run(t.Context()) },
	} {
		err := run()
		if exitOfReplace(err) != command.ExitRefused || !strings.Contains(err.Error(), "does not yet make three control planes of two: nothing was changed") {
			t.Errorf("%s: %v", name, err)
		}
		if !strings.Contains(g.r.out.String(), "one host after the other gives etcd to kubelet") {
			t.Errorf("%s says nothing of what will be: %s", name, g.r.out.String())
		}
	}
	if o, err := g.store.Order(); o != nil || err != nil || len(*kept) > 0 || g.prepared > 0 {
		t.Errorf("something was changed: %+v, %v", o, err)
	}
	put(t, os.WriteFile(g.file, []byte(strings.Replace(two[:from]+"controlPlane: {replicas: 3}\n"+two[to:], "{name: shop}", "{name: store}", 1)), 0o600))
	if err := g.plan(t.Context()); err == nil || exitOfReplace(err) == command.ExitRefused || !strings.Contains(err.Error(), "leave it as it is") {
		t.Errorf("a file that changes more than the number: %v", err)
	}
}
