// Package twonode_test breaks a two-node cluster of the lab in every way that
// it must survive, with clients that write all the time, and checks that no
// acknowledged write was lost. It needs root and a built release; hack/test
// twonode calls it.
package twonode_test

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/holdfast/holdfast/test/labsite"
	"github.com/holdfast/holdfast/test/twonode/client"
)

var (
	labName   = flag.String("lab", "", "the two-node lab to break; it is brought up if need be. Without a name nothing runs")
	keep      = flag.Bool("keep", false, "leave the lab up at the end")
	program   = flag.String("holdfast", "../../_output/bin/holdfast", "the holdfast program")
	postDelay = flag.Duration("post-delay", 5*time.Second, "duration of the power-on self-test of a host in a new lab")
	repeat    = flag.Int("n", 0, "how often each scenario is played; 0 for its own number")
	writers   = flag.Int("writers", 1, "etcd writers per host: 1, or 8 for 16 in all")
	output    = flag.String("output", "../../_output/twonode", "where results and artefacts go")
)

// site is the lab under test.
type site struct {
	*labsite.Site
	tls *tls.Config
	api *rest.Config
}

// theSite is brought up once for all scenarios.
var theSite *site

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	if *labName != "" && !*keep && theSite != nil {
		if err := theSite.Down(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// open returns the lab, running and whole.
func open(t *testing.T) *site {
	t.Helper()
	if *labName == "" {
		t.Skip("two-node clusters are broken by 'hack/test twonode'")
	}
	if theSite != nil {
		return theSite
	}
	started := time.Now()
	opened, err := labsite.Open(t.Context(), labsite.Options{
		Name: *labName, Program: *program, Up: []string{"--control-planes=2", "--post-delay=" + postDelay.String()},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("lab %s is up after %.0f s", *labName, time.Since(started).Seconds())
	s := &site{Site: opened}
	if err := errors.Join(s.loadKeys(t.Context()), s.LetIntoEtcd(t.Context())); err != nil {
		t.Fatal(err)
	}
	theSite = s
	return s
}

// loadKeys takes the keys for clients.
func (s *site) loadKeys(ctx context.Context) (err error) {
	if s.tls, err = s.EtcdKeys(ctx); err != nil {
		return err
	}
	s.api, err = clientcmd.BuildConfigFromFlags("", s.Lab.Kubeconfig())
	return err
}

func (s *site) hosts() []string {
	var out []string
	for _, h := range s.Lab.Layout.Hosts {
		out = append(out, h.Name)
	}
	return out
}

// other returns the peer of a host.
func (s *site) other(host string) string {
	for _, h := range s.hosts() {
		if h != host {
			return h
		}
	}
	return ""
}

func (s *site) address(host string) string {
	h, _ := s.Lab.Layout.Host(host)
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

// apiVIP is the name of the target for the API's virtual address.
const apiVIP = "vip"

func (s *site) apiTargets() []client.Target {
	out := []client.Target{{Name: apiVIP, Address: net.JoinHostPort(s.Lab.Layout.APIVIPs[0].String(), "6443")}}
	for _, h := range s.hosts() {
		out = append(out, client.Target{Name: h, Address: net.JoinHostPort(s.address(h), "6443")})
	}
	return out
}

// member calls fn with a client of one member of etcd.
func (s *site) member(ctx context.Context, host string, fn func(context.Context, *clientv3.Client) error) error {
	c, err := client.OpenEtcd(s.etcdTarget(host), s.Lab.Dial, s.tls)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	return fn(ctx, c)
}

// etcdStatus returns a member's own status.
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

// hash returns the hash of a member's keys at a revision, and the revision of
// its last compaction.
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
