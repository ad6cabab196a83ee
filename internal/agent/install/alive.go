package install

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/holdfast/holdfast/internal/adapter/host"
	vrrplisten "github.com/holdfast/holdfast/internal/adapter/keepalived"
	"github.com/holdfast/holdfast/internal/decide/life"
	"github.com/holdfast/holdfast/internal/decide/vrrp"
	"github.com/holdfast/holdfast/internal/install/configserver"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
)

const (
	// aliveLimit bounds the question whether the site still serves at an address. A host that is
	// off takes all of it.
	aliveLimit = 3 * time.Second
	// claimWindow is the time in which another holder of a VIP answers. It is asked twice.
	claimWindow = 1500 * time.Millisecond
	// apiServerName is a name that is in the certificate of every API server, whatever the
	// names and addresses of its site.
	apiServerName = "kubernetes"
)

// siteServes says what still serves of the site that is restored, although its first host has not
// started an API server yet; empty if nothing answers. No answer is no proof that none does, and
// a person has been told to switch them off.
//
// This host holds the API's VIPs itself by then, so that the endpoint leads to itself: it asks
// the former control planes at their own addresses, and the network who else has a VIP.
//
// If Kubernetes' authority was replaced after the backup, nobody here knows the one by which the
// former API servers prove themselves now. So it asks their configuration servers too: the authority
// of these is never replaced.
func (r *run) siteServes(ctx context.Context) (string, error) {
	api := []string{r.Site.APIEndpoint()}
	for _, a := range r.Site.Restore.Former {
		api = append(api, netip.AddrPortFrom(a, site.APIPort).String())
	}
	elsewhere, err := host.Elsewhere(slices.Concat(r.Site.Config.APIVIPs(), r.Site.Restore.Former))
	if err != nil {
		return "", err
	}
	var config []string
	if len(r.Site.Config.APIVIPs()) == 0 { // the site's load balancer, or this host, which is of this life
		config = append(config, site.HostPort(r.Site.APIHost(), site.ConfigServerPort))
	}
	for _, a := range elsewhere {
		config = append(config, netip.AddrPortFrom(a, site.ConfigServerPort).String())
	}
	if at := anyAnswers(ctx, api, r.Site.Identity.KubernetesCA.Cert); at != "" {
		return "an API server of the site of this backup still serves at " + at, nil
	}
	if at := r.otherLife(ctx, config); at != "" {
		return "a control plane of a former life of this site is still on: its configuration server answers at " + at, nil
	}
	return r.heldElsewhere(ctx)
}

// otherLife returns the first of the addresses at which a control plane of this site answers that is
// of another life than this host; empty for none. It asks all at once.
func (r *run) otherLife(ctx context.Context, addresses []string) string {
	ctx, cancel := context.WithTimeout(ctx, aliveLimit)
	defer cancel()
	other := make([]bool, len(addresses))
	var all sync.WaitGroup
	for i, a := range addresses {
		all.Go(func() {
			heard, knows, err := r.life(ctx, a)
			other[i] = err == nil && life.Other(r.Site.Life, heard, knows)
		})
	}
	all.Wait()
	if i := slices.Index(other, true); i >= 0 {
		return addresses[i]
	}
	return ""
}

// lifeAt asks the configuration server at an address for its life, and whether it knows of lives. An
// error means that no control plane of this site answers there.
func (r *run) lifeAt(ctx context.Context, address string) (l state.Life, knows bool, err error) {
	c := &configserver.Client{Addresses: []string{address}, ServerName: r.Site.APIName(), CA: r.Site.Identity.ConfigCA.Cert}
	defer c.Close()
	return c.Life(ctx)
}

// anyAnswers returns the first of the addresses at which an API server of an authority answers,
// empty for none.
func anyAnswers(ctx context.Context, addresses []string, authority string) string {
	for _, a := range addresses {
		if answersAs(ctx, a, apiServerName, authority) {
			return a
		}
	}
	return ""
}

// heldElsewhere says which VIPs of this site another machine has, also while this host has them
// itself; empty if nobody answers.
func (r *run) heldElsewhere(ctx context.Context) (string, error) {
	v, err := r.network()
	if err != nil {
		return "", err
	}
	ask, _, err := places(v)
	if err != nil {
		return "", err
	}
	own, err := ownHardware()
	if err != nil {
		return "", err
	}
	var out []string
	for nic, vips := range ask {
		_, heard, err := vrrplisten.Listen(ctx, nic, vips, claimWindow)
		if err != nil {
			return "", err
		}
		for _, vip := range vips {
			if by := vrrp.Claimant(heard, vip, own); by != "" {
				out = append(out, fmt.Sprintf("VIP %s is in use by the machine with hardware address %s", vip, by))
			}
		}
	}
	slices.Sort(out)
	return strings.Join(out, "; "), nil
}

// ownHardware returns the hardware addresses of this host.
func ownHardware() ([]string, error) {
	links, err := netlink.LinkList()
	if err != nil {
		return nil, fmt.Errorf("list interfaces: %w", err)
	}
	var out []string
	for _, l := range links {
		out = append(out, l.Attrs().HardwareAddr.String())
	}
	return out, nil
}

// answersAs reports whether something at an address shows a certificate of an authority for a
// name.
func answersAs(ctx context.Context, address, name, authority string) bool {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(authority)) {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, aliveLimit)
	defer cancel()
	d := tls.Dialer{NetDialer: &net.Dialer{}, Config: &tls.Config{RootCAs: roots, ServerName: name, MinVersion: tls.VersionTLS12}}
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}
