package parts

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"sigs.k8s.io/yaml"
)

// kubeadm's ConfigMap, which an installation makes, with the key of its ClusterConfiguration.
const (
	KubeadmNamespace = "kube-system"
	KubeadmName      = "kubeadm-config"
	KubeadmKey       = "ClusterConfiguration"
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
// Whoever joins reads it, and kubeadm refuses a cluster of two minor releases before its own. A
// text that has these already stays as it is.
func Kubeadm(text string, v Versions) (string, error) {
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
		gave, err := give(c, sections[program], args)
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

// give gives a section of a ClusterConfiguration arguments, and reports whether that changed
// anything. Those that it has keep their places, others come last.
func give(c map[string]any, section string, args map[string]string) (changed bool, err error) {
	of, _ := c[section].(map[string]any)
	if of == nil {
		of = map[string]any{}
	}
	list, is := of["extraArgs"].([]any)
	if !is && of["extraArgs"] != nil {
		return false, fmt.Errorf("%s.extraArgs is no list", section)
	}
	for _, name := range slices.Sorted(maps.Keys(args)) {
		want := map[string]any{"name": name, "value": args[name]}
		i := slices.IndexFunc(list, func(a any) bool { m, _ := a.(map[string]any); return m["name"] == name })
		switch {
		case i < 0:
			list, changed = append(list, want), true
		case list[i].(map[string]any)["value"] != args[name]:
			list[i], changed = want, true
		}
	}
	if changed {
		of["extraArgs"], c[section] = list, of
	}
	return changed, nil
}
