package parts

import (
	"maps"
	"slices"

	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/model/state"
)

// The mark is a ConfigMap that only those write that bring parts: an installation, and
// holdfast-bring.service of a control plane. It has a key for each part.
const (
	MarkNamespace = "kube-system"
	MarkName      = "holdfast-release"
	// listKey is the key of the list of objects, an annotation.Brought.
	listKey = "list"
)

// Mark is what the cluster remembers of its parts. Its zero value stands for a cluster of
// a time before there was a mark.
type Mark struct {
	// Releases has the digest of the release that brought a part, empty while the part
	// is between two releases.
	Releases map[string]string
	// Brought names the objects that may be there because a release brought them.
	Brought []state.ObjectRef
}

// ReadMark reads the data of the ConfigMap. After an error nothing is known of the parts.
func ReadMark(data map[string]string) (Mark, error) {
	list, err := annotation.Decode[annotation.Brought](data[listKey])
	if err != nil {
		return Mark{}, err
	}
	out := Mark{Releases: map[string]string{}, Brought: list.Objects}
	for key, release := range data {
		if key != listKey {
			out.Releases[key] = release
		}
	}
	return out, nil
}

// Data returns the data of the ConfigMap.
func (m Mark) Data() (map[string]string, error) {
	list, err := annotation.Encode(annotation.Brought{Objects: m.Brought})
	if err != nil {
		return nil, err
	}
	out := maps.Clone(m.Releases)
	out[listKey] = list
	return out, nil
}

// Release returns the release of a part. A part of which nobody has said anything is that
// of the release from which the upgrade comes.
func (m Mark) Release(part, from string) state.Fact[string] {
	release, said := m.Releases[part]
	switch {
	case !said:
		return state.Known(from)
	case release == "":
		return state.Fact[string]{}
	}
	return state.Known(release)
}

// Begin returns the mark that is written before the first object of a part: from then on
// the part is of no release, and whoever comes after a cut knows every object that may be
// there.
func (m Mark) Begin(part string, brings []state.ObjectRef) Mark {
	out := m.with(part, "")
	out.Brought = slices.Clone(m.Brought)
	for _, r := range brings {
		if !named(out.Brought, r) {
			out.Brought = append(out.Brought, r)
		}
	}
	return out
}

// Done returns the mark that is written after the last object. brings replaces the list if
// it is not nil.
func (m Mark) Done(part, release string, brings []state.ObjectRef) Mark {
	out := m.with(part, release)
	if brings != nil {
		out.Brought = brings
	}
	return out
}

func (m Mark) with(part, release string) Mark {
	out := Mark{Releases: map[string]string{part: release}, Brought: m.Brought}
	for key, value := range m.Releases {
		if key != part {
			out.Releases[key] = value
		}
	}
	return out
}

// Stale returns the objects that a release brought and that the present one does not have,
// the last one first. every names all objects that the present one makes for the site: what
// has become the site's own is not stale. Kinds and namespaces stay, since what people have
// made would go with them.
func (m Mark) Stale(every []state.ObjectRef) []state.ObjectRef {
	var out []state.ObjectRef
	for _, r := range slices.Backward(m.Brought) {
		if r.Kind != "CustomResourceDefinition" && r.Kind != "Namespace" && !named(every, r) {
			out = append(out, r)
		}
	}
	return out
}

func named(list []state.ObjectRef, r state.ObjectRef) bool { return slices.ContainsFunc(list, r.Same) }
