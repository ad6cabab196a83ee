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
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/decide/joining"
	"github.com/holdfast/holdfast/internal/model/state"
)

// requests plays an API with certificate requests and records the calls in order.
type requests struct {
	cluster
	list   []joining.Request
	did    []string
	failed map[string]error
	first  bool // another control plane decided first
}

func (r *requests) Requests(_ context.Context, signer string) ([]joining.Request, error) {
	if signer != joining.KubeletSigner {
		return nil, errors.New("another signer")
	}
	r.did = append(r.did, "list")
	return r.list, nil
}

func (r *requests) UseBootstrapToken(_ context.Context, id, request string) error {
	r.did = append(r.did, "use "+id+" for "+request)
	return r.failed["use"]
}

func (r *requests) GiveAgain(_ context.Context, host string, _ time.Time) error {
	r.did = append(r.did, "give the name "+host)
	return r.failed["give"]
}

func (r *requests) DeleteBootstrapToken(ctx context.Context, id string) error {
	r.did = append(r.did, "delete "+id)
	return r.cluster.DeleteBootstrapToken(ctx, id)
}

func (r *requests) DecideRequest(_ context.Context, name string, v joining.Verdict) (bool, error) {
	r.did = append(r.did, string(v.Action)+" "+name+" "+v.Reason)
	return !r.first, r.failed["decide"]
}

// asked returns a request as the kubelet of a host makes it.
func asked(t *testing.T, name, host string) joining.Request {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: "system:node:" + host, Organization: []string{"system:nodes"}},
	}, key)
	if err != nil {
		t.Fatal(err)
	}
	return joining.Request{
		Name: name, Signer: joining.KubeletSigner, User: "system:bootstrap:abcdef", Groups: []string{joining.Group},
		Usages: []string{"digital signature", "client auth"}, PEM: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
	}
}

func newApprover(api *requests) (*Approver, *strings.Builder) {
	var log strings.Builder
	api.now = time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	for i := range api.tokens {
		api.tokens[i].Expires = api.now.Add(time.Hour)
	}
	return &Approver{
		Site: joining.Site{ControlPlanes: 3}, API: api, Now: func() time.Time { return api.now },
		Logf: func(format string, args ...any) { log.WriteString(format) },
	}, &log
}

func TestWhatIsDoneAboutRequests(t *testing.T) {
	worker := joining.Token{ID: "abcdef", Host: "worker-1", Role: state.RoleWorker}
	own, other := asked(t, "csr-1", "worker-1"), asked(t, "csr-2", "cp-1")
	renewal := own
	renewal.User = "system:node:worker-1"
	for _, x := range []struct {
		name string
		api  requests
		ask  []joining.Request
		did  []string
		err  bool
		log  bool
	}{
		{"its own", requests{cluster: cluster{tokens: []joining.Token{worker}}}, []joining.Request{own}, []string{"use abcdef for csr-1", "give the name worker-1", "approve csr-1 OwnToken"}, false, true},
		{"a control plane's", requests{cluster: cluster{tokens: []joining.Token{worker}}}, []joining.Request{other}, []string{"deny csr-2 AnotherName"}, false, true},
		{"by a token that is gone", requests{}, []joining.Request{own}, []string{"deny csr-1 TokenGone"}, false, true},
		{"a renewal", requests{}, []joining.Request{renewal}, nil, false, false},
		{"another control plane was first", requests{first: true}, []joining.Request{own}, []string{"deny csr-1 TokenGone"}, false, false},
		{"the API does not say which tokens there are", requests{cluster: cluster{err: errors.New("away")}}, []joining.Request{own}, nil, true, false},
		{
			"another request was noted meanwhile",
			requests{cluster: cluster{tokens: []joining.Token{worker}}, failed: map[string]error{"use": errors.New("conflict")}},
			[]joining.Request{own},
			[]string{"use abcdef for csr-1"},
			true, false,
		},
		{
			"the list of retired hosts cannot be written, so the old host of that name would come back",
			requests{cluster: cluster{tokens: []joining.Token{worker}}, failed: map[string]error{"give": errors.New("forbidden")}},
			[]joining.Request{own},
			[]string{"use abcdef for csr-1", "give the name worker-1"},
			true, false,
		},
		{
			"one that fails keeps no other waiting",
			requests{cluster: cluster{tokens: []joining.Token{worker}}, failed: map[string]error{"use": errors.New("conflict")}},
			[]joining.Request{own, other},
			[]string{"use abcdef for csr-1", "deny csr-2 AnotherName"},
			true, true,
		},
	} {
		t.Run(x.name, func(t *testing.T) {
			a, log := newApprover(&x.api)
			if err := a.Judge(t.Context(), x.ask); (err != nil) != x.err {
				t.Errorf("got %v", err)
			}
			if diff := cmp.Diff(x.did, x.api.did); diff != "" {
				t.Error(diff)
			}
			if (log.String() != "") != x.log {
				t.Errorf("told: %s", log)
			}
		})
	}
}

// A hanging watch keeps no host waiting, and where nobody joins nothing is asked.
func TestALookFindsWhatTheWatchDidNot(t *testing.T) {
	api := &requests{list: []joining.Request{asked(t, "csr-1", "worker-1")}}
	a, _ := newApprover(api)
	look := func(want ...string) {
		t.Helper()
		api.did = nil
		if err := a.Decide(t.Context()); err != nil || !slices.Equal(api.did, want) {
			t.Errorf("did %q, want %q, %v", api.did, want, err)
		}
	}
	look()
	api.tokens = []joining.Token{{ID: "abcdef", Host: "worker-1", Role: state.RoleWorker, Expires: api.now.Add(time.Hour)}}
	look("list", "use abcdef for csr-1", "give the name worker-1", "approve csr-1 OwnToken")
	api.nodes = []state.Node{{Name: "worker-1", Ready: true}}
	look("delete abcdef")
	look()
}
