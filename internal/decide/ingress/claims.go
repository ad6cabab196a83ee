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
	// Class is that of an Ingress. A route has none: which routers follow it
	// depends on Gateways that may come and go after it.
	Class string
	Asked []Asked
}

// String names an object for a person.
func (r Routed) String() string { return ObjectName(r.Kind, r.Namespace, r.Name) }

// Asked is a host name, empty for every host, and the paths of it.
type Asked struct {
	Host  string
	Paths []string
}

// AnyPath is the path of whoever takes a host as a whole.
const AnyPath = "*"

// LabelHosts and its value are on the lists of hosts and on nothing else:
// admission policies look at what has them.
const (
	LabelHosts  = state.AnnotationDomain + "route-hosts"
	HostsListed = "owned"
)

// Keys of a list of hosts beside the hosts themselves. None can be a host: no
// name of the DNS that the API takes begins with an underscore.
const (
	// HostsClass is the IngressClass.
	HostsClass = "_class"
	// HostsOwnership is routeAdmission.namespaceOwnership in the API's own words.
	HostsOwnership = "_ownership"
	// HostsWildcards is routeAdmission.wildcardPolicy in the API's own words.
	HostsWildcards = "_wildcards"
	// HostsBelow are lines of NAMESPACE DOMAIN: of the domain it has everything.
	HostsBelow = "_below"
	// HostsEvery is the key of whoever asks for every host.
	HostsEvery = "_every"
)

// HostKey is the key of a host: a list of the API takes no asterisk.
func HostKey(host string) string {
	if host == "" {
		return HostsEvery
	}
	return strings.Replace(host, "*", "_", 1)
}

// maxHosts bounds a list in bytes; an object of the API has a million.
const maxHosts = 900_000

// HostList says which namespace has which host names of one IngressController.
type HostList struct {
	// Data is what admission policies look at: by HostKey lines of NAMESPACE
	// PATH, and the keys above.
	Data map[string]string
	// Conflicts are objects that ask for what another namespace had first.
	Conflicts []HostConflict
	// Unlisted is how many hosts found no room.
	Unlisted int
}

// HostConflict is an object that asks for a host which is not its namespace's.
type HostConflict struct {
	Object Routed
	Host   string
	// Owner is the namespace, empty where nobody may have it: every host.
	Owner string
}

// String says it to a person.
func (c HostConflict) String() string {
	if c.Owner == "" {
		return fmt.Sprintf("%s asks for every host", c.Object)
	}
	return fmt.Sprintf("%s asks for %s, which namespace %s had first", c.Object, c.Host, c.Owner)
}

// RouteAdmission is a policy with the API's defaults.
func RouteAdmission(p *operatorv1.RouteAdmissionPolicy) operatorv1.RouteAdmissionPolicy {
	out := operatorv1.RouteAdmissionPolicy{}
	if p != nil {
		out = *p
	}
	out.NamespaceOwnership = cmp.Or(out.NamespaceOwnership, operatorv1.StrictNamespaceOwnershipCheck)
	out.WildcardPolicy = cmp.Or(out.WildcardPolicy, operatorv1.WildcardPolicyDisallowed)
	return out
}

// Hosts decides who has which host. Whoever had one before keeps it as long as
// he asks for it; else the oldest object has it. The routers' own namespace is
// the administrator's, and goes before all others.
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

// claim is one path of one host for which an object asks.
type claim struct {
	object     Routed
	host, path string
	// held is whether its namespace had it before.
	held bool
}

// owners are the namespaces to which hosts were given.
type owners struct {
	strict bool
	// order is that in which hosts were given, has whose they are by path.
	order []string
	has   map[string]map[string]string
	// below are the namespaces that have hosts below a domain.
	below map[string]map[string]bool
}

// claims are all that count, in the order in which they are looked at.
func (o *owners) claims(class string, objects []Routed, before map[string]string) []claim {
	var out []claim
	for _, r := range objects {
		if r.Class != "" && r.Class != class {
			continue
		}
		for _, a := range r.Asked {
			if a.Host == "" && r.Namespace == OperandNamespace {
				continue // an administrator's last resort, which nobody else may be
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
	// No request has a line break in its path, and no line of a list.
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

// taken reports whether another namespace has what a claim asks for, and which.
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

// domains are those that a host is below.
func domains(host string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for _, rest, found := strings.Cut(host, "."); found && yield(rest); _, rest, found = strings.Cut(rest, ".") {
		}
	}
}

// list writes the hosts as policies read them, and returns how many found no
// room.
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

// distinct leaves one conflict of each object and host, in an order that does
// not change by itself.
func distinct(list []HostConflict) []HostConflict {
	slices.SortStableFunc(list, func(a, b HostConflict) int { return strings.Compare(a.String(), b.String()) })
	return slices.CompactFunc(list, func(a, b HostConflict) bool { return a.String() == b.String() })
}
