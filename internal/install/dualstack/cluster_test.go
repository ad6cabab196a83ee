package dualstack

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	decide "github.com/holdfast/holdfast/internal/decide/dualstack"
	"github.com/holdfast/holdfast/internal/decide/replace"
	"github.com/holdfast/holdfast/internal/install/installer"
	"github.com/holdfast/holdfast/internal/model/retired"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/flannel"
	"github.com/holdfast/holdfast/internal/render/kubeadm"
	"github.com/holdfast/holdfast/internal/testkit/apitest"
)

// clusterConfiguration returns kubeadm's of a site.
func clusterConfiguration(t *testing.T, s *site.Site) string {
	t.Helper()
	conf, err := kubeadm.Init(s, state.HostFacts{NodeName: "cp-1", Addresses: own}, false)
	must(t, err)
	for document := range strings.SplitSeq(string(conf), "---\n") {
		if strings.Contains(document, "kind: ClusterConfiguration") {
			return document
		}
	}
	t.Fatal("no ClusterConfiguration")
	return ""
}

func TestKubeadmsConfigurationIsThatOfASiteThatWasInstalledWithBoth(t *testing.T) {
	for name, p := range map[string]decide.Plan{"IPv6 is added": secondV6, "IPv4 is added": secondV4} {
		t.Run(name, func(t *testing.T) {
			have, want := sites(t, p)
			text := clusterConfiguration(t, have)
			for range 2 {
				var err error
				text, err = decide.Kubeadm(text, p)
				must(t, err)
				if diff := cmp.Diff(clusterConfiguration(t, want), text); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}

// TestALivingClusterGetsBothFamilies plays it with an API server: kubeadm's configuration, the
// pod network's and kube-proxy's, then the other objects.
func TestALivingClusterGetsBothFamilies(t *testing.T) {
	api := apitest.Need(t, server)
	p := secondV6
	have, want := sites(t, p)
	files, err := installer.Objects(have)
	must(t, err)
	api.Install(t, files)
	client, err := kube.Open(api.Kubeconfig())
	must(t, err)
	cluster := struct {
		*kube.Bringer
		*kube.Client
	}{client.Bringer(), client}
	configMap := func(namespace, name, key, text string) {
		must(t, client.PutConfigMap(t.Context(), namespace, name, nil, map[string]string{key: text}))
	}
	configMap("kube-system", "kubeadm-config", kubeadmKey, clusterConfiguration(t, have))
	configMap("kube-system", "kube-proxy", proxyKey, "clusterCIDR: 10.128.0.0/14\nmode: nftables\n")
	api.Kubectl(t, "create", "namespace", flannel.Namespace)
	all, err := changes(have, p)
	must(t, err)
	for _, c := range all {
		if c.Namespace == flannel.Namespace {
			must(t, cluster.Apply(t.Context(), c.ObjectRef, c.Before))
		}
	}
	is := func(what string, is bool, err error, want bool) {
		t.Helper()
		if err != nil || is != want {
			t.Errorf("%s: %v %v, want %v", what, is, err, want)
		}
	}
	for _, s := range []*site.Site{have, want} { // before and after the host's own files have changed
		for range 2 {
			noted, err := Noted(t.Context(), cluster, p)
			is("noted", noted, err, s == want)
			routed, err := Routed(t.Context(), cluster, s, p)
			is("routed", routed, err, s == want)
		}
		must(t, Note(t.Context(), cluster, p))
		must(t, Route(t.Context(), cluster, s, p))
		api.Kubectl(t, "run", "daemon", "-n", flannel.Namespace, "--image=none", "--labels="+flannel.Selector, `--overrides={"spec":{"serviceAccountName":"flannel"}}`)
		must(t, Settle(t.Context(), cluster, s, p))
		if left := api.Kubectl(t, "get", "pods", "-n", flannel.Namespace, "-o", "name"); left != "" {
			t.Errorf("a daemon that may lack routes runs on: %s", left)
		}
	}
	for what, c := range map[string]struct {
		args []string
		want string
	}{
		"pods":        {[]string{"network.config", "cluster", "-o", "jsonpath={.spec.clusterNetwork[*].cidr}"}, "10.128.0.0/14 fd44::/56"},
		"Services":    {[]string{"network.config", "cluster", "-o", "jsonpath={.status.serviceNetwork}"}, `["172.30.0.0/16","fd96::/112"]`},
		"kube-proxy":  {[]string{"cm", "kube-proxy", "-n", "kube-system", "-o", `jsonpath={.data.config\.conf}`}, "clusterCIDR: 10.128.0.0/14,fd44::/56\nmode: nftables"},
		"pod network": {[]string{"cm", "kube-flannel-cfg", "-n", flannel.Namespace, "-o", `jsonpath={.data.net-conf\.json}`}, `{"EnableIPv4":true,"Network":"10.128.0.0/14","EnableIPv6":true,"IPv6Network":"fd44::/56","EnableNFTables":true,"Backend":{"Type":"vxlan"}}`},
	} {
		if got := strings.TrimSpace(api.Kubectl(t, append([]string{"get"}, c.args...)...)); got != c.want {
			t.Errorf("%s: %s, want %s", what, got, c.want)
		}
	}
	if kept := api.Kubectl(t, "get", "cm", "cluster-config-v1", "-n", "kube-system", "-o", "yaml"); !strings.Contains(kept, "fd98::/64") {
		t.Errorf("the kept install-config: %s", kept)
	}
	share(t, api, cluster)
	announcement(t, api, cluster)
}

// announcement is what becomes of it, and of the lock of all plans.
func announcement(t *testing.T, api *apitest.API, cluster LockAPI) {
	t.Helper()
	p := secondV6
	shows := func() string {
		return strings.TrimSpace(api.Kubectl(t, "get", "infrastructure", "cluster", "-o", `jsonpath={.metadata.annotations.holdfast\.io/dual-stack}`))
	}
	locked := func() string {
		data, err := cluster.ConfigMap(t.Context(), replace.LockNamespace, replace.LockName)
		must(t, err)
		return data[replace.LockKey]
	}
	if err := Begin(t.Context(), cluster, p); !errors.Is(err, ErrTakenBack) || shows() != "" {
		t.Errorf("a plan begins that was taken back: %v", err)
	}
	must(t, Unlock(t.Context(), cluster, p))
	api.Kubectl(t, "annotate", "infrastructure", "cluster", `holdfast.io/dual-stack={"id":"p"}`)
	for range 2 {
		must(t, Begin(t.Context(), cluster, p))
		if got := shows(); !strings.Contains(got, `"begun":true`) || locked() != p.ID {
			t.Errorf("%s, locked by %q", got, locked())
		}
	}
	other := p
	other.ID = "q"
	if err := Begin(t.Context(), cluster, other); err == nil || !strings.Contains(err.Error(), "holdfast site dual-stack status") {
		t.Errorf("another plan begins: %v", err)
	}
	must(t, cluster.Unlock(t.Context(), replace.LockNamespace, replace.LockName, replace.LockKey, p.ID)) // by hand
	must(t, Lock(t.Context(), cluster, other))
	if err := Lock(t.Context(), cluster, p); err == nil || !strings.Contains(err.Error(), "the plan q of") || locked() != "q" {
		t.Errorf("two plans have the lock: %v", err)
	}
	must(t, Unlock(t.Context(), cluster, other))
	for range 2 {
		must(t, Lock(t.Context(), cluster, p))
		if locked() != p.ID {
			t.Errorf("locked by %q", locked())
		}
	}
	must(t, Withdraw(t.Context(), cluster, p))
	if shows() != "" || locked() != "" {
		t.Errorf("after the end: %q, locked by %q", shows(), locked())
	}
	for range 2 {
		must(t, Publish(t.Context(), cluster, p))
		if got := shows(); !strings.Contains(got, `"begun":true`) || locked() != p.ID {
			t.Errorf("%s, locked by %q", got, locked())
		}
	}
	must(t, Withdraw(t.Context(), cluster, other))
	if shows() == "" {
		t.Error("another plan takes the announcement away")
	}
}

// share is what becomes of a Node.
func share(t *testing.T, api *apitest.API, cluster API) {
	t.Helper()
	name := "cp-1"
	must(t, cluster.CreateNode(t.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"rack": "7"}, Annotations: map[string]string{"mine": "1"}},
		Spec:       corev1.NodeSpec{PodCIDR: "10.128.2.0/23", PodCIDRs: []string{"10.128.2.0/23"}, Unschedulable: true},
	}))
	first, err := cluster.Node(t.Context(), name)
	must(t, err)
	copies := Store{Root: t.TempDir()}
	for range 2 {
		must(t, Share(t.Context(), cluster, copies, name, secondV6.Hosts[name].Share))
		got := api.Kubectl(t, "get", "node", name, "-o", `jsonpath={.spec.podCIDR} {.spec.podCIDRs} {.spec.unschedulable} {.metadata.labels.rack} {.metadata.annotations.mine}`)
		if want := `10.128.2.0/23 ["10.128.2.0/23","fd44:0:0:ff::/64"] true 7 1`; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	is, err := cluster.Node(t.Context(), name)
	must(t, err)
	if want := state.MadeAt(first.CreationTimestamp.Time); is.Labels[state.LabelMade] != want {
		t.Errorf("the Node tells of its first time %q, want %s", is.Labels[state.LabelMade], want)
	}
}

// nodes is an API with one Node. It fails at one of the requests, before or after it is done,
// and the host's own agent makes the Node again meanwhile, without the labels of an administrator;
// that of a worker that a person has cordoned does not.
type nodes struct {
	API
	node        *corev1.Node
	cordoned    bool
	uid, calls  int
	at          int
	after, soon bool // soon: the agent is faster than the carrier
	retired     retired.List
	unread      error // of the list of retired hosts
}

var errCut = errors.New("cut")

func (a *nodes) call(do func()) error {
	a.calls++
	if a.calls == a.at && !a.after {
		return errCut
	}
	do()
	if a.calls == a.at {
		return errCut
	}
	return nil
}

func (a *nodes) again() {
	if a.node == nil && !a.cordoned {
		a.make(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "w-1", Labels: map[string]string{"rack": "7"}}, Spec: corev1.NodeSpec{PodCIDR: "10.128.2.0/23", PodCIDRs: []string{"10.128.2.0/23"}}})
	}
}

func (a *nodes) make(n *corev1.Node) {
	a.uid++
	a.node = n.DeepCopy()
	a.node.UID, a.node.CreationTimestamp = types.UID(fmt.Sprint("u", a.uid)), metav1.Unix(int64(a.uid), 0)
}

func (a *nodes) Node(context.Context, string) (n *corev1.Node, err error) {
	err = a.call(func() { n = a.node.DeepCopy() })
	return n, err
}

func (a *nodes) Retired(context.Context, string) (retired.List, error) { return a.retired, a.unread }

func (a *nodes) DeleteNode(_ context.Context, _, uid string) error {
	return a.call(func() {
		if a.node != nil && string(a.node.UID) == uid {
			a.node = nil
		}
		if a.soon {
			a.soon = false
			a.again()
		}
	})
}

func (a *nodes) CreateNode(_ context.Context, n *corev1.Node) error {
	return a.call(func() {
		if a.node == nil {
			a.make(n)
		}
	})
}

// worker returns the Node of w-1 with one share.
func worker(cordoned bool) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "w-1", Labels: map[string]string{"rack": "7", "node-role.kubernetes.io/worker": ""}},
		Spec:       corev1.NodeSpec{PodCIDR: "10.128.2.0/23", PodCIDRs: []string{"10.128.2.0/23"}, Unschedulable: cordoned},
	}
}

func TestANodeLosesNothingThoughTheCarrierIsCutAnywhere(t *testing.T) {
	bools := []bool{false, true}
	for at := range 5 {
		for _, after := range bools {
			for _, soon := range bools {
				for _, cordoned := range bools {
					cut := fmt.Sprintf("cut at %d, after %v, soon %v, cordoned %v", at, after, soon, cordoned)
					a := &nodes{at: at, after: after, soon: soon, cordoned: cordoned}
					a.make(worker(cordoned))
					copies := Store{Root: t.TempDir()}
					run := func() error { return Share(t.Context(), a, copies, "w-1", secondV6.Hosts["cp-1"].Share) }
					err := run()
					for range 3 {
						if err == nil {
							break
						}
						a.again()
						err = run()
					}
					if err != nil {
						t.Fatalf("%s: %v", cut, err)
					}
					want := map[string]string{"rack": "7", "node-role.kubernetes.io/worker": "", state.LabelMade: "1"}
					if diff := cmp.Diff(want, a.node.Labels); diff != "" || len(a.node.Spec.PodCIDRs) != 2 || a.node.Spec.Unschedulable != cordoned {
						t.Errorf("%s: %s %+v", cut, diff, a.node.Spec)
					}
					if left, err := copies.Node("w-1"); left != nil || err != nil {
						t.Errorf("%s: a Node that somebody deletes later would come back: %v", cut, err)
					}
				}
			}
		}
	}
}

// A person may take the worker out while the carrier is away.
func TestTheNodeOfAHostThatWasTakenOutIsNotMadeFromItsCopy(t *testing.T) {
	out := retired.Host{Name: "w-1", When: time.Unix(1, 0), By: "ada"}
	for name, c := range map[string]struct {
		list   retired.List
		unread error
		want   string // the error, empty for none
	}{
		"it stays":       {},
		"it was":         {list: retired.List{out}, want: "w-1 was taken out of the cluster at 1970-01-01T00:00:01Z by ada"},
		"its name lives": {list: retired.List{{Name: "w-1", When: time.Unix(1, 0), Again: time.Unix(2, 0)}}},
		"nobody knows":   {unread: errCut, want: errCut.Error()},
	} {
		a, copies := &nodes{retired: c.list, unread: c.unread}, Store{Root: t.TempDir()}
		must(t, copies.PutNode(worker(true)))
		err := Share(t.Context(), a, copies, "w-1", secondV6.Hosts["cp-1"].Share)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) || (a.node != nil) != (c.want == "") {
			t.Errorf("%s: %v, a Node %v", name, err, a.node != nil)
		}
	}
}

func TestANodeThatIsOfAnotherKindIsLeftAlone(t *testing.T) {
	for name, cidrs := range map[string][]string{"no share": nil, "two other ones": {"10.128.2.0/23", "fd44::/64"}} {
		a := &nodes{}
		a.make(&corev1.Node{Spec: corev1.NodeSpec{PodCIDRs: cidrs}})
		err := Share(t.Context(), a, Store{Root: t.TempDir()}, "w-1", secondV6.Hosts["cp-1"].Share)
		if err == nil || a.calls != 1 {
			t.Errorf("%s: %v after %d requests", name, err, a.calls)
		}
	}
	a := &nodes{}
	if err := Share(t.Context(), a, Store{Root: t.TempDir()}, "w-1", secondV6.Hosts["cp-1"].Share); err == nil || a.calls != 1 {
		t.Errorf("no Node: %v", err)
	}
}
