package cluster

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	decide "github.com/holdfast/holdfast/internal/decide/doctor"
	"github.com/holdfast/holdfast/internal/decide/finding"
	"github.com/holdfast/holdfast/internal/testkit/apitest"
)

// server is the API server of this package's tests, nil if there is none.
var server *apitest.API

func TestMain(m *testing.M) { os.Exit(apitest.Main(m, &server)) }

// says formats the findings of a check as lines.
func says(facts decide.Facts, id finding.ID) string {
	var out []string
	for _, r := range decide.Examine(facts, id) {
		out = append(out, string(r.Severity))
		for _, f := range r.Findings {
			if f.Severity != finding.OK {
				out = append(out, f.Subject+": "+f.Problem)
			}
		}
		out = append(out, r.Unseen...)
	}
	return strings.Join(out, "\n")
}

// site creates a cluster of two in a real API server.
func site(t *testing.T) (*apitest.API, *Cluster) {
	t.Helper()
	api := apitest.Need(t, server)
	c, err := At(api.Config)
	if err != nil {
		t.Fatal(err)
	}
	api.Kubectl(t, "apply", "-f", "testdata/site.yaml")
	for _, node := range []string{"cp-1", "cp-2"} {
		api.Kubectl(t, "patch", "node", node, "--subresource=status", "--type=merge", "-p",
			`{"status":{"allocatable":{"cpu":"4","memory":"8Gi","pods":"110"},"nodeInfo":{"kubeletVersion":"v1.36.3","containerRuntimeVersion":"containerd://2.4.1"},"conditions":[{"type":"Ready","status":"True"}]}}`)
	}
	api.Kubectl(t, "-n", "shop", "patch", "pod", "done", "--subresource=status", "--type=merge", "-p", `{"status":{"phase":"Succeeded"}}`)
	api.Kubectl(t, "-n", "shop", "patch", "daemonset", "reboots", "--subresource=status", "--type=merge", "-p",
		`{"status":{"desiredNumberScheduled":2,"currentNumberScheduled":2,"numberMisscheduled":0,"numberReady":2}}`)
	// These are the disruption controller's results; the controller does not run
	// here.
	for name, status := range map[string]string{
		"db":  `{"observedGeneration":1,"expectedPods":1,"desiredHealthy":1,"currentHealthy":1,"disruptionsAllowed":0}`,
		"web": `{"observedGeneration":1,"expectedPods":2,"desiredHealthy":1,"currentHealthy":2,"disruptionsAllowed":1}`,
	} {
		api.Kubectl(t, "-n", "shop", "patch", "pdb", name, "--subresource=status", "--type=merge", "-p", `{"status":`+status+`}`)
	}
	return api, c
}

func look(t *testing.T, c *Cluster) decide.Facts {
	t.Helper()
	found, err := c.Gather(t.Context())
	if err != nil || len(found.Cluster.Trouble) > 0 {
		t.Fatalf("%v %q", err, found.Cluster.Trouble)
	}
	return decide.Facts{Topology: found.Topology, Hosts: found.Hosts, Cluster: found.Cluster}
}

func TestARealClusterOfTwoIsJudged(t *testing.T) {
	api, c := site(t)
	facts := look(t, c)
	if diff := cmp.Diff(decide.Topology{ControlPlanes: 2, Fencing: true}, facts.Topology); diff != "" {
		t.Error(diff)
	}
	for id, want := range map[finding.ID]string{
		// Kinds that the API does not have have no objects, and that is known.
		"power-metal3":      "ok",
		"power-remediation": "ok",
		"drain-blocked":     "warning\nPodDisruptionBudget shop/db: it requires 1 healthy pods of 1: no pod can ever be evicted (drain of cp-1)",
		"drain-unprotected": "warning\nDeployment shop/cache: no budget, and all its pods run on cp-2: a drain takes all of them at once",
		// 0.5 + (3 for the first container of each, more than its 1) + 2 x 0.5.
		"failover-capacity": "warning\ncp-1: without it the processor does not fit: 7.5 cores requested, the other hosts have 4.0 cores\n" +
			"cp-2: without it the processor does not fit: 7.5 cores requested, the other hosts have 4.0 cores",
		"versions": "ok",
		"cluster-dns": "warning\n: no pod of kube-system with the label k8s-app=kube-dns is on a host: " +
			"no name server answers for Services, or one that this check does not know",
	} {
		if got := says(facts, id); got != want {
			t.Errorf("%s:\n%s\nwant:\n%s", id, got, want)
		}
	}
	if slices.ContainsFunc(facts.Cluster.Pods.Value, func(p decide.Pod) bool { return p.Name == "done" }) {
		t.Error("a pod that has ended asks for nothing")
	}
	if got := says(facts, "power-reboots"); !strings.Contains(got, "DaemonSet shop/reboots: kured is running") || !strings.Contains(got, "automatic reboots of cp-1, cp-2") {
		t.Errorf("nobody asked the hosts: %s", got)
	}
	api.Kubectl(t, "apply", "-f", "testdata/kinds.yaml")
	api.Kubectl(t, "wait", "--for=condition=Established", "--timeout=60s", "-f", "testdata/kinds.yaml")
	api.Kubectl(t, "apply", "-f", "testdata/power.yaml")
	c, err := At(api.Config)
	if err != nil {
		t.Fatal(err)
	}
	facts = look(t, c)
	for id, want := range map[finding.ID]string{
		"power-metal3": "critical\nBareMetalHost shop/rack-2: it belongs to a control plane and requests a reboot\n" +
			"BareMetalHost shop/rack-1: it belongs to a control plane and is not detached: metal3 manages its power",
		"power-remediation": "critical\nNodeHealthCheck workers: it selects control planes: cp-1, cp-2\n" +
			"SelfNodeRemediation shop/cp-2-x7x: it selects control planes: cp-2",
	} {
		if got := says(facts, id); got != want {
			t.Errorf("%s:\n%s\nwant:\n%s", id, got, want)
		}
	}
}

func TestPoliciesThatNobodyEnforcesAreNamed(t *testing.T) {
	api, c := site(t)
	api.Kubectl(t, "apply", "-f", "testdata/policies.yaml")
	if got := says(look(t, c), "network-policies"); got != "ok" {
		t.Errorf("with an enforcer: %s", got)
	}
	api.Kubectl(t, "apply", "-f", "testdata/refusal.yaml")
	if got := says(look(t, c), "network-policies"); got != "warning\n: 1 NetworkPolicies are not enforced: shop/deny-all" {
		t.Error(got)
	}
}

func TestWhatAgentsPublishedIsReadAndNoMore(t *testing.T) {
	_, c := site(t)
	hosts := look(t, c).Hosts
	i := slices.IndexFunc(hosts, func(h decide.Host) bool { return h.Name == "cp-1" })
	if h := hosts[i]; h.Source != decide.Published || !h.Swap.Known || h.Offset.Known {
		t.Errorf("an offset is of who measures, never of who publishes: %+v", h)
	}
	if h := hosts[1-i]; h.Name != "cp-2" || h.Source != decide.Unasked || h.Swap.Known {
		t.Errorf("what is about another host is not this host's: %+v", h)
	}
}

func TestTheAPIServerTellsWhatTimeItIsWithoutAnAccount(t *testing.T) {
	api := apitest.Need(t, server)
	c, err := At(api.Config)
	if err != nil {
		t.Fatal(err)
	}
	at := strings.TrimPrefix(api.Config.Host, "https://")
	o, err := c.askTime(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	if o.Low > 0 || o.High < 0 || o.High-o.Low > 3*time.Second {
		t.Errorf("its clock is this one's: %+v", o)
	}
}

func TestWithoutAnAPIThereIsAnErrorAndNoGuess(t *testing.T) {
	api := apitest.Need(t, server)
	cfg := *api.Config
	cfg.Host = "https://127.0.0.1:1"
	c, err := At(&cfg)
	if err == nil {
		_, err = c.Gather(t.Context())
	}
	if err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("%v", err)
	}
}
