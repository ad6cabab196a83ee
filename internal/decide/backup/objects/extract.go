package objects

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Extract says what is extracted from a backup.
type Extract struct {
	Selector
	Keep
	// Definitions adds the definitions of custom resources that the objects need.
	Definitions bool
	// NoSecrets leaves objects out whose contents are secret.
	NoSecrets bool
}

// Left is an object that is not extracted, and why.
type Left struct {
	Kind
	Path string `json:"path"`
	Why  string `json:"why"`
}

// Note is what a person must know of an extracted object.
type Note struct {
	Kind
	Path string `json:"path"`
	Says string `json:"says"`
}

// Extracted are objects that kubectl takes, in the order in which they must be made.
type Extracted struct {
	Objects []Object
	Left    []Left
	Notes   []Note
	// Needs are definitions of custom resources that the objects need and that are not among
	// them.
	Needs []string
	// Secrets is true if objects with secrets are among them.
	Secrets bool
}

// Notes about things that a person may miss in the manifests.
const (
	whySecret  = "it holds secrets: give --show-secrets, or name a folder"
	whyPartial = "it lacks fields that this build does not know: use the holdfast of the site's release"
)

// From extracts objects. all are the objects of the backup: a controller among them makes its
// objects again.
func (e Extract) From(all []Object) Extracted {
	var out Extracted
	b := index(all)
	wanted := e.wanted(all)
	out.Needs = b.definitions(wanted)
	if e.Definitions {
		wanted, out.Needs = append(wanted, b.take(out.Needs)...), nil
	}
	for _, o := range wanted {
		why := b.leaves(o)
		if why == "" && e.NoSecrets && o.Secret() {
			why = whySecret
		}
		if why != "" {
			out.Left = append(out.Left, Left{o.Kind, o.Path(), why})
			continue
		}
		clean, notes := o.Clean(e.Keep)
		if o.Partial {
			notes = append(notes, whyPartial)
		}
		for _, says := range notes {
			out.Notes = append(out.Notes, Note{o.Kind, o.Path(), says})
		}
		out.Objects = append(out.Objects, clean)
		out.Secrets = out.Secrets || o.Secret()
	}
	slices.SortStableFunc(out.Objects, inOrder)
	return out
}

// wanted returns the objects that are asked for. A whole namespace has its Namespace, too.
func (e Extract) wanted(all []Object) (out []Object) {
	for _, o := range all {
		namespace := e.Namespace != "" && o.String() == "namespaces" && o.Name == e.Namespace
		if e.Fits(o) || namespace && len(e.Wants) == 0 {
			out = append(out, o)
		}
	}
	return out
}

// backup is an index of the objects of a backup.
type backup struct {
	byUID map[string]Object
	byID  map[string]Object
}

func index(all []Object) backup {
	b := backup{byUID: map[string]Object{}, byID: map[string]Object{}}
	for _, o := range all {
		if uid := text(o.Content, "metadata", "uid"); uid != "" {
			b.byUID[uid] = o
		}
		b.byID[o.ID()] = o
	}
	return b
}

// definition is the resource of definitions of custom resources.
const definition = "customresourcedefinitions.apiextensions.k8s.io"

// definitions returns the names of the definitions that objects need and that are not among them.
func (b backup) definitions(objects []Object) (out []string) {
	for _, o := range objects {
		name := o.String()
		if _, custom := b.byID[definition+" "+name]; custom && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return slices.DeleteFunc(out, func(name string) bool {
		return slices.ContainsFunc(objects, func(o Object) bool { return o.String() == definition && o.Name == name })
	})
}

func (b backup) take(names []string) (out []Object) {
	for _, name := range names {
		out = append(out, b.byID[definition+" "+name])
	}
	return out
}

// builtIn are the kinds of Kubernetes' own controllers that make their objects again.
var builtIn = []string{"Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "CronJob", "ReplicationController", "Service"}

// maker returns the object that makes another one again, as KIND NAME; empty for none.
func (b backup) maker(o Object) string {
	for _, one := range list(o.Content, "metadata", "ownerReferences") {
		owner, _ := one.(map[string]any)
		_, there := b.byUID[text(owner, "uid")]
		if truth(owner, "controller") && there && slices.Contains(builtIn, text(owner, "kind")) {
			return text(owner, "kind") + " " + text(owner, "name")
		}
	}
	return ""
}

// leaves returns why an object is not extracted; empty if it is.
func (b backup) leaves(o Object) string {
	if maker := b.maker(o); maker != "" {
		return maker + " makes it again"
	}
	switch o.String() {
	case "events", "events.events.k8s.io", "leases.coordination.k8s.io":
		return "it tells of the past"
	case "endpoints":
		return b.leavesEndpoints(o)
	case "endpointslices.discovery.k8s.io":
		if strings.HasSuffix(text(o.Content, "metadata", "labels", "endpointslice.kubernetes.io/managed-by"), "-controller.k8s.io") {
			return "a controller writes it"
		}
	case "secrets":
		if text(o.Content, "type") == "kubernetes.io/service-account-token" {
			return "the token of a service account does not count in another life of that account"
		}
	case "serviceaccounts":
		return leavesAccount(o)
	case "configmaps":
		if o.Name == "kube-root-ca.crt" {
			return "a controller writes it"
		}
	case "pods":
		return leavesPod(o)
	case "jobs.batch":
		if finished(o) {
			return "it has finished, and would run again"
		}
	}
	return ""
}

func (b backup) leavesEndpoints(o Object) string {
	if text(o.Content, "metadata", "annotations", "control-plane.alpha.kubernetes.io/leader") != "" {
		return "it tells of the past"
	}
	service := b.byID["services "+o.Path()]
	if len(fields(service.Content, "spec", "selector")) > 0 {
		return "a controller writes it"
	}
	return ""
}

func leavesAccount(o Object) string {
	if o.Name != "default" {
		return ""
	}
	if len(list(o.Content, "imagePullSecrets")) > 0 {
		return "a controller makes it; this one had imagePullSecrets, so give them to the new one"
	}
	return "a controller makes it"
}

func leavesPod(o Object) string {
	if at(o.Content, "metadata", "annotations", "kubernetes.io/config.mirror") != nil {
		return "a host makes it from a file"
	}
	if phase := text(o.Content, "status", "phase"); phase == "Succeeded" || phase == "Failed" {
		return "it has ended, and would run again"
	}
	return ""
}

// finished reports whether a Job has completed or failed.
func finished(o Object) bool {
	return slices.ContainsFunc(list(o.Content, "status", "conditions"), func(c any) bool {
		m, _ := c.(map[string]any)
		return (text(m, "type") == "Complete" || text(m, "type") == "Failed") && text(m, "status") == "True"
	})
}

// order is the order in which resources are made. What is not named stands in the place of "*".
var order = []string{
	"namespaces", definition,
	"priorityclasses.scheduling.k8s.io", "storageclasses.storage.k8s.io", "ingressclasses.networking.k8s.io", "runtimeclasses.node.k8s.io",
	"resourcequotas", "limitranges", "serviceaccounts", "secrets", "configmaps",
	"clusterroles.rbac.authorization.k8s.io", "clusterrolebindings.rbac.authorization.k8s.io",
	"roles.rbac.authorization.k8s.io", "rolebindings.rbac.authorization.k8s.io",
	"persistentvolumes", "persistentvolumeclaims", "networkpolicies.networking.k8s.io", "services", "endpoints", "endpointslices.discovery.k8s.io",
	"*",
	"poddisruptionbudgets.policy", "daemonsets.apps", "statefulsets.apps", "deployments.apps", "replicasets.apps", "replicationcontrollers",
	"jobs.batch", "cronjobs.batch", "pods", "horizontalpodautoscalers.autoscaling", "ingresses.networking.k8s.io",
	"apiservices.apiregistration.k8s.io",
	"validatingadmissionpolicies.admissionregistration.k8s.io", "validatingadmissionpolicybindings.admissionregistration.k8s.io",
	"mutatingwebhookconfigurations.admissionregistration.k8s.io", "validatingwebhookconfigurations.admissionregistration.k8s.io",
}

func inOrder(a, b Object) int {
	return cmp.Or(cmp.Compare(turn(a), turn(b)), cmp.Compare(a.String(), b.String()), cmp.Compare(a.Path(), b.Path()))
}

func turn(o Object) int {
	if i := slices.Index(order, o.String()); i >= 0 {
		return i
	}
	return slices.Index(order, "*")
}

// Needs reports whether an object may matter to an extraction: it is asked for, or it says
// something about what is. The owner of an object is in the same namespace or in none.
func (e Extract) Needs(o Object) bool {
	return e.Namespace == "" || o.Namespace == e.Namespace || o.String() == definition || o.String() == "namespaces" && o.Name == e.Namespace
}

// Seen returns all objects that were asked for, written or not.
func (x Extracted) Seen() []Object {
	out := slices.Clone(x.Objects)
	for _, l := range x.Left {
		_, name, found := strings.Cut(l.Path, "/")
		if !found {
			name = l.Path
		}
		out = append(out, Object{Kind: l.Kind, Name: name})
	}
	return out
}

// Lacking reports whether something is missing that a person may expect.
func (x Extracted) Lacking() bool {
	return slices.ContainsFunc(x.Left, func(l Left) bool { return l.Why == whySecret }) ||
		slices.ContainsFunc(x.Notes, func(n Note) bool { return n.Says == whyPartial })
}

// namesInLine is how many objects a line names; of more it says how many.
const namesInLine = 3

// LeftLines says what was left out, the objects of one resource with one reason in one line.
func (x Extracted) LeftLines() (out []string) {
	type group struct {
		kind Kind
		why  string
	}
	var groups []group
	paths := map[group][]string{}
	for _, l := range x.Left {
		g := group{l.Kind, l.Why}
		if paths[g] == nil {
			groups = append(groups, g)
		}
		paths[g] = append(paths[g], l.Path)
	}
	for _, g := range groups {
		names := strings.Join(paths[g][:min(namesInLine, len(paths[g]))], ", ")
		if more := len(paths[g]) - namesInLine; more > 0 {
			names = fmt.Sprintf("%s and %d more", names, more)
		}
		out = append(out, fmt.Sprintf("%s %s: %s", g.kind, names, g.why))
	}
	return out
}
