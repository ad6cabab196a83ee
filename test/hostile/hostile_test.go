// Package hostile_test lets root on a worker of a lab try everything that he
// can, while clients outside of the hosts write. It needs root and a built
// release; hack/test hostile calls it. test/hostile/attack holds his attempts.
package hostile_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/ports"
	"github.com/holdfast/holdfast/internal/lab"
	"github.com/holdfast/holdfast/test/hostile/attack"
	"github.com/holdfast/holdfast/test/labsite"
	"github.com/holdfast/holdfast/test/twonode/client"
)

var (
	labName   = flag.String("lab", "", "the lab to attack; it is brought up if need be. Without a name nothing runs")
	keep      = flag.Bool("keep", false, "leave the lab up at the end")
	program   = flag.String("holdfast", "../../_output/bin/holdfast", "the holdfast program")
	postDelay = flag.Duration("post-delay", 5*time.Second, "duration of the power-on self-test of a host in a new lab")
	seconds   = flag.Int("seconds", 120, "for how long secrets are tried")
	output    = flag.String("output", "../../_output/hostile", "where lines, requests and what was told go")
)

const (
	// worker is the host of the attacker.
	worker = "worker-1"
	// den is the directory of his files.
	den = "/root/hostile"
	// wireSeconds is the time for which he keeps the API's address to himself.
	wireSeconds = 45
	// wholeWithin and closedWithin bound two waits: until the site is whole,
	// and until its hosts have closed their ports to workers.
	wholeWithin  = 5 * time.Minute
	closedWithin = 5 * time.Minute
)

// roots are the directories of a worker that may hold secrets.
var roots = []string{"/etc", "/var/lib/kubelet", "/var/lib/holdfast", "/run/holdfast", "/usr/lib/holdfast"}

// siege is a site under attack from within.
type siege struct {
	*labsite.Site
	dir string
}

func TestHostileWorker(t *testing.T) {
	if *labName == "" {
		t.Skip("root on a worker attacks its cluster by 'hack/test hostile'")
	}
	s := open(t)
	s.ready(t)
	s.bring(t)
	t.Run("secrets", func(t *testing.T) { s.secrets(t) })
	t.Run("wire", func(t *testing.T) { s.wire(t) })
}

func open(t *testing.T) *siege {
	t.Helper()
	up := []string{"--control-planes=2", "--workers=1", "--post-delay=" + postDelay.String()}
	site, err := labsite.Open(t.Context(), labsite.Options{Name: *labName, Program: *program, Up: up})
	if err != nil {
		t.Fatal(err)
	}
	if !*keep {
		t.Cleanup(func() {
			if err := site.Down(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
	if !site.Lab.Layout.APIVIPs[0].Is4() {
		t.Fatalf("the attacker speaks IPv4, and lab %s has IPv6 first: take one with --families v4 or v4,v6", *labName)
	}
	dir, err := filepath.Abs(filepath.Join(*output, time.Now().UTC().Format("20060102-150405")))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	return &siege{site, dir}
}

// ready waits until the site is whole and its hosts have closed their ports,
// which they do a minute after the cluster is up.
func (s *siege) ready(t *testing.T) {
	t.Helper()
	s.eventually(t, wholeWithin, "the site is whole", func() error { return s.Whole(t.Context()) })
	s.eventually(t, closedWithin, "hosts have closed their ports to workers", func() error {
		var errs []error
		for _, h := range s.Lab.Layout.ControlPlanes() {
			for _, p := range ports.Table() {
				if p.From != ports.Planes || !slices.Contains(p.Protocols, ports.TCP) {
					continue
				}
				script := fmt.Sprintf("if timeout 1 bash -c '</dev/tcp/%s/%d' 2>/dev/null; then echo open; fi", h.Machine.Addresses[0].Addr(), p.First)
				if out, err := s.Sh(t.Context(), worker, script); err != nil || out != "" {
					errs = append(errs, fmt.Errorf("port %d of %s is %q: %w", p.First, h.Name, out, err))
				}
			}
		}
		return errors.Join(errs...)
	})
	s.fences(t)
}

// fences waits until each host can fence its peer.
func (s *siege) fences(t *testing.T) {
	t.Helper()
	for _, h := range s.ControlPlanes() {
		s.eventually(t, wholeWithin, h+" can fence its peer", func() error {
			_, err := s.Sh(t.Context(), h, "holdfast fencing verify")
			return err
		})
	}
}

func (s *siege) eventually(t *testing.T, within time.Duration, what string, is func() error) {
	t.Helper()
	if err := labsite.Until(t.Context(), within, time.Second, is); err != nil {
		t.Fatalf("not in %s: %s: %v", within, what, err)
	}
}

// bring builds the attacker and copies it onto the worker.
func (s *siege) bring(t *testing.T) {
	t.Helper()
	built := filepath.Join(t.TempDir(), "attacker")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", built, "./attacker")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the attacker: %v: %s", err, said)
	}
	data, err := os.ReadFile(built)
	if err != nil {
		t.Fatal(err)
	}
	s.write(t, "attacker", data, 0o700)
}

func (s *siege) write(t *testing.T, name string, data []byte, mode os.FileMode) {
	t.Helper()
	root, err := s.Lab.Root(t.Context(), s.Power, worker)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(root+den, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := host.WriteFileAtomic(filepath.Join(root+den, name), data, mode); err != nil {
		t.Fatal(err)
	}
}

// config returns what root on the worker knows.
func (s *siege) config(t *testing.T, part attack.Part, seconds int) attack.Config {
	t.Helper()
	layout := s.Lab.Layout
	own, _ := layout.Host(worker)
	c := attack.Config{
		Part: part, Seconds: seconds, Own: s.host(t, own), Cluster: layout.Spec.Name, MachineNIC: own.Machine.Name, FencingNIC: own.Fencing.Name,
		Roots: roots, Loot: den + "/loot-" + string(part),
	}
	for _, h := range layout.ControlPlanes() {
		c.ControlPlanes = append(c.ControlPlanes, s.host(t, h))
	}
	for _, vip := range layout.APIVIPs {
		if vip.Is4() {
			c.APIVIPs = append(c.APIVIPs, vip)
		}
	}
	return c
}

func (s *siege) host(t *testing.T, h lab.Host) attack.Host {
	t.Helper()
	var node corev1.Node
	if err := s.API.Get(t.Context(), key("", h.Name), &node); err != nil {
		t.Fatal(err)
	}
	pods, err := netip.ParsePrefix(node.Spec.PodCIDR)
	if err != nil {
		t.Fatal(err)
	}
	place := func(n lab.NIC) attack.Place { return attack.Place{Address: n.Addresses[0].Addr(), MAC: n.MAC} }
	return attack.Host{Name: h.Name, Machine: place(h.Machine), Fencing: place(h.Fencing), BMC: h.BMC.Addresses[0], Pods: pods}
}

// attack plays a part and returns its lines.
func (s *siege) attack(t *testing.T, part attack.Part, seconds int) []attack.Line {
	t.Helper()
	config, err := json.Marshal(s.config(t, part, seconds))
	if err != nil {
		t.Fatal(err)
	}
	s.write(t, string(part)+".json", config, 0o600)
	h, _ := s.Lab.Layout.Host(worker)
	ctx, stop := context.WithTimeout(t.Context(), time.Duration(seconds)*time.Second+2*time.Minute)
	defer stop()
	var out, said bytes.Buffer
	err = s.Lab.Exec(ctx, h, []string{den + "/attacker", den + "/" + string(part) + ".json"}, lab.ExecStreams{Out: &out, Err: &said})
	if err != nil {
		t.Errorf("not all was attempted: %v: %s", err, said.String())
	}
	if err := os.WriteFile(filepath.Join(s.dir, string(part)+".jsonl"), out.Bytes(), 0o600); err != nil {
		t.Error(err)
	}
	return lines(t, out.Bytes())
}

func lines(t *testing.T, data []byte) []attack.Line {
	t.Helper()
	var all []attack.Line
	for decoder := json.NewDecoder(bytes.NewReader(data)); ; {
		var l attack.Line
		err := decoder.Decode(&l)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, l)
	}
}

// atVIP is the name of the target for the API's VIP.
const atVIP = "vip"

// load makes clients write through the API's address and both API servers.
func (s *siege) load(t *testing.T) (*client.Recorder, *client.Load) {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", s.Lab.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	targets := []client.Target{{Name: atVIP, Address: net.JoinHostPort(s.Lab.Layout.APIVIPs[0].String(), "6443")}}
	for _, h := range s.Lab.Layout.ControlPlanes() {
		targets = append(targets, client.Target{Name: h.Name, Address: net.JoinHostPort(h.Machine.Addresses[0].Addr().String(), "6443")})
	}
	rec := client.NewRecorder()
	run := fmt.Sprintf("h%d", time.Now().UnixMilli())
	load, err := client.StartAPI(t.Context(), rec, client.Shape{Targets: targets, Writers: 2, Pause: 100 * time.Millisecond}, run, s.Lab.Dial, config)
	if err != nil {
		t.Fatal(err)
	}
	s.eventually(t, 30*time.Second, "somebody can write", func() error {
		if rec.Last(atVIP) == 0 {
			return errors.New("nobody could, at the API's address")
		}
		return nil
	})
	return rec, load
}
