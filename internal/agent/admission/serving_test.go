package admission

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/decide/joining"
	"github.com/holdfast/holdfast/internal/model/retired"
	"github.com/holdfast/holdfast/internal/model/state"
)

// servings plays an API with requests for serving certificates.
type servings struct {
	list       []joining.Request
	nodes      []state.Node
	out        retired.List
	unreadable error
	first      bool // another control plane decided first
	did        []string
}

func (s *servings) Requests(_ context.Context, signer string) ([]joining.Request, error) {
	if signer != joining.ServingSigner {
		return nil, errors.New("another signer")
	}
	return s.list, nil
}

func (s *servings) Nodes(context.Context) ([]state.Node, error) { return s.nodes, nil }

func (s *servings) Retired(context.Context, string) (retired.List, error) {
	return s.out, s.unreadable
}

func (s *servings) DecideRequest(_ context.Context, name string, v joining.Verdict) (bool, error) {
	s.did = append(s.did, string(v.Action)+" "+name+" "+v.Reason)
	if name == "broken" {
		return false, errors.New("conflict")
	}
	return !s.first, nil
}

// serves returns a request as the kubelet of a host makes it.
func serves(t *testing.T, name, host, address string) joining.Request {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject:  pkix.Name{CommonName: "system:node:" + host, Organization: []string{"system:nodes"}},
		DNSNames: []string{host}, IPAddresses: []net.IP{net.ParseIP(address)},
	}, key)
	if err != nil {
		t.Fatal(err)
	}
	return joining.Request{
		Name: name, Signer: joining.ServingSigner, User: "system:node:" + host, Groups: []string{"system:nodes"},
		Usages: []string{"digital signature", "server auth"}, PEM: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
	}
}

func TestWhatIsDoneAboutRequestsOfKubeletsThatServe(t *testing.T) {
	own, other := serves(t, "csr-1", "worker-1", "192.0.2.21"), serves(t, "csr-2", "worker-1", "192.0.2.11")
	vip, broken, done := serves(t, "csr-3", "worker-1", "192.0.2.5"), serves(t, "broken", "worker-1", "192.0.2.21"), own
	done.Decided = true
	nodes := []state.Node{{Name: "worker-1", Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.21"), netip.MustParseAddr("192.0.2.5")}}, {
		Name: "cp-1", Labels: map[string]string{state.LabelControlPlane: ""}, Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.11")},
	}}
	for _, x := range []struct {
		name string
		api  servings
		did  []string
		said int
		err  bool
	}{
		{"its own", servings{list: []joining.Request{own}, nodes: nodes}, []string{"approve csr-1 OwnServing"}, 1, false},
		{"a control plane's address", servings{list: []joining.Request{other}, nodes: nodes}, []string{"deny csr-2 AnothersAddress"}, 1, false},
		{"a virtual IP", servings{list: []joining.Request{vip}, nodes: nodes}, []string{"deny csr-3 ReservedAddress"}, 1, false},
		{"a Node that is gone", servings{list: []joining.Request{own}}, []string{"deny csr-1 NoNode"}, 1, false},
		{
			"a host that was taken out",
			servings{list: []joining.Request{own}, nodes: nodes, out: retired.List{{Name: "worker-1", When: time.Unix(1, 0)}}},
			[]string{"deny csr-1 Retired"},
			1, false,
		},
		{"it is not known who was taken out", servings{list: []joining.Request{own}, nodes: nodes, unreadable: errors.New("away")}, nil, 0, true},
		{"decided already", servings{list: []joining.Request{done}, nodes: nodes}, nil, 0, false},
		{"another control plane was first", servings{list: []joining.Request{own}, nodes: nodes, first: true}, []string{"approve csr-1 OwnServing"}, 0, false},
		{"one that fails keeps no other waiting", servings{list: []joining.Request{broken, own}, nodes: nodes}, []string{"approve broken OwnServing", "approve csr-1 OwnServing"}, 1, true},
	} {
		t.Run(x.name, func(t *testing.T) {
			said := 0
			s := &Servings{
				Reserved: func() joining.Reserved { return joining.Reserved{VIPs: []netip.Addr{netip.MustParseAddr("192.0.2.5")}} },
				Logf:     func(string, ...any) { said++ },
			}
			if err := s.Decide(t.Context(), &x.api); (err != nil) != x.err {
				t.Errorf("got %v", err)
			}
			if diff := cmp.Diff(x.did, x.api.did); diff != "" || said != x.said {
				t.Errorf("%s; %d lines", diff, said)
			}
		})
	}
}

// A kubelet whose request is denied makes another one every half minute.
func TestARefusalThatIsRepeatedIsToldOnce(t *testing.T) {
	var lines []string
	s := &Servings{
		Reserved: func() joining.Reserved { return joining.Reserved{} },
		Logf:     func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) },
	}
	api := &servings{}
	for i := range 5 {
		api.list = []joining.Request{serves(t, fmt.Sprint(i), "worker-1", "192.0.2.21"), serves(t, fmt.Sprint(i, "b"), "worker-2", "192.0.2.22")}
		if err := s.Decide(t.Context(), api); err != nil {
			t.Fatal(err)
		}
	}
	api.nodes = []state.Node{{Name: "worker-1", Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.21")}}}
	if err := s.Decide(t.Context(), api); err != nil {
		t.Fatal(err)
	}
	want := []string{
		`serving certificate of worker-1: deny, NoNode: the cluster has no Node "worker-1"`,
		`serving certificate of worker-2: deny, NoNode: the cluster has no Node "worker-2"`,
		`serving certificate of worker-1: approve, OwnServing: requested by the kubelet of worker-1 for its own name and addresses`,
	}
	if !slices.Equal(lines, want) || len(api.did) != 12 {
		t.Errorf("%d decisions, told %q", len(api.did), lines)
	}
}
