package replace

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/adapter/etcd"
	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/pacemaker"
	"github.com/holdfast/holdfast/internal/adapter/podman"
	"github.com/holdfast/holdfast/internal/adapter/replacement"
	"github.com/holdfast/holdfast/internal/decide/replace"
	decide "github.com/holdfast/holdfast/internal/decide/twonode"
	"github.com/holdfast/holdfast/internal/model/corosync"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/powercut"
)

const (
	kubeletsEtcd = "/etc/kubernetes/manifests/etcd.yaml"
	etcdsData    = "/var/lib/etcd/member/snap/db"
)

// newGrowing returns a lone control plane whose site grows, as the command left it: its etcd is
// kubelet's, and nobody ever started Corosync.
func newGrowing(t *testing.T) (*lab, Job) {
	t.Helper()
	l, job := newLab(t)
	if err := os.RemoveAll(filepath.Dir(l.path(corosync.Path))); err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile("../../decide/twonode/testdata/corosync.conf")
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{kubeletsEtcd: "kind: Pod\n", etcdsData: "", "/etc/passwd": "hacluster:x:101:103::/:/bin/false\n", "/proc/locks": ""} {
		if err := powercut.WriteFile(l.path(path), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l.nodes, l.api.node, l.api.pods = nil, NodeFacts{}, 0
	l.Address = func() string { return "10.98.0.11" }
	l.Manifest = func(nodes []decide.Node, self string) ([]byte, error) {
		return []byte("etcd of " + self + " beside " + nodes[1].Address), nil
	}
	l.report = func(context.Context) (state.EtcdReport, error) { return state.EtcdReport{}, nil } // it knows of no peer
	l.member = func(context.Context) (etcd.MemberStatus, error) {
		return etcd.MemberStatus{Leader: 1, Members: []state.EtcdMember{{ID: 1}}}, nil
	}
	l.run = func(_ context.Context, c host.Cmd) ([]byte, error) {
		line := c.String()
		l.commands = append(l.commands, line)
		switch {
		case strings.HasPrefix(line, "pcs cluster setup"):
			return nil, powercut.WriteFile(c.Args[len(c.Args)-1], example, 0o644)
		case strings.HasPrefix(line, "systemctl start corosync.service"):
			l.nodes = []string{"cp-1"}
		case strings.HasPrefix(line, "systemctl is-active"):
			return nil, errors.New("exit status 3")
		}
		return []byte("<cib/>"), nil
	}
	job.Plan = &replace.Plan{Format: 1, ID: "p1", By: "ada", Begun: noon, Grows: true, Stage: replace.Widening, New: replace.New{Name: "cp-2", BMC: "https://bmc", Address: "10.98.0.12"}}
	return l, job
}

func (l *lab) decides(t *testing.T, job Job) replace.Decision {
	t.Helper()
	f := l.look(t.Context(), job)
	f.Plan = job.Plan
	return replace.Decide(f)
}

func TestALoneHostBecomesOneOfTwoWithoutAPeer(t *testing.T) {
	l, job := newGrowing(t)
	do := l.world().Do
	for _, want := range []replace.Act{replace.PutToken, replace.PutManifest, replace.Retire, replace.FirstRing, replace.SetAlone} {
		if d := l.decides(t, job); d.Act != want {
			t.Fatalf("the decision is %+v, want %s", d, want)
		}
		for range 2 { // each may be done again
			if err := do[want](t.Context(), job); err != nil && want != replace.SetAlone {
				t.Fatalf("%s: %v", want, err)
			}
		}
	}
	if r, err := l.files.Retired(); err != nil || !r.Value.Never || r.Value.Peer != "cp-2" {
		t.Errorf("the keeper is told %+v, %v", r, err)
	}
	if conf, err := l.conf(); err != nil || len(conf.Nodes) != 1 || conf.TwoNode {
		t.Errorf("corosync.conf: %+v, %v", conf, err)
	}
	if err := do[replace.TakeEtcd](t.Context(), job); err != nil {
		t.Fatal(err)
	}
	f := l.look(t.Context(), job)
	if !state.Is(f.Kubelets, false) || !state.Is(f.Podmans, false) || !state.Is(f.Manifest, true) {
		t.Errorf("kubelet has etcd: %+v, podman %+v, manifest %+v", f.Kubelets, f.Podmans, f.Manifest)
	}
	l.podman = func(context.Context) (podman.Process, error) { return podman.Process{}, errors.New("asleep") }
	if f := l.look(t.Context(), job); f.Podmans.Known {
		t.Error("podman does not answer, and it is known who runs etcd")
	}
}

func TestTheGatesOfAGrowingSiteNeedNoKeeper(t *testing.T) {
	l, job := newGrowing(t)
	order := order
	order.Wish = replace.Wish{ID: "p2", Grows: true, New: job.Plan.New, At: noon, By: "ada", Accepts: replace.Accepts{NoBackup: true}}
	job = Job{Order: &order}
	delete(l.api.Maps, system+"/"+lockName)
	f := l.look(t.Context(), job)
	for _, g := range replace.Closed(replace.GrowGates(f, order.Wish)) {
		if g.ID != "release" { // there is none in this folder
			t.Errorf("%s is closed: %s", g.ID, g.Words)
		}
	}
	if err := os.Remove(l.path(kubeletsEtcd)); err != nil {
		t.Fatal(err)
	}
	f = l.look(t.Context(), job)
	if f.Serves.Known || f.Record.Known {
		t.Error("nobody runs etcd here, and something is known of it")
	}
	if _, there := l.api.Secrets[etcdSpace+"/"+tokenName]; there || len(l.commands) > 0 && strings.HasPrefix(l.commands[0], pacemaker.Reload().String()) {
		t.Error("a look changed something")
	}
}

func TestTheSiteOfALoneControlPlaneIsRemovedOnceItsGrowthIsWhole(t *testing.T) {
	for _, c := range []struct {
		stage   replace.Stage
		shrinks bool // the plan before the growth that is prepared now
	}{{stage: replace.Whole}, {stage: replace.Aborted}, {stage: replace.Waiting}, {replace.Whole, true}} {
		stage, kept := c.stage, c.stage != replace.Whole || c.shrinks
		s, root := newSite(), t.TempDir()
		a := s.agent(root)
		// The agent was cut off right after it removed the wish and the secrets.
		err := errors.Join(
			a.Store.PutPlan(replace.Plan{Format: replace.Format, ID: "p1", Grows: !c.shrinks, Shrinks: c.shrinks, Survivor: "cp-1", New: replace.New{Name: "cp-2"}, Stage: stage}),
			a.Store.Write(a.Store.Path(replacement.LoneSitePath), []byte("secret"), 0o600),
		)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = a.Step(t.Context()) // what it says of the plan that waits is not asked here
		if a.Store.HasLoneSite() != kept {
			t.Errorf("%s: the file is there: %t", stage, !kept)
		}
	}
}
