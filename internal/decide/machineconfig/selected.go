package machineconfig

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Selected returns the MachineConfigs from which the configuration of a pool is
// made. The error is a Mistakes.
func Selected(pool *mcfgv1.MachineConfigPool, all []mcfgv1.MachineConfig) ([]mcfgv1.MachineConfig, error) {
	const field = "spec.machineConfigSelector"
	object := "MachineConfigPool " + pool.Name
	selector, err := metav1.LabelSelectorAsSelector(pool.Spec.MachineConfigSelector)
	if err != nil {
		return nil, Mistakes{{object, field, err.Error()}}
	}
	if selector.Empty() {
		return nil, Mistakes{{object, field, "selects every MachineConfig; name roles by " + mcfgv1.MachineConfigRoleLabelKey}}
	}
	var out []mcfgv1.MachineConfig
	var mistakes Mistakes
	for _, mc := range all {
		role, has := mc.Labels[mcfgv1.MachineConfigRoleLabelKey]
		merged := strings.HasPrefix(mc.Name, Prefix)
		switch {
		case !selector.Matches(labels.Set(mc.Labels)) || merged && !has:
		case merged:
			mistakes = append(mistakes, Mistake{"MachineConfig " + mc.Name, "metadata.name", "the prefix " + Prefix + " is kept for results of a merge; choose another name"})
		case role == "":
			mistakes = append(mistakes, Mistake{"MachineConfig " + mc.Name, "metadata.labels", "needs " + mcfgv1.MachineConfigRoleLabelKey + " with the role that it is for"})
		default:
			out = append(out, mc)
		}
	}
	return out, mistakes.err()
}

// both returns the mistakes of two errors.
func both(a, b error) error {
	first, isFirst := errors.AsType[Mistakes](a)
	second, isSecond := errors.AsType[Mistakes](b)
	if a != nil && !isFirst {
		return a
	}
	if b != nil && !isSecond {
		return b
	}
	return slices.Concat(first, second).err()
}

// Objects are all the objects of the API from which configurations are made.
type Objects struct {
	MachineConfigs          []mcfgv1.MachineConfig
	KubeletConfigs          []mcfgv1.KubeletConfig
	ContainerRuntimeConfigs []mcfgv1.ContainerRuntimeConfig
	// DigestMirrors and TagMirrors are for all pools.
	DigestMirrors []configv1.ImageDigestMirrorSet
	TagMirrors    []configv1.ImageTagMirrorSet
	// Proxy is for all pools too. Without it, hosts keep the proxy and the authorities of
	// their installation.
	Proxy *ClusterProxy
	// Pools are those that KubeletConfigs and ContainerRuntimeConfigs select.
	Pools []mcfgv1.MachineConfigPool
	// Policy is what the site declares about changes. Package hostchange checks it.
	Policy operatorv1.NodeDisruptionPolicyConfig
}

// Of returns the configuration of a pool. The error is a Mistakes.
func Of(pool *mcfgv1.MachineConfigPool, all Objects) (Rendered, error) {
	list, err := Selected(pool, all.MachineConfigs)
	kubelet, sources, overrides, wrong := settings(pool, all)
	mirrored, sets, refused := mirrorSets(all, list)
	surroundings, proxy, unreachable := proxyFiles(all.Proxy)
	if err := both(both(both(err, wrong), refused), unreachable); err != nil {
		return Rendered{}, err
	}
	own, err := policyFiles(all.Policy)
	if err != nil {
		return Rendered{}, fmt.Errorf("pool %s: %w", pool.Name, err)
	}
	out, err := Render(pool.Name, list, slices.Concat(own, kubelet, mirrored, surroundings)...)
	if err != nil {
		return Rendered{}, err
	}
	out.Sources, out.Overrides = slices.Concat(out.Sources, sources, sets, proxy), append(out.Overrides, overrides...)
	return out, nil
}
