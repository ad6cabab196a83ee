package incident

import (
	"strings"
	"testing"
)

// TestAHostThatBootsByItsOwnDecisionSaysWhy: the reason counts for the host that left in
// order soon after, in the same boot, and for nobody else.
func TestAHostThatBootsByItsOwnDecisionSaysWhy(t *testing.T) {
	const plan = "cp-2 plans it boots for a configuration"
	for name, c := range map[string]struct {
		text string
		want Cause
		why  bool
	}{
		"it leaves in order":                    {paired + "-3 " + plan + leavesInOrder, Planned, true},
		"the other journal is not here yet":     {paired + "-3 " + plan + leavesInOrder + comesBack, Planned, true},
		"systemd takes its time":                {paired + "-599 " + plan + leavesInOrder, Planned, true},
		"it was about to boot, and did not":     {paired + "-601 " + plan + leavesInOrder, Planned, false},
		"the other host was about to boot":      {paired + "-3 cp-1 plans it boots for a configuration" + leavesInOrder, Planned, false},
		"it loses its power on its way":         {paired + "-3 " + plan + takeOver + comesBack, Lost, false},
		"it started, and nobody saw it go":      {paired + "-3 " + plan + "\n20 cp-2 boots", Rebooted, true},
		"it booted since, and then is stopped":  {paired + "-20 " + plan + "\n-10 cp-2 boots\n-9 cp-2 sees cp-1 cp-2, ring 18\n-8 cp-2 rule equal.idle idle: all is well\n-8 cp-1 rule equal.idle idle: all is well" + leavesInOrder, Rebooted, true},
		"both are stopped, and one had decided": {paired + "-3 " + plan + "\n0 cp-2 wish stopped\n0.5 cp-1 wish stopped", Planned, false},
	} {
		list := Assemble(scenario(t, c.text))
		if len(list) == 0 {
			t.Fatalf("%s: no incident", name)
		}
		f := list[0].Failures[0]
		if f.Cause != c.want || (f.Why != "") != c.why {
			t.Errorf("%s: %s, %q", name, f.Cause, f.Why)
		}
		for _, later := range append(list[1:], Incident{Failures: list[0].Failures[1:]}) {
			for _, f := range later.Failures {
				if f.Why != "" {
					t.Errorf("%s: also %s says %q", name, f.Cause, f.Why)
				}
			}
		}
	}
}

// TestAPlannedBootReadsAsOneSentence: the first line of a report says kind and reason of a
// boot as agent/machineconfig notes them, and so does the line of the moment.
func TestAPlannedBootReadsAsOneSentence(t *testing.T) {
	for _, why := range []string{
		"it boots for its configuration rendered-master-2",
		"it boots to go back from its configuration rendered-master-2 to rendered-master-1, because the host was not ready: kubelet is not healthy",
		"it boots, because somebody wanted it at 2026-11-20T08:58:00Z",
		`it boots, because somebody wanted it at 2026-11-20T08:58:00Z, for its maintenance window ("new kernel")`,
		"it boots, because its distribution wants it (the kernel 2 is installed, and 1 runs)",
		`it boots after 12 updates, because its distribution wants it (the kernel 2 is installed, and 1 runs); somebody wanted its updates at 2026-11-20T08:58:00Z ("CVE-2026-1")`,
		"it boots for 2 held updates of what etcd runs on; somebody wanted its updates at 2026-11-20T08:58:00Z",
	} {
		i := Assemble(scenario(t, paired+"-3 cp-2 plans "+why+leavesInOrder+comesBack))[0]
		if want := "cp-2 stopped cleanly, as planned: " + why + ": over after 30s"; i.Title != want {
			t.Errorf("its title is %q\nwant %q", i.Title, want)
		}
		words := strings.Join(strings.Fields(i.Words()), " ")
		if want := "Pacemaker stopped etcd on cp-2 cleanly, as planned: " + why + " 09:00:02.200"; !strings.Contains(words, want) {
			t.Errorf("the report lacks %q: %s", want, words)
		}
	}
}
