package objects

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// Change says how an object differs between two states.
type Change string

// The changes.
const (
	Added   Change = "added"
	Removed Change = "removed"
	Changed Change = "changed"
)

// Difference is what differs of one object.
type Difference struct {
	Change Change `json:"change"`
	Kind
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Again is true if the object was deleted and made again between the two states. That alone
	// is a difference only if all is compared.
	Again  bool    `json:"again,omitempty"`
	Fields []Field `json:"fields,omitempty"`
}

// Field is a field that differs. From and To are its values as JSON: empty where the field is not
// there, or where the values are secret.
type Field struct {
	Path   string `json:"path"`
	From   string `json:"from,omitempty"`
	To     string `json:"to,omitempty"`
	Secret bool   `json:"secret,omitempty"`
}

// Compare says what is compared.
type Compare struct {
	Selector
	// Status compares statuses, too.
	Status bool
	// All compares what changes by itself, too: see alwaysChanging, and what a controller makes.
	All bool
}

// alwaysChanging are resources whose objects come and go, or change, while nobody does anything.
var alwaysChanging = []string{
	"events", "events.events.k8s.io", "leases.coordination.k8s.io", "leasecandidates.coordination.k8s.io", "endpoints",
	"endpointslices.discovery.k8s.io", "ipaddresses.networking.k8s.io", "csinodes.storage.k8s.io", "csistoragecapacities.storage.k8s.io",
	"volumeattachments.storage.k8s.io", "certificatesigningrequests.certificates.k8s.io", "componentstatuses",
}

// AlwaysChanging reports whether objects of a kind are left out unless all are compared.
func AlwaysChanging(k Kind) bool { return slices.Contains(alwaysChanging, k.String()) }

// Takes reports whether an object is compared.
func (c Compare) Takes(o Object) bool {
	return c.Fits(o) && (c.All || !AlwaysChanging(o.Kind) && !controlled(o))
}

// controlled reports whether one of Kubernetes' own controllers, or a host, makes an object.
func controlled(o Object) bool {
	return slices.ContainsFunc(list(o.Content, "metadata", "ownerReferences"), func(one any) bool {
		owner, _ := one.(map[string]any)
		kind := text(owner, "kind")
		return truth(owner, "controller") && (kind == "Node" || slices.Contains(builtIn, kind))
	})
}

// Diff returns what differs between two states, by namespace and resource. Objects that are not
// taken must have been left out before.
func (c Compare) Diff(before, after []Object) []Difference {
	was := map[string]Object{}
	for _, o := range before {
		was[o.ID()] = o
	}
	out := []Difference{}
	for _, o := range after {
		old, there := was[o.ID()]
		delete(was, o.ID())
		if !there {
			out = append(out, difference(Added, o))
			continue
		}
		if d := c.between(old, o); d.Again && c.All || len(d.Fields) > 0 {
			out = append(out, d)
		}
	}
	for _, o := range was {
		out = append(out, difference(Removed, o))
	}
	slices.SortFunc(out, func(a, b Difference) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.String(), b.String()), cmp.Compare(a.Name, b.Name))
	})
	return out
}

func difference(change Change, o Object) Difference {
	return Difference{Change: change, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name}
}

func (c Compare) between(old, now Object) Difference {
	d := difference(Changed, now)
	d.Again = text(old.Content, "metadata", "uid") != text(now.Content, "metadata", "uid")
	d.Fields = fieldsBetween(nil, "", c.plain(old), c.plain(now))
	if old.Secret() || now.Secret() {
		for i, f := range d.Fields {
			if !strings.HasPrefix(f.Path, "metadata.") {
				d.Fields[i] = Field{Path: f.Path, Secret: true}
			}
		}
	}
	return d
}

// noise are the fields of metadata that say nothing about what somebody wants.
var noise = []string{"managedFields", "resourceVersion", "uid", "generation", "creationTimestamp", "selfLink"}

// ownAnnotations begin the annotations in which hosts report about themselves, at nodes.
const ownAnnotations = "holdfast.io/"

// plain returns what of an object is compared.
func (c Compare) plain(o Object) map[string]any {
	content := copyOf(o.Content)
	if !c.Status {
		delete(content, "status")
	}
	meta := fields(content, "metadata")
	for _, field := range noise {
		delete(meta, field)
	}
	dropFrom(meta, "annotations", annotationsOfTools...)
	if o.String() == "nodes" && !c.All {
		for name := range fields(meta, "annotations") {
			if strings.HasPrefix(name, ownAnnotations) {
				dropFrom(meta, "annotations", name)
			}
		}
	}
	return content
}

// fieldsBetween appends the fields that differ between two values.
func fieldsBetween(out []Field, path string, from, to any) []Field {
	if equal(from, to) {
		return out
	}
	switch a := from.(type) {
	case map[string]any:
		if b, ok := to.(map[string]any); ok {
			return mapsBetween(out, path, a, b)
		}
	case []any:
		if b, ok := to.([]any); ok {
			return listsBetween(out, path, a, b)
		}
	}
	return append(out, Field{Path: path, From: jsonOf(from), To: jsonOf(to)})
}

func mapsBetween(out []Field, path string, from, to map[string]any) []Field {
	names := make([]string, 0, len(from)+len(to))
	for name := range from {
		names = append(names, name)
	}
	for name := range to {
		if _, both := from[name]; !both {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		out = fieldsBetween(out, join(path, name), from[name], to[name])
	}
	return out
}

// join joins a path and a field. A field with a dot in its name is quoted.
func join(path, name string) string {
	switch {
	case strings.ContainsAny(name, ".[]"):
		return path + "[" + strconv.Quote(name) + "]"
	case path == "":
		return name
	}
	return path + "." + name
}

// listsBetween compares lists whose items have names by these, and others of one length by their
// places.
func listsBetween(out []Field, path string, from, to []any) []Field {
	a, named := byName(from)
	b, also := byName(to)
	if named && also {
		before := len(out)
		for _, name := range union(from, to) {
			out = fieldsBetween(out, path+"["+name+"]", a[name], b[name])
		}
		if len(out) == before {
			return append(out, Field{Path: path, From: jsonOf(from), To: jsonOf(to)}) // the order alone
		}
		return out
	}
	if len(from) != len(to) {
		return append(out, Field{Path: path, From: jsonOf(from), To: jsonOf(to)})
	}
	for i := range from {
		out = fieldsBetween(out, path+"["+strconv.Itoa(i)+"]", from[i], to[i])
	}
	return out
}

// byName returns the items of a list by their names, and whether each has one of its own.
func byName(items []any) (map[string]any, bool) {
	out := map[string]any{}
	for _, item := range items {
		out[nameOf(item)] = item
	}
	_, nameless := out[""]
	return out, len(out) == len(items) && !nameless
}

func nameOf(item any) string {
	m, _ := item.(map[string]any)
	return text(m, "name")
}

// union returns the names in two lists in their order.
func union(from, to []any) (out []string) {
	for _, item := range append(slices.Clone(from), to...) {
		if name := nameOf(item); !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// equal compares values by their JSON: a number has several types. A field that is null is as good
// as none.
func equal(a, b any) bool { return bytes.Equal(encode(a), encode(b)) }

func encode(v any) []byte {
	out, err := json.Marshal(withoutNull(v))
	if err != nil {
		return nil // a content is of JSON's types
	}
	return out
}

func withoutNull(v any) any {
	m, ok := v.(map[string]any)
	if !ok {
		return v
	}
	out := make(map[string]any, len(m))
	for k, inner := range m {
		if inner != nil {
			out[k] = withoutNull(inner)
		}
	}
	return out
}

func jsonOf(v any) string {
	if v == nil {
		return ""
	}
	return string(encode(v))
}

// Serves is a resource that a living cluster serves.
type Serves struct {
	Kind
	Namespaced bool
}

// Plan returns which resources of a living cluster are listed, each in the version in which the
// backup has its objects, and why others are not compared. serves has all versions, the preferred
// one first.
func (c Compare) Plan(stored []Object, serves []Serves) (list []Serves, not []NotCompared) {
	versions := map[string]string{}
	for _, o := range stored {
		versions[o.String()] = o.Version
	}
	chosen := map[string]bool{}
	for _, s := range serves {
		want, inBackup := versions[s.String()]
		if chosen[s.String()] || inBackup && want != s.Version || !c.lists(s) {
			continue
		}
		chosen[s.String()] = true
		list = append(list, s)
	}
	for name, version := range versions {
		if chosen[name] {
			continue
		}
		why := "the cluster does not know it"
		if slices.ContainsFunc(serves, func(s Serves) bool { return s.String() == name }) {
			why = "the cluster does not serve its version " + version + " any more"
		}
		not = append(not, NotCompared{name, why})
	}
	slices.SortFunc(not, func(a, b NotCompared) int { return cmp.Compare(a.Resource, b.Resource) })
	return list, not
}

// lists reports whether a resource may have objects that are compared.
func (c Compare) lists(s Serves) bool {
	if !c.All && AlwaysChanging(s.Kind) || c.Namespace != "" && !s.Namespaced {
		return false
	}
	return len(c.Wants) == 0 || slices.ContainsFunc(c.Wants, func(w Want) bool { return c.Names.IsOf(w.Type, s.Kind) })
}

// NotCompared is a resource that was not compared, and why.
type NotCompared struct {
	Resource string `json:"resource"`
	Why      string `json:"why"`
}
