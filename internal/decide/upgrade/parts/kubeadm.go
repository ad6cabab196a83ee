package parts

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/decide/upgrade/hostfiles"
)

// kubeadm's ConfigMap, which an installation makes, with the key of its ClusterConfiguration.
const (
	KubeadmNamespace = "kube-system"
	KubeadmName      = "kubeadm-config"
	KubeadmKey       = "ClusterConfiguration"
	// ArgumentsKey is beside it, and has the arguments that a release of ours gave, as JSON.
	ArgumentsKey = "holdfast-arguments"
)

// Versions are what kubeadm's configuration says of the release of a cluster: the version of
// Kubernetes, the tag of etcd's image, and the arguments that the release gives the programs
// of a control plane on every site, by program, and there by name without dashes.
type Versions struct {
	Kubernetes, EtcdTag string
	Arguments           map[string]map[string]string
}

// sections are kubeadm's names for the programs of a control plane.
var sections = map[string]string{"kube-apiserver": "apiServer", "kube-controller-manager": "controllerManager", "kube-scheduler": "scheduler"}

// Kubeadm returns kubeadm's ClusterConfiguration with the versions and arguments of a release.
// former are the arguments that the release of before gave, nil if that is not known: those of
// them that the release does not give go, and what somebody changed stays
// (decide/upgrade/hostfiles). Whoever joins reads it, and kubeadm refuses a cluster of two minor
// releases before its own. A text that has all of it already stays as it is.
func Kubeadm(text string, v Versions, former map[string]map[string]string) (string, error) {
	var c map[string]any
	if err := yaml.Unmarshal([]byte(text), &c); err != nil {
		return "", err
	}
	etcd, _ := c["etcd"].(map[string]any)
	local, _ := etcd["local"].(map[string]any)
	switch {
	case c["kubernetesVersion"] == nil:
		return "", errors.New("it has no kubernetesVersion")
	case local == nil:
		return "", errors.New("it has no etcd.local")
	}
	changed := c["kubernetesVersion"] != v.Kubernetes || local["imageTag"] != v.EtcdTag
	c["kubernetesVersion"], local["imageTag"] = v.Kubernetes, v.EtcdTag
	for program, args := range v.Arguments {
		section, known := sections[program]
		if !known {
			return "", fmt.Errorf("it has no section of %s", program)
		}
		gave, err := give(c, section, former[program], args)
		if err != nil {
			return "", err
		}
		changed = changed || gave
	}
	if !changed {
		return text, nil
	}
	out, err := yaml.Marshal(c)
	return string(out), err
}

// give gives a section of a ClusterConfiguration the arguments of a release, and reports whether
// that changed anything. Those that it has keep their places, others come last.
func give(c map[string]any, section string, was, is map[string]string) (changed bool, err error) {
	of, _ := c[section].(map[string]any)
	if of == nil {
		of = map[string]any{}
	}
	items, isList := of["extraArgs"].([]any)
	if !isList && of["extraArgs"] != nil {
		return false, fmt.Errorf("%s.extraArgs is no list", section)
	}
	has, at := map[string]string{}, map[string]int{}
	for i, item := range items {
		name, value := argument(item)
		has[name], at[name] = value, i
	}
	set, drop, _ := hostfiles.Arguments(has, was, is)
	for _, name := range slices.Sorted(maps.Keys(set)) {
		want := map[string]any{"name": name, "value": set[name]}
		if i, there := at[name]; there {
			items[i] = want
		} else {
			items = append(items, want)
		}
	}
	items = slices.DeleteFunc(items, func(item any) bool {
		name, _ := argument(item)
		return slices.Contains(drop, name)
	})
	if changed = len(set)+len(drop) > 0; changed {
		of["extraArgs"], c[section] = items, of
	}
	return changed, nil
}

// argument returns the parts of an item of extraArgs.
func argument(item any) (name, value string) {
	arg, _ := item.(map[string]any)
	name, _ = arg["name"].(string)
	return name, fmt.Sprint(arg["value"])
}
