package joining

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Request is a request for a certificate, as the API has it. The API server sets
// User and Groups; whoever asks sets the rest, and the Signer with it.
type Request struct {
	Name   string
	Signer string
	User   string
	Groups []string
	Usages []string
	PEM    []byte
	// Decided is true if it was approved or denied.
	Decided bool
}

// KubeletSigner signs kubelets' client certificates.
const KubeletSigner = "kubernetes.io/kube-apiserver-client-kubelet"

// The names that the API server gives to the bearer of a bootstrap token, and to
// a kubelet.
const (
	tokenUser   = "system:bootstrap:"
	nodeUser    = "system:node:"
	nodesGroup  = "system:nodes"
	requestType = "CERTIFICATE REQUEST"
)

// Action names what to do with a request.
type Action string

// The actions. A request that is left alone belongs to somebody else: to the
// controller manager, which renews the certificates of nodes, or to a person.
const (
	Leave   Action = "leave"
	Approve Action = "approve"
	Deny    Action = "deny"
)

// Verdict holds the action and its reason: Reason is one word for programs,
// Message is for people.
type Verdict struct {
	Action          Action
	Reason, Message string
}

// TokenOf returns the id of the bootstrap token that a request was made with,
// and whether this package decides about the request.
func TokenOf(r Request) (string, bool) {
	id, byToken := strings.CutPrefix(r.User, tokenUser)
	return id, byToken && !r.Decided && r.Signer == KubeletSigner && slices.Contains(r.Groups, Group)
}

// Judge decides about a request. t is the token that it was made with, nil if no
// token has that id any more.
func Judge(s Site, r Request, t *Token, nodes []state.Node, now time.Time) Verdict {
	if _, ours := TokenOf(r); !ours {
		return Verdict{Action: Leave, Reason: "NotOurs", Message: "it was not requested with a token that a control plane gave to a joining host"}
	}
	deny := func(reason, message string) Verdict { return Verdict{Deny, reason, message} }
	if t == nil {
		return deny("TokenGone", "its token was already used, or replaced by a newer one")
	}
	if !now.Before(t.Expires) {
		return deny("TokenExpired", "its token has expired: the host requests a new one")
	}
	name, err := nodeOf(r)
	switch {
	case err != nil:
		return deny("NotAKubelets", "the token of "+t.Host+" requested something other than a kubelet certificate: "+err.Error())
	case name != t.Host:
		return deny("AnotherName", "the token of "+t.Host+" requested the certificate of "+strconv.Quote(cut(name)))
	case t.UsedBy != "" && t.UsedBy != r.Name:
		return deny("TokenUsed", "the token of "+t.Host+" already got its certificate by request "+t.UsedBy)
	case slices.ContainsFunc(nodes, func(n state.Node) bool { return n.Name == name }) && !t.Rejoins:
		return deny("NodeExists", name+" is already a node of this cluster")
	}
	if err := s.Name(t.Role, name, controlPlanes(nodes)); err != nil {
		return deny("NotThatName", err.Error())
	}
	return Verdict{Approve, "OwnToken", "requested with the token that a control plane gave to " + name + ", a " + string(t.Role)}
}

// cut shortens a foreign host's words before they are repeated.
func cut(s string) string {
	if len(s) > 80 {
		return s[:80] + "..."
	}
	return s
}

// usages lists what a kubelet's certificate may be for; kubelets with an RSA key
// ask for the last one, too.
var usages = []string{"client auth", "digital signature", "key encipherment"}

// fits reports whether usages are the first two that are allowed, with the third
// one or without it.
func fits(got, allowed []string) bool {
	return slices.Contains(got, allowed[0]) && slices.Contains(got, allowed[1]) &&
		!slices.ContainsFunc(got, func(u string) bool { return !slices.Contains(allowed, u) })
}

// nodeOf returns the node whose kubelet would get the certificate. The error
// says why it is no kubelet's, and quotes nothing.
func nodeOf(r Request) (string, error) {
	if !fits(r.Usages, usages) {
		return "", errors.New("its key usages differ from a kubelet's")
	}
	req, err := parseRequest(r.PEM)
	if err != nil {
		return "", err
	}
	if len(req.Extensions)+len(req.DNSNames)+len(req.EmailAddresses)+len(req.IPAddresses)+len(req.URIs) > 0 {
		return "", errors.New("it has alternative names or extensions")
	}
	return subjectNode(req.Subject)
}

// parseRequest reads a request in PEM form that is signed with its own key. The
// error quotes nothing.
func parseRequest(data []byte) (*x509.CertificateRequest, error) {
	block, rest := pem.Decode(data)
	if block == nil || block.Type != requestType || len(rest) > 0 {
		return nil, errors.New("it is not a certificate request in PEM form")
	}
	req, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, errors.New("it cannot be parsed")
	}
	if req.CheckSignature() != nil {
		return nil, errors.New("it is not signed with its own key")
	}
	return req, nil
}

// The two attributes of a kubelet's subject.
var (
	commonName   = asn1.ObjectIdentifier{2, 5, 4, 3}
	organization = asn1.ObjectIdentifier{2, 5, 4, 10}
)

// subjectNode accepts only the subject "O=system:nodes, CN=system:node:NAME",
// with nothing beside it, and returns NAME.
func subjectNode(subject pkix.Name) (string, error) {
	var name, group string
	for _, a := range subject.Names {
		value, text := a.Value.(string)
		switch {
		case text && a.Type.Equal(commonName) && name == "":
			name = value
		case text && a.Type.Equal(organization) && group == "":
			group = value
		default:
			return "", errors.New("its subject has more attributes than a kubelet's")
		}
	}
	node, ok := strings.CutPrefix(name, nodeUser)
	if !ok || node == "" || group != nodesGroup {
		return "", errors.New("its subject is not a kubelet's")
	}
	return node, nil
}
