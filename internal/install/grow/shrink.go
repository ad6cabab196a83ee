package grow

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	decide "github.com/holdfast/holdfast/internal/decide/grow"
	"github.com/holdfast/holdfast/internal/decide/handover"
	"github.com/holdfast/holdfast/internal/install/apply"
	"github.com/holdfast/holdfast/internal/model/ignition"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/alerts"
	"github.com/holdfast/holdfast/internal/render/guards"
	renderhost "github.com/holdfast/holdfast/internal/render/host"
	"github.com/holdfast/holdfast/internal/render/manifests"
)

// These are the steps by which one of two control planes becomes a lone one again, or one of three,
// once kubelet has its etcd and it is in no cluster of Corosync (docs/adr/0096, docs/adr/0097).

// Undress takes from this host what only one of two control planes has, and writes site.json last.
// want is what decide/grow.Lone or ThreeOf returns. Packages stay. It may be run again after a cut at
// any step; on a host that is not one of two it does nothing.
func (h *Host) Undress(ctx context.Context, want *site.Site) error {
	data, err := os.ReadFile(h.at(site.Path))
	if err != nil {
		return err
	}
	have, err := site.Unmarshal(data)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", site.Path, err)
	case have.Identity.ClusterID != want.Identity.ClusterID || have.Role != want.Role || !have.Role.ControlPlane():
		return fmt.Errorf("%s is of another site or role (%s)", site.Path, have.Role)
	case !have.Topology().Fencing:
		return nil
	}
	if err := h.Strip(ctx, have, want); err != nil {
		return err
	}
	if data, err = decide.Kept(want).Marshal(); err != nil {
		return err
	}
	return h.Files.WriteFile(h.at(site.Path), data, state.SecretFileMode)
}

// Strip takes from this host what a control plane of one site has and that of another one lacks, and gives
// it what the other one has, but for site.json.
func (h *Host) Strip(ctx context.Context, have, want *site.Site) error {
	cfg, gone, err := difference(have, want)
	if err != nil {
		return err
	}
	text, err := ignition.Marshal(cfg, ignition.Newest)
	if err != nil {
		return err
	}
	if _, err := h.apply(ctx, text, apply.Request{OnStep: h.Say}); err != nil {
		return err
	}
	for _, path := range pathsOf(gone) {
		if at := h.at(path); host.Exists(at) {
			if err := h.Files.Remove(at); err != nil {
				return err
			}
		}
	}
	_, err = h.Files.Run(ctx, host.Command("systemctl", "daemon-reload"))
	return err
}

// pathsOf returns the files of a configuration.
func pathsOf(c ignition.Config) []string {
	var out []string
	for _, f := range slices.Concat(c.Files, renderhost.UnitFiles(c.Units)) {
		out = append(out, f.Path)
	}
	return out
}

// Fewer returns what the cluster of two control planes becomes, in the order in which Shrink
// brings it.
func Fewer(have, want *site.Site) ([]manifests.Change, error) { return manifests.Shrinkage(have, want) }

// made lists what the cluster of two has besides the objects of its installation: what a person
// gave it, and what the operator and agents made for the two hosts.
func made(hosts []string) []state.ObjectRef {
	of := func(version, kind, name string) state.ObjectRef {
		return state.ObjectRef{APIVersion: version, Kind: kind, Namespace: manifests.NamespaceEtcd, Name: name}
	}
	out := []state.ObjectRef{
		of("v1", "Secret", "pacemaker-auth"), of("v1", "ConfigMap", "external-etcd-pod"),
		{APIVersion: "etcd.openshift.io/v1", Kind: "PacemakerCluster", Name: "cluster"},
		// Its alerts would fire for ever: nobody reports on Pacemaker any more. The operator's right to
		// make it again went with the objects of the installation. The alerts of every site stay.
		{APIVersion: alerts.APIVersion, Kind: alerts.Kind, Namespace: alerts.Namespace, Name: alerts.Name},
	}
	for _, name := range handover.JobNames(hosts) {
		out = append(out, of("batch/v1", "Job", name))
	}
	for _, name := range hosts {
		out = append(out, of("v1", "Secret", manifests.FencingSecretPrefix+name))
	}
	return out
}

// liftTime is for how long guards are lifted: they go with the topology of two control planes.
const liftTime = 10 * time.Minute

// Shrink brings changes to a cluster as Apply does. It lifts the guards that go first, since one of
// them refuses to change the topology. The operator needs a moment to follow: until then the API
// refuses, and the caller tries again.
//
// hosts are the two that the site had. because says what becomes of it, for who reads the guards.
func Shrink(ctx context.Context, api API, changes []manifests.Change, hosts []string, because string, now time.Time) ([]Left, error) {
	for _, c := range changes {
		if c.Way != manifests.Remove || c.Kind != "ValidatingAdmissionPolicy" {
			continue
		}
		if err := lift(ctx, api, c.ObjectRef, because, now); err != nil {
			return nil, err
		}
	}
	left, err := Apply(ctx, api, changes)
	if err != nil {
		return left, err
	}
	for _, r := range made(hosts) {
		if err := api.Remove(ctx, r); err != nil {
			return left, err
		}
	}
	return left, nil
}

func lift(ctx context.Context, api API, r state.ObjectRef, because string, now time.Time) error {
	for range attempts {
		have, err := api.Fields(ctx, r)
		if err != nil || have == nil {
			return err
		}
		meta, _ := have["metadata"].(map[string]any)
		set, _ := meta["annotations"].(map[string]any)
		if until, _ := set[guards.AnnotationLifted].(string); guards.Lifted(map[string]string{guards.AnnotationLifted: until}, now).Active(now) {
			return nil
		}
		written, err := api.Merge(ctx, r, false, have, map[string]any{"metadata": map[string]any{"annotations": map[string]any{
			guards.AnnotationLifted: now.Add(liftTime).UTC().Format(time.RFC3339), guards.AnnotationBecause: because,
		}}})
		if err != nil || written {
			return err
		}
	}
	return fmt.Errorf("%s changes all the time: %d attempts to lift it failed", r, attempts)
}
