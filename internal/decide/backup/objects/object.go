// Package objects decides about the objects in a backup: what a key of etcd holds, which objects
// a person asks for, how two states of a cluster differ, and how an object must look so that the
// API of a living cluster takes it.
//
// Contents are maps as they come from JSON. The package never reads a file or an API.
package objects

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Root begins every key that an API server writes into etcd.
const Root = "/registry/"

// Kind is the kind of an object with its resource, the name that a command line and a URL have.
type Kind struct {
	Group    string `json:"group,omitempty"`
	Version  string `json:"version,omitempty"`
	Kind     string `json:"kind,omitempty"`
	Resource string `json:"resource"`
}

// String returns RESOURCE.GROUP, or RESOURCE for the group without a name.
func (k Kind) String() string {
	if k.Group == "" {
		return k.Resource
	}
	return k.Resource + "." + k.Group
}

// Object is an object in a backup or in a living cluster.
type Object struct {
	Kind
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Revision is that of the last change, and Size the size of the stored value in bytes. Both are
	// zero for an object of a living cluster.
	Revision int64 `json:"revision,omitempty"`
	Size     int64 `json:"size,omitempty"`
	// Encrypted is true if the value is encrypted in etcd.
	Encrypted bool `json:"encrypted,omitempty"`
	// Partial is true if the stored value has fields that this build does not know. Content lacks
	// them.
	Partial bool           `json:"partial,omitempty"`
	Content map[string]any `json:"-"`
}

// Path returns NAMESPACE/NAME, or NAME for an object without a namespace.
func (o Object) Path() string {
	if o.Namespace == "" {
		return o.Name
	}
	return o.Namespace + "/" + o.Name
}

// ID identifies an object among all objects of a cluster, in whichever version it is stored.
func (o Object) ID() string { return o.String() + " " + o.Path() }

// Unread is a key whose value could not be read.
type Unread struct {
	Key string `json:"key"`
	Why string `json:"why"`
}

// Place is what a key says about its object.
type Place struct {
	// Group is known for keys that have it: those of custom resources, and of a few others.
	Group, Resource, Namespace, Name string
	// Internal is true for what API servers note for themselves: no API shows it.
	Internal bool
}

// internals are the first parts of keys under which API servers note what no API shows.
var internals = []string{"masterleases", "peerserverleases", "ranges", "health"}

// renamed has the resources whose keys begin with another word.
var renamed = map[string]string{
	"minions": "nodes", "controllers": "replicationcontrollers", "ingress": "ingresses",
	"services/specs": "services", "services/endpoints": "endpoints",
}

// PlaceOf reads a key. It reports false for a key that no API server writes.
func PlaceOf(key string) (p Place, ok bool) {
	rest, ok := strings.CutPrefix(key, Root)
	if !ok {
		return Place{}, false
	}
	first, rest, _ := strings.Cut(rest, "/")
	switch {
	case slices.Contains(internals, first):
		return Place{Resource: first, Name: rest, Internal: true}, true
	case strings.Contains(first, "."):
		p.Group = first
		first, rest, _ = strings.Cut(rest, "/")
	case first == "services":
		second, name, _ := strings.Cut(rest, "/")
		first, rest = first+"/"+second, name
	}
	p.Resource = cmp.Or(renamed[first], first)
	var inNamespace bool
	if p.Namespace, p.Name, inNamespace = strings.Cut(rest, "/"); !inNamespace {
		p.Namespace, p.Name = "", rest
	}
	return p, p.Name != ""
}

// New returns the object with a content that was stored under a key.
func New(p Place, content map[string]any) Object {
	o := Of(p.Resource, content)
	if p.Group != "" {
		o.Group = p.Group
	}
	o.Namespace, o.Name = p.Namespace, p.Name
	return o
}

// Of returns the object of a resource with a content.
func Of(resource string, content map[string]any) Object {
	group, version, found := strings.Cut(text(content, "apiVersion"), "/")
	if !found {
		group, version = "", group
	}
	return Object{
		Kind:      Kind{Group: group, Version: version, Kind: text(content, "kind"), Resource: resource},
		Namespace: text(content, "metadata", "namespace"), Name: text(content, "metadata", "name"), Content: content,
	}
}

// At returns the object with the revision of its last change, which etcd notes and the object
// itself does not.
func (o Object) At(revision int64) Object {
	o.Revision = revision
	if meta := fields(o.Content, "metadata"); meta != nil {
		meta["resourceVersion"] = strconv.FormatInt(revision, 10)
	}
	return o
}

// Created returns the time at which the API made the object, as it is stored.
func (o Object) Created() string { return text(o.Content, "metadata", "creationTimestamp") }

// at returns the value at a path of fields, nil for none.
func at(content map[string]any, path ...string) any {
	var value any = content
	for _, field := range path {
		fields, ok := value.(map[string]any)
		if !ok {
			return nil
		}
		value = fields[field]
	}
	return value
}

func text(content map[string]any, path ...string) string {
	s, _ := at(content, path...).(string)
	return s
}

func fields(content map[string]any, path ...string) map[string]any {
	m, _ := at(content, path...).(map[string]any)
	return m
}

func list(content map[string]any, path ...string) []any {
	l, _ := at(content, path...).([]any)
	return l
}

func truth(content map[string]any, path ...string) bool {
	b, _ := at(content, path...).(bool)
	return b
}

// clone copies a value as deep as it goes.
func clone(value any) any {
	switch v := value.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, inner := range v {
			out[k] = clone(inner)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, inner := range v {
			out[i] = clone(inner)
		}
		return out
	default:
		return v
	}
}

// copyOf copies a content.
func copyOf(content map[string]any) map[string]any {
	out, _ := clone(content).(map[string]any)
	return out
}

// WithoutManagers returns the object without the notes about who wrote which field.
func (o Object) WithoutManagers() Object {
	o.Content = copyOf(o.Content)
	delete(fields(o.Content, "metadata"), "managedFields")
	return o
}
