package controlplane

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/agent/loop"
	"github.com/holdfast/holdfast/internal/decide/noderole"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

func TestOnlyTheNewestListOfNodesCounts(t *testing.T) {
	a := New(Options{Site: sitetest.New(t, sitetest.TwoDual), Log: quietLog})
	for range 100 { // nobody takes them
		a.Nodes(nil)
	}
	a.Nodes([]state.Node{{Name: "cp-1"}})
	if got := a.nodes.Get(); len(got) != 1 {
		t.Errorf("%v", got)
	}
}

func TestWhatAControlPlaneKeepsFollowsFromItsSite(t *testing.T) {
	common := []string{"BMC accounts", "agent account", "authorities", "cluster objects", "encryption keys", "joining certificates", "joining hosts", "node labels", "operator certificate", "serving certificates", "watch of certificate requests", "watch of serving certificates"}
	two := []string{"etcd authorities", "taints", "watch of fence evidence", "watch of taints"}
	for shape, want := range map[string][]string{sitetest.ThreeV6: common, sitetest.TwoDual: slices.Concat(common, two)} {
		a := New(Options{Site: sitetest.New(t, shape), Log: quietLog, Now: time.Now})
		a.facts.Addresses = a.Site.VIPs()
		var got []string
		tasks, watches := a.loops()
		for _, task := range tasks {
			if got = append(got, task.Name); task.Limit == 0 {
				t.Errorf("nobody would notice that %s hangs", task.Name)
			}
		}
		for _, w := range watches {
			got = append(got, w.Name)
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", shape, got, want)
		}
	}
}

func TestNothingIsAskedOfTheAPIWhereNothingIsToBeDone(t *testing.T) {
	a := New(Options{Site: sitetest.New(t, sitetest.ThreeV6), Log: quietLog})
	a.facts.NodeName = "cp-1"
	labelled := state.Node{Name: "cp-1", Labels: map[string]string{}}
	for _, l := range noderole.Missing(map[string]string{state.LabelControlPlane: ""}, false, false) {
		labelled.Labels[l] = ""
	}
	labelled.Labels[state.LabelControlPlane] = ""
	if !a.untold([]state.Node{labelled}) { // of three a person names a lost one by its serial number
		t.Error("one of three does not say which machine it is")
	}
	labelled.Annotations, a.told = map[string]string{state.AnnotationMachine: "x"}, true
	if a.unlabelled([]state.Node{labelled}) || a.untold([]state.Node{labelled}) {
		t.Errorf("something is to be done for %+v", labelled)
	}
	if err := a.keepStep(t.Context(), []state.Node{labelled}); err != nil {
		t.Error(err)
	}
	if !a.unlabelled([]state.Node{{Name: "w-1", Labels: map[string]string{noderole.Claim: "worker"}}}) {
		t.Error("a node without labels is left alone")
	}
}

func TestWithoutAccessTheNodesAreLookedAtAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New(Options{Site: sitetest.New(t, sitetest.ThreeV6), Log: quietLog})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { loop.New(time.Now, quietLog).Run(ctx, a.nodesTask()); close(done) }()
		a.Nodes([]state.Node{{Name: "w-1", Labels: map[string]string{noderole.Claim: "worker"}}})
		synctest.Wait()
		stop()
		<-done
	})
}

// recordingAPI takes requests about nodes and records what they change.
func recordingAPI(t *testing.T, node string) (open func() (*kube.Client, error), changes func() []string) {
	t.Helper()
	var mu sync.Mutex
	var list []string
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Method != http.MethodGet {
			mu.Lock()
			list = append(list, path.Base(r.URL.Path)+" "+string(body))
			mu.Unlock()
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"kind":"Node","apiVersion":"v1","metadata":{"name":%q,"resourceVersion":"7"}}`, node)
	}))
	t.Cleanup(api.Close)
	conf := filepath.Join(t.TempDir(), "kubeconfig")
	text := `{"apiVersion":"v1","kind":"Config","clusters":[{"name":"x","cluster":{"server":"` + api.URL + `"}}],"contexts":[{"name":"x","context":{"cluster":"x"}}],"current-context":"x"}`
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return func() (*kube.Client, error) { return kube.Open(conf) }, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(list)
	}
}

func anew(name, role string) state.Node {
	return state.Node{Name: name, Labels: map[string]string{noderole.Claim: role}, Annotations: map[string]string{state.AnnotationMachine: "x"}}
}

func controlPlaneCalled(t *testing.T, name, shape string) (*Agent, func() []string) {
	t.Helper()
	a := New(Options{Site: sitetest.New(t, shape), Log: quietLog})
	a.Site.Role, a.facts.NodeName, a.told = state.RoleMaster, name, true
	a.proven = func() bool { return true }
	var changes func() []string
	a.open, changes = recordingAPI(t, name)
	return a, changes
}

func TestTheRoleLabelsOfAControlPlaneComeBackByItsOwnAgent(t *testing.T) {
	a, changes := controlPlaneCalled(t, "cp-2", sitetest.TwoDual)
	if err := a.keepStep(t.Context(), []state.Node{anew("cp-2", "master")}); err != nil {
		t.Fatal(err)
	}
	got := strings.Join(changes(), "\n")
	for _, want := range []string{noderole.ControlPlane, noderole.Master} {
		if !strings.Contains(got, `"`+want+`":""`) {
			t.Errorf("no label %s in %s", want, got)
		}
	}
	if schedulable := a.Site.Topology().MastersSchedulable; schedulable == strings.Contains(got, "taints") || schedulable != strings.Contains(got, noderole.Worker) {
		t.Errorf("it takes pods: %t; %s", schedulable, got)
	}
}

func TestAControlPlaneThatIsClosedToPodsIsClosedBeforeItIsLabelledAgain(t *testing.T) {
	a, changes := controlPlaneCalled(t, "cp-2", sitetest.ThreeV6)
	if a.Site.Topology().MastersSchedulable {
		t.Skip("this shape has no workers")
	}
	if err := a.keepStep(t.Context(), []state.Node{anew("cp-2", "master")}); err != nil {
		t.Fatal(err)
	}
	got := changes()
	if len(got) != 2 || !strings.Contains(got[0], `"taints":[{"key":"`+noderole.ControlPlane) || !strings.Contains(got[1], noderole.Master) {
		t.Errorf("%q", got)
	}
}

func TestNobodyElseIsMadeAControlPlaneByWhatHeClaims(t *testing.T) {
	a, changes := controlPlaneCalled(t, "cp-1", sitetest.TwoDual)
	if err := a.keepStep(t.Context(), []state.Node{anew("cp-2", "master"), anew("w-1", "master")}); err != nil {
		t.Fatal(err)
	}
	if got := changes(); len(got) > 0 {
		t.Errorf("%q", got)
	}
}

func TestAHostThatIsStillBeingInstalledDoesNotLabelItself(t *testing.T) {
	a, changes := controlPlaneCalled(t, "cp-2", sitetest.TwoDual)
	a.proven = func() bool { return false }
	if err := a.keepStep(t.Context(), []state.Node{anew("cp-2", "master")}); err != nil {
		t.Fatal(err)
	}
	if got := changes(); len(got) > 0 {
		t.Errorf("kubeadm says when it is a control plane: %q", got)
	}
}

func TestANodeThatWasMadeAnewSaysAgainWhichMachineItIs(t *testing.T) {
	a, _ := controlPlaneCalled(t, "cp-2", sitetest.TwoDual)
	there, gone := anew("cp-2", "master"), anew("cp-2", "master")
	gone.Annotations = nil
	if a.untold([]state.Node{there}) || !a.untold([]state.Node{gone}) {
		t.Error("once it was told it is never told again")
	}
}
