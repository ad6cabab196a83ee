package joining

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// asked returns a request in PEM form.
func asked(t testing.TB, template x509.CertificateRequest) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &template, crypto.Signer(key))
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

func subject(cn string, groups ...string) pkix.Name {
	return pkix.Name{CommonName: cn, Organization: groups}
}

func of(t testing.TB, cn string, groups ...string) []byte {
	t.Helper()
	return asked(t, x509.CertificateRequest{Subject: subject(cn, groups...)})
}

func TestWhoseCertificateIsApproved(t *testing.T) {
	own := of(t, "system:node:worker-1", "system:nodes")
	token := Token{ID: "abcdef", Host: "worker-1", Role: state.RoleWorker, Expires: now.Add(time.Hour)}
	good := Request{
		Name: "node-csr-1", Signer: KubeletSigner, User: "system:bootstrap:abcdef",
		Groups: []string{"system:bootstrappers", Group, "system:authenticated"},
		Usages: []string{"digital signature", "client auth"}, PEM: own,
	}
	with := func(change func(*Request)) Request {
		r := good
		change(&r)
		return r
	}
	asks := func(pem []byte) Request { return with(func(r *Request) { r.PEM = pem }) }
	tokenWith := func(change func(*Token)) *Token {
		out := token
		change(&out)
		return &out
	}
	cut := bytes.Clone(own)
	block, _ := pem.Decode(own)
	block.Bytes[len(block.Bytes)-1] ^= 1
	forged := pem.EncodeToMemory(block)
	uri, err := url.Parse("spiffe://x")
	if err != nil {
		t.Fatal(err)
	}
	nodes := []state.Node{controlPlane("cp-1", true), node("worker-2", true)}
	for _, c := range []struct {
		name    string
		request Request
		token   *Token
		nodes   []state.Node
		want    Action
		reason  string
	}{
		{"its own", good, &token, nodes, Approve, "OwnToken"},
		{"its own, with a key of RSA", with(func(r *Request) { r.Usages = append(r.Usages, "key encipherment") }), &token, nodes, Approve, "OwnToken"},
		{"once more, cut off before the approval", good, tokenWith(func(x *Token) { x.UsedBy = "node-csr-1" }), nodes, Approve, "OwnToken"},
		{"of a Node that the same installation made", good, tokenWith(func(x *Token) { x.Rejoins = true }), append(nodes, node("worker-1", false)), Approve, "OwnToken"},

		// docs/attacks.md, F3
		{"a control plane's", asks(of(t, "system:node:cp-1", "system:nodes")), &token, nodes, Deny, "AnotherName"},
		{"another worker's", asks(of(t, "system:node:worker-2", "system:nodes")), &token, nodes, Deny, "AnotherName"},
		{"a name that nobody has", asks(of(t, "system:node:worker-9", "system:nodes")), &token, nodes, Deny, "AnotherName"},
		{"a name with a line of its own", asks(of(t, "system:node:a\n\x1b[31mapproved", "system:nodes")), &token, nodes, Deny, "AnotherName"},
		{"its name, which is a node's", good, &token, append(nodes, node("worker-1", false)), Deny, "NodeExists"},
		{"a second one with one token", with(func(r *Request) { r.Name = "node-csr-2" }), tokenWith(func(x *Token) { x.UsedBy = "node-csr-1" }), nodes, Deny, "TokenUsed"},
		{"a worker whose name a control plane took since", good, &token, append(nodes, controlPlane("worker-1", true)), Deny, "NodeExists"},
		{"a worker's token for a control plane's name", asks(of(t, "system:node:cp-2", "system:nodes")), tokenWith(func(x *Token) { x.Host = "cp-2" }), nodes, Deny, "NotThatName"},
		{"a control plane's token for its name", asks(of(t, "system:node:cp-2", "system:nodes")), tokenWith(func(x *Token) { x.Host, x.Role = "cp-2", state.RoleMaster }), nodes, Approve, "OwnToken"},
		{"a token of no role", good, tokenWith(func(x *Token) { x.Role = "" }), nodes, Deny, "NotThatName"},
		{"a token that is gone", good, nil, nodes, Deny, "TokenGone"},
		{"a token that has ended", good, tokenWith(func(x *Token) { x.Expires = now }), nodes, Deny, "TokenExpired"},

		{"an administrator's", asks(of(t, "kubernetes-admin", "system:masters")), &token, nodes, Deny, "NotAKubelets"},
		{"a node that is an administrator too", asks(of(t, "system:node:worker-1", "system:nodes", "system:masters")), &token, nodes, Deny, "NotAKubelets"},
		{"a node of another group", asks(of(t, "system:node:worker-1", "system:masters")), &token, nodes, Deny, "NotAKubelets"},
		{"a node of no group", asks(of(t, "system:node:worker-1")), &token, nodes, Deny, "NotAKubelets"},
		{"no name", asks(of(t, "system:node:", "system:nodes")), &token, nodes, Deny, "NotAKubelets"},
		{"not a node's name", asks(of(t, "worker-1", "system:nodes")), &token, nodes, Deny, "NotAKubelets"},
		{"two names", asks(asked(t, x509.CertificateRequest{Subject: pkix.Name{Organization: []string{"system:nodes"}, ExtraNames: []pkix.AttributeTypeAndValue{
			{Type: commonName, Value: "system:node:worker-1"}, {Type: commonName, Value: "system:node:cp-1"},
		}}})), &token, nodes, Deny, "NotAKubelets"},
		{"a name beside one that is no text", asks(asked(t, x509.CertificateRequest{Subject: pkix.Name{Organization: []string{"system:nodes"}, ExtraNames: []pkix.AttributeTypeAndValue{
			{Type: commonName, Value: 7}, {Type: commonName, Value: "system:node:worker-1"},
		}}})), &token, nodes, Deny, "NotAKubelets"},
		{"a group beside one that is no text", asks(asked(t, x509.CertificateRequest{Subject: pkix.Name{ExtraNames: []pkix.AttributeTypeAndValue{
			{Type: commonName, Value: "system:node:worker-1"}, {Type: organization, Value: 7}, {Type: organization, Value: "system:nodes"},
		}}})), &token, nodes, Deny, "NotAKubelets"},
		{"an administrator that is a node too", asks(asked(t, x509.CertificateRequest{Subject: pkix.Name{ExtraNames: []pkix.AttributeTypeAndValue{
			{Type: commonName, Value: "system:node:worker-1"}, {Type: organization, Value: "system:masters"}, {Type: organization, Value: "system:nodes"},
		}}})), &token, nodes, Deny, "NotAKubelets"},
		{"the group as something else", asks(asked(t, x509.CertificateRequest{Subject: pkix.Name{
			CommonName: "system:node:worker-1", OrganizationalUnit: []string{"system:nodes"},
		}})), &token, nodes, Deny, "NotAKubelets"},
		{"more in the subject", asks(asked(t, x509.CertificateRequest{Subject: pkix.Name{
			CommonName: "system:node:worker-1", Organization: []string{"system:nodes"}, OrganizationalUnit: []string{"x"},
		}})), &token, nodes, Deny, "NotAKubelets"},
		{"DNS names", asks(asked(t, x509.CertificateRequest{Subject: subject("system:node:worker-1", "system:nodes"), DNSNames: []string{"api"}})), &token, nodes, Deny, "NotAKubelets"},
		{"addresses", asks(asked(t, x509.CertificateRequest{Subject: subject("system:node:worker-1", "system:nodes"), IPAddresses: []net.IP{{10, 0, 0, 1}}})), &token, nodes, Deny, "NotAKubelets"},
		{"mail", asks(asked(t, x509.CertificateRequest{Subject: subject("system:node:worker-1", "system:nodes"), EmailAddresses: []string{"a@b"}})), &token, nodes, Deny, "NotAKubelets"},
		{"a URI", asks(asked(t, x509.CertificateRequest{Subject: subject("system:node:worker-1", "system:nodes"), URIs: []*url.URL{uri}})), &token, nodes, Deny, "NotAKubelets"},
		{"an extension", asks(asked(t, x509.CertificateRequest{
			Subject:         subject("system:node:worker-1", "system:nodes"),
			ExtraExtensions: []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 19}, Value: []byte{0x30, 0x03, 0x01, 0x01, 0xff}}},
		})), &token, nodes, Deny, "NotAKubelets"},
		{"not signed with its key", asks(forged), &token, nodes, Deny, "NotAKubelets"},
		{"two requests", asks(append(cut, cut...)), &token, nodes, Deny, "NotAKubelets"},
		{"a certificate", asks(bytes.ReplaceAll(own, []byte("CERTIFICATE REQUEST"), []byte("CERTIFICATE"))), &token, nodes, Deny, "NotAKubelets"},
		{"nothing", asks(nil), &token, nodes, Deny, "NotAKubelets"},
		{"to serve", with(func(r *Request) { r.Usages = []string{"digital signature", "client auth", "server auth"} }), &token, nodes, Deny, "NotAKubelets"},
		{"to be no client", with(func(r *Request) { r.Usages = []string{"digital signature"} }), &token, nodes, Deny, "NotAKubelets"},
		{"to sign nothing", with(func(r *Request) { r.Usages = []string{"client auth"} }), &token, nodes, Deny, "NotAKubelets"},
		{"for nothing", with(func(r *Request) { r.Usages = nil }), &token, nodes, Deny, "NotAKubelets"},

		// Others decide about these.
		{"a kubelet renews its own", with(func(r *Request) {
			r.User, r.Groups = "system:node:worker-1", []string{"system:nodes", "system:authenticated"}
		}), nil, nodes, Leave, "NotOurs"},
		{"a kubelet renews its own and pretends to have a token", with(func(r *Request) { r.User = "system:node:worker-1" }), &token, nodes, Leave, "NotOurs"},
		{"a token that a person made with kubeadm", with(func(r *Request) {
			r.Groups = []string{"system:bootstrappers", "system:bootstrappers:kubeadm:default-node-token"}
		}), &token, nodes, Leave, "NotOurs"},
		{"for another signer", with(func(r *Request) { r.Signer = "kubernetes.io/kubelet-serving" }), &token, nodes, Leave, "NotOurs"},
		{"decided already", with(func(r *Request) { r.Decided = true }), &token, nodes, Leave, "NotOurs"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Judge(two, c.request, c.token, c.nodes, now)
			if got.Action != c.want || got.Reason != c.reason || got.Message == "" || strings.ContainsAny(got.Message, "\n\x1b") {
				t.Errorf("got %+v, want %s %s", got, c.want, c.reason)
			}
		})
	}
}

// A message is shown to people, and may repeat a foreign host's words.
func TestAMessageIsBounded(t *testing.T) {
	token := Token{Host: "worker-1", Role: state.RoleWorker, Expires: now.Add(time.Hour)}
	for _, length := range []int{80, 81, 4000} {
		r := Request{
			Signer: KubeletSigner, User: "system:bootstrap:abcdef", Groups: []string{Group}, Usages: usages[:2],
			PEM: of(t, "system:node:"+strings.Repeat("x", length), "system:nodes"),
		}
		got := Judge(two, r, &token, nil, now)
		if whole := strings.Contains(got.Message, `x"`); got.Reason != "AnotherName" || whole != (length == 80) || len(got.Message) > 200 {
			t.Errorf("%d: %+v", length, got)
		}
	}
}

func FuzzNodeOf(f *testing.F) {
	f.Add(of(f, "system:node:worker-1", "system:nodes"))
	f.Add(of(f, "kubernetes-admin", "system:masters"))
	f.Add([]byte("-----BEGIN CERTIFICATE REQUEST-----\n-----END CERTIFICATE REQUEST-----\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		name, err := nodeOf(Request{Usages: usages[:2], PEM: data})
		if err != nil {
			return
		}
		block, _ := pem.Decode(data)
		req, err := x509.ParseCertificateRequest(block.Bytes)
		if err != nil || req.Subject.CommonName != "system:node:"+name || len(req.Subject.Names) != 2 || len(req.Extensions) > 0 {
			t.Errorf("%q of %+v", name, req)
		}
	})
}
