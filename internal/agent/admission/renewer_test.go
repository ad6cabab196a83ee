package admission

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io/fs"
	"math/big"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast/holdfast/internal/decide/joining"
	"github.com/holdfast/holdfast/internal/model/retired"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

// renewals plays an API that signs what is approved, and records the calls.
type renewals struct {
	nodes    []state.Node
	out      retired.List
	seen     time.Time
	err      error // of every call
	never    bool  // the controller manager signs nothing
	decided  bool  // another control plane, or an earlier request, approved it
	did      []string
	approved map[string]joining.Verdict
}

func (r *renewals) note(words ...string) error {
	r.did = append(r.did, strings.Join(words, " "))
	return r.err
}

func (r *renewals) Nodes(context.Context) ([]state.Node, error) { return r.nodes, r.note("nodes") }

func (r *renewals) Retired(_ context.Context, node string) (retired.List, error) {
	return r.out, r.note("entry of", node)
}

func (r *renewals) NodeLastSeen(_ context.Context, node string) (time.Time, error) {
	return r.seen, r.note("lease of", node)
}

func (r *renewals) CreateRequest(_ context.Context, wanted joining.Request, _ time.Duration) error {
	return r.note("create", wanted.Name)
}

func (r *renewals) DecideRequest(_ context.Context, name string, v joining.Verdict) (bool, error) {
	r.approved[name] = v
	return !r.decided, r.note(string(v.Action), name)
}

func (r *renewals) IssuedCertificate(_ context.Context, name string) ([]byte, error) {
	if _, approved := r.approved[name]; !approved || r.never {
		return nil, r.err
	}
	return []byte("certificate of " + name), r.err
}

// renewing is a control plane's Renewer, its log, and the certificate of a worker
// that expired 60 days ago.
type renewing struct {
	*Renewer
	api   *renewals
	log   strings.Builder
	now   time.Time
	shown *x509.Certificate
}

func newRenewing(t *testing.T, subject pkix.Name) *renewing {
	t.Helper()
	site := sitetest.New(t, sitetest.TwoDual)
	s := &renewing{now: sitetest.Created.Add(2 * 365 * 24 * time.Hour)}
	ended := s.now.Add(-60 * 24 * time.Hour)
	s.api = &renewals{
		nodes: []state.Node{{Name: "worker-1", Created: sitetest.Created}}, seen: ended.Add(-time.Hour), approved: map[string]joining.Verdict{},
	}
	s.Renewer = &Renewer{
		Site: joining.Of(site.Config), Now: func() time.Time { return s.now },
		Authorities: func() ([]byte, error) { return []byte(site.Identity.KubernetesCA.Cert), nil },
		Open:        func() (RenewalAPI, error) { return s.api, nil },
		Logf:        func(format string, _ ...any) { s.log.WriteString(format + "\n") },
	}
	ca, err := tls.X509KeyPair([]byte(site.Identity.KubernetesCA.Cert), []byte(site.Identity.KubernetesCA.Key))
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: subject, NotBefore: ended.Add(-365 * 24 * time.Hour), NotAfter: ended,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, ca.Leaf, key.Public(), ca.PrivateKey)
	if err == nil {
		s.shown, err = x509.ParseCertificate(der)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var worker = pkix.Name{CommonName: "system:node:worker-1", Organization: []string{"system:nodes"}}

func TestAnExpiredCertificateIsExchangedThroughTheAPI(t *testing.T) {
	s, request := newRenewing(t, worker), asked(t, "", "worker-1").PEM
	got, err := s.Renew(t.Context(), s.shown, request)
	if err != nil || len(s.api.did) != 5 {
		t.Fatalf("%q, %v: %q", got, err, s.api.did)
	}
	name := strings.TrimPrefix(s.api.did[3], "create ")
	if !strings.HasPrefix(name, "expired-worker-1-") || string(got) != "certificate of "+name || s.api.approved[name].Reason != "ExpiredCertificate" {
		t.Errorf("%s: %q, approved as %+v", name, got, s.api.approved[name])
	}
	if !strings.Contains(s.log.String(), "certificate request") {
		t.Error("the log does not tell of it")
	}
	// The answer got lost: the same request brings the same certificate.
	s.now, s.api.decided = s.now.Add(apart), true
	if again, err := s.Renew(t.Context(), s.shown, request); err != nil || string(again) != string(got) {
		t.Errorf("again: %q, %v", again, err)
	}
	if n := strings.Count(s.log.String(), "certificate request"); n != 1 {
		t.Errorf("the log tells of it %d times", n)
	}
}

func TestAStrangerCostsTheAPINothing(t *testing.T) {
	request := asked(t, "", "worker-1").PEM
	s := newRenewing(t, pkix.Name{CommonName: "kubernetes-admin", Organization: []string{"system:masters"}})
	if _, err := s.Renew(t.Context(), s.shown, request); !errors.Is(err, joining.ErrNoWorker) || len(s.api.did) != 0 {
		t.Errorf("%v: %q", err, s.api.did)
	}
	s = newRenewing(t, worker)
	s.now = s.shown.NotAfter
	if _, err := s.Renew(t.Context(), s.shown, request); err == nil || !strings.Contains(err.Error(), "has not expired") || len(s.api.did) != 0 {
		t.Errorf("%v: %q", err, s.api.did)
	}
}

func TestWhatIsRefusedIsNeverRequested(t *testing.T) {
	for name, play := range map[string]func(*renewals){
		"no Node":      func(r *renewals) { r.nodes = nil },
		"a stolen one": func(r *renewals) { r.out = retired.List{{Name: "worker-1", When: sitetest.Created}} },
	} {
		s := newRenewing(t, worker)
		play(s.api)
		_, err := s.Renew(t.Context(), s.shown, asked(t, "", "worker-1").PEM)
		if _, refused := errors.AsType[joining.Refusal](err); !refused || len(s.api.did) != 3 {
			t.Errorf("%s: %v: %q", name, err, s.api.did)
		}
	}
}

func TestOneNodeAsksOnceInFiveSeconds(t *testing.T) {
	s, request := newRenewing(t, worker), asked(t, "", "worker-1").PEM
	for _, x := range []struct {
		after time.Duration
		want  bool
	}{{0, true}, {apart - 1, false}, {1, true}, {-time.Hour, true}} { // the last: the clock was set back
		s.now = s.now.Add(x.after)
		if _, err := s.Renew(t.Context(), s.shown, request); errors.Is(err, errTooOften) == x.want || err != nil == x.want {
			t.Errorf("after %s: %v", x.after, err)
		}
	}
}

func TestARenewalWaitsForWhatIsNotThereYet(t *testing.T) {
	request := asked(t, "", "worker-1").PEM
	away := errors.New("etcd has no leader")
	for _, x := range []struct {
		name string
		play func(*renewing)
		want string
	}{
		{"no control plane yet", func(s *renewing) { s.Authorities = func() ([]byte, error) { return nil, fs.ErrNotExist } }, errNotYet.Error()},
		{"no access to the API yet", func(s *renewing) { s.Open = func() (RenewalAPI, error) { return nil, fs.ErrNotExist } }, errNotYet.Error()},
		{"no API", func(s *renewing) { s.api.err = away }, away.Error()},
		{"no controller manager", func(s *renewing) { s.api.never = true }, "has not signed it yet"},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newRenewing(t, worker)
			x.play(s)
			began := time.Now()
			_, err := s.Renew(t.Context(), s.shown, request)
			_, refused := errors.AsType[joining.Refusal](err)
			if err == nil || !strings.Contains(err.Error(), x.want) || refused || time.Since(began) > signTime {
				t.Errorf("%s: %v after %s", x.name, err, time.Since(began))
			}
		})
	}
}
