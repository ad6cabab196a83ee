package installation_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/decide/installation"
	"github.com/holdfast/holdfast/internal/model/state"
)

// hosts parses "cp-1:bootstrap:done worker-1:worker:join".
func hosts(text string) []state.Progress {
	var out []state.Progress
	for word := range strings.FieldsSeq(text) {
		f := strings.Split(word, ":")
		p := state.Progress{Host: f[0], Role: state.Role(f[1]), Complete: f[2] == "done"}
		if !p.Complete {
			p.Steps = []state.Step{{Name: f[2], State: state.StepRunning}}
		}
		out = append(out, p)
	}
	return out
}

func TestReached(t *testing.T) {
	const done = "cp-1:bootstrap:done cp-2:master:done"
	status := map[string]string{"status": "complete"}
	all := map[string]string{"status": "complete", "install": "complete"}
	for _, c := range []struct {
		name               string
		hosts              string
		marks              map[string]string
		bootstrap, install bool
	}{
		{"nobody was heard", "", nil, false, false},
		{"one of two control planes", "cp-1:bootstrap:done", nil, false, false},
		{"control planes without the worker", done, nil, true, false},
		{"control planes while the worker joins", done + " worker-1:worker:join", nil, true, false},
		{"every host", done + " worker-1:worker:done", nil, true, true},
		{"a worker does not count as a control plane", "cp-1:bootstrap:done worker-1:worker:done", nil, false, false},
		{"the cluster says that bootstrapping is over", "", status, true, false},
		{"the cluster says that all is", "", all, true, true},
		{"another value of the mark", "", map[string]string{"status": "progressing"}, false, false},
	} {
		want := installation.Expected{ControlPlanes: 2, Workers: 1}
		if got := installation.Reached(installation.BootstrapComplete, want, hosts(c.hosts), c.marks); got != c.bootstrap {
			t.Errorf("%s: bootstrap-complete %t", c.name, got)
		}
		if got := installation.Reached(installation.InstallComplete, want, hosts(c.hosts), c.marks); got != c.install {
			t.Errorf("%s: install-complete %t", c.name, got)
		}
	}
}

func TestAServerThatWasJustStartedForgetsNobody(t *testing.T) {
	old := hosts("cp-1:bootstrap:join cp-2:master:done worker-1:worker:join")
	got := installation.Merge(old, hosts("cp-1:bootstrap:done"))
	if diff := cmp.Diff(hosts("cp-1:bootstrap:done cp-2:master:done worker-1:worker:join"), got); diff != "" {
		t.Error(diff)
	}
}

func TestOpen(t *testing.T) {
	known := hosts("cp-1:bootstrap:done cp-2:master:join worker-1:worker:unpack")
	want := installation.Expected{ControlPlanes: 3, Workers: 3}
	for goal, open := range map[installation.Goal][]string{
		installation.BootstrapComplete: {"cp-2 join", "1 control plane has not reported yet"},
		installation.InstallComplete: {
			"cp-2 join", "worker-1 unpack", "1 control plane has not reported yet", "2 workers have not reported yet",
		},
	} {
		if diff := cmp.Diff(open, installation.Open(goal, want, known)); diff != "" {
			t.Errorf("%s: %s", goal, diff)
		}
	}
}
