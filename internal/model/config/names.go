package config

import (
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/holdfast/holdfast/internal/model/netaddr"
)

// maxHostName is the longest host name that Linux keeps.
const maxHostName = 64

const (
	labelRule = "must be a DNS label: at most 63 lower-case letters, digits and '-', beginning and ending with a letter or digit"
	nameRule  = "must be a DNS name: labels of lower-case letters, digits and '-' joined by dots"
)

// clusterNames are names below the cluster's domain. A host with such a name
// would take its place.
var clusterNames = []string{"api", "api-int", "apps", "localhost"}

// nodeName says why s cannot be the name of a host and node, empty if it can.
func nodeName(s string) string {
	short, _, _ := strings.Cut(s, ".")
	_, notIP := netip.ParseAddr(s)
	switch {
	case s != strings.ToLower(s):
		return "must be in lower case, as the names of nodes are"
	case notIP == nil:
		return "must be a name, not an address"
	case !netaddr.IsName(s):
		return nameRule
	case len(s) > maxHostName:
		return "must have at most 64 characters, as Linux host names do"
	case slices.Contains(clusterNames, short):
		return "is a name that the cluster uses itself"
	}
	return ""
}

// namedAt is a host name with its place in the file.
type namedAt struct {
	name string
	path *field.Path
}

// hostNames checks a list of host names: each must be fit for a node, and all
// must differ. A short name and its own long form are the same host.
func (v *validator) hostNames(names []namedAt) {
	seen := map[string]namedAt{}
	var valid []namedAt
	for _, n := range names {
		if detail := nodeName(n.name); detail != "" {
			v.add(field.Invalid(n.path, n.name, detail))
			continue
		}
		short, _, long := strings.Cut(n.name, ".")
		first, again := seen[short]
		switch {
		case !again:
			seen[short] = n
		case first.name == n.name:
			v.add(duplicate(n.path, n.name, first.path))
			continue
		case !long || first.name == short:
			v.add(field.Invalid(n.path, n.name, "names the same host as "+first.path.String()+" ("+first.name+")"))
			continue
		default:
			v.add(field.Invalid(n.path, n.name, "has the same short name as "+first.path.String()+" ("+first.name+")"))
			continue
		}
		valid = append(valid, n)
	}
	v.oneNameForm(valid)
}

// oneNameForm demands that all names are short or all are fully qualified. A
// host's name is its node's name, and hosts of one site are named the same way:
// with a mixture, one of them will not be found when it is to be fenced.
func (v *validator) oneNameForm(names []namedAt) {
	if len(names) == 0 {
		return
	}
	first := names[0]
	for _, n := range names[1:] {
		if strings.Contains(n.name, ".") != strings.Contains(first.name, ".") {
			v.add(field.Invalid(n.path, n.name,
				"give all hosts short names or all fully qualified ones, as `hostname` prints them; "+
					first.path.String()+" is "+first.name))
		}
	}
}

// NewName says why no host may come into a site under a name, nil if one may. path says where the
// name stands, others are the names of the site's other hosts.
func NewName(path, name string, others []string) error {
	v := &validator{c: &InstallConfig{}}
	var list []namedAt
	for _, other := range others {
		list = append(list, namedAt{other, field.NewPath("this site")})
	}
	at := field.NewPath(path)
	v.hostNames(append(list, namedAt{name, at}))
	var own field.ErrorList // what is wrong with the others is none of this caller's business
	for _, e := range v.errs {
		if e.Field == at.String() {
			own = append(own, e)
		}
	}
	return own.ToAggregate()
}
