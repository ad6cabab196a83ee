package grow

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	decide "github.com/holdfast/holdfast/internal/decide/grow"
	"github.com/holdfast/holdfast/internal/install/installer"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/manifests"
	"github.com/holdfast/holdfast/internal/testkit/apitest"
	"github.com/holdfast/holdfast/internal/testkit/golden"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

func TestWhatAClusterOfOneLacksIsTheApprovedList(t *testing.T) {
	have, want := sites(t)
	changes, err := Objects(have, want)
	must(t, err)
	var out strings.Builder
	for _, c := range changes {
		what, status := c.Kind+" "+strings.TrimPrefix(c.Namespace+"/"+c.Name, "/"), ""
		if c.Status {
			status = ", status"
		}
		fmt.Fprintf(&out, "%-5s %s%s%s\n", c.Way, what, map[bool]string{true: " (new)"}[c.Before == nil], status)
	}
	golden.Check(t, "objects.txt", []byte(out.String()))
}

// TestTheTopologyChangesAfterWhatItNeedsAndBeforeTheGuards: the operator begins with the
// topology, and a guard refuses to change it.
func TestTheTopologyChangesAfterWhatItNeedsAndBeforeTheGuards(t *testing.T) {
	have, want := sites(t)
	changes, err := Objects(have, want)
	must(t, err)
	at := slices.IndexFunc(changes, func(c manifests.Change) bool { return c.Kind == "Infrastructure" })
	for i, c := range changes {
		guard := strings.HasPrefix(c.Kind, "ValidatingAdmissionPolicy")
		if guard != (i > at) && !c.Status {
			t.Errorf("%s is number %d, the topology %d", c.ObjectRef, i, at)
		}
	}
}

// cut is an API that fails at one of its writes.
type cut struct {
	API
	at, writes int
}

var errCut = errors.New("cut")

func (c *cut) write() error {
	if c.writes++; c.writes == c.at {
		return errCut
	}
	return nil
}

func (c *cut) Apply(ctx context.Context, r state.ObjectRef, document []byte) error {
	if err := c.write(); err != nil {
		return err
	}
	return c.API.Apply(ctx, r, document)
}

func (c *cut) Merge(ctx context.Context, r state.ObjectRef, status bool, fields, patch map[string]any) (bool, error) {
	if err := c.write(); err != nil {
		return false, err
	}
	return c.API.Merge(ctx, r, status, fields, patch)
}

// reachable returns a text with a Service network that the API server of the test has.
func reachable(text string) string { return strings.ReplaceAll(text, "172.30.0.0/16", "10.0.0.0/24") }

func TestALivingClusterOfOneBecomesOneOfTwo(t *testing.T) {
	api := apitest.Own(t)
	from, to := strings.Index(sitetest.TwoDual, "controlPlane:"), strings.Index(sitetest.TwoDual, "networking:")
	installed := sitetest.New(t, reachable(sitetest.TwoDual[:from]+"controlPlane: {replicas: 1}\n"+sitetest.TwoDual[to:]))
	files, err := installer.Objects(installed)
	must(t, err)
	api.Install(t, files)
	have := installed.For(state.RoleBootstrap).Settled()
	want, err := decide.Site(have, sitetest.New(t, reachable(sitetest.TwoDual)).Config, "cp-1")
	must(t, err)
	client, err := kube.Open(api.Kubeconfig())
	must(t, err)

	// People and the operator have changed these since.
	patch := func(what, subresource, text string) {
		args := []string{"patch", what, "--type=merge", "--patch", text}
		if subresource != "" {
			args = append(args, "--subresource="+subresource)
		}
		api.Kubectl(t, append(args, strings.Fields(map[bool]string{true: "--namespace openshift-ingress-operator"}[strings.HasPrefix(what, "ingresscontroller")])...)...)
	}
	patch("infrastructure/cluster", "status", `{"status":{"platformStatus":{"baremetal":{"ingressIPs":["10.98.0.77"]}}}}`)
	patch("ingresscontroller/default", "", `{"spec":{"replicas":3}}`)

	changes, err := Objects(have, want)
	must(t, err)
	if _, err := Apply(t.Context(), &cut{API: client.Bringer(), at: 9}, changes); !errors.Is(err, errCut) {
		t.Fatalf("not cut: %v", err)
	}
	left, err := Apply(t.Context(), client.Bringer(), changes)
	must(t, err)
	if len(left) != 1 || left[0].Object.Kind != "IngressController" || left[0].Field != "spec.replicas" {
		t.Errorf("left as it is: %+v", left)
	}
	get := func(args ...string) string { return api.Kubectl(t, append([]string{"get"}, args...)...) }
	for what, c := range map[string]struct {
		args []string
		want string
	}{
		"the topology":                   {[]string{"infrastructure", "cluster", "-o", `jsonpath={.status.controlPlaneTopology} {.status.infrastructureTopology}`}, "DualReplica HighlyAvailable"},
		"VIPs that came later":           {[]string{"infrastructure", "cluster", "-o", `jsonpath={.status.platformStatus.baremetal.ingressIPs}`}, `["10.98.0.77"]`},
		"the feature set":                {[]string{"featuregate", "cluster", "-o", `jsonpath={.spec.featureSet} {.spec.customNoUpgrade.enabled} {.status.featureGates[*].enabled}`}, `CustomNoUpgrade ["DualReplicaTopology"] [{"name":"DualReplicaTopology"}]`},
		"the routers of a person":        {[]string{"ingresscontroller", "default", "-n", "openshift-ingress-operator", "-o", `jsonpath={.spec.replicas}`}, "3"},
		"who runs etcd":                  {[]string{"etcd", "cluster", "-o", `jsonpath={.spec.managementState}`}, "Managed"},
		"the account of the second host": {[]string{"secret", "fencing-credentials-cp-2", "-n", "openshift-etcd", "-o", `jsonpath={.data.password}`}, base64.StdEncoding.EncodeToString([]byte("hush-2"))},
	} {
		if got := strings.TrimSpace(get(c.args...)); got != c.want {
			t.Errorf("%s: %s, want %s", what, got, c.want)
		}
	}
	config := get("configmap", "cluster-config-v1", "-n", "kube-system", "-o", "yaml")
	if !strings.Contains(config, "replicas: 2") || strings.Contains(config, "hush-") {
		t.Errorf("the cluster's copy of the install-config:\n%s", config)
	}

	// It is what an installation of two has, but for what people changed.
	if again, err := Objects(want, want); err != nil || len(again) > 0 {
		t.Errorf("the same site differs: %+v, %v", again, err)
	}
	before := versions(t, api, changes)
	left, err = Apply(t.Context(), client.Bringer(), changes)
	must(t, err)
	if diff := cmp.Diff(before, versions(t, api, changes)); diff != "" || len(left) != 1 {
		t.Errorf("applied twice, it changes (left %+v):\n%s", left, diff)
	}
}

// versions returns the resource versions of the changed objects.
func versions(t *testing.T, api *apitest.API, changes []manifests.Change) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, c := range changes {
		group, _, _ := strings.Cut(c.APIVersion, "/")
		kind := strings.ToLower(c.Kind)
		if strings.Contains(c.APIVersion, "/") {
			kind += "." + group
		}
		args := []string{"get", kind, c.Name, "-o", "jsonpath={.metadata.resourceVersion}"}
		if c.Namespace != "" {
			args = append(args, "--namespace", c.Namespace)
		}
		out[c.String()] = api.Kubectl(t, args...)
	}
	return out
}

func TestASiteThatWouldLoseAnObjectIsRefused(t *testing.T) {
	have, want := sites(t)
	if _, err := Objects(want, have); err == nil || !strings.Contains(err.Error(), "nothing takes it away") {
		t.Errorf("from two to one: %v", err)
	}
}
