package controlplane

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/agent/identity"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/manifests"
	"github.com/holdfast/holdfast/internal/testkit/apitest"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

// keeperOf returns the keeper of a control plane of the test's cluster.
func keeperOf(t *testing.T, api *apitest.API, name string) identity.Keeper {
	t.Helper()
	bundle, key := api.Authority(t)
	root := t.TempDir()
	_, err := host.WriteFiles(root, []state.File{
		{Path: "/etc/kubernetes/pki/ca.crt", Data: bundle}, {Path: "/etc/kubernetes/pki/ca.key", Data: key, Mode: state.SecretFileMode},
	})
	if err != nil {
		t.Fatal(err)
	}
	return identity.Keeper{Root: root, Host: name, Server: api.Config.Host, Now: time.Now}
}

// identified returns an agent that has no account yet, on a host with the files
// that an installation leaves.
func identified(t *testing.T, name string) (*Agent, identity.Keeper, *syncLog) {
	t.Helper()
	api := apitest.Need(t, server)
	log := &syncLog{}
	a := New(Options{Site: sitetest.New(t, sitetest.TwoDual), Log: slog.New(slog.NewTextHandler(log, nil)), Now: time.Now})
	a.facts.NodeName = name
	keeper := keeperOf(t, api, name)
	a.open = func() (*kube.Client, error) { return openBy(keeper.Root+state.AgentKubeconfig, "") }
	a.admin = func() (*kube.Client, error) { return kube.Open(api.Kubeconfig()) }
	a.stands = func() bool { return true }
	return a, keeper, log
}

func noAdmin() (*kube.Client, error) { return nil, fs.ErrNotExist }

// until repeats do until the API server's authorizer knows of a change.
func until(t *testing.T, what string, do func() error) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), soon)
	defer stop()
	for {
		err := do()
		if err == nil {
			return
		}
		if host.Sleep(ctx, 20*time.Millisecond) != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
}

func nodesBy(t *testing.T, a *Agent) error {
	t.Helper()
	client, err := a.open()
	if err != nil {
		return err
	}
	_, err = client.Nodes(t.Context())
	return err
}

// takeRights deletes the rights of agents, as on a cluster of an earlier release.
func takeRights(t *testing.T, a *Agent) {
	t.Helper()
	client, err := a.admin()
	if err != nil {
		t.Fatal(err)
	}
	own, err := ownObjects(a.Site)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range own {
		if o.name == manifests.AgentsName {
			if err := client.DeleteObject(t.Context(), o.collection+"/"+o.name); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestAnAgentOfAClusterOfAnEarlierReleaseGivesItselfItsAccount(t *testing.T) {
	a, keeper, _ := identified(t, "cp-1")
	takeRights(t, a)
	if err := nodesBy(t, a); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("before: %v", err)
	}
	if err := a.identify(t.Context(), keeper); err != nil {
		t.Fatal(err)
	}
	until(t, "the agent's account opens the API", func() error { return nodesBy(t, a) })
	a.admin = noAdmin  // an administrator takes the file away
	a.entitled = false // and the agent is restarted
	until(t, "without the administrator's file", func() error { return a.identify(t.Context(), keeper) })
	if err := nodesBy(t, a); err != nil || !a.entitled {
		t.Errorf("%t, %v", a.entitled, err)
	}
}

func TestNobodyFindsAnAccountThatOpensNothing(t *testing.T) {
	a, keeper, _ := identified(t, "cp-1")
	a.admin = func() (*kube.Client, error) { return nil, errors.New("the API does not answer") }
	if err := a.identify(t.Context(), keeper); err == nil || keeper.Has() {
		t.Errorf("before anybody gave it a right: %v, %t", err, keeper.Has())
	}
	a.admin, a.stands = noAdmin, func() bool { return false }
	if err := a.identify(t.Context(), keeper); !errors.Is(err, fs.ErrNotExist) || keeper.Has() {
		t.Errorf("before the control plane was made: %v, %t", err, keeper.Has())
	}
}

func TestAHostWithoutAnAdministratorsFileHasTheRightsThatAnotherOneGave(t *testing.T) {
	other, keeper, _ := identified(t, "cp-2")
	if err := other.identify(t.Context(), keeper); err != nil {
		t.Fatal(err)
	}
	a, keeper, _ := identified(t, "cp-1")
	a.admin = noAdmin
	until(t, "it is somebody", func() error { return errors.Join(a.identify(t.Context(), keeper), nodesBy(t, a)) })
	until(t, "and looks at its rights by its own account", func() error {
		if err := a.identify(t.Context(), keeper); err != nil || !a.entitled {
			return errors.Join(err, errors.New("not yet"))
		}
		return nil
	})
}

func TestWhatSomebodyTookFromAgentsIsGivenBack(t *testing.T) {
	a, keeper, log := identified(t, "cp-1")
	if err := a.identify(t.Context(), keeper); err != nil {
		t.Fatal(err)
	}
	takeRights(t, a)
	until(t, "the agent may nothing any more", func() error {
		if err := nodesBy(t, a); !apierrors.IsForbidden(err) {
			return errors.Join(err, errors.New("it may still"))
		}
		return nil
	})
	own, err := ownObjects(a.Site)
	if err != nil {
		t.Fatal(err)
	}
	rights := slices.DeleteFunc(own, func(o ownObject) bool { return o.name != manifests.AgentsName })
	client, err := a.open()
	if err != nil {
		t.Fatal(err)
	}
	admin := a.admin
	a.admin = noAdmin
	if err := a.remake(t.Context(), client, rights); err == nil || !strings.Contains(err.Error(), `User "holdfast:agent:cp-1" cannot list`) {
		t.Errorf("without an administrator it does not say what is wrong: %v", err)
	}
	a.admin = admin
	if err := a.remake(t.Context(), client, rights); err != nil {
		t.Fatalf("%v\n%s", err, log)
	}
	until(t, "it may again", func() error { return nodesBy(t, a) })
}

func TestALaterReleaseAddsWhatItsAgentsNeedAndTakesNothing(t *testing.T) {
	a, keeper, _ := identified(t, "cp-1")
	if err := a.identify(t.Context(), keeper); err != nil {
		t.Fatal(err)
	}
	admin, err := a.admin()
	if err != nil {
		t.Fatal(err)
	}
	const path = "/apis/rbac.authorization.k8s.io/v1/clusterroles/" + manifests.AgentsName
	rules := func() []rbacv1.PolicyRule {
		t.Helper()
		out, err := admin.Rules(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	want := rules()
	later := rbacv1.PolicyRule{APIGroups: []string{"later.example"}, Resources: []string{"things"}, Verbs: []string{"get"}}
	c := (&joiningCluster{t: t}).as(server.Config)
	role, err := c.RbacV1().ClusterRoles().Get(t.Context(), manifests.AgentsName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	role.Rules = append(slices.Clone(want[1:]), later) // the rules of an earlier release, and one of a later
	if _, err := c.RbacV1().ClusterRoles().Update(t.Context(), role, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	a.entitled = false
	if err := a.identify(t.Context(), keeper); err != nil {
		t.Fatal(err)
	}
	if got := rules(); len(got) != len(want)+1 || !slices.ContainsFunc(got, func(r rbacv1.PolicyRule) bool { return slices.Equal(r.APIGroups, later.APIGroups) }) {
		t.Errorf("%d rules, want %d: %+v", len(got), len(want)+1, got)
	}
	before := len(rules())
	a.entitled = false
	if err := a.identify(t.Context(), keeper); err != nil || len(rules()) != before {
		t.Errorf("once more: %v, %d rules of %d", err, len(rules()), before)
	}
}

func TestThatOnlyAnAdministratorCouldMakeItIsSaid(t *testing.T) {
	client, _ := storeAPI(t, nil)
	a := New(Options{Site: sitetest.New(t, sitetest.TwoDual), Log: quietLog})
	a.admin = noAdmin
	own, err := ownObjects(a.Site)
	if err != nil {
		t.Fatal(err)
	}
	err = a.remake(t.Context(), client, own[:1])
	const want = "only an administrator may create it, and this host has no /etc/kubernetes/admin.conf"
	if err == nil || errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), own[0].what+": "+want) {
		t.Errorf("%v", err)
	}
}
