package grow

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	decide "github.com/holdfast/holdfast/internal/decide/grow"
	"github.com/holdfast/holdfast/internal/install/installer"
	"github.com/holdfast/holdfast/internal/model/ignition"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	renderhost "github.com/holdfast/holdfast/internal/render/host"
	"github.com/holdfast/holdfast/internal/render/manifests"
	"github.com/holdfast/holdfast/internal/testkit/apitest"
	"github.com/holdfast/holdfast/internal/testkit/powercut"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

// fewer returns a living site of two control planes, and the one of one that it becomes.
func fewer(t *testing.T, text string) (installed, have, want *site.Site) {
	t.Helper()
	from, to := strings.Index(text, "controlPlane:"), strings.Index(text, "networking:")
	installed = sitetest.New(t, text)
	have = installed.For(state.RoleBootstrap).Settled()
	want, err := decide.Lone(have, sitetest.New(t, text[:from]+"controlPlane: {replicas: 1}\n"+text[to:]).Config)
	must(t, err)
	return installed, have, want
}

// pairedMachine is a host of two as its installation left it.
func pairedMachine(t *testing.T, have *site.Site) *machine {
	t.Helper()
	m := newMachine(t, have)
	m.missing = nil
	c, err := renderhost.Config(have, have.Role, nil)
	must(t, err)
	for _, path := range pathsOf(ignition.Config{Units: c.Units}) {
		m.put(path, "# as installed\n")
	}
	return m
}

// left returns what a lone host has that only one of two may have.
func (m *machine) left(t *testing.T, have, want *site.Site) []string {
	t.Helper()
	_, gone, err := difference(have, want)
	must(t, err)
	return slices.DeleteFunc(pathsOf(gone), func(path string) bool { return m.read(path) == "absent" })
}

func TestOneOfTwoBecomesALoneHostAgain(t *testing.T) {
	_, have, want := fewer(t, sitetest.TwoDual)
	m := pairedMachine(t, have)
	if len(m.left(t, have, want)) < 4 {
		t.Fatalf("one of two has only %q", m.left(t, have, want))
	}
	must(t, m.host().Undress(t.Context(), want))
	if left := m.left(t, have, want); m.two() || len(left) > 0 {
		t.Errorf("one of two: %t, left are %q", m.two(), left)
	}
	if strings.Contains(m.read(renderhost.PackagesPath), "corosync") {
		t.Error("the next look would miss packages of two")
	}
	effects := m.Effects
	if err := m.host().Undress(t.Context(), want); err != nil || m.Effects != effects {
		t.Errorf("the second run: %d effects, %v", m.Effects-effects, err)
	}
}

// site.json is what the agent goes by. Until it is the last word the host is one of two, whose
// agent goes on with the plan.
func TestACutOfTheWayBackLeavesOneOfTwoThatTheNextRunCompletes(t *testing.T) {
	_, have, want := fewer(t, sitetest.TwoDual)
	for _, after := range []bool{false, true} {
		for at := 1; ; at++ {
			m := pairedMachine(t, have)
			m.At, m.After = at, after
			err := m.host().Undress(t.Context(), want)
			if err == nil {
				if at < 8 {
					t.Fatalf("only %d effects", at)
				}
				break
			}
			if !errors.Is(err, powercut.Err) {
				t.Fatalf("cut %d: %v", at, err)
			}
			if left := m.left(t, have, want); !m.two() && len(left) > 0 {
				t.Errorf("cut %d (after: %t): site.json says one, and left are %q", at, after, left)
			}
			m.At, m.Dead = 0, false
			must(t, m.host().Undress(t.Context(), want))
			if left := m.left(t, have, want); m.two() || len(left) > 0 {
				t.Errorf("cut %d (after: %t): one of two: %t, left are %q", at, after, m.two(), left)
			}
		}
	}
}

func TestAnotherSitesFileChangesNothing(t *testing.T) {
	_, have, want := fewer(t, sitetest.TwoDual)
	m := pairedMachine(t, have)
	want.Identity.ClusterID = "another"
	if err := m.host().Undress(t.Context(), want); err == nil || m.Effects > 0 {
		t.Errorf("%d effects, %v", m.Effects, err)
	}
}

func TestALivingClusterOfTwoBecomesOneOfOne(t *testing.T) {
	api := apitest.Own(t)
	installed, have, want := fewer(t, reachable(sitetest.TwoDual))
	files, err := installer.Objects(installed)
	must(t, err)
	api.Install(t, files)
	client, err := kube.Open(api.Kubeconfig())
	must(t, err)
	must(t, client.PutSecret(t.Context(), manifests.NamespaceEtcd, "pacemaker-auth", map[string][]byte{"token": []byte("x")}))
	must(t, client.PutSecret(t.Context(), manifests.NamespaceEtcd, manifests.FencingSecretPrefix+"cp-1", map[string][]byte{"password": []byte("x")}))
	api.Kubectl(t, "create", "job", "two-node-setup", "-n", manifests.NamespaceEtcd, "--image=x")
	api.Kubectl(t, "create", "job", "two-node-auth-cp-2", "-n", manifests.NamespaceEtcd, "--image=x")
	api.Kubectl(t, "patch", "etcd/cluster", "--type=merge", "--patch", `{"spec":{"unsupportedConfigOverrides":{"useExternalEtcdSupport":true}}}`)
	api.Kubectl(t, "patch", "featuregate/cluster", "--type=merge", "--patch", `{"spec":{"customNoUpgrade":{"enabled":["DualReplicaTopology","OfAPerson"]}}}`)

	changes, err := Fewer(have, want)
	must(t, err)
	now := time.Now()
	// A policy counts a moment after it was made.
	for inForce := now.Add(3 * time.Minute); ; time.Sleep(250 * time.Millisecond) {
		_, err := api.TryKubectl(t, "patch", "infrastructure/cluster", "--subresource=status", "--type=merge", "--dry-run=server", "--patch", `{"status":{"controlPlaneTopology":"SingleReplica"}}`)
		if err != nil && strings.Contains(err.Error(), "is not changed by hand") {
			break
		}
		if time.Now().After(inForce) {
			t.Fatalf("the guard is not in force: %v", err)
		}
	}
	// The guards hold until the operator has followed the annotation.
	if _, err = Shrink(t.Context(), client.Bringer(), changes, []string{"cp-1", "cp-2"}, "the site goes on with one control plane", now); err == nil || !strings.Contains(err.Error(), "is not changed by hand") {
		t.Fatalf("no guard refused: %v", err)
	}
	lifted := api.Kubectl(t, "get", "validatingadmissionpolicy", "holdfast-topology", "-o", `jsonpath={.metadata.annotations}`)
	if !strings.Contains(lifted, "lifted-until") || !strings.Contains(lifted, "the site goes on with one control plane") {
		t.Errorf("the guard is not lifted: %s", lifted)
	}
	for _, name := range []string{"holdfast-topology", "holdfast-etcd-hand-over"} { // the operator
		api.Kubectl(t, "patch", "validatingadmissionpolicybinding", name, "--type=merge", "--patch", `{"spec":{"validationActions":["Warn","Audit"]}}`)
	}
	deadline := time.Now().Add(3 * time.Minute) // a guard follows its binding late where processors are busy
	for {
		if _, err = Shrink(t.Context(), client.Bringer(), changes, []string{"cp-1", "cp-2"}, "the site goes on with one control plane", now); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(250 * time.Millisecond)
	}
	get := func(args ...string) string {
		return strings.TrimSpace(api.Kubectl(t, append([]string{"get"}, args...)...))
	}
	for what, c := range map[string]struct {
		args []string
		want string
	}{
		"the topology":         {[]string{"infrastructure", "cluster", "-o", `jsonpath={.status.controlPlaneTopology}`}, "SingleReplica"},
		"the feature set":      {[]string{"featuregate", "cluster", "-o", `jsonpath={.spec.featureSet} {.spec.customNoUpgrade.enabled}`}, `CustomNoUpgrade ["OfAPerson"]`},
		"who runs etcd":        {[]string{"etcds.operator.openshift.io", "-o", "name"}, ""},
		"Jobs of the set-up":   {[]string{"jobs", "-n", manifests.NamespaceEtcd, "-o", "name"}, ""},
		"accounts and secrets": {[]string{"secrets", "-n", manifests.NamespaceEtcd, "-o", "name"}, ""},
		"rights of two":        {[]string{"clusterrole", "holdfast-operator-two-node", "-o", "name", "--ignore-not-found"}, ""},
		"guards":               {[]string{"validatingadmissionpolicybinding", "holdfast-topology", "-o", "name", "--ignore-not-found"}, ""},
	} {
		if got := get(c.args...); got != c.want {
			t.Errorf("%s: %s, want %s", what, got, c.want)
		}
	}
	if config := get("configmap", "cluster-config-v1", "-n", "kube-system", "-o", "yaml"); !strings.Contains(config, "replicas: 1") {
		t.Errorf("the cluster's copy of the install-config:\n%s", config)
	}
	if _, err := Shrink(t.Context(), client.Bringer(), changes, []string{"cp-1", "cp-2"}, "the site goes on with one control plane", now); err != nil {
		t.Errorf("the second run: %v", err)
	}
}

func TestWhatAClusterOfTwoLosesComesAfterItsTopology(t *testing.T) {
	_, have, want := fewer(t, sitetest.TwoDual)
	changes, err := Fewer(have, want)
	must(t, err)
	topology := slices.IndexFunc(changes, func(c manifests.Change) bool { return c.Kind == "Infrastructure" && c.Status })
	removed := slices.IndexFunc(changes, func(c manifests.Change) bool { return c.Way == manifests.Remove })
	if topology < 0 || removed < topology {
		t.Errorf("the topology is number %d, the first removal %d", topology, removed)
	}
	for _, c := range changes[removed:] {
		if c.Way != manifests.Remove {
			t.Errorf("%s comes after a removal", c.ObjectRef)
		}
	}
	if strings.Contains(filepath.Join(pathsOf(ignition.Config{Units: []ignition.Unit{{Name: "corosync.service"}}})...), "corosync") {
		t.Error("a distribution's unit would be removed")
	}
}
