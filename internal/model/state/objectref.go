package state

import "strings"

// ObjectRef names an object of the API of any kind.
type ObjectRef struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
}

// String returns the object as people read it.
func (r ObjectRef) String() string {
	if r.Namespace == "" {
		return r.Kind + " " + r.Name
	}
	return r.Kind + " " + r.Namespace + "/" + r.Name
}

// Group returns the group of the kind, empty for that of pods and nodes.
func (r ObjectRef) Group() string {
	group, _, named := strings.Cut(r.APIVersion, "/")
	if !named {
		return ""
	}
	return group
}

// Same reports whether both name one object: its version is only the form in which it
// is read.
func (r ObjectRef) Same(other ObjectRef) bool {
	return r.Group() == other.Group() && r.Kind == other.Kind && r.Namespace == other.Namespace && r.Name == other.Name
}
