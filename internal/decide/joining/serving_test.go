package joining

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/model/retired"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

// serves returns a request for alternative names, as kubelets make it.
func serves(t testing.TB, node string, names []string, texts ...string) []byte {
	t.Helper()
	request := x509.CertificateRequest{Subject: subject("system:node:"+node, "system:nodes"), DNSNames: names}
	for _, a := range texts {
		request.IPAddresses = append(request.IPAddresses, net.ParseIP(a))
	}
	return asked(t, request)
}

func servingRequest(node string, pem []byte) Request {
	return Request{
		Name: "csr-1", Signer: ServingSigner, User: "system:node:" + node, Groups: []string{"system:nodes", "system:authenticated"},
		Usages: []string{"digital signature", "server auth"}, PEM: pem,
	}
}

func at(n state.Node, texts ...string) state.Node {
	n.Addresses = addresses(texts...)
	return n
}

// A worker that is another host's to the API server reads what an administrator
// types there, and one that is the API to a client reads everything.
func TestWhatAKubeletMayServe(t *testing.T) {
	const name, own, own6 = "w-1", "192.0.2.21", "2001:db8::21"
	nodes := []state.Node{
		at(controlPlane("cp-1", true), "192.0.2.11"), at(controlPlane("cp-2", false), "192.0.2.12"),
		at(node(name, true), own, own6), at(node("w-2", true), "192.0.2.22", "192.0.2.99"),
		at(node("w-3", true), "192.0.2.23", "192.0.2.99", "192.0.2.11", "192.0.2.5", "192.0.2.53", "10.96.0.1", "10.128.3.4", "127.0.0.1", "169.254.1.1"),
		at(node("kubernetes.default.svc", true), "192.0.2.30"), at(node("api-int.store.example.com", true), "192.0.2.31"), at(node("localhost", true), "192.0.2.32"),
		at(node("x.svc.cluster.local", true), "192.0.2.33"), at(node("shop.apps.store.example.com", true), "192.0.2.34"),
	}
	reserved := Reserved{
		Names: []string{"localhost", "kubernetes", "api-int.store.example.com"}, Domains: []string{".svc", ".cluster.local", ".apps.store.example.com"},
		Networks: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16"), netip.MustParsePrefix("10.128.0.0/14")},
		VIPs:     addresses("192.0.2.5", "192.0.2.53"),
	}
	uri, err := url.Parse("spiffe://x")
	if err != nil {
		t.Fatal(err)
	}
	when := now.Add(-time.Hour)
	with := func(change func(*Request)) Request {
		r := servingRequest(name, serves(t, name, []string{name}, own))
		change(&r)
		return r
	}
	asks := func(node string, names []string, texts ...string) Request {
		return servingRequest(node, serves(t, node, names, texts...))
	}
	made := func(change func(*x509.CertificateRequest)) Request {
		request := x509.CertificateRequest{Subject: subject("system:node:"+name, "system:nodes"), DNSNames: []string{name}}
		change(&request)
		return servingRequest(name, asked(t, request))
	}
	alternative := func(names ...asn1.RawValue) Request {
		value, err := asn1.Marshal(names)
		if err != nil {
			t.Fatal(err)
		}
		return made(func(r *x509.CertificateRequest) {
			r.DNSNames, r.ExtraExtensions = nil, []pkix.Extension{{Id: alternativeNames, Value: value}}
		})
	}
	dns := asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: kindDNS, Bytes: []byte(name)}
	for _, c := range []struct {
		name    string
		request Request
		out     retired.List
		want    Action
		reason  string
	}{
		{"its name and address", asks(name, []string{name}, own), nil, Approve, "OwnServing"},
		{"its addresses of both families", asks(name, []string{name}, own, own6), nil, Approve, "OwnServing"},
		{"its name alone", asks(name, []string{name}), nil, Approve, "OwnServing"},
		{"its address alone", asks(name, nil, own), nil, Approve, "OwnServing"},
		{"a key of RSA", with(func(r *Request) { r.Usages = append(r.Usages, "key encipherment") }), nil, Approve, "OwnServing"},
		{"the name of an earlier host that was taken out", asks(name, []string{name}, own), retired.List{{Name: name, When: when, Again: when}}, Approve, "OwnServing"},
		{"another host was taken out", asks(name, []string{name}, own), retired.List{{Name: "w-9", When: when}}, Approve, "OwnServing"},
		{"a control plane whose address a worker reports", asks("cp-1", []string{"cp-1"}, "192.0.2.11"), nil, Approve, "OwnServing"},
		{"a control plane that is away", asks("cp-2", []string{"cp-2"}, "192.0.2.12"), nil, Approve, "OwnServing"},

		{"a control plane's name", asks(name, []string{name, "cp-1"}, own), nil, Deny, "AnothersName"},
		{"the name of the API", asks(name, []string{"api-int.store.example.com"}, own), nil, Deny, "AnothersName"},
		{"every name", asks(name, []string{"*"}, own), nil, Deny, "AnothersName"},
		{"its name with a line of its own", asks(name, []string{name + "\x1b[31m"}, own), nil, Deny, "AnothersName"},
		{"its name in other letters", asks(name, []string{"W-1"}, own), nil, Deny, "AnothersName"},
		{"a control plane's address", asks(name, []string{name}, own, "192.0.2.11"), nil, Deny, "AnothersAddress"},
		{"a control plane's address, which it reports as its own", asks("w-3", []string{"w-3"}, "192.0.2.11"), nil, Deny, "AnothersAddress"},
		{"an address that two workers report", asks("w-3", []string{"w-3"}, "192.0.2.99"), nil, Deny, "AnothersAddress"},
		{"the same from the other worker", asks("w-2", []string{"w-2"}, "192.0.2.99"), nil, Deny, "AnothersAddress"},
		{"a worker's address by a control plane", asks("cp-1", []string{"cp-1"}, "192.0.2.22"), nil, Deny, "NotItsAddress"},
		{"an address that no Node has", asks(name, []string{name}, "192.0.2.77"), nil, Deny, "NotItsAddress"},
		{"an API VIP, which it reports", asks("w-3", nil, "192.0.2.5"), nil, Deny, "ReservedAddress"},
		{"an ingress VIP, which it reports", asks("w-3", nil, "192.0.2.53"), nil, Deny, "ReservedAddress"},
		{"the Service of the API, which it reports", asks("w-3", nil, "10.96.0.1"), nil, Deny, "ReservedAddress"},
		{"a pod, which it reports", asks("w-3", nil, "10.128.3.4"), nil, Deny, "ReservedAddress"},
		{"loopback, which it reports", asks("w-3", nil, "127.0.0.1"), nil, Deny, "ReservedAddress"},
		{"loopback in IPv6", asks(name, nil, "::1"), nil, Deny, "ReservedAddress"},
		{"link-local, which it reports", asks("w-3", nil, "169.254.1.1"), nil, Deny, "ReservedAddress"},
		{"no address at all", asks(name, nil, "0.0.0.0"), nil, Deny, "ReservedAddress"},
		{"multicast", asks(name, nil, "224.0.0.18"), nil, Deny, "ReservedAddress"},
		{"a worker that is called like the API's Service", asks("kubernetes.default.svc", []string{"kubernetes.default.svc"}, "192.0.2.30"), nil, Deny, "ReservedName"},
		{"a worker that is called like the API", asks("api-int.store.example.com", []string{"api-int.store.example.com"}, "192.0.2.31"), nil, Deny, "ReservedName"},
		{"a worker that is called localhost", asks("localhost", []string{"localhost"}, "192.0.2.32"), nil, Deny, "ReservedName"},
		{"a worker that is called like a Service", asks("x.svc.cluster.local", []string{"x.svc.cluster.local"}, "192.0.2.33"), nil, Deny, "ReservedName"},
		{"a worker that is called like a route", asks("shop.apps.store.example.com", []string{"shop.apps.store.example.com"}, "192.0.2.34"), nil, Deny, "ReservedName"},
		{"a worker without a Node", asks("w-9", []string{"w-9"}, "192.0.2.29"), nil, Deny, "NoNode"},
		{"a worker that was taken out", asks(name, []string{name}, own), retired.List{{Name: name, When: when}}, Deny, "Retired"},

		{"by another node", with(func(r *Request) { r.User = "system:node:w-2" }), nil, Deny, "NotAKubeletsServer"},
		{"no names", asks(name, nil), nil, Deny, "NotAKubeletsServer"},
		{"an administrator that serves", made(func(r *x509.CertificateRequest) { r.Subject = subject("system:node:"+name, "system:masters") }), nil, Deny, "NotAKubeletsServer"},
		{"two groups", made(func(r *x509.CertificateRequest) {
			r.Subject = subject("system:node:"+name, "system:nodes", "system:masters")
		}), nil, Deny, "NotAKubeletsServer"},
		{"not a node's name", made(func(r *x509.CertificateRequest) { r.Subject = subject(name, "system:nodes") }), nil, Deny, "NotAKubeletsServer"},
		{"mail", made(func(r *x509.CertificateRequest) { r.EmailAddresses = []string{"a@b"} }), nil, Deny, "NotAKubeletsServer"},
		{"a URI", made(func(r *x509.CertificateRequest) { r.URIs = []*url.URL{uri} }), nil, Deny, "NotAKubeletsServer"},
		{"a kind of name that Go leaves out", alternative(dns, asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: 8, Bytes: []byte{42, 3}}), nil, Deny, "NotAKubeletsServer"},
		{"the kinds that it knows", alternative(dns), nil, Approve, "OwnServing"},
		{"an authority", made(func(r *x509.CertificateRequest) {
			r.ExtraExtensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 19}, Value: []byte{0x30, 0x03, 0x01, 0x01, 0xff}}}
		}), nil, Deny, "NotAKubeletsServer"},
		{"to be a client too", with(func(r *Request) { r.Usages = append(r.Usages, "client auth") }), nil, Deny, "NotAKubeletsServer"},
		{"to be a client", with(func(r *Request) { r.Usages = ClientUsages }), nil, Deny, "NotAKubeletsServer"},
		{"to sign nothing", with(func(r *Request) { r.Usages = []string{"server auth"} }), nil, Deny, "NotAKubeletsServer"},
		{"for nothing", with(func(r *Request) { r.Usages = nil }), nil, Deny, "NotAKubeletsServer"},
		{"nothing", servingRequest(name, nil), nil, Deny, "NotAKubeletsServer"},

		// Others decide about these.
		{"by a person", with(func(r *Request) { r.User, r.Groups = "kubernetes-admin", []string{"system:masters"} }), nil, Leave, "NotOurs"},
		{"by an account that is only called like a node", with(func(r *Request) { r.Groups = []string{"system:authenticated"} }), nil, Leave, "NotOurs"},
		{"by no node", with(func(r *Request) { r.User = "system:node:" }), nil, Leave, "NotOurs"},
		{"for another signer", with(func(r *Request) { r.Signer = KubeletSigner }), nil, Leave, "NotOurs"},
		{"decided already", with(func(r *Request) { r.Decided = true }), nil, Leave, "NotOurs"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Serve(reserved, c.request, nodes, c.out)
			if got.Action != c.want || got.Reason != c.reason || got.Message == "" || len(got.Message) > 250 || strings.ContainsAny(got.Message, "\n\x1b") {
				t.Errorf("got %+v, want %s %s", got, c.want, c.reason)
			}
		})
	}
}

func TestWhatASiteReserves(t *testing.T) {
	s := sitetest.New(t, sitetest.TwoDual)
	r := ReservedOf(s.Config)
	for _, name := range []string{s.APIName(), s.ExternalAPIName(), strings.ToUpper(s.APIName()), "x.apps." + s.Domain(), "kubernetes", "kubernetes.default.svc.cluster.local", "localhost", "a.localhost"} {
		if !r.name(name) {
			t.Errorf("%s is free", name)
		}
	}
	for _, name := range []string{"w-1", "w-1." + s.Domain(), "kubernetes-1", "api-int"} {
		if r.name(name) {
			t.Errorf("%s is taken", name)
		}
	}
	pods, err := s.PodNetworks()
	if err != nil {
		t.Fatal(err)
	}
	services, err := s.ServiceNetworks()
	if err != nil {
		t.Fatal(err)
	}
	taken := s.VIPs()
	for _, p := range slices.Concat(pods, services) {
		taken = append(taken, p.Addr().Next())
	}
	for _, a := range taken {
		if r.address(a) == "" {
			t.Errorf("%s is free", a)
		}
	}
	if len(pods) == 0 || len(services) == 0 || len(s.VIPs()) < 4 || r.address(netip.MustParseAddr("203.0.113.9")) != "" {
		t.Errorf("%+v", r)
	}
}

// FuzzServe asks by arbitrary bytes. What is approved is for the node's own name and
// addresses, and for nothing else.
func FuzzServe(f *testing.F) {
	f.Add(serves(f, "w-1", []string{"w-1"}, "192.0.2.21"))
	f.Add(serves(f, "w-1", []string{"w-1", "cp-1"}, "192.0.2.11"))
	f.Add(serves(f, "cp-1", []string{"cp-1"}))
	f.Add(of(f, "system:node:w-1", "system:nodes"))
	f.Add([]byte("-----BEGIN CERTIFICATE REQUEST-----\n-----END CERTIFICATE REQUEST-----\n"))
	nodes := []state.Node{at(controlPlane("cp-1", true), "192.0.2.11"), at(node("w-1", true), "192.0.2.21", "2001:db8::21")}
	f.Fuzz(func(t *testing.T, data []byte) {
		if Serve(Reserved{}, servingRequest("w-1", data), nodes, nil).Action != Approve {
			return
		}
		req, err := parseRequest(data)
		if err != nil || req.Subject.CommonName != "system:node:w-1" || len(req.Subject.Names) != 2 || len(req.Extensions) != 1 ||
			len(req.URIs)+len(req.EmailAddresses) > 0 || len(req.DNSNames)+len(req.IPAddresses) == 0 {
			t.Fatalf("%+v, %v", req, err)
		}
		for _, name := range req.DNSNames {
			if name != "w-1" {
				t.Errorf("serves %q", name)
			}
		}
		for _, ip := range req.IPAddresses {
			if s := ip.String(); s != "192.0.2.21" && s != "2001:db8::21" {
				t.Errorf("serves %s", s)
			}
		}
	})
}
