package grow

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/decide/replace"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/manifests"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

// renamed returns a living site of two, and the one in which cp-9 takes the place of cp-2.
func renamed(t *testing.T, name string) (have, want *site.Site) {
	t.Helper()
	have = sitetest.New(t, sitetest.TwoDual).For(state.RoleBootstrap).Settled()
	plan := replace.Plan{Old: replace.Old{Name: "cp-2"}, New: replace.New{Name: name, BMC: "https://10.99.0.119/redfish/v1/Systems/1"}}
	return have, plan.Site(have, state.FencingDevice{Username: "fencer", Password: "hush-9"})
}

// written is an API in which everything is as the site was installed. It remembers what is written.
type written struct {
	API
	log  []string
	text strings.Builder
}

func (w *written) Apply(_ context.Context, r state.ObjectRef, document []byte) error {
	w.log = append(w.log, "apply "+r.Kind+" "+r.Namespace+"/"+r.Name)
	_, err := w.text.Write(document)
	return err
}

func (w *written) Fields(context.Context, state.ObjectRef) (map[string]any, error) { return nil, nil }

func (w *written) Remove(_ context.Context, r state.ObjectRef) error {
	w.log = append(w.log, "remove "+r.Kind+" "+r.Namespace+"/"+r.Name)
	return nil
}

func TestTheClusterGetsWhatFollowsFromTheNewHostsName(t *testing.T) {
	have, want := renamed(t, "cp-9")
	api := &written{}
	must(t, Name(t.Context(), api, have, want, "cp-2"))
	expected := []string{
		"apply ConfigMap kube-system/cluster-config-v1",
		"apply Role kube-system/holdfast-agents",
		"apply Role openshift-etcd/holdfast-agents",
		"remove Job openshift-etcd/two-node-auth-cp-2",
		"remove Job openshift-etcd/two-node-fencing-cp-2",
		"remove Job openshift-etcd/two-node-manifest-cp-2",
		"remove Job openshift-etcd/two-node-hand-over-cp-2",
		"remove Job openshift-etcd/two-node-finish-cp-2",
	}
	if diff := cmp.Diff(expected, api.log); diff != "" {
		t.Error(diff)
	}
	if text := api.text.String(); strings.Contains(text, "hush") || strings.Contains(text, "cp-2") || !strings.Contains(text, "fencing-credentials-cp-9") {
		t.Errorf("the objects name the old host, or an account: %s", text)
	}
}

func TestANewHostOfTheSameNameChangesTheAddressOfItsBMCAlone(t *testing.T) {
	have, want := renamed(t, "cp-2")
	changes, err := manifests.Naming(have, want)
	must(t, err)
	if len(changes) != 1 || changes[0].Name != "cluster-config-v1" || changes[0].Way != manifests.Set {
		t.Errorf("%+v", changes)
	}
	api := &written{}
	must(t, Name(t.Context(), api, have, want, ""))
	if slices.ContainsFunc(api.log, func(l string) bool { return strings.HasPrefix(l, "remove") }) {
		t.Errorf("Jobs of the new host are removed: %q", api.log)
	}
	if changes, err := manifests.Naming(have, have); err != nil || len(changes) > 0 {
		t.Errorf("the same site: %+v, %v", changes, err)
	}
}

// The host that stays gets another site.json and nothing else: no other file of a host names the two.
func TestNoOtherFileOfAHostNamesTheTwoControlPlanes(t *testing.T) {
	have, want := renamed(t, "cp-9")
	cfg, err := Difference(have, want)
	if err != nil || len(cfg.Files)+len(cfg.Units) > 0 {
		t.Errorf("%+v, %v", cfg, err)
	}
}

// A replacement changes nothing else that differs between two sites.
func TestANamingThatTakesAnotherObjectAwayIsRefused(t *testing.T) {
	have, _ := renamed(t, "cp-9")
	_, _, want := fewer(t, sitetest.TwoDual)
	if _, err := manifests.Naming(have, want); err == nil {
		t.Error("a site of one control plane counts as one whose host was replaced")
	}
}
