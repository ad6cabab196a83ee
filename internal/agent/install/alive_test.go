package install

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netns"

	"github.com/holdfast/holdfast/internal/adapter/keys"
	"github.com/holdfast/holdfast/internal/install/configserver"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/netnstest"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

// docs/facts/loss.md#hard-cases-of-loss, L46: a host of the site that is restored still
// serves. The new first host takes neither the virtual IPs nor the data meanwhile.
func TestL46NothingIsRestoredWhileTheSiteStillServes(t *testing.T) {
	r, _ := newRun(t, state.RoleBootstrap)
	r.Site = sitetest.New(t, sitetest.TwoDual)
	r.Site.Restore = &site.Restore{SHA256: strings.Repeat("0", 64)}
	r.Site = r.Site.For(state.RoleBootstrap)
	var names []string
	for _, s := range r.steps() {
		names = append(names, s.name)
	}
	order := []string{"hold API VIP", "write certificates", "take the data of the backup", "start control plane"}
	if !slices.IsSortedFunc(order, func(a, b string) int { return slices.Index(names, a) - slices.Index(names, b) }) || slices.Index(names, order[0]) < 0 {
		t.Errorf("virtual IPs that somebody holds are refused before anything is written; the steps are %v", names)
	}

	r.root = t.TempDir()
	r.facts = state.HostFacts{NodeName: "cp-1", Addresses: []netip.Addr{netip.MustParseAddr("10.98.0.11")}}
	path := filepath.Join(r.root, site.RestorePath)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("a snapshot"), 0o600); err != nil {
		t.Fatal(err)
	}
	asked := 0
	ctx, cancel := context.WithCancel(t.Context())
	r.serves = func(context.Context) (string, error) {
		if asked++; asked == 2 {
			cancel()
		}
		return "an API server of the site of this backup still serves at 10.98.0.11:6443", nil
	}
	r.start("take the data of the backup")
	if err := r.takeBackup(ctx); err == nil || strings.Contains(err.Error(), "SHA-256") {
		t.Errorf("beside a site that serves: %v", err)
	}
	if s, _ := r.p.Current(); !strings.Contains(s.Message, "still serves at") {
		t.Errorf("it says %q", s.Message)
	}
	if _, err := os.Stat(filepath.Join(r.root, state.EtcdDataDir)); err == nil {
		t.Error("etcd has data")
	}
	r.serves = func(context.Context) (string, error) { return "", nil }
	if err := r.takeBackup(t.Context()); err == nil || !strings.Contains(err.Error(), "SHA-256") {
		t.Errorf("once it does not serve any more, it goes on to compare the snapshot: %v", err)
	}
}

// TestL46AFormerHostIsFoundWhileThisHostHoldsTheVIPs: the VIPs were free when the installation
// asked, and lead to this host itself since then. Meanwhile somebody switches a former host on.
func TestL46AFormerHostIsFoundWhileThisHostHoldsTheVIPs(t *testing.T) {
	there := netnstest.Pair(t, []string{"10.98.0.11/24", "fd98::11/64"}, []string{"10.98.0.31/24", "fd98::31/64"})
	r, _ := newRun(t, state.RoleBootstrap)
	former := []netip.Addr{netip.MustParseAddr("10.98.0.5"), netip.MustParseAddr("10.98.0.31"), netip.MustParseAddr("10.98.0.11")}
	r.Site = sitetest.New(t, sitetest.TwoDual)
	r.Site.Restore = &site.Restore{Former: former}
	r.Site = r.Site.For(state.RoleBootstrap)
	r.facts = state.HostFacts{NodeName: "cp-1", Addresses: []netip.Addr{netip.MustParseAddr("10.98.0.11"), netip.MustParseAddr("fd98::11")}}
	if err := r.holdVIP(t.Context()); err != nil {
		t.Fatal(err)
	}
	serves := func(want string) {
		t.Helper()
		got, err := r.siteServes(t.Context())
		if err != nil || want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("it says %q, %v; want %q", got, err, want)
		}
	}
	serves("")
	r.life = func(_ context.Context, at string) (l state.Life, knows bool, err error) {
		if strings.HasPrefix(at, "10.98.0.31:") {
			err = errors.New("it is off")
		}
		return l, false, err // this host's own agent, of before a release that knows of lives
	}
	serves("")
	stop := serveAsFormer(t, there, "10.98.0.31:6443")
	serves("still serves at 10.98.0.31:6443")
	stop()
	serves("")
	for _, vip := range []string{"10.98.0.5/32", "fd98::6/128"} {
		netnstest.Give(t, there, "eth0", vip)
		serves("VIP " + strings.Split(vip, "/")[0] + " is in use by the machine with hardware address ")
	}
}

// TestL46AFormerHostIsFoundThoughKubernetesAuthorityWasReplaced: the backup is from before a rotation
// of the Kubernetes CA, so nobody here knows the one of the former API servers. This host serves
// configurations itself by then, at its own address and at the VIP.
func TestL46AFormerHostIsFoundThoughKubernetesAuthorityWasReplaced(t *testing.T) {
	r, _ := newRun(t, state.RoleBootstrap)
	r.life = r.lifeAt
	r.Site.Life = state.Life{ID: "b", Began: sitetest.Created}
	at := func(last int) netip.Addr { // of this process alone, whatever else is tested on this machine
		pid := os.Getpid()
		return netip.MustParseAddr(fmt.Sprintf("127.%d.%d.%d", pid>>8&255, pid&255, last))
	}
	config := func(a netip.Addr) string { return netip.AddrPortFrom(a, site.ConfigServerPort).String() }
	vip, own, former, foreign := at(1), at(2), at(3), at(4)
	r.Site.Config.Platform.BareMetal.APIVIPs = []string{vip.String()}
	r.Site.Restore = &site.Restore{Former: []netip.Addr{vip, own, foreign, former}}
	rotated, err := keys.Generate(sitetest.Created, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	stranger := *r.Site
	stranger.Identity.ConfigCA = rotated.ConfigCA
	serveLife(t, config(vip), r.Site, r.Site.Life)
	serveLife(t, config(own), r.Site, r.Site.Life)
	serveLife(t, config(foreign), &stranger, state.Life{})
	if got := r.otherLife(t.Context(), []string{config(vip), config(own), config(foreign), config(former)}); got != "" {
		t.Errorf("it takes %s for a control plane of another life: this host itself, or a foreign site, answers", got)
	}
	serveWith(t, netip.AddrPortFrom(former, site.APIPort).String(), rotated.KubernetesCA, listen)
	serveLife(t, config(former), r.Site, state.Life{})
	got, err := r.siteServes(t.Context())
	if want := "its configuration server answers at " + config(former); err != nil || !strings.Contains(got, want) {
		t.Errorf("it says %q, %v; want %q", got, err, want)
	}
}

// TestL46AFormerHostBehindALoadBalancerIsFound: without VIPs the name of the API leads to it.
func TestL46AFormerHostBehindALoadBalancerIsFound(t *testing.T) {
	r, _ := newRun(t, state.RoleBootstrap)
	r.Site = sitetest.New(t, sitetest.OneNone)
	r.Site.Restore = &site.Restore{}
	balancer := site.HostPort(r.Site.APIHost(), site.ConfigServerPort)
	r.life = func(_ context.Context, at string) (l state.Life, knows bool, err error) {
		if at != balancer {
			err = errors.New("nobody answers")
		}
		return l, false, err
	}
	if got, err := r.siteServes(t.Context()); err != nil || !strings.Contains(got, balancer) {
		t.Errorf("it says %q, %v", got, err)
	}
}

// serveLife has a control plane say which life of a site it is of.
func serveLife(t *testing.T, at string, of *site.Site, life state.Life) {
	t.Helper()
	cert, err := keys.Serving(of, nil, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	l, err := listen(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	server := configserver.NewServer(configserver.New(configserver.Options{Life: life}), &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert}})
	go func() { _ = server.ServeTLS(l, "", "") }()
	t.Cleanup(func() { _ = server.Close() })
}

func listen(ctx context.Context, at string) (net.Listener, error) {
	return new(net.ListenConfig).Listen(ctx, "tcp", at)
}

// serveAsFormer has an API server of the site answer in another namespace.
func serveAsFormer(t *testing.T, ns netns.NsHandle, at string) (stop func()) {
	t.Helper()
	return serveWith(t, at, sitetest.New(t, sitetest.TwoDual).Identity.KubernetesCA, func(ctx context.Context, at string) (l net.Listener, err error) {
		err = netnstest.Do(ns, func() (err error) {
			l, err = listen(ctx, at)
			return err
		})
		return l, err
	})
}

// serveWith has an API server of an authority answer.
func serveWith(t *testing.T, at string, authority site.KeyPair, listen func(context.Context, string) (net.Listener, error)) (stop func()) {
	t.Helper()
	ca, err := tls.X509KeyPair([]byte(authority.Cert), []byte(authority.Key))
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "kube-apiserver"}, DNSNames: []string{"kubernetes", "api-int.elsewhere.test"},
		NotBefore: ca.Leaf.NotBefore, NotAfter: ca.Leaf.NotAfter, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.Leaf, ca.PrivateKey.(crypto.Signer).Public(), ca.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := listen(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = plain.Close() })
	l := tls.NewListener(plain, &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: ca.PrivateKey}}})
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_ = conn.(*tls.Conn).HandshakeContext(t.Context())
			_ = conn.Close()
		}
	}()
	return func() { _ = l.Close() }
}

func TestL46OnlyACertificateOfTheSameSiteShowsThatItServes(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	own := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	address := server.Listener.Addr().String()
	foreign := sitetest.New(t, sitetest.TwoDual).Identity.KubernetesCA.Cert
	for what, c := range map[string]struct {
		address, name, authority string
		want                     bool
	}{
		"the site itself":            {address, "example.com", own, true},
		"the same for another name":  {address, "api.elsewhere.test", own, false},
		"another site at its place":  {address, "example.com", foreign, false},
		"an authority without a key": {address, "example.com", "none", false},
		"nobody listens":             {"127.0.0.1:1", "example.com", own, false},
	} {
		begin := time.Now()
		if got := answersAs(t.Context(), c.address, c.name, c.authority); got != c.want {
			t.Errorf("%s: %v after %s", what, got, time.Since(begin))
		}
	}
}
