package joining

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/model/retired"
	"github.com/holdfast/holdfast/internal/model/state"
)

const day = 24 * time.Hour

// authority is a CA of a test.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func signed(t testing.TB, template, parent *x509.Certificate, key, parentKey *ecdsa.PrivateKey) *x509.Certificate {
	t.Helper()
	template.SerialNumber = big.NewInt(7)
	if parent == nil {
		parent, parentKey = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), parentKey)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// newAuthority makes a CA that ends at a time. All have the same name, as the CAs
// of all clusters do.
func newAuthority(t testing.TB, ends time.Time) authority {
	t.Helper()
	key := newKey(t)
	return authority{signed(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: "kubernetes"}, NotBefore: now.Add(-9 * 365 * day), NotAfter: ends,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, nil, key, nil), key}
}

// kubelets issues a certificate of a worker that ended 60 days ago, with changes.
func (a authority) kubelets(t testing.TB, change func(*x509.Certificate)) *x509.Certificate {
	t.Helper()
	c := &x509.Certificate{
		Subject: subject("system:node:worker-1", "system:nodes"), NotBefore: now.Add(-425 * day), NotAfter: now.Add(-60 * day),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, BasicConstraintsValid: true,
	}
	if change != nil {
		change(c)
	}
	return signed(t, c, a.cert, newKey(t), a.key)
}

func TestOnlyTheEndOfACertificateIsForgiven(t *testing.T) {
	const long = 20 * 365 * day
	ours, other, old := newAuthority(t, now.Add(long)), newAuthority(t, now.Add(long)), newAuthority(t, now.Add(-day))
	own := of(t, "system:node:worker-1", "system:nodes")
	for _, c := range []struct {
		name    string
		by      authority
		change  func(*x509.Certificate)
		request []byte
		at      time.Time
		refusal string // of the answer, empty where it passes
	}{
		{name: "a worker's", by: ours, request: own},
		{name: "a worker's of an authority that is being replaced", by: other, request: own},
		{name: "the last moment of the limit", by: ours, request: own, at: now.Add(MaxExpired - 60*day)},

		{name: "another cluster's authority", by: newAuthority(t, now.Add(long)), request: own, refusal: ErrNoWorker.Error()},
		{name: "an authority that has expired", by: old, request: own, refusal: "the authority that issued the certificate of worker-1 has expired"},
		{name: "an administrator's", by: ours, request: own, change: func(c *x509.Certificate) { c.Subject = subject("kubernetes-admin", "system:masters") }, refusal: ErrNoWorker.Error()},
		{
			name: "a node that is an administrator too", by: ours, request: own, refusal: ErrNoWorker.Error(),
			change: func(c *x509.Certificate) {
				c.Subject = subject("system:node:worker-1", "system:nodes", "system:masters")
			},
		},
		{name: "an agent's", by: ours, request: own, change: func(c *x509.Certificate) { c.Subject = subject("holdfast:agent:cp-1", "holdfast:agents") }, refusal: ErrNoWorker.Error()},
		{
			name: "a server's of a node's name", by: ours, request: own, refusal: ErrNoWorker.Error(),
			change: func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} },
		},
		{
			name: "an authority of a node's name", by: ours, request: own, refusal: ErrNoWorker.Error(),
			change: func(c *x509.Certificate) { c.IsCA, c.KeyUsage = true, x509.KeyUsageCertSign },
		},
		{
			name: "an extension that nobody knows", by: ours, request: own, refusal: ErrNoWorker.Error(),
			change: func(c *x509.Certificate) {
				c.ExtraExtensions = []pkix.Extension{{Id: []int{1, 2, 3, 4}, Critical: true, Value: []byte{5, 0}}}
			},
		},

		{name: "it has not expired", by: ours, request: own, at: now.Add(-60 * day), refusal: "has not expired: it ends at 2026-09-21T08:00:00Z, and the clock of this control plane says 2026-09-21T08:00:00Z"},
		{name: "a control plane's clock in 1970", by: ours, request: own, at: time.Unix(3600, 0), refusal: "the clock of this control plane (1970-01-01T01:00:00Z) is earlier than the issue"},
		{name: "too old", by: ours, request: own, at: now.Add(MaxExpired - 60*day + time.Second), refusal: "more than 1825 days ago"},

		{name: "another node's", by: ours, request: of(t, "system:node:worker-2", "system:nodes"), refusal: "requested the certificate of another node"},
		{name: "a control plane's", by: ours, request: of(t, "system:node:cp-1", "system:nodes"), refusal: "requested the certificate of another node"},
		{name: "an administrator's certificate", by: ours, request: of(t, "kubernetes-admin", "system:masters"), refusal: "other than a kubelet certificate: its subject is not a kubelet's"},
		{
			name: "a server's names", by: ours, refusal: "it has alternative names",
			request: asked(t, x509.CertificateRequest{Subject: subject("system:node:worker-1", "system:nodes"), DNSNames: []string{"api"}}),
		},
		{name: "no request", by: ours, refusal: "it is not a certificate request in PEM form"},
	} {
		t.Run(c.name, func(t *testing.T) {
			at, end := now, now.Add(-60*day)
			if !c.at.IsZero() {
				at = c.at
			}
			x, err := ReadExpired([]*x509.Certificate{ours.cert, other.cert, old.cert}, c.by.kubelets(t, c.change), c.request, at)
			switch {
			case c.refusal == "" && (err != nil || x.Node != "worker-1" || !x.Ended.Equal(end)):
				t.Errorf("%+v, %v", x, err)
			case c.refusal != "" && (err == nil || !strings.Contains(err.Error(), c.refusal)):
				t.Errorf("got %v, want %q", err, c.refusal)
			}
			_, refused := errors.AsType[Refusal](err)
			if err != nil && refused == errors.Is(err, ErrNoWorker) {
				t.Errorf("%v: is neither for a stranger nor for a person", err)
			}
		})
	}
}

func TestWhichWorkerGetsAnotherCertificate(t *testing.T) {
	x := Expired{Node: "worker-1", Issued: now.Add(-425 * day), Ended: now.Add(-60 * day)}
	made := func(name string, at time.Time) state.Node {
		n := node(name, false)
		n.Created = at
		return n
	}
	old := made("worker-1", now.Add(-800*day))
	anew := func(first string) state.Node { // as a plan for a second family makes it
		n := made("worker-1", now.Add(-200*day))
		n.Labels = map[string]string{state.LabelMade: first}
		return n
	}
	asleep := now.Add(-100 * day)
	s := Site{ControlPlanes: 2, Named: []string{"cp-1", "cp-2"}}
	with := func(n state.Node) []state.Node { return []state.Node{controlPlane("cp-1", true), n} }
	named := x
	named.Node = "cp-2"
	for _, c := range []struct {
		name    string
		x       Expired
		nodes   []state.Node
		seen    time.Time
		refusal string
	}{
		{"it slept", x, with(old), asleep, ""},
		{"it slept, and was never renewed", x, with(made("worker-1", x.Issued.Add(20*time.Minute))), asleep, ""},
		{"it slept, and a plan made its Node anew before that", x, with(anew(state.MadeAt(now.Add(-800 * day)))), asleep, ""},
		{"it was cut off, and lived until its certificate expired", x, with(old), x.Ended, ""},
		{"the same, with a clock that was ahead", x, with(old), x.Ended.Add(5 * time.Minute), ""},

		{"its Node was deleted", x, []state.Node{controlPlane("cp-1", true), made("worker-2", now.Add(-800*day))}, asleep, "the cluster has no Node worker-1 any more"},
		{"another host has its name since", x, with(made("worker-1", now.Add(-200*day))), asleep, "belongs to an earlier host of that name: if this host is yours, switch it off, and install it anew by: holdfast host replace worker-1 --is-gone worker-1"},
		{"the same, and that one's Node was made anew", x, with(anew(state.MadeAt(now.Add(-300 * day)))), asleep, "belongs to an earlier host of that name"},
		{"the same, and nobody understands when", x, with(anew("long ago")), asleep, "belongs to an earlier host of that name"},
		{"a copy of a key that was replaced", x, with(old), now, "it has a newer one, and this is an old copy"},
		{"the same, and both have expired", x, with(old), x.Ended.Add(11 * time.Minute), "it has a newer one, and this is an old copy"},
		{
			"its clock was years ahead", x, with(old), now.AddDate(9, 0, 0), "alive at 2035-11-20T08:00:00Z, and the clock of this control plane says 2026-11-20T08:00:00Z: if worker-1 has not run since 2026-09-21T08:00:00Z, " +
				`write that into the Lease: kubectl -n kube-node-lease patch lease worker-1 --type merge -p '{"spec":{"renewTime":"2026-09-21T08:00:00.000000Z"}}'`,
		},
		{"nobody knows when it lived", x, with(old), time.Time{}, "its Lease is missing"},
		{"a control plane of the configuration", named, with(made("cp-2", now.Add(-800*day))), asleep, "cp-2 is no worker"},
		{"a control plane by its label", x, with(controlPlane("worker-1", false)), asleep, "worker-1 is no worker"},
	} {
		v, err := Renew(s, c.x, c.nodes, nil, c.seen, now)
		if c.refusal == "" {
			if err != nil || v.Action != Approve || v.Reason != "ExpiredCertificate" || !strings.Contains(v.Message, "worker-1") {
				t.Errorf("%s: %+v, %v", c.name, v, err)
			}
			continue
		}
		if _, refused := errors.AsType[Refusal](err); !refused || !strings.Contains(err.Error(), c.refusal) || v.Action != "" {
			t.Errorf("%s: %+v, %v, want %q", c.name, v, err, c.refusal)
		}
	}
}

func TestAHostThatWasTakenOutGetsNoCertificateForItsExpiredOne(t *testing.T) {
	x := Expired{Node: "worker-1", Issued: now.Add(-425 * day), Ended: now.Add(-60 * day)}
	n := node("worker-1", false)
	n.Created = now.Add(-800 * day)
	entry := retired.Host{Name: "worker-1", When: now.Add(-day), By: "kim", Why: "holdfast host remove"}
	renew := func(h retired.Host) error {
		_, err := Renew(Site{ControlPlanes: 2}, x, []state.Node{controlPlane("cp-1", true), n}, retired.List{h}, now.Add(-100*day), now)
		return err
	}
	if err := renew(entry); err == nil || !strings.Contains(err.Error(), "worker-1 was taken out of the cluster at ") {
		t.Errorf("it is out: %v", err)
	}
	entry.Again = now.Add(-time.Hour)
	if err := renew(entry); err != nil {
		t.Errorf("its name was given again: %v", err)
	}
}

// FuzzReadExpired shows arbitrary certificates. What passes was issued by the
// authority, has expired, and asks for its own name.
func FuzzReadExpired(f *testing.F) {
	ours := newAuthority(f, now.Add(20*365*day))
	cert := ours.kubelets(f, nil)
	f.Add(cert.Raw, of(f, "system:node:worker-1", "system:nodes"))
	f.Add(cert.Raw, of(f, "system:node:cp-1", "system:nodes"))
	f.Add(newAuthority(f, now).kubelets(f, nil).Raw, of(f, "system:node:worker-1", "system:nodes"))
	f.Add(ours.cert.Raw, []byte("-----BEGIN CERTIFICATE REQUEST-----"))
	f.Fuzz(func(t *testing.T, der, request []byte) {
		shown, err := x509.ParseCertificate(der)
		if err != nil {
			return
		}
		x, err := ReadExpired([]*x509.Certificate{ours.cert}, shown, request, now)
		if err != nil {
			return
		}
		asked, err := nodeOf(Request{PEM: request, Usages: ClientUsages})
		if err != nil || asked != x.Node || shown.Subject.CommonName != nodeUser+x.Node || !now.After(shown.NotAfter) || shown.CheckSignatureFrom(ours.cert) != nil {
			t.Errorf("%+v is taken: %s asks for %q, %v", x, shown.Subject, asked, err)
		}
	})
}
