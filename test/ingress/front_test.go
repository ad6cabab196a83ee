package ingress_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/lab"
	"github.com/holdfast/holdfast/test/labsite"
)

// front is a load balancer of the site, in front of the cluster: a real haproxy
// on the lab's switch. It checks whether each host has a router that takes
// requests, and passes connections on unchanged.
type front struct{ at netip.AddrPort }

const frontPort = 8088

// frontConfig has the checks from the runbook. If a host refuses a connection,
// it tries another host, as load balancers do. It never repeats a request.
const frontConfig = `global
  maxconn 4000
defaults
  mode tcp
  timeout connect 1s
  timeout client 1m
  timeout server 1m
  timeout check 1s
  retries 3
  option redispatch 1
frontend people
  bind %s
  default_backend routers
backend routers
  balance roundrobin
  option httpchk GET /healthz/ready
  http-check expect status 200
  default-server inter 500ms fastinter 200ms fall 2 rise 2
%s`

// startFront starts the load balancer in front of the hosts' node ports. It
// ends with the test.
func startFront(t *testing.T, s *labsite.Site, hosts []string, web, check int32) front {
	t.Helper()
	f := front{at: netip.AddrPortFrom(s.Lab.Layout.Machine.Gateways[0], frontPort)}
	var servers strings.Builder
	for _, h := range hosts {
		a := s.Address(h, familyOf(f.at.Addr()))
		fmt.Fprintf(&servers, "  server %s %s check port %d\n", h, netip.AddrPortFrom(a, uint16(web)), check)
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "haproxy.cfg")
	if err := os.WriteFile(config, fmt.Appendf(nil, frontConfig, f.at, &servers), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(*output, 0o750); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(*output, "front.log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "nsenter", "--net=/run/netns/"+s.Lab.Layout.Switch(), "haproxy", "-db", "-f", config)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait() // that signal ended it
		_ = log.Close()
	})
	if err := labsite.Until(t.Context(), time.Minute, 200*time.Millisecond, func() error { return f.passes(t, s) }); err != nil {
		t.Fatalf("the load balancer in front: %v (see %s)", err, log.Name())
	}
	return f
}

// passes returns nil if a connection gets through to a server.
func (f front) passes(t *testing.T, s *labsite.Site) error {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	conn, err := s.Lab.Dial(ctx, "tcp", f.at.String())
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(2 * time.Second))
	if _, err := conn.Write([]byte("GET / HTTP/1.0\r\n\r\n")); err != nil {
		return err
	}
	if n, err := conn.Read(make([]byte, 1)); n == 0 {
		return errors.Join(errors.New("nobody answers behind it"), err)
	}
	return nil
}

func familyOf(a netip.Addr) lab.Family {
	if a.Is4() {
		return lab.V4
	}
	return lab.V6
}
