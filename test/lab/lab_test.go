// Package lab_test brings up whole clusters in the lab, as a user does, and
// shows that they work. It needs root and a built release; hack/test lab calls
// it.
package lab_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

var which = flag.String("clusters", "", "clusters to bring up: short, all, or names of shapes separated by commas")

// shape is one kind of site.
type shape struct {
	name     string
	flags    []string
	nodes    int
	vips     bool
	families int
	// short marks the shapes that CI tests.
	short bool
	// play tests what only this shape can show.
	play func(cluster)
}

var shapes = []shape{
	{name: "1-0-v4", flags: []string{"--control-planes=1"}, nodes: 1, families: 1},
	{name: "1-1-pull", flags: []string{"--control-planes=1", "--workers=1", "--pull", "--families=v6"}, nodes: 2, families: 1},
	{
		name: "1-2-dual", flags: []string{"--control-planes=1", "--workers=2", "--families=v4,v6"}, nodes: 3, families: 2,
		play: cluster.aWorkerGoesAndComesBack,
	},
	{name: "2-0-dual", flags: []string{"--control-planes=2", "--families=v4,v6"}, nodes: 2, vips: true, families: 2, short: true},
	{name: "3-1-v6", flags: []string{"--control-planes=3", "--workers=1", "--families=v6"}, nodes: 4, vips: true, families: 1},
	{
		name: "2-2-far", flags: []string{"--control-planes=2", "--workers=2", "--far-workers=1", "--far-ingress", "--families=v4,v6"},
		nodes: 4, families: 2, play: cluster.twoMachineNetworks,
	},
	{name: "2-0-nics", flags: []string{"--control-planes=2", "--second-nic"}, nodes: 2, families: 1, play: cluster.twoNICsInOneNetwork},
	{name: "2-0-ra", flags: []string{"--control-planes=2", "--families=v4,v6", "--router-advertisements"}, nodes: 2, families: 2, play: cluster.routerAdvertisements},
}

// chosen returns the shapes that the flag names.
func chosen(t *testing.T) []shape {
	t.Helper()
	if *which == "" {
		t.Skip("whole clusters are brought up by 'make lab-test'")
	}
	if os.Geteuid() != 0 {
		t.Fatal("whole clusters need root")
	}
	var out []shape
	for _, s := range shapes {
		if *which == "all" || (*which == "short" && s.short) || slices.Contains(strings.Split(*which, ","), s.name) {
			out = append(out, s)
		}
	}
	if len(out) == 0 {
		t.Skipf("no shape is called %q", *which)
	}
	return out
}

// cluster is one lab, driven by the holdfast command.
type cluster struct {
	*testing.T
	name string
}

func program(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs("../../_output/bin/holdfast")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// holdfast runs the command and returns what it printed.
func (c cluster) holdfast(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(c.Context(), 15*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program(c.T), args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("holdfast %s: %w: %s%s", strings.Join(args, " "), err, tail(out.String()), tail(errs.String()))
	}
	return out.String(), nil
}

func (c cluster) must(args ...string) string {
	c.Helper()
	out, err := c.holdfast(args...)
	if err != nil {
		c.Fatal(err)
	}
	return out
}

func (c cluster) kubectl(args ...string) (string, error) {
	return c.holdfast(append([]string{"lab", "kubectl", "--name", c.name, "--"}, args...)...)
}

// eventually repeats the check until it passes, and fails with its last error.
func (c cluster) eventually(within time.Duration, what string, check func() error) {
	c.Helper()
	deadline := time.Now().Add(within)
	var err error
	for {
		if err = check(); err == nil {
			return
		}
		if time.Now().After(deadline) {
			c.Fatalf("%s: not within %s: %v", what, within, err)
		}
		select {
		case <-c.Context().Done():
			c.Fatalf("%s: %v", what, err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func tail(s string) string {
	if len(s) > 3000 {
		return "..." + s[len(s)-3000:]
	}
	return s
}

// lab names a lab that the end of the test takes down without a trace.
func lab(t *testing.T, name string) cluster {
	t.Helper()
	before := machineState(t)
	c := cluster{T: t, name: name}
	t.Cleanup(func() {
		if t.Failed() {
			explainFailure(t, name)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		if out, err := exec.CommandContext(ctx, program(t), "lab", "down", "--name", name).CombinedOutput(); err != nil {
			t.Errorf("lab down: %v: %s", err, out)
		}
		compareMachine(t, before)
	})
	return c
}

// up brings up a lab of the shape.
func up(t *testing.T, s shape) cluster {
	t.Helper()
	c := lab(t, "t"+strings.ReplaceAll(s.name, "-", ""))
	started := time.Now()
	c.must(append([]string{"lab", "up", "--name", c.name, "--post-delay=0s"}, s.flags...)...)
	t.Logf("%s: up after %.1f s", s.name, time.Since(started).Seconds())
	return c
}

func status(t *testing.T, name string) []byte {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, program(t), "lab", "status", "--name", name).CombinedOutput()
	if err != nil {
		return fmt.Appendf(out, "status: %v", err)
	}
	return out
}

func TestClusters(t *testing.T) {
	for _, s := range chosen(t) {
		t.Run(s.name, func(t *testing.T) {
			c := up(t, s)
			c.nodesAreReady(s)
			c.objectsAreThere(s)
			c.journalsHoldNoSecret()
			c.podsTalk(s)
			c.everyHostHasNames(s)
			c.namesOutliveAHost(s)
			if s.vips {
				c.vipMovesWhenItsHolderDies()
			}
			if s.play != nil {
				s.play(c)
			}
			c.upAgainDoesNothing(s)
		})
	}
}

func (c cluster) nodesAreReady(s shape) {
	c.Helper()
	var list struct {
		Items []struct {
			Metadata struct {
				Name   string
				Labels map[string]string
			}
			Status struct {
				Addresses  []struct{ Type, Address string }
				Conditions []struct{ Type, Status string }
			}
		}
	}
	c.getJSON(&list, "get", "nodes")
	if len(list.Items) != s.nodes {
		c.Fatalf("%d nodes, want %d", len(list.Items), s.nodes)
	}
	for _, n := range list.Items {
		internal := 0
		for _, a := range n.Status.Addresses {
			if a.Type == "InternalIP" {
				internal++
			}
		}
		if internal != s.families {
			c.Errorf("%s has %d internal addresses, want %d", n.Metadata.Name, internal, s.families)
		}
		for _, cond := range n.Status.Conditions {
			if cond.Type == "Ready" && cond.Status != "True" {
				c.Errorf("%s is not ready", n.Metadata.Name)
			}
		}
		_, controlPlane := n.Metadata.Labels["node-role.kubernetes.io/control-plane"]
		_, master := n.Metadata.Labels["node-role.kubernetes.io/master"]
		_, worker := n.Metadata.Labels["node-role.kubernetes.io/worker"]
		workers := s.nodes - int(s.name[0]-'0')
		if controlPlane != master || worker != (!master || workers == 0) {
			c.Errorf("%s has the roles %v", n.Metadata.Name, n.Metadata.Labels)
		}
	}
}

func (c cluster) getJSON(into any, args ...string) {
	c.Helper()
	out, err := c.kubectl(append(args, "-o", "json")...)
	if err != nil {
		c.Fatal(err)
	}
	if err := json.Unmarshal([]byte(out), into); err != nil {
		c.Fatal(err)
	}
}

func (c cluster) objectsAreThere(s shape) {
	c.Helper()
	var infrastructure struct {
		Status struct{ ControlPlaneTopology, InfrastructureTopology, APIServerInternalURI string }
	}
	c.getJSON(&infrastructure, "get", "infrastructures.config.openshift.io", "cluster")
	want := map[string]string{"1": "SingleReplica", "2": "DualReplica", "3": "HighlyAvailable"}[s.name[:1]]
	if got := infrastructure.Status.ControlPlaneTopology; got != want {
		c.Errorf("controlPlaneTopology is %q, want %q", got, want)
	}
	for _, object := range []string{
		"ingresses.config.openshift.io/cluster", "dnses.config.openshift.io/cluster", "networks.config.openshift.io/cluster",
		"featuregates.config.openshift.io/cluster", "schedulers.config.openshift.io/cluster",
	} {
		if _, err := c.kubectl("get", object); err != nil {
			c.Error(err)
		}
	}
	phase, err := c.kubectl("--namespace=kube-system", "get", "configmap/bootstrap", "-o", "jsonpath={.data.status}")
	if err != nil || phase != "complete" {
		c.Errorf("bootstrap status is %q: %v", phase, err)
	}
	if s.name[:1] == "2" {
		for _, host := range []string{"cp-1", "cp-2"} {
			if _, err := c.kubectl("--namespace=openshift-etcd", "get", "secret/fencing-credentials-"+host); err != nil {
				c.Error(err)
			}
		}
	}
}

// bootstrapToken matches kubeadm's tokens.
var bootstrapToken = regexp.MustCompile(`\b[a-z0-9]{6}\.[a-z0-9]{16}\b`)

// journalsHoldNoSecret searches for tokens, keys and passwords in the logs of
// control planes from their installation.
func (c cluster) journalsHoldNoSecret() {
	c.Helper()
	text := c.must("lab", "logs", "--name", c.name, "cp-1", "--unit", "holdfast-*", "--lines", "all")
	if len(text) < 500 {
		c.Errorf("the journal is nearly empty: %q", text)
	}
	for _, shape := range []*regexp.Regexp{bootstrapToken, regexp.MustCompile(`PRIVATE KEY`), regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{10,}\.`)} {
		if found := shape.FindStringIndex(text); found != nil {
			c.Errorf("the journal of cp-1 holds what looks like %s at byte %d", shape, found[0])
		}
	}
}

// podsTalk runs a server on every node that may have one, and a client that
// reaches it by its Service's name, by each of the Service's addresses and by
// every pod's own addresses.
func (c cluster) podsTalk(s shape) {
	c.Helper()
	manifest, err := filepath.Abs("testdata/talk.yaml")
	if err != nil {
		c.Fatal(err)
	}
	if _, err := c.kubectl("apply", "--server-side", "-f", manifest); err != nil {
		c.Fatal(err)
	}
	if _, err := c.kubectl("rollout", "status", "daemonset/server", "--timeout=120s"); err != nil {
		c.Fatal(err)
	}
	if _, err := c.kubectl("wait", "pod/client", "--for=condition=Ready", "--timeout=120s"); err != nil {
		c.Fatal(err)
	}
	var pods struct {
		Items []struct {
			Status struct {
				PodIPs []struct{ IP string }
			}
		}
	}
	c.getJSON(&pods, "get", "pods", "--selector=app=server")
	var service struct {
		Spec struct{ ClusterIPs []string }
	}
	c.getJSON(&service, "get", "service/server")
	targets := []string{"server.default.svc.cluster.local"}
	targets = append(targets, service.Spec.ClusterIPs...)
	for _, p := range pods.Items {
		for _, ip := range p.Status.PodIPs {
			targets = append(targets, ip.IP)
		}
	}
	if want := 1 + s.families + s.families*len(pods.Items); len(targets) != want {
		c.Errorf("targets are %v, want %d of them", targets, want)
	}
	for _, target := range targets {
		c.eventually(30*time.Second, "reach "+target, func() error {
			if strings.Contains(target, ":") {
				target = "[" + strings.Trim(target, "[]") + "]"
			}
			out, err := c.kubectl("exec", "client", "--", "curl", "--silent", "--show-error", "--max-time", "3", "http://"+target+":8080/health")
			if err == nil && out != "OK" {
				err = fmt.Errorf("answered %q", out)
			}
			return err
		})
	}
}

// holders returns the holder of each VIP that has one. Two holders of one VIP
// fail the test.
func (c cluster) holders() map[string]string {
	c.Helper()
	var report struct{ VIPs map[string][]string }
	if err := json.Unmarshal([]byte(c.must("lab", "status", "--name", c.name, "-o", "json")), &report); err != nil {
		c.Fatal(err)
	}
	held := map[string]string{}
	for vip, hosts := range report.VIPs {
		if len(hosts) > 1 {
			c.Errorf("%s is held by %v", vip, hosts)
		}
		if len(hosts) > 0 {
			held[vip] = hosts[0]
		}
	}
	return held
}

func (c cluster) vipMovesWhenItsHolderDies() {
	c.Helper()
	before := c.holders()
	if len(before) == 0 {
		c.Fatal("nobody holds a VIP")
	}
	for vip, holder := range before {
		c.must("lab", "fault", "power-cut", holder, "--name", c.name)
		c.eventually(20*time.Second, "another host holds "+vip, func() error {
			if now := c.holders()[vip]; now == holder || now == "" {
				return fmt.Errorf("its holder is %q", now)
			}
			return nil
		})
		c.must("lab", "fault", "clear", "--name", c.name)
		break
	}
	c.isWholeAgain()
}

// isWholeAgain waits until status finds nothing wrong after the loss of a host.
// The conditions of Nodes cannot tell: a host that is quickly back is Ready from
// before its loss until its kubelet has started.
func (c cluster) isWholeAgain() {
	c.Helper()
	c.eventually(10*time.Minute, "status finds nothing wrong", func() error {
		_, err := c.holdfast("status", "--lab", c.name)
		return err
	})
}

func (c cluster) upAgainDoesNothing(s shape) {
	c.Helper()
	uid := func() string {
		out, err := c.kubectl("get", "namespace/kube-system", "-o", "jsonpath={.metadata.uid}")
		if err != nil {
			c.Fatal(err)
		}
		return out
	}
	before := uid()
	started := time.Now()
	c.must(append([]string{"lab", "up", "--name", c.name, "--post-delay=0s"}, s.flags...)...)
	if took := time.Since(started); took > 30*time.Second {
		c.Errorf("a second lab up took %s", took)
	}
	if after := uid(); after != before {
		c.Errorf("a second lab up made another cluster: %s, was %s", after, before)
	}
}
