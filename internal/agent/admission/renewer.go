package admission

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/decide/joining"
	"github.com/holdfast/holdfast/internal/model/retired"
	"github.com/holdfast/holdfast/internal/model/state"
)

// RenewalAPI is the part of the API that the Renewer needs.
type RenewalAPI interface {
	Nodes(ctx context.Context) ([]state.Node, error)
	Retired(ctx context.Context, name string) (retired.List, error)
	NodeLastSeen(ctx context.Context, node string) (time.Time, error)
	CreateRequest(ctx context.Context, r joining.Request, life time.Duration) error
	DecideRequest(ctx context.Context, name string, v joining.Verdict) (bool, error)
	IssuedCertificate(ctx context.Context, name string) ([]byte, error)
}

// Renewer gives a worker another kubelet certificate in exchange for one that has
// expired. The controller manager signs it, so that the API has the request with
// the reason for its approval, and the audit log has who made and approved it.
type Renewer struct {
	Site joining.Site
	// Authorities returns the certificates of the authorities of the API's clients,
	// in PEM form.
	Authorities func() ([]byte, error)
	// Open returns the API, or an error until this host's control plane is set up.
	Open func() (RenewalAPI, error)
	Now  func() time.Time
	Logf func(format string, args ...any)

	mu sync.Mutex
	// last is when each node asked last. Only nodes of this cluster get into it.
	last map[string]time.Time
}

// apart is the least time between two requests of one node. A worker asks once,
// and again after ten seconds if the certificate was not signed in time.
const apart = 5 * time.Second

// signTime is how long an answer waits for the controller manager. It leaves enough
// of configserver's time for the rest.
const signTime = 6 * time.Second

// errTooOften makes the worker ask later.
var errTooOften = errors.New("the node asked a moment ago")

// Renew returns a certificate for the request, in PEM form. shown is the expired
// certificate; the caller has verified that the host has its key.
func (r *Renewer) Renew(ctx context.Context, shown *x509.Certificate, request []byte) ([]byte, error) {
	expired, err := r.read(shown, request)
	if err != nil {
		return nil, err
	}
	if !r.enter(expired.Node) {
		return nil, fmt.Errorf("certificate of %s: %w", expired.Node, errTooOften)
	}
	api, err := r.Open()
	if errors.Is(err, fs.ErrNotExist) { // the agent has no access to the API yet, but will soon
		return nil, errNotYet
	}
	if err != nil {
		return nil, err
	}
	verdict, err := r.judge(ctx, api, expired)
	if err != nil {
		return nil, err
	}
	name := requestName(expired.Node, request)
	wanted := joining.Request{Name: name, Signer: joining.KubeletSigner, PEM: request, Usages: joining.ClientUsages}
	if err := api.CreateRequest(ctx, wanted, 0); err != nil {
		return nil, err
	}
	approved, err := api.DecideRequest(ctx, name, verdict)
	if err != nil {
		return nil, err
	}
	if approved {
		r.Logf("certificate request %s of %s: %s, %s: %s", name, expired.Node, verdict.Action, verdict.Reason, verdict.Message)
	}
	certificate, err := kube.AwaitCertificate(ctx, api.IssuedCertificate, name, signTime)
	if errors.Is(err, kube.ErrNotSigned) {
		return nil, fmt.Errorf("certificate request %s is approved, and %w", name, err)
	}
	return certificate, err
}

// read checks what needs no API, so that a stranger costs it nothing.
func (r *Renewer) read(shown *x509.Certificate, request []byte) (joining.Expired, error) {
	bundle, err := r.Authorities()
	if errors.Is(err, fs.ErrNotExist) {
		return joining.Expired{}, errNotYet
	}
	if err != nil {
		return joining.Expired{}, err
	}
	var authorities []*x509.Certificate
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		a, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return joining.Expired{}, fmt.Errorf("authorities of the API's clients: %w", err)
		}
		authorities = append(authorities, a)
	}
	return joining.ReadExpired(authorities, shown, request, r.Now())
}

// enter reports whether a node may ask now.
func (r *Renewer) enter(node string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.Now()
	if before, asked := r.last[node]; asked && now.Sub(before) < apart && !now.Before(before) {
		return false
	}
	if r.last == nil {
		r.last = map[string]time.Time{}
	}
	r.last[node] = now
	return true
}

func (r *Renewer) judge(ctx context.Context, api RenewalAPI, expired joining.Expired) (joining.Verdict, error) {
	nodes, err := api.Nodes(ctx)
	if err != nil {
		return joining.Verdict{}, err
	}
	out, err := api.Retired(ctx, expired.Node)
	if err != nil {
		return joining.Verdict{}, err
	}
	seen, err := api.NodeLastSeen(ctx, expired.Node)
	if err != nil {
		return joining.Verdict{}, err
	}
	return joining.Renew(r.Site, expired, nodes, out, seen, r.Now())
}

// requestName names a request after its node and its content: a worker that asks
// again with the same request gets the certificate of the first one.
func requestName(node string, request []byte) string {
	sum := sha256.Sum256(request)
	return "expired-" + strings.TrimRight(node[:min(len(node), 200)], "-.") + "-" + hex.EncodeToString(sum[:8])
}
