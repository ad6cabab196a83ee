package controlplane

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/net/netutil"

	"github.com/holdfast/holdfast/internal/adapter/etcd"
	"github.com/holdfast/holdfast/internal/adapter/keys"
	"github.com/holdfast/holdfast/internal/agent/admission"
	"github.com/holdfast/holdfast/internal/agent/install"
	"github.com/holdfast/holdfast/internal/agent/releases"
	"github.com/holdfast/holdfast/internal/agent/rotation"
	"github.com/holdfast/holdfast/internal/decide/joining"
	"github.com/holdfast/holdfast/internal/decide/upgrade/gate"
	"github.com/holdfast/holdfast/internal/install/configserver"
	"github.com/holdfast/holdfast/internal/install/release"
	"github.com/holdfast/holdfast/internal/model/etcdpod"
	"github.com/holdfast/holdfast/internal/model/jointoken"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
)

// maxConnections bounds the connections served at a time, because they take
// resources from the agent that keeps the VIPs. connectionsOfOne bounds those of
// one address: otherwise root on a worker could keep every other host from
// joining.
const (
	maxConnections   = 512
	connectionsOfOne = 64
)

// drainTime bounds the requests under way when the server stops.
const drainTime = 5 * time.Second

// progressPath keeps the reports of hosts across restarts of the agent. It need
// not outlive a boot: hosts that are not installed report again.
const progressPath = "/run/holdfast/progress.json"

// serveConfig serves the configuration of joining hosts on every address, and so
// also on a VIP that this host gets later.
func (r *Agent) serveConfig(ctx context.Context) error {
	progress, err := configserver.OpenFile(progressPath)
	if err != nil {
		return err
	}
	give := r.giver()
	handler := configserver.New(configserver.Options{
		Site:      joining.Of(r.Site.Config),
		Third:     func() string { name, _ := r.third(); return name },
		Read:      give.Read,
		Report:    give.ReadReporter,
		Render:    give.Render,
		Admit:     give.Admit,
		Bootstrap: give.Bootstrap,
		Enter:     r.enter,
		Place:     r.out,
		Life:      r.Site.Life,
		Renew:     r.renewer().Renew,
		Progress:  progress,
		ReadToken: r.Site.Identity.ProgressToken,
		Logf:      r.logf,
	})
	certificate := &serving{Agent: r}
	server := configserver.NewServer(handler, &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return certificate.get() },
	})
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", ":"+strconv.Itoa(site.ConfigServerPort))
	if err != nil {
		return fmt.Errorf("configuration server: %w", err)
	}
	stopped := make(chan error, 1)
	go func() {
		stopped <- server.ServeTLS(netutil.LimitListener(configserver.Limit(listener, connectionsOfOne), maxConnections), "", "")
	}()
	select {
	case err := <-stopped:
		return fmt.Errorf("configuration server: %w", err)
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	defer cancel()
	if err := server.Shutdown(drain); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("stop configuration server: %w", err)
	}
	return nil
}

// giver returns what gives joining hosts their configuration and tokens.
func (r *Agent) giver() *admission.Issuer {
	return &admission.Issuer{
		Site: r.Site, Now: r.Now, Random: rand.Reader,
		Key: &admission.Key{
			Own: r.Site.Identity.JoinKey, Path: admission.KeyPath, Stands: install.ControlPlaneStands, Now: r.Now, Ask: r.joinKey,
		},
		Open:    func() (admission.TokenAPI, error) { return r.open() },
		Prepare: r.prepareJoining,
		Members: r.members,
		First:   r.first,
		Third:   r.third,
		Release: runningRelease,
		Kubelets: func(given string) (joining.Kubelet, joining.Kubelet, error) {
			return kubelets("/", given, releases.ThisHost(true).About)
		},

		EncryptionKeys: func() []int { return presentKeys("/", r.Site.Identity) },
		Present:        func(id site.Identity, role state.Role) (site.Identity, error) { return rotation.Present("", id, role) },
	}
}

// members returns the members of etcd, as this host's etcd lists them. It confirms a read first: from
// then on the list lacks nobody who was a member when it was asked.
func (r *Agent) members(ctx context.Context) ([]joining.Member, error) {
	if len(r.facts.Addresses) == 0 {
		return nil, errors.New("this host knows no address of its own")
	}
	c, err := etcd.Open(etcd.Config{ClientURL: etcdpod.LocalURL(r.facts.Addresses[0])})
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }()
	if err := c.Confirm(ctx); err != nil {
		return nil, err
	}
	status, err := c.Status(ctx)
	if err != nil {
		return nil, err
	}
	_, at, err := c.PeerURLs(ctx)
	if err != nil {
		return nil, err
	}
	var out []joining.Member
	for _, m := range status.Members {
		out = append(out, joining.Member{EtcdMember: m, At: at[m.ID]})
	}
	return out, nil
}

// runningRelease returns the release of this host, which a host that joins gets too
// (docs/adr/0101); empty if nobody knows.
func runningRelease() string {
	digest, err := release.Current("/")
	if err != nil {
		return ""
	}
	return digest
}

// kubelets returns the kubelet of a release, and the one that this host starts. Who asks has
// read which release runs before that: the host is switched with its kubelet held already, so
// a switch in between hides no difference.
func kubelets(root, digest string, about func(string) (gate.Release, error)) (given, own joining.Kubelet, err error) {
	given.Release = digest
	if own.Release, err = release.Kubelet(root); err != nil {
		return given, own, fmt.Errorf("whose kubelet this host starts: %w", err)
	}
	if own.Release == given.Release {
		return given, own, nil
	}
	for _, k := range []*joining.Kubelet{&given, &own} {
		if is, err := about(k.Release); err == nil { // else a person is told less, and the host waits all the same
			k.Version = state.Known(is.Kubernetes)
		}
	}
	return given, own, nil
}

// renewer returns what gives workers another certificate in exchange for an
// expired one.
func (r *Agent) renewer() *admission.Renewer {
	return &admission.Renewer{
		Site: joining.Of(r.Site.Config), Now: r.Now, Logf: r.logf,
		Authorities: func() ([]byte, error) { return os.ReadFile(state.KubernetesCA) },
		Open:        func() (admission.RenewalAPI, error) { return r.open() },
	}
}

// joinKey asks the cluster for the key of join secrets.
func (r *Agent) joinKey(ctx context.Context) ([]byte, error) {
	client, err := r.open()
	if err != nil {
		return nil, err
	}
	data, err := client.Secret(ctx, jointoken.KeyNamespace, jointoken.KeySecret)
	return data[jointoken.KeyField], err
}

// serving makes and keeps the server's certificate, and makes a new one when two
// thirds of its life are over.
type serving struct {
	*Agent
	mu    sync.Mutex
	ready *tls.Certificate
}

func (s *serving) get() (*tls.Certificate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.Now()
	if s.ready != nil && serves(s.ready.Leaf, keys.ServingLife(s.Site), now) {
		return s.ready, nil
	}
	made, err := keys.Serving(s.Site, s.facts.Addresses, now)
	if err != nil {
		return nil, err
	}
	s.ready = &made
	return s.ready, nil
}

// serves reports whether a certificate is valid and has a third of a life left, and no more than a life. It
// goes by the certificate alone: the time since it was made passes by the host's own counter, which does not
// see a clock that is set.
func serves(cert *x509.Certificate, life time.Duration, now time.Time) bool {
	left := cert.NotAfter.Sub(now)
	return !now.Before(cert.NotBefore) && left > life/3 && left <= life
}
