package ingress

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Routed is an object that asks routers for host names: an Ingress, or a route
// of a Gateway.
type Routed struct {
	Kind, Namespace, Name, UID string
	Created                    time.Time
	// Class is the class of an Ingress. A route has none: Gateways that may
	// come and go after the route decide which routers follow it.
	Class string
	Asked []Asked
}

// String returns the kind, namespace and name for messages.
func (r Routed) String() string { return ObjectName(r.Kind, r.Namespace, r.Name) }

// Asked is a host name and its paths. An empty host name asks for every host.
type Asked struct {
	Host  string
	Paths []string
}

// AnyPath is the path of a claim to a whole host.
const AnyPath = "*"

// LabelHosts with the value HostsListed marks the lists of hosts and nothing
// else. Admission policies read every object that has it.
const (
	LabelHosts  = state.AnnotationDomain + "route-hosts"
	HostsListed = "owned"
)

// Keys of a list of hosts beside the hosts themselves. None can be a host,
// because no DNS name that the API accepts begins with an underscore.
const (
	// HostsClass is the key of the IngressClass.
	HostsClass = "_class"
	// HostsOwnership is the key of routeAdmission.namespaceOwnership, in the
	// API's spelling.
	HostsOwnership = "_ownership"
	// HostsWildcards is the key of routeAdmission.wildcardPolicy, in the API's
	// spelling.
	HostsWildcards = "_wildcards"
	// HostsBelow is the key of lines NAMESPACE DOMAIN: the namespace owns every
	// host below the domain.
	HostsBelow = "_below"
	// HostsEvery is the key of claims for every host.
	HostsEvery = "_every"
)

// HostKey returns the key of a host, HostsEvery for the empty one. An asterisk
// becomes an underscore, because the API does not accept it in a key.
func HostKey(host string) string {
	if host == "" {
		return HostsEvery
	}
	return strings.Replace(host, "*", "_", 1)
}

// maxHosts limits the size of a list in bytes; an API object may have about a
// million.
const maxHosts = 900_000

// HostList records which namespace owns which host names of one
// IngressController.
type HostList struct {
	// Data is the part that admission policies read: for each HostKey, lines of
	// NAMESPACE PATH, and the keys above.
	Data map[string]string
	// Conflicts lists objects that ask for a host that another namespace had
	// first.
	Conflicts []HostConflict
	// Unlisted is the number of hosts that did not fit.
	Unlisted int
}

// HostConflict is an object that asks for a host that its namespace does not
// own.
type HostConflict struct {
	Object Routed
	Host   string
	// Owner is the namespace that owns the host. It is empty if the object asks
	// for every host, which no namespace may own.
	Owner string
}

// String describes the conflict in a sentence.
func (c HostConflict) String() string {
	if c.Owner == "" {
		return fmt.Sprintf("%s claims every host", c.Object)
	}
	return fmt.Sprintf("%s claims %s, which namespace %s claimed first", c.Object, c.Host, c.Owner)
}

// RouteAdmission returns a policy with the API's defaults filled in.
func RouteAdmission(p *operatorv1.RouteAdmissionPolicy) operatorv1.RouteAdmissionPolicy {
	out := operatorv1.RouteAdmissionPolicy{}
	if p != nil {
		out = *p
	}
	out.NamespaceOwnership = cmp.Or(out.NamespaceOwnership, operatorv1.StrictNamespaceOwnershipCheck)
	out.WildcardPolicy = cmp.Or(out.WildcardPolicy, operatorv1.WildcardPolicyDisallowed)
	return out
}

// Hosts decides which namespace owns which host. A namespace that owned a host
// before keeps it as long as it asks for it; otherwise the oldest object gets
// it. The routers' own namespace belongs to the administrator and comes before
// all others.
func Hosts(name string, policy *operatorv1.RouteAdmissionPolicy, objects []Routed, before map[string]string) HostList {
	p := RouteAdmission(policy)
	o := &owners{
		strict: p.NamespaceOwnership == operatorv1.StrictNamespaceOwnershipCheck,
		has:    map[string]map[string]string{}, below: map[string]map[string]bool{},
	}
	var out HostList
	for _, c := range o.claims(ClassName(name), objects, before) {
		owner, taken := o.taken(c)
		if taken {
			out.Conflicts = append(out.Conflicts, HostConflict{Object: c.object, Host: c.host, Owner: owner})
			continue
		}
		o.grant(c)
	}
	out.Conflicts = distinct(out.Conflicts)
	out.Data = map[string]string{
		HostsClass: ClassName(name), HostsOwnership: string(p.NamespaceOwnership), HostsWildcards: string(p.WildcardPolicy),
	}
	out.Unlisted = o.list(out.Data)
	return out
}

// claim is one path of one host that an object asks for.
type claim struct {
	object     Routed
	host, path string
	// held reports whether the object's namespace owned it before.
	held bool
}

// owners records which namespaces own which hosts.
type owners struct {
	strict bool
	// order lists the hosts in the order in which they were granted. has maps
	// each host to its paths, and each path to the namespace that owns it.
	order []string
	has   map[string]map[string]string
	// below lists, for each domain, the namespaces that own hosts below it.
	below map[string]map[string]bool
}

// claims returns all claims that count, in the order in which they are granted.
func (o *owners) claims(class string, objects []Routed, before map[string]string) []claim {
	var out []claim
	for _, r := range objects {
		if r.Class != "" && r.Class != class {
			continue
		}
		for _, a := range r.Asked {
			if a.Host == "" && r.Namespace == OperandNamespace {
				continue // an administrator's fallback for every host, which nobody else may have
			}
			for _, path := range o.paths(a) {
				out = append(out, claim{object: r, host: a.Host, path: path, held: o.held(before, a.Host, path, r.Namespace)})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b claim) int {
		return cmp.Or(
			truth(b.object.Namespace == OperandNamespace)-truth(a.object.Namespace == OperandNamespace),
			truth(b.held)-truth(a.held), a.object.Created.Compare(b.object.Created),
			strings.Compare(a.object.Namespace, b.object.Namespace), strings.Compare(a.object.Kind, b.object.Kind),
			strings.Compare(a.object.Name, b.object.Name), strings.Compare(a.host, b.host), strings.Compare(a.path, b.path))
	})
	return out
}

func truth(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (o *owners) paths(a Asked) []string {
	if o.strict {
		return []string{AnyPath}
	}
	// A path with a line break is dropped: no request has one, and it would
	// break the lines of a list.
	return slices.DeleteFunc(slices.Clone(a.Paths), func(p string) bool { return strings.Contains(p, "\n") })
}

func (o *owners) held(before map[string]string, host, path, namespace string) bool {
	for line := range strings.SplitSeq(before[HostKey(host)], "\n") {
		whose, of, _ := strings.Cut(line, " ")
		if whose == namespace && (o.strict || of == AnyPath || of == path) {
			return true
		}
	}
	return false
}

// taken reports whether another namespace owns what a claim asks for, and which
// one.
func (o *owners) taken(c claim) (string, bool) {
	ns := c.object.Namespace
	if o.strict && c.host == "" {
		return "", true
	}
	for path, owner := range o.has[c.host] {
		if owner != ns && (path == c.path || path == AnyPath || c.path == AnyPath) {
			return owner, true
		}
	}
	if !o.strict {
		return "", false
	}
	for domain := range domains(c.host) {
		if owner, ok := o.has["*."+domain][AnyPath]; ok && owner != ns {
			return owner, true
		}
	}
	if domain, ok := strings.CutPrefix(c.host, "*."); ok {
		for _, owner := range slices.Sorted(maps.Keys(o.below[domain])) {
			if owner != ns {
				return owner, true
			}
		}
	}
	return "", false
}

func (o *owners) grant(c claim) {
	if o.has[c.host] == nil {
		o.has[c.host] = map[string]string{}
		o.order = append(o.order, c.host)
	}
	o.has[c.host][c.path] = c.object.Namespace
	for domain := range domains(c.host) {
		if o.below[domain] == nil {
			o.below[domain] = map[string]bool{}
		}
		o.below[domain][c.object.Namespace] = true
	}
}

// domains yields the domains that a host is below.
func domains(host string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for _, rest, found := strings.Cut(host, "."); found && yield(rest); _, rest, found = strings.Cut(rest, ".") {
		}
	}
}

// list writes the hosts into the map in the form that policies read, and
// returns how many did not fit.
func (o *owners) list(into map[string]string) int {
	size, left := 0, 0
	var below []string
	for _, host := range o.order {
		var lines []string
		for path, namespace := range o.has[host] {
			lines = append(lines, namespace+" "+path)
		}
		slices.Sort(lines)
		key, value := HostKey(host), strings.Join(lines, "\n")
		if size += len(key) + 2*len(value); size > maxHosts {
			left++
			continue
		}
		into[key] = value
		if domain, ok := strings.CutPrefix(host, "*."); ok && o.strict {
			below = append(below, o.has[host][AnyPath]+" "+domain)
		}
	}
	if len(below) > 0 {
		slices.Sort(below)
		into[HostsBelow] = strings.Join(below, "\n")
	}
	return left
}

// distinct keeps one conflict for each object and host, in a stable order.
func distinct(list []HostConflict) []HostConflict {
	slices.SortStableFunc(list, func(a, b HostConflict) int { return strings.Compare(a.String(), b.String()) })
	return slices.CompactFunc(list, func(a, b HostConflict) bool { return a.String() == b.String() })
}
