package life_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/leafcert"
	"github.com/holdfast/holdfast/internal/lab"
	model "github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/kubeadm"
	"github.com/holdfast/holdfast/internal/render/operator"
)

// busyGap is the longest time without a write on a busy machine while nothing is
// taken away. It is that of the scenarios of two nodes.
const busyGap = 2 * time.Second

// restartGap is the longest time without a write while one etcd of two is restarted, on a busy
// machine. Two voters need each other. A leader that has not heard of the other one for etcd's
// election timeout, a second, steps down, and the next election waits for one to two of these.
const restartGap = 5 * time.Second

// TestCertificatesAreRenewedUnderLoad waits until every certificate of every
// control plane, and those of all kubelets, were renewed several times, each control
// plane in its turn. Neither an API server nor etcd is restarted for it. The same is waited for
// of what Holdfast makes for itself: the clients of each control plane's agent and of the
// operator, and what configuration servers and routers show.
//
// With five renewals and a life of ten minutes it takes 45 minutes.
func TestCertificatesAreRenewedUnderLoad(t *testing.T) {
	play(t, "certificates renewed", func(tr *trial) {
		since := tr.Now()
		seen := tr.watchCertificates()
		started := tr.startsOfServers()
		limit := time.Duration(*renewals+1) * *life
		tr.Eventually(limit, fmt.Sprintf("each certificate is renewed %d times", *renewals), func() error { return seen.look(*renewals) })
		tr.Logf("%s", seen)
		seen.oneAfterTheOther()
		if now := tr.startsOfServers(); !maps.Equal(started, now) {
			tr.Errorf("servers were started at %v, and then at %v", started, now)
		}
		tr.Noticed("", since)
		tr.NothingFailed("certificates renewed", since, tr.Clients()...)
		tr.outages(since)
		tr.noWriteGapAbove(busyGap)
		tr.nobodyFenced()
	})
}

// startsOfServers returns when the API server and etcd of each control plane were started, in
// ticks since its machine was.
func (tr *trial) startsOfServers() map[string]string {
	tr.Helper()
	out := map[string]string{}
	for _, host := range tr.ControlPlanes() {
		for _, program := range []string{"kube-apiserver", "etcd"} {
			out[program+" of "+host] = strings.TrimSpace(tr.On(host, "cut -d' ' -f22 /proc/$(pgrep -o -x "+program+")/stat"))
		}
	}
	return out
}

// kubelets lists the certificates of a kubelet, which it renews itself.
var kubelets = []string{kubeadm.KubeletCertificate, kubeadm.ServingCertificate}

// owns lists the certificates of clients that the agent of a control plane makes, without a turn:
// its own for the API, and the operator's for etcd. The agent's client of etcd is kubeadm's.
var owns = []string{state.AgentPair, operator.EtcdFolder + "/" + operator.EtcdPair}

// These certificates lie in no file of a host: the play asks who shows them.
const (
	configServer = "configuration server"
	routersShow  = "routers' default certificate"
)

const httpsPort = 443

// certificates are those that files of hosts had, one after the other.
type certificates struct {
	tr *trial
	// had is by host and path.
	had map[string][]*x509.Certificate
	// changed has by control plane when a look saw another certificate that its agent renews.
	changed map[string][]time.Time
}

func (tr *trial) watchCertificates() *certificates {
	tr.Helper()
	c := &certificates{tr: tr, had: map[string][]*x509.Certificate{}, changed: map[string][]time.Time{}}
	if err := c.look(0); err != nil {
		tr.Fatal(err)
	}
	planes, hosts := len(tr.ControlPlanes()), len(tr.Lab.Layout.Hosts)
	// super-admin.conf is on the first one alone; each control plane has a configuration server
	if want := (10+len(owns)+1)*planes + len(kubelets)*hosts + 1; len(c.had) < want {
		tr.Fatalf("%d control planes and %d hosts in all have %d certificates, want at least %d: %s", planes, hosts, len(c.had), want, c)
	}
	return c
}

// look reads all files, asks all servers, and returns which of their certificates were renewed
// less often than wanted.
func (c *certificates) look(want int) error {
	var missing []string
	for _, h := range c.tr.Lab.Layout.Hosts {
		root, err := c.tr.Lab.Root(c.tr.Context(), c.tr.Power, h.Name)
		if err != nil {
			return err
		}
		paths := kubelets
		if h.Role.ControlPlane() {
			paths = slices.Concat(kubelets, owns)
			for _, leaf := range leafcert.Leaves() {
				paths = append(paths, leaf.Path)
			}
		}
		for _, path := range paths {
			renewals, err := c.lookAt(root, h.Name, path)
			if err != nil {
				return fmt.Errorf("%s: %w", h.Name, err)
			}
			if 0 <= renewals && renewals < want {
				missing = append(missing, h.Name+" "+path)
			}
		}
	}
	late, err := c.lookAtServers(want)
	if err != nil {
		return err
	}
	missing = append(missing, late...)
	if len(missing) > 0 {
		return fmt.Errorf("%d certificates were not renewed so often, among them %s", len(missing), missing[0])
	}
	return nil
}

// lookAtServers asks the configuration server of each control plane, and the routers for a host that
// no certificate is for but theirs, and returns which show one that was renewed less often than
// wanted.
func (c *certificates) lookAtServers(want int) (missing []string, err error) {
	layout := c.tr.Lab.Layout
	type server struct {
		name string
		at   netip.AddrPort
		host string
	}
	servers := []server{{routersShow, netip.AddrPortFrom(c.tr.front(layout.IngressVIPs), httpsPort), "nobody.apps." + layout.ClusterDomain()}}
	for _, h := range c.tr.ControlPlanes() {
		servers = append(servers, server{h + " " + configServer, netip.AddrPortFrom(c.tr.Address(h, lab.V4), model.ConfigServerPort), ""})
	}
	for _, s := range servers {
		now, err := c.tr.shown(s.at, s.host)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		if renewals, _ := c.saw(s.name, now); renewals < want {
			missing = append(missing, s.name)
		}
	}
	return missing, nil
}

// shown returns the certificate that a server shows to a client that asks for a host.
func (tr *trial) shown(at netip.AddrPort, host string) (*x509.Certificate, error) {
	ctx, cancel := context.WithTimeout(tr.Context(), answeredWithin)
	defer cancel()
	raw, err := tr.Lab.Dial(ctx, "tcp", at.String())
	if err != nil {
		return nil, err
	}
	defer func() { _ = raw.Close() }() // nothing was sent
	conn := tls.Client(raw, &tls.Config{
		ServerName: host, MinVersion: tls.VersionTLS12,
		InsecureSkipVerify: true, // it is looked at, not trusted
	})
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	return conn.ConnectionState().PeerCertificates[0], nil
}

// lookAt reads a file of a host, and returns how often its certificate was renewed. It is
// below zero without one: a kubeconfig may name another file.
func (c *certificates) lookAt(root, host, path string) (int, error) {
	now, err := certificate(root, path)
	if err != nil || now == nil {
		return -1, err
	}
	renewals, anew := c.saw(host+" "+path, now)
	if anew && renewals > 0 && !slices.Contains(kubelets, path) && !slices.Contains(owns, path) {
		c.changed[host] = append(c.changed[host], time.Now())
	}
	return renewals, nil
}

// saw notes a certificate, and returns how often it was renewed so far, and whether this one is new.
// Of two routers one may still show the former one.
func (c *certificates) saw(name string, now *x509.Certificate) (renewals int, anew bool) {
	anew = !slices.ContainsFunc(c.had[name], now.Equal)
	if anew {
		c.had[name] = append(c.had[name], now)
	}
	if time.Now().After(now.NotAfter) {
		c.tr.Errorf("%s has ended", name)
	}
	return len(c.had[name]) - 1, anew
}

// oneAfterTheOther checks that no two control planes renewed their certificates at once. A
// turn ends where a control plane renews nothing for a minute; what two looks see within
// two seconds of each other may have been one after the other.
func (c *certificates) oneAfterTheOther() {
	c.tr.Helper()
	type turn struct{ from, until time.Time }
	turns := map[string][]turn{}
	for host, times := range c.changed {
		for _, at := range times {
			list := turns[host]
			if n := len(list); n > 0 && at.Sub(list[n-1].until) < time.Minute {
				list[n-1].until = at
			} else {
				turns[host] = append(list, turn{at, at})
			}
		}
		c.tr.Logf("%s renewed certificates in %d turns", host, len(turns[host]))
	}
	hosts := slices.Sorted(maps.Keys(turns))
	for i, a := range hosts {
		for _, b := range hosts[i+1:] {
			for _, of := range turns[a] {
				for _, by := range turns[b] {
					if of.from.Add(2*time.Second).Before(by.until) && by.from.Add(2*time.Second).Before(of.until) {
						c.tr.Errorf("%s renewed from %s to %s, and %s from %s to %s", a, of.from, of.until, b, by.from, by.until)
					}
				}
			}
		}
	}
}

// String tells how often each was renewed.
func (c *certificates) String() string {
	var out []string
	for name, list := range c.had {
		out = append(out, fmt.Sprintf("%s: %d renewals", name, len(list)-1))
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

// inKubeconfig finds the certificate of a kubeconfig's user.
var inKubeconfig = regexp.MustCompile(`client-certificate-data: (\S+)`)

// certificate returns the one in a file of a host, nil for none. A kubelet keeps a link to its
// newest.
func certificate(root, path string) (*x509.Certificate, error) {
	if to, err := os.Readlink(filepath.Join(root, path)); err == nil {
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(path), to)
		}
		path = to
	}
	path = filepath.Join(root, path)
	data, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil, nil // super-admin.conf is on the first control plane alone
	}
	if err != nil {
		return nil, err
	}
	if !bytes.Contains(data, []byte("BEGIN CERTIFICATE")) {
		found := inKubeconfig.FindSubmatch(data)
		if found == nil {
			return nil, nil
		}
		if data, err = base64.StdEncoding.DecodeString(string(found[1])); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" { // a kubelet's file begins with it, and its key follows
			return x509.ParseCertificate(block.Bytes)
		}
	}
	return nil, fmt.Errorf("%s has no certificate", path)
}
