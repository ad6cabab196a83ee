package joining

import (
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast/holdfast/internal/model/config"
	"github.com/holdfast/holdfast/internal/model/retired"
	"github.com/holdfast/holdfast/internal/model/state"
)

// ServingSigner signs the certificates by which kubelets serve logs, exec and
// metrics. The API server trusts them for any name and address that they have, and
// so do the clients of the API: the same CA signs the API servers' certificates.
const ServingSigner = "kubernetes.io/kubelet-serving"

// servingUsages lists what such a certificate may be for; kubelets with an RSA key
// ask for the last one, too.
var servingUsages = []string{"server auth", "digital signature", "key encipherment"}

// ServingUsages lists what the certificate of a kubelet's server is for.
var ServingUsages = []string{"server auth", "digital signature"}

// Reserved holds the names and addresses that are never a single host's.
type Reserved struct {
	// Names are those of the API, and Domains those whose names belong to Services and
	// routes.
	Names, Domains []string
	// Networks are those of pods and Services.
	Networks []netip.Prefix
	// VIPs are the virtual IPs. They may change while the site runs.
	VIPs []netip.Addr
}

// ReservedOf reads what a configuration reserves.
func ReservedOf(c *config.InstallConfig) Reserved {
	domain := c.ClusterDomain()
	r := Reserved{
		Names:   []string{"localhost", "kubernetes", "kubernetes.default", "api." + domain, "api-int." + domain, "apps." + domain},
		Domains: []string{".localhost", ".svc", "." + config.ServiceDomain, ".apps." + domain},
		VIPs:    slices.Concat(c.APIVIPs(), c.IngressVIPs()),
	}
	networks := slices.Clone(c.Networking.ServiceNetwork)
	for _, n := range c.Networking.ClusterNetwork {
		networks = append(networks, n.CIDR)
	}
	for _, text := range networks {
		if p, err := netip.ParsePrefix(text); err == nil { // the configuration was valid when it was written
			r.Networks = append(r.Networks, p)
		}
	}
	return r
}

// name reports whether a name is never a host's.
func (r Reserved) name(name string) bool {
	name = strings.ToLower(name)
	return slices.Contains(r.Names, name) ||
		slices.ContainsFunc(r.Domains, func(d string) bool { return strings.HasSuffix(name, d) })
}

// address returns what an address is, if it is never a host's, else the empty text.
func (r Reserved) address(a netip.Addr) string {
	switch {
	case a.IsLoopback() || a.IsUnspecified() || a.IsMulticast() || a.IsLinkLocalUnicast():
		return "an address that every host has"
	case slices.Contains(r.VIPs, a):
		return "a virtual IP of this site"
	case slices.ContainsFunc(r.Networks, func(p netip.Prefix) bool { return p.Contains(a) }):
		return "in a network of pods or Services"
	}
	return ""
}

// ServesFor returns the name of the node whose account requests a serving
// certificate, and whether this package decides about the request.
func ServesFor(r Request) (string, bool) {
	node, isNode := strings.CutPrefix(r.User, nodeUser)
	return node, isNode && node != "" && !r.Decided && r.Signer == ServingSigner && slices.Contains(r.Groups, nodesGroup)
}

// Serve decides about a kubelet's request for the certificate by which it serves.
// nodes are all of the cluster, and out has the entries of hosts that were taken
// out, at least that of the node that requests.
//
// A host reports the addresses of its Node itself. So an address is accepted only
// while no other host reports it, and what a worker reports takes no address from a
// control plane.
func Serve(reserved Reserved, r Request, nodes []state.Node, out retired.List) Verdict {
	node, ours := ServesFor(r)
	if !ours {
		return Verdict{Action: Leave, Reason: "NotOurs", Message: "no kubelet requested it for itself"}
	}
	deny := func(reason, message string) Verdict { return Verdict{Deny, reason, message} }
	names, addresses, err := servedBy(r, node)
	if err != nil {
		return deny("NotAKubeletsServer", quoted(node)+" requested something other than its kubelet's serving certificate: "+err.Error())
	}
	i := slices.IndexFunc(nodes, func(n state.Node) bool { return n.Name == node })
	if i < 0 {
		return deny("NoNode", "the cluster has no Node "+quoted(node))
	}
	if h, listed := out.Of(node); listed && h.Open() {
		return deny("Retired", node+" was "+h.String())
	}
	for _, name := range names {
		switch {
		case name != node:
			return deny("AnothersName", node+" requested a certificate for the name "+quoted(name)+", which is not its own")
		case reserved.name(name):
			return deny("ReservedName", node+" has a name that clients use for something other than a host")
		}
	}
	for _, a := range addresses {
		if v := reserved.judge(a, nodes[i], nodes); v.Action == Deny {
			return v
		}
	}
	return Verdict{Approve, "OwnServing", "requested by the kubelet of " + node + " for its own name and addresses"}
}

// judge denies an address that is not a node's own.
func (r Reserved) judge(a netip.Addr, own state.Node, nodes []state.Node) Verdict {
	begin := own.Name + " requested a certificate for " + a.String() + ", which is "
	if what := r.address(a); what != "" {
		return Verdict{Deny, "ReservedAddress", begin + what}
	}
	for _, n := range nodes {
		if n.Name != own.Name && slices.Contains(n.Addresses, a) && (n.ControlPlane() || !own.ControlPlane()) {
			return Verdict{Deny, "AnothersAddress", begin + "also an address of " + n.Name}
		}
	}
	if !slices.Contains(own.Addresses, a) {
		return Verdict{Deny, "NotItsAddress", begin + "not an address of its Node"}
	}
	return Verdict{Action: Approve}
}

// quoted repeats a foreign host's words in a bounded form.
func quoted(s string) string { return strconv.Quote(cut(s)) }

// servedBy returns the names and addresses that a request is for. The error says why
// it is not a request for the serving certificate of a node's kubelet, and quotes
// nothing.
func servedBy(r Request, node string) (names []string, addresses []netip.Addr, err error) {
	if !fits(r.Usages, servingUsages) {
		return nil, nil, errors.New("its key usages differ from those of a kubelet's server")
	}
	req, err := parseRequest(r.PEM)
	if err != nil {
		return nil, nil, err
	}
	subject, err := subjectNode(req.Subject)
	switch {
	case err != nil:
		return nil, nil, err
	case subject != node:
		return nil, nil, errors.New("its subject is another node's")
	case !plain(req):
		return nil, nil, errors.New("it has extensions, or names of other kinds than DNS names and addresses")
	case len(req.DNSNames)+len(req.IPAddresses) == 0:
		return nil, nil, errors.New("it has neither a name nor an address")
	}
	for _, ip := range req.IPAddresses {
		a, ok := netip.AddrFromSlice(ip)
		if !ok {
			return nil, nil, errors.New("it has an address that is none")
		}
		addresses = append(addresses, a.Unmap())
	}
	return req.DNSNames, addresses, nil
}

// alternativeNames is the extension with the names and addresses of a certificate.
var alternativeNames = asn1.ObjectIdentifier{2, 5, 29, 17}

// The kinds of alternative names that a kubelet has, RFC 5280: DNS names and
// addresses. Go leaves out those that it does not know.
const (
	kindDNS     = 2
	kindAddress = 7
)

// plain reports whether a request has no extension but one of alternative names,
// which has only DNS names and addresses.
func plain(req *x509.CertificateRequest) bool {
	if len(req.Extensions) == 0 {
		return true
	}
	if len(req.Extensions) > 1 || !req.Extensions[0].Id.Equal(alternativeNames) {
		return false
	}
	var list []asn1.RawValue
	rest, err := asn1.Unmarshal(req.Extensions[0].Value, &list)
	return err == nil && len(rest) == 0 && !slices.ContainsFunc(list, func(n asn1.RawValue) bool {
		return n.Class != asn1.ClassContextSpecific || n.Tag != kindDNS && n.Tag != kindAddress
	})
}
