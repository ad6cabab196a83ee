package deleted

import "time"

// Object is an object of kubeadm's in the API that joins and upgrades read.
type Object struct {
	There, Kept bool
	// Seen is true if this agent has seen it since the agent was started: then its copy is not
	// older than a time in which the host was off.
	Seen bool
	// Gone is the time for which it has been missing.
	Gone time.Duration
	// Made lists the last times at which the agent made it again, in order.
	Made []time.Time
}

// Late is the time that another control plane, whose copy may be newer, has to make an
// object again.
const Late = 5 * time.Minute

// Again reports whether to make the object again. An object that somebody changed stays as
// it is.
func (o Object) Again(now time.Time) bool {
	return !o.There && o.Kept && len(Lately(o.Made, now)) < Most && (o.Seen || o.Gone >= Late)
}

// ConfigMaps returns the ConfigMaps that are made again: by namespace and name, with the keys
// that are kept, none for all. The controller manager signs the other keys of cluster-info
// anew.
func ConfigMaps() []ConfigMap {
	return []ConfigMap{
		{"kube-system", "kubeadm-config", nil},
		{"kube-system", "kubelet-config", nil},
		{"kube-system", "kube-proxy", nil},
		{"kube-public", "cluster-info", []string{"kubeconfig"}},
	}
}

// ConfigMap names a ConfigMap and the keys that are kept.
type ConfigMap struct {
	Namespace, Name string
	Keys            []string
}

// Keep returns the kept keys of its data.
func (m ConfigMap) Keep(data map[string]string) map[string]string {
	if len(m.Keys) == 0 {
		return data
	}
	out := map[string]string{}
	for _, k := range m.Keys {
		if v, ok := data[k]; ok {
			out[k] = v
		}
	}
	return out
}
