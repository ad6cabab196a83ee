package objects

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Want names objects as kubectl takes them: a type, and one object or all of that type.
type Want struct {
	// Type is a resource, a kind or a short name, with or without its group.
	Type string
	// Name is empty for all objects of the type.
	Name string
}

// String returns the want as it is typed.
func (w Want) String() string {
	if w.Name == "" {
		return w.Type
	}
	return w.Type + "/" + w.Name
}

// Wants reads arguments: TYPE[,TYPE...], TYPE NAME..., or TYPE/NAME... It returns all mistakes at
// once.
func Wants(args []string) (out []Want, err error) {
	if len(args) == 0 {
		return nil, nil
	}
	if slices.ContainsFunc(args, func(a string) bool { return strings.Contains(a, "/") }) {
		return wantsWithNames(args)
	}
	var mistakes []error
	for one := range strings.SplitSeq(args[0], ",") {
		if one == "" {
			mistakes = append(mistakes, fmt.Errorf("%q: there is an empty type", args[0]))
			continue
		}
		if len(args) == 1 {
			out = append(out, Want{Type: strings.ToLower(one)})
		}
		for _, name := range args[1:] {
			out = append(out, Want{Type: strings.ToLower(one), Name: name})
		}
	}
	return out, errors.Join(mistakes...)
}

func wantsWithNames(args []string) (out []Want, err error) {
	var mistakes []error
	for _, a := range args {
		kind, name, _ := strings.Cut(a, "/")
		if kind == "" || name == "" || strings.Contains(name, "/") {
			mistakes = append(mistakes, fmt.Errorf("%q: must be TYPE/NAME, like the others", a))
			continue
		}
		out = append(out, Want{Type: strings.ToLower(kind), Name: name})
	}
	return out, errors.Join(mistakes...)
}

// shortNames are those that an API server has for its own resources.
var shortNames = map[string]string{
	"cj": "cronjobs", "cm": "configmaps", "crd": "customresourcedefinitions", "crds": "customresourcedefinitions", "cs": "componentstatuses",
	"csr": "certificatesigningrequests", "deploy": "deployments", "ds": "daemonsets", "ep": "endpoints", "ev": "events",
	"hpa": "horizontalpodautoscalers", "ing": "ingresses", "limits": "limitranges", "netpol": "networkpolicies", "no": "nodes",
	"ns": "namespaces", "pc": "priorityclasses", "pdb": "poddisruptionbudgets", "po": "pods", "pv": "persistentvolumes",
	"pvc": "persistentvolumeclaims", "quota": "resourcequotas", "rc": "replicationcontrollers", "rs": "replicasets", "sa": "serviceaccounts",
	"sc": "storageclasses", "sts": "statefulsets", "svc": "services",
}

// Names has the further names of resources that the definitions of custom resources in a backup
// give, each with RESOURCE.GROUP.
type Names map[string][]string

// NamesOf reads the definitions of custom resources.
func NamesOf(definitions []Object) Names {
	out := Names{}
	for _, d := range definitions {
		full := text(d.Content, "spec", "names", "plural") + "." + text(d.Content, "spec", "group")
		further := list(d.Content, "spec", "names", "shortNames")
		for _, alias := range append(further, at(d.Content, "spec", "names", "singular")) {
			if a, ok := alias.(string); ok && a != "" {
				out[a] = append(out[a], full)
			}
		}
	}
	return out
}

// Selector says which objects a person asks for.
type Selector struct {
	// Namespace is empty for all namespaces and for objects without one.
	Namespace string
	// Wants is empty for all objects.
	Wants []Want
	Names Names
}

// Fits reports whether an object is asked for.
func (s Selector) Fits(o Object) bool {
	if s.Namespace != "" && o.Namespace != s.Namespace {
		return false
	}
	return len(s.Wants) == 0 || slices.ContainsFunc(s.Wants, func(w Want) bool { return s.fits(w, o) })
}

func (s Selector) fits(w Want, o Object) bool {
	return (w.Name == "" || w.Name == o.Name) && s.Names.IsOf(w.Type, o.Kind)
}

// IsOf reports whether a type that somebody typed is a kind.
func (n Names) IsOf(typed string, k Kind) bool {
	kind := strings.ToLower(k.Kind)
	own := []string{k.Resource, k.String(), kind, kind + "." + k.Group, k.Resource + "." + k.Version + "." + k.Group}
	return slices.Contains(own, typed) || shortNames[typed] == k.Resource || slices.Contains(n[typed], k.String())
}

// Missing returns the wants that no object fits.
func (s Selector) Missing(found []Object) (out []Want) {
	for _, w := range s.Wants {
		if !slices.ContainsFunc(found, func(o Object) bool { return s.fits(w, o) }) {
			out = append(out, w)
		}
	}
	return out
}
