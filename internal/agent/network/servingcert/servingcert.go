// Package servingcert keeps the certificate of a control plane's API server valid
// for every API VIP, even for one that is added to a running cluster.
//
// kube-apiserver follows the files of its certificate and takes a new one for new
// connections by itself (k8s.io/apiserver v0.36,
// dynamiccertificates/dynamic_serving_content.go), without a restart. The key
// stays, and one rename replaces only the certificate's file, so that they belong
// together at every moment; kubeadm would make a new key. A certificate that
// kubeadm renews later keeps the addresses: kubeadm takes them from the present
// one.
package servingcert

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/keys"
	"github.com/holdfast/holdfast/internal/decide/vips"
	"github.com/holdfast/holdfast/internal/model/config"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Where things are on a control plane.
const (
	// Folder holds kubeadm's certificates.
	Folder = "/etc/kubernetes/pki"
	// Endpoint is the host's own API server.
	Endpoint = "127.0.0.1:6443"
	// RecordPath keeps the VIPs that the certificate was last made for, so that
	// those that are gone can be taken out again.
	RecordPath = "/var/lib/holdfast/network/certificate-vips.json"
)

// The times of a renewal.
const (
	// turnTimeout bounds the wait for the hosts whose turn is before this one's: one
	// whose agent does not run must not hold up the rest.
	turnTimeout = 15 * time.Second
	// reloadTimeout bounds the wait for an API server to show a new certificate. It
	// follows the file, and if that fails, looks once a minute.
	reloadTimeout = 5 * time.Second
	// dialLimit bounds one look at the API server.
	dialLimit = 2 * time.Second
	// lookEvery is the time for which the result of the last look counts.
	lookEvery = 20 * time.Second
)

// Options holds the places in which the reconciler works.
type Options struct {
	// Folder, Endpoint and Record are the constants above if they are empty.
	Folder, Endpoint, Record string
	// Life is the life of a new certificate; zero is kubeadm's own.
	Life time.Duration
	Now  func() time.Time
}

// Reconciler keeps the certificate of one API server. It is a network.Reconciler.
type Reconciler struct {
	Options
	// since is the time at which the need for another certificate was first seen.
	since time.Time
	// looked is the last time at which the API server showed the right one.
	looked time.Time

	mu     sync.Mutex
	served []netip.Addr
}

// New returns the reconciler.
func New(o Options) *Reconciler {
	set := func(field *string, otherwise string) {
		if *field == "" {
			*field = otherwise
		}
	}
	set(&o.Folder, Folder)
	set(&o.Endpoint, Endpoint)
	set(&o.Record, RecordPath)
	o.Life = cmp.Or(o.Life, config.CertificateLife)
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Reconciler{Options: o}
}

// Name implements network.Reconciler.
func (p *Reconciler) Name() string { return "serving-certificate" }

// Withdraw implements network.Reconciler. It does nothing: the certificate outlives
// the agent.
func (p *Reconciler) Withdraw(context.Context) error { return nil }

// Served returns the addresses in the certificate that the API server shows.
// While the server does not run, these are the ones that it will show.
func (p *Reconciler) Served() []netip.Addr {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.served
}

// Reconcile implements network.Reconciler.
func (p *Reconciler) Reconcile(ctx context.Context, view state.NetworkView) (changed string, err error) {
	if !view.Settings.ManagedVIPs || !view.Role.ControlPlane() || len(view.Settings.APIVIPs) == 0 {
		return "", nil
	}
	old, err := os.ReadFile(p.file("apiserver.crt"))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil // this host has not joined yet
	}
	if err != nil {
		return "", err
	}
	have, err := keys.Addresses(string(old))
	if err != nil {
		return "", fmt.Errorf("certificate %s: %w", p.file("apiserver.crt"), err)
	}
	want := p.wanted(have, view)
	if !slices.Equal(want, have) {
		if err := p.mine(view); err != nil {
			return "", err
		}
		if err := p.renew(string(old), want); err != nil {
			return "", err
		}
		changed = fmt.Sprintf("the API server's certificate is now for %v", view.Settings.APIVIPs)
	}
	p.since = time.Time{}
	return changed, errors.Join(p.remember(view.Settings.APIVIPs), p.look(ctx, want))
}

func (p *Reconciler) file(name string) string { return filepath.Join(p.Folder, name) }

// wanted returns the addresses that the certificate should have: the present ones
// without VIPs that are gone, and the VIPs that it lacks.
func (p *Reconciler) wanted(have []netip.Addr, view state.NetworkView) []netip.Addr {
	wanted := slices.DeleteFunc(slices.Clone(have), func(a netip.Addr) bool {
		return slices.Contains(p.recorded(), a) && !slices.Contains(view.Settings.APIVIPs, a) && !slices.Contains(view.Host.Addresses, a)
	})
	for _, vip := range view.Settings.APIVIPs {
		if !slices.Contains(wanted, vip) {
			wanted = append(wanted, vip)
		}
	}
	return wanted
}

// mine returns nil when it is this host's turn: one API server at a time takes a
// new certificate, so that a fault in it hits only one of them.
func (p *Reconciler) mine(view state.NetworkView) error {
	now := p.Now()
	if p.since.IsZero() {
		p.since = now
	}
	before := vips.Turn(view.Host.NodeName, view.Settings.APIVIPs, view.Nodes.Value)
	if before == "" || now.Sub(p.since) >= turnTimeout || now.Before(p.since) {
		return nil
	}
	return fmt.Errorf("the API server's certificate waits for that of %s", before)
}

func (p *Reconciler) renew(old string, want []netip.Addr) error {
	var texts []string
	for _, name := range []string{"apiserver.key", "ca.crt", "ca.key"} {
		data, err := os.ReadFile(p.file(name))
		if err != nil {
			return fmt.Errorf("renew the API server's certificate: %w", err)
		}
		texts = append(texts, string(data))
	}
	fresh, err := keys.Reissue(old, texts[0], texts[1], texts[2], want, p.Life, p.Now())
	if err != nil {
		return fmt.Errorf("renew the API server's certificate: %w", err)
	}
	return host.WriteFileAtomic(p.file("apiserver.crt"), []byte(fresh), state.DefaultFileMode)
}

// look waits until the API server shows the certificate in the file.
func (p *Reconciler) look(ctx context.Context, want []netip.Addr) error {
	if slices.Equal(p.Served(), want) && p.Now().Sub(p.looked).Abs() < lookEvery {
		return nil
	}
	ctx, stop := context.WithTimeout(ctx, reloadTimeout)
	defer stop()
	var last []netip.Addr
	for {
		served, err := p.shown(ctx)
		switch {
		case errors.Is(err, syscall.ECONNREFUSED):
			served = want // one that does not run reads the file when it starts
		case err == nil:
			last = served
		}
		p.set(served) // nothing, if there was no answer in time: a busy one may show either
		if slices.Equal(served, want) {
			p.looked = p.Now()
			return nil
		}
		if host.Sleep(ctx, 50*time.Millisecond) != nil {
			return fmt.Errorf("the API server at %s still shows a certificate for %v, but the file is for %v", p.Endpoint, last, want)
		}
	}
}

func (p *Reconciler) set(served []netip.Addr) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.served = served
}

// shown returns the addresses of the certificate that the API server shows.
func (p *Reconciler) shown(ctx context.Context) ([]netip.Addr, error) {
	ctx, stop := context.WithTimeout(ctx, dialLimit)
	defer stop()
	var out []netip.Addr
	dialer := &tls.Dialer{Config: &tls.Config{
		InsecureSkipVerify: true, //nolint:gosec // it is read, not trusted
		VerifyConnection: func(shown tls.ConnectionState) error {
			for _, ip := range shown.PeerCertificates[0].IPAddresses {
				if a, ok := netip.AddrFromSlice(ip); ok && !slices.Contains(out, a.Unmap()) {
					out = append(out, a.Unmap())
				}
			}
			return nil
		},
	}}
	conn, err := dialer.DialContext(ctx, "tcp", p.Endpoint)
	if err != nil {
		return nil, err
	}
	return out, conn.Close()
}

// recorded returns the VIPs that the certificate was last made for.
func (p *Reconciler) recorded() []netip.Addr {
	data, err := os.ReadFile(p.Record)
	if err != nil {
		return nil // then a surplus address stays in the certificate
	}
	var out []netip.Addr
	_ = json.Unmarshal(data, &out) // likewise
	return out
}

// remember records the present VIPs.
func (p *Reconciler) remember(now []netip.Addr) error {
	if slices.Equal(p.recorded(), now) {
		return nil
	}
	data, err := json.Marshal(now)
	if err != nil {
		return err
	}
	return host.WriteFileAtomic(p.Record, append(data, '\n'), state.DefaultFileMode)
}
