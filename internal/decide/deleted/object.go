package deleted

import "time"

// Object is an object of kubeadm's in the API that joins and upgrades read.
type Object struct {
	There, Kept bool
	// Seen is true if this agent has seen it since it was started: its copy is then
	// not of before a time in which the host was off.
	Seen bool
	// Gone is how long it has been missing.
	Gone time.Duration
	// Made lists when the agent made it again lately, in order.
	Made []time.Time
}

// Late is how long another control plane, whose copy may be newer, has to make an
// object again.
const Late = 5 * time.Minute

// Again reports whether to make the object again. One that somebody changed stays as
// it is.
func (o Object) Again(now time.Time) bool {
	return !o.There && o.Kept && len(Lately(o.Made, now)) < Most && (o.Seen || o.Gone >= Late)
}

// ConfigMaps are those that are made again: by namespace and name, with the keys
// that are kept, none for all. Of cluster-info, the controller manager signs the
// rest anew.
func ConfigMaps() []ConfigMap {
	return []ConfigMap{
		{"kube-system", "kubeadm-config", nil},
		{"kube-system", "kubelet-config", nil},
		{"kube-system", "kube-proxy", nil},
		{"kube-public", "cluster-info", []string{"kubeconfig"}},
	}
}

// ConfigMap names one of them.
type ConfigMap struct {
	Namespace, Name string
	Keys            []string
}

// Keep returns the part of its data that is kept.
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
