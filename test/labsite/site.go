// Package labsite drives one lab for scenarios that break a site while clients
// use it. It brings the lab up with the command that a user types, reads the
// state of its hosts, and stores evidence of failures.
package labsite

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgo "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/agent/network"
	"github.com/holdfast/holdfast/internal/lab"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/test/labsite/load"
)

// Site is the lab of a scenario.
type Site struct {
	Lab   *lab.Lab
	Power *lab.Client
	// API sends requests to any API server that answers.
	API client.Client

	name, program string
	authorities   *x509.CertPool
	retired       []string
}

// Options select the lab.
type Options struct {
	// Name is the lab's name, Program the holdfast that makes it.
	Name, Program string
	// Up are the flags of `holdfast lab up`.
	Up []string
}

// Open brings the lab up, or uses it if it is up already. The process is preferred to its hosts
// from then on.
func Open(ctx context.Context, o Options) (*Site, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("hosts in the lab need root")
	}
	program, err := filepath.Abs(o.Program)
	if err != nil {
		return nil, err
	}
	s := &Site{name: o.Name, program: program}
	if _, err := s.Holdfast(ctx, append([]string{"lab", "up", "--name", o.Name}, o.Up...)...); err != nil {
		return nil, err
	}
	if s.Lab, err = lab.Open(Root(), o.Name); err != nil {
		return nil, err
	}
	s.Power = lab.NewClient(s.Lab)
	if err := lab.PreferClient(os.Getpid()); err != nil {
		return nil, err
	}
	return s, s.openAPI()
}

// Reopen reads the lab again, after a command has changed which machines it has.
func (s *Site) Reopen() error {
	var err error
	if s.Lab, err = lab.Open(Root(), s.name); err != nil {
		return err
	}
	s.Power = lab.NewClient(s.Lab)
	return nil
}

// Root returns the directory of all labs.
func Root() string {
	if root := os.Getenv("HOLDFAST_LABS"); root != "" {
		return root
	}
	return lab.DefaultRoot
}

// openAPI reads the kubeconfig that the installer left. The server is verified
// by the name in it, whatever address is dialled.
func (s *Site) openAPI() error {
	cfg, err := s.Access()
	if err != nil {
		return err
	}
	s.authorities = x509.NewCertPool()
	if !s.authorities.AppendCertsFromPEM(cfg.CAData) {
		return fmt.Errorf("%s holds no authority", s.Lab.Kubeconfig())
	}
	return s.use(cfg)
}

// use makes the client of the API. It changes the configuration.
func (s *Site) use(cfg *rest.Config) error {
	// HTTP/2 would use a dead connection for half a minute.
	cfg.NextProtos, cfg.Timeout = []string{"http/1.1"}, apiTimeout
	cfg.QPS, cfg.Burst = 200, 200
	cfg.Dial = s.dialAPI
	scheme := runtime.NewScheme()
	err := errors.Join(clientgo.AddToScheme(scheme), configv1.Install(scheme), operatorv1.Install(scheme), mcfgv1.Install(scheme))
	if err != nil {
		return err
	}
	s.API, err = newClient(cfg, scheme)
	return err
}

// Access returns the configuration of the installer's kubeconfig.
func (s *Site) Access() (*rest.Config, error) {
	return clientcmd.BuildConfigFromFlags("", s.Lab.Kubeconfig())
}

// Token has the site's client use a token of its own from now on, because the
// certificate in the installer's kubeconfig may end during a test. It returns a
// configuration with the token. The account is an administrator.
func (s *Site) Token(ctx context.Context, life time.Duration) (*rest.Config, error) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "holdfast-test"}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: account.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: account.Namespace, Name: account.Name}},
	}
	for _, o := range []client.Object{account, binding} {
		if err := s.API.Create(ctx, o); err != nil && !apierrors.IsAlreadyExists(err) {
			return nil, err
		}
	}
	seconds := int64(life.Seconds())
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	if err := s.API.SubResource("token").Create(ctx, account, request); err != nil {
		return nil, fmt.Errorf("get a token: %w", err)
	}
	cfg, err := s.Access()
	if err != nil {
		return nil, err
	}
	cfg = rest.AnonymousClientConfig(cfg)
	cfg.BearerToken = request.Status.Token
	if err := s.admitted(ctx, cfg); err != nil {
		return nil, err
	}
	return cfg, s.use(rest.CopyConfig(cfg))
}

// admittedWithin is the time in which each API server hears of a new binding. On busy processors it was
// over a second.
const admittedWithin = time.Minute

// admitted waits until the API server of each control plane that takes connections lets an administrator do
// everything. A test may have taken a host away before.
func (s *Site) admitted(ctx context.Context, access *rest.Config) error {
	ctx, cancel := context.WithTimeout(ctx, admittedWithin)
	defer cancel()
	for _, h := range s.ControlPlanes() {
		cfg := rest.CopyConfig(access)
		cfg.Timeout = apiTimeout
		address := s.Address(h, lab.V4)
		if !address.IsValid() {
			address = s.Address(h, lab.V6)
		}
		at := netip.AddrPortFrom(address, apiPort).String()
		once, end := context.WithTimeout(ctx, dialTimeout)
		conn, err := s.Lab.Dial(once, "tcp", at)
		end()
		if err != nil {
			continue
		}
		_ = conn.Close()
		cfg.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) { return s.Lab.Dial(ctx, network, at) }
		api, err := newClient(cfg, clientgo.Scheme)
		if err != nil {
			return err
		}
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "*", Group: "*", Resource: "*"},
		}}
		for {
			err := api.Create(ctx, review)
			if err == nil && review.Status.Allowed {
				break
			}
			if host.Sleep(ctx, time.Second/2) != nil {
				return fmt.Errorf("the API server of %s does not let the test do everything: %q: %w", h, review.Status.Reason, errors.Join(ctx.Err(), err))
			}
		}
	}
	return nil
}

// Trust has the site's client, and those that a test starts from now on, know the API by
// other authorities, PEM. access is what Token returned, and changes with it.
func (s *Site) Trust(access *rest.Config, authorities []byte) error {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authorities) {
		return errors.New("no authority is given")
	}
	data, err := os.ReadFile(s.Lab.Kubeconfig())
	if err != nil {
		return err
	}
	if data, err = kube.WithAuthorities(data, authorities); err != nil {
		return fmt.Errorf("%s: %w", s.Lab.Kubeconfig(), err)
	}
	if err := host.WriteFileAtomic(s.Lab.Kubeconfig(), data, state.SecretFileMode); err != nil {
		return err
	}
	s.authorities, access.CAData = pool, authorities
	return s.use(rest.CopyConfig(access))
}

// newClient waits for an API server, because a client asks one for the known
// kinds.
func newClient(cfg *rest.Config, scheme *runtime.Scheme) (client.Client, error) {
	c, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("reach the API of the lab: %w", err)
	}
	return c, nil
}

// apiTimeout bounds a request to the API, dialTimeout each attempt to connect.
const (
	apiTimeout  = 10 * time.Second
	dialTimeout = time.Second
)

// dialAPI connects to the first API server that accepts the connection: through
// the virtual address, else directly.
func (s *Site) dialAPI(ctx context.Context, network, _ string) (net.Conn, error) {
	addresses := s.Lab.Layout.APIAddresses()[:1:1]
	for _, h := range s.Lab.ControlPlanes() {
		addresses = append(addresses, h.Machine.Addresses[0].Addr())
	}
	var errs []error
	for _, a := range addresses {
		once, cancel := context.WithTimeout(ctx, dialTimeout)
		conn, err := s.Lab.Dial(once, network, netip.AddrPortFrom(a, apiPort).String())
		cancel()
		if err == nil {
			return conn, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

const apiPort = 6443

// Authorities returns the authorities that verify the API's certificates.
func (s *Site) Authorities() *x509.CertPool { return s.authorities }

// LifeOf returns requests to the API server at an address, whose certificate must be
// valid for that address. Everybody may ask whether it lives, and without etcd it
// needs no other source for its answer.
func (s *Site) LifeOf(at netip.Addr) load.Shape {
	return load.Shape{
		URL: apiAt(at) + "/livez?exclude=etcd", Body: "ok",
		TLS: &tls.Config{RootCAs: s.authorities, MinVersion: tls.VersionTLS12},
	}
}

// apiAt returns the beginning of the URLs of the API server at an address.
func apiAt(at netip.Addr) string { return "https://" + netip.AddrPortFrom(at, apiPort).String() }

// LabName returns the lab's name.
func (s *Site) LabName() string { return s.name }

// Down takes the lab down.
func (s *Site) Down(ctx context.Context) error { return Remove(ctx, s.program, s.name) }

// Remove takes a lab down, even one that never came up.
func Remove(ctx context.Context, program, name string) error {
	_, err := host.Run(ctx, host.Command(program, "lab", "down", "--name", name))
	return err
}

// Holdfast runs the holdfast program and returns what it printed.
func (s *Site) Holdfast(ctx context.Context, args ...string) (string, error) {
	out, err := host.Run(ctx, host.Command(s.program, args...))
	return string(out), err
}

// Sh runs a script on a host and returns what it printed. It must leave nothing
// running.
func (s *Site) Sh(ctx context.Context, host, script string) (string, error) {
	out, err := s.Lab.Output(ctx, s.Power, host, "sh", "-c", "PATH=/usr/local/bin:$PATH; "+script)
	if err != nil {
		err = fmt.Errorf("on %s: %w", host, err)
	}
	return strings.TrimSpace(string(out)), err
}

// Hosts returns the names of the hosts, without spare ones that are off.
func (s *Site) Hosts(ctx context.Context) ([]string, error) {
	st, err := s.Power.Status(ctx)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, h := range st.Hosts {
		if slices.Contains(s.retired, h.Name) {
			continue
		}
		if laidOut, _ := s.Lab.Layout.Host(h.Name); !laidOut.Spare || h.Power != lab.PowerOff {
			out = append(out, h.Name)
		}
	}
	return out, nil
}

// Retire takes a host, which stays in the lab, for none of the site any more.
func (s *Site) Retire(host string) { s.retired = append(s.retired, host) }

// ControlPlanes returns the names of the control planes, with those by which the site has
// grown, and without those that were retired.
func (s *Site) ControlPlanes() []string {
	var out []string
	for _, h := range s.Lab.ControlPlanes() {
		if !slices.Contains(s.retired, h.Name) {
			out = append(out, h.Name)
		}
	}
	return out
}

// Address returns a host's address of the given family.
func (s *Site) Address(host string, family lab.Family) netip.Addr {
	h, _ := s.Lab.Layout.Host(host)
	return OfFamily(addresses(h), family)
}

func addresses(h lab.Host) []netip.Addr {
	var out []netip.Addr
	for _, p := range h.Machine.Addresses {
		out = append(out, p.Addr())
	}
	return out
}

// OfFamily returns the first address of a family, or an invalid one if there is
// none.
func OfFamily(list []netip.Addr, family lab.Family) netip.Addr {
	for _, a := range list {
		if a.Is4() == (family == lab.V4) {
			return a
		}
	}
	return netip.Addr{}
}

// PowerOf returns the power of a host as the lab sees it.
func (s *Site) PowerOf(ctx context.Context, host string) (lab.HostStatus, error) {
	st, err := s.Power.Status(ctx)
	if err != nil {
		return lab.HostStatus{}, err
	}
	for _, h := range st.Hosts {
		if h.Name == host {
			return h, nil
		}
	}
	return lab.HostStatus{}, fmt.Errorf("the lab has no host %s", host)
}

// Network returns the network status of a host's agent.
func (s *Site) Network(ctx context.Context, host string) (network.Status, error) {
	var out network.Status
	data, err := s.ReadFile(ctx, host, network.StatusPath)
	if err != nil {
		return out, err
	}
	return out, json.Unmarshal(data, &out)
}

// ReadFile reads a file of a running host.
func (s *Site) ReadFile(ctx context.Context, host, path string) ([]byte, error) {
	root, err := s.Lab.Root(ctx, s.Power, host)
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		return nil, fmt.Errorf("on %s: %w", host, err)
	}
	return data, nil
}

// Holder returns the only host that has a virtual address.
func (s *Site) Holder(vip netip.Addr) (string, error) {
	if list := s.Lab.Holders(vip); len(list) == 1 {
		return list[0], nil
	} else if len(list) > 1 {
		return "", fmt.Errorf("%s is held by %s", vip, strings.Join(list, " and "))
	}
	return "", fmt.Errorf("nobody holds %s", vip)
}

// Clear clears faults that keep the site from healing.
func (s *Site) Clear(ctx context.Context, r lab.ClearRequest) error {
	_, err := s.Power.Clear(ctx, r)
	return err
}
