package parts

import (
	"errors"

	"sigs.k8s.io/yaml"
)

// kubeadm's ConfigMap, which an installation makes, with the key of its ClusterConfiguration.
const (
	KubeadmNamespace = "kube-system"
	KubeadmName      = "kubeadm-config"
	KubeadmKey       = "ClusterConfiguration"
)

// Versions are what kubeadm's configuration says of the release of a cluster: the version of
// Kubernetes, and the tag of etcd's image.
type Versions struct{ Kubernetes, EtcdTag string }

// Kubeadm returns kubeadm's ClusterConfiguration with the versions of a release. Whoever joins
// reads it, and kubeadm refuses a cluster of two minor releases before its own. A text that has
// these versions stays as it is.
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
	case c["kubernetesVersion"] == v.Kubernetes && local["imageTag"] == v.EtcdTag:
		return text, nil
	}
	c["kubernetesVersion"], local["imageTag"] = v.Kubernetes, v.EtcdTag
	out, err := yaml.Marshal(c)
	return string(out), err
}
