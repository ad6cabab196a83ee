// Package twonode_test breaks a two-node cluster of the lab in every way that
// it must survive, with clients writing throughout, and checks that nothing
// acknowledged was lost. It needs root and a built release; hack/test twonode
// calls it.
package twonode_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/holdfast/holdfast/internal/etcdagent"
	"github.com/holdfast/holdfast/internal/lab"
	"github.com/holdfast/holdfast/internal/state"
	"github.com/holdfast/holdfast/test/twonode/client"
)

var (
	labName   = flag.String("lab", "", "the two-node lab to break; it is brought up if need be. Without a name nothing runs")
	keep      = flag.Bool("keep", false, "leave the lab up at the end")
	program   = flag.String("holdfast", "../../_output/bin/holdfast", "the holdfast program")
	postDelay = flag.Duration("post-delay", 5*time.Second, "how long a host of a new lab tests itself")
	repeat    = flag.Int("n", 0, "how often each scenario is played; 0 for its own number")
	writers   = flag.Int("writers", 1, "etcd writers per host: 1, or 8 for 16 in all")
	output    = flag.String("output", "../../_output/twonode", "where results and artefacts go")
)

// site is the lab that is broken.
type site struct {
	lab   *lab.Lab
	power *lab.Client
	tls   *tls.Config
	api   *rest.Config
}

// theSite is brought up once for all scenarios.
var theSite *site

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	if *labName != "" && !*keep && theSite != nil {
		if out, err := exec.Command(*program, "lab", "down", "--name", *labName).CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "lab down: %v: %s\n", err, out)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// open returns the lab, brought up and whole.
func open(t *testing.T) *site {
	t.Helper()
	if *labName == "" {
		t.Skip("two-node clusters are broken by 'hack/test twonode'")
	}
	if os.Geteuid() != 0 {
		t.Fatal("hosts in the lab need root")
	}
	if theSite != nil {
		return theSite
	}
	args := []string{"lab", "up", "--name", *labName, "--control-planes=2", "--post-delay=" + postDelay.String()}
	started := time.Now()
	if out, err := exec.CommandContext(t.Context(), *program, args...).CombinedOutput(); err != nil {
		t.Fatalf("lab up: %v\n%s", err, tail(string(out)))
	}
	t.Logf("lab %s is up after %.0f s", *labName, time.Since(started).Seconds())
	root := os.Getenv("HOLDFAST_LABS")
	if root == "" {
		root = lab.DefaultRoot
	}
	b, err := lab.Open(root, *labName)
	if err != nil {
		t.Fatal(err)
	}
	s := &site{lab: b, power: lab.NewClient(b)}
	if err := errors.Join(s.loadKeys(t.Context()), s.letIn(t.Context())); err != nil {
		t.Fatal(err)
	}
	theSite = s
	return s
}

// letIn has each host let the lab's clients in to etcd, who are no control plane:
// they come from the gateways. It lasts as long as the host's disk.
func (s *site) letIn(ctx context.Context) error {
	var errs []error
	for _, h := range s.hosts() {
		for _, gateway := range s.lab.Layout.Machine.Gateways {
			_, err := s.sh(ctx, h, "grep -qsx "+gateway.String()+" "+state.FirewallAlsoPath+" || echo "+gateway.String()+" >>"+state.FirewallAlsoPath)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// loadKeys takes the keys that clients need from the first host that runs.
func (s *site) loadKeys(ctx context.Context) error {
	var errs []error
	for _, h := range s.hosts() {
		config, err := s.etcdKeys(ctx, h)
		if err == nil {
			s.tls = config
			s.api, err = clientcmd.BuildConfigFromFlags("", s.lab.Kubeconfig())
			return err
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (s *site) etcdKeys(ctx context.Context, host string) (*tls.Config, error) {
	root, err := s.lab.Root(ctx, s.power, host)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(root, "etc/kubernetes/pki/etcd")
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "healthcheck-client.crt"), filepath.Join(dir, "healthcheck-client.key"))
	if err != nil {
		return nil, err
	}
	ca, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("no certificate in ca.crt of %s", host)
	}
	return &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, nil
}

func (s *site) hosts() []string {
	var out []string
	for _, h := range s.lab.Layout.Hosts {
		out = append(out, h.Name)
	}
	return out
}

// other is the peer of a host.
func (s *site) other(host string) string {
	for _, h := range s.hosts() {
		if h != host {
			return h
		}
	}
	return ""
}

func (s *site) address(host string) string {
	h, _ := s.lab.Layout.Host(host)
	return h.Machine.Addresses[0].Addr().String()
}

func (s *site) etcdTarget(host string) client.Target {
	return client.Target{Name: host, Address: net.JoinHostPort(s.address(host), "2379")}
}

func (s *site) etcdTargets() []client.Target {
	var out []client.Target
	for _, h := range s.hosts() {
		out = append(out, s.etcdTarget(h))
	}
	return out
}

// apiVIP is the name of the target that is the API's virtual address.
const apiVIP = "vip"

func (s *site) apiTargets() []client.Target {
	out := []client.Target{{Name: apiVIP, Address: net.JoinHostPort(s.lab.Layout.APIVIPs[0].String(), "6443")}}
	for _, h := range s.hosts() {
		out = append(out, client.Target{Name: h, Address: net.JoinHostPort(s.address(h), "6443")})
	}
	return out
}

// report asks the agent of etcd on a host.
func (s *site) report(ctx context.Context, host string) (state.EtcdReport, error) {
	var r state.EtcdReport
	root, err := s.lab.Root(ctx, s.power, host)
	if err != nil {
		return r, err
	}
	err = askAgent(ctx, root+state.EtcdSocketPath, &r)
	return r, err
}

func askAgent(ctx context.Context, socket string, into *state.EtcdReport) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	*into, err = etcdagent.Report(ctx, socket)
	return err
}

// sh runs a script on a host.
func (s *site) sh(ctx context.Context, host, script string) (string, error) {
	out, err := s.lab.Output(ctx, s.power, host, "sh", "-c", "PATH=/usr/local/bin:$PATH; "+script)
	return strings.TrimSpace(string(out)), err
}

// powerOf is the power of a host as the lab sees it.
func (s *site) powerOf(ctx context.Context, host string) (lab.HostStatus, error) {
	st, err := s.power.Status(ctx)
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

// member calls fn with a client of one member of etcd.
func (s *site) member(ctx context.Context, host string, fn func(context.Context, *clientv3.Client) error) error {
	c, err := client.OpenEtcd(s.etcdTarget(host), s.lab.Dial, s.tls)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	return fn(ctx, c)
}

// etcdStatus is what a member says of itself.
func (s *site) etcdStatus(ctx context.Context, host string) (*clientv3.StatusResponse, error) {
	var out *clientv3.StatusResponse
	return out, s.member(ctx, host, func(ctx context.Context, c *clientv3.Client) error {
		var err error
		out, err = c.Status(ctx, "https://"+s.etcdTarget(host).Address)
		return err
	})
}

// leader returns the host whose etcd leads.
func (s *site) leader(ctx context.Context) (string, error) {
	var errs []error
	for _, h := range s.hosts() {
		st, err := s.etcdStatus(ctx, h)
		if err == nil && st.Leader == st.Header.MemberId {
			return h, nil
		}
		errs = append(errs, err)
	}
	return "", fmt.Errorf("no member says that it leads: %w", errors.Join(errs...))
}

// hash returns the hash of a member's keys at a revision, and what the member
// compacted to.
func (s *site) hash(ctx context.Context, host string, revision int64) (hash uint32, compacted int64, err error) {
	err = s.member(ctx, host, func(ctx context.Context, c *clientv3.Client) error {
		answer, err := c.HashKV(ctx, "https://"+s.etcdTarget(host).Address, revision)
		if err == nil {
			hash, compacted = answer.Hash, answer.CompactRevision
		}
		return err
	})
	return hash, compacted, err
}

// run runs the holdfast program.
func (s *site) run(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, *program, args...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("holdfast %s: %w: %s", strings.Join(args, " "), err, tail(string(out)))
	}
	return string(out), err
}

func tail(s string) string {
	if len(s) > 3000 {
		return "..." + s[len(s)-3000:]
	}
	return s
}
