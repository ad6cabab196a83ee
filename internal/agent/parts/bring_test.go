package parts

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/decide/upgrade/parts"
	"github.com/holdfast/holdfast/internal/model/payload"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/manifests"
	"github.com/holdfast/holdfast/internal/testkit/apitest"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

var older, newer = "sha256:" + strings.Repeat("1", 64), "sha256:" + strings.Repeat("2", 64)

// client returns an administrator's way to a real API.
func client(t *testing.T) (*apitest.API, *kube.Bringer) {
	t.Helper()
	api := apitest.Need(t, server)
	c, err := kube.Open(api.Kubeconfig())
	must(t, err)
	return api, c.Bringer()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// pair is a site of two, with a Service network that the API server of the test has.
func pair(t *testing.T) *site.Site {
	t.Helper()
	return sitetest.New(t, strings.ReplaceAll(sitetest.TwoDual, "172.30.0.0/16", "10.0.0.0/24"))
}

func document(t *testing.T, text string) manifests.Document {
	t.Helper()
	field := func(name string) string {
		_, rest, _ := strings.Cut(text, name+": ")
		out, _, _ := strings.Cut(rest, "\n")
		return strings.Trim(out, "{} ")
	}
	return manifests.Document{Data: []byte(text), ObjectRef: state.ObjectRef{APIVersion: field("apiVersion"), Kind: field("kind"), Namespace: field("  namespace"), Name: field("  name")}}
}

// having returns a release that has these objects.
func having(kinds, objects []manifests.Document) manifests.Release {
	out := manifests.Release{Kinds: kinds, Objects: objects}
	out.Every = refs(kinds, objects)
	return out
}

func role(t *testing.T, name string, verbs string) manifests.Document {
	t.Helper()
	return document(t, "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:\n  name: parts-"+name+"\nrules:\n- apiGroups: [\"\"]\n  resources: [pods]\n  verbs: ["+verbs+"]\n")
}

func thing(t *testing.T, name string) (kind, object manifests.Document) {
	t.Helper()
	kind = document(t, strings.NewReplacer("NAME", name).Replace(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: NAMEs.parts.test
spec:
  group: parts.test
  scope: Cluster
  names: {kind: NAME, listKind: NAMEList, plural: NAMEs, singular: NAME}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`))
	return kind, document(t, "apiVersion: parts.test/v1\nkind: "+name+"\nmetadata:\n  name: parts-one\n")
}

// seen returns what of a test's objects is there.
func seen(t *testing.T, api *apitest.API) string {
	t.Helper()
	out := api.Kubectl(t, "get", "clusterroles", "-o", `jsonpath={range .items[*]}{.metadata.name}{" "}{.rules[0].verbs}{"\n"}{end}`)
	var lines []string
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "parts-") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return strings.Join(lines, "; ")
}

func mark(t *testing.T, b *kube.Bringer) parts.Mark {
	t.Helper()
	at, err := b.Mark(t.Context(), parts.MarkNamespace, parts.MarkName)
	must(t, err)
	out, err := parts.ReadMark(at.Data)
	must(t, err)
	return out
}

func forget(t *testing.T, api *apitest.API) {
	t.Helper()
	api.Kubectl(t, "-n", parts.MarkNamespace, "delete", "configmap", parts.MarkName, "--ignore-not-found")
	api.Kubectl(t, "delete", "clusterroles", "parts-a", "parts-b", "parts-c", "--ignore-not-found")
}

// cut ends a Bringer before or after its step of a number.
type cut struct {
	API
	steps, at int
	before    bool
}

var errCut = errors.New("the power was cut")

func step[T any](c *cut, do func() (T, error)) (T, error) {
	c.steps++
	var zero T
	if c.steps > c.at || c.steps == c.at && c.before {
		return zero, errCut
	}
	out, err := do()
	if c.steps == c.at {
		return zero, errCut
	}
	return out, err
}

func (c *cut) Apply(ctx context.Context, r state.ObjectRef, document []byte) error {
	_, err := step(c, func() (bool, error) { return true, c.API.Apply(ctx, r, document) })
	return err
}

func (c *cut) Delete(ctx context.Context, r state.ObjectRef) (bool, error) {
	return step(c, func() (bool, error) { return c.API.Delete(ctx, r) })
}

func (c *cut) PutMark(ctx context.Context, m kube.Mark, data map[string]string) (kube.Mark, error) {
	return step(c, func() (kube.Mark, error) { return c.API.PutMark(ctx, m, data) })
}

// TestAPartThatIsCutAtAnyWriteIsFinishedOrTakenBackWhole: what the new release brought and
// the old one does not have goes away again, and what is dropped goes away late.
func TestAPartThatIsCutAtAnyWriteIsFinishedOrTakenBackWhole(t *testing.T) {
	api, b := client(t)
	kind, one := thing(t, "gadget")
	was := having([]manifests.Document{kind}, []manifests.Document{role(t, "a", "get, list"), role(t, "b", "get"), one})
	next := having([]manifests.Document{kind}, []manifests.Document{role(t, "a", "get"), role(t, "c", "get"), one})
	kubeadm, gone := installed(t, api)
	defer gone()
	ends := map[string]struct {
		*Bringer
		want string
	}{
		"on": {&Bringer{API: b, Digest: newer, Has: next, Versions: newerVersions}, `parts-a ["get"]; parts-c ["get"]`}, "back": {&Bringer{API: b, Digest: older, Has: was, Versions: olderVersions}, `parts-a ["get","list"]; parts-b ["get"]`},
	}
	whole := 0
	for at := 1; whole < 2; at++ {
		for _, before := range []bool{true, false} {
			for way, end := range ends {
				forget(t, api)
				must(t, ends["back"].Bring(t.Context(), parts.Objects))
				c := &cut{API: b, at: at, before: before}
				err := (&Bringer{API: c, Digest: newer, Has: next, Versions: newerVersions}).Bring(t.Context(), parts.Objects)
				if err == nil {
					whole++
				} else if !errors.Is(err, errCut) {
					t.Fatal(err)
				}
				if got := mark(t, b).Release(parts.Objects, older); c.steps > 1 && err != nil && got == state.Known(older) {
					t.Errorf("cut at %d (before it: %v): the part counts as that of the old release", at, before)
				}
				must(t, end.Bring(t.Context(), parts.Objects))
				if got := seen(t, api); got != end.want {
					t.Errorf("cut at %d (before it: %v), then %s: %s", at, before, way, got)
				}
				if got := kubeadm(); got != told(end.Versions) {
					t.Errorf("cut at %d (before it: %v), then %s: kubeadm's configuration is\n%s", at, before, way, got)
				}
				m := mark(t, b)
				if diff := cmp.Diff(refs(end.Has.Kinds, end.Has.Objects), m.Brought); diff != "" || m.Release(parts.Objects, "") != state.Known(end.Digest) {
					t.Errorf("cut at %d, then %s: %+v\n%s", at, way, m.Releases, diff)
				}
			}
		}
		if at > 30 {
			t.Fatal("it never ends")
		}
	}
	forget(t, api)
}

// TestAProgramThatSleptUndoesNothing: it does not go on where another one has begun.
func TestAProgramThatSleptUndoesNothing(t *testing.T) {
	api, b := client(t)
	forget(t, api)
	was := having(nil, []manifests.Document{role(t, "a", "get, list"), role(t, "b", "get")})
	next := having(nil, []manifests.Document{role(t, "a", "get"), role(t, "b", "list")})
	s := &asleep{API: b, wake: func() { must(t, (&Bringer{API: b, Digest: older, Has: was}).Bring(t.Context(), parts.Objects)) }}
	err := (&Bringer{API: s, Digest: newer, Has: next}).Bring(t.Context(), parts.Objects)
	if err == nil || !strings.Contains(err.Error(), "somebody else has written ConfigMap kube-system/holdfast-release") {
		t.Errorf("%v", err)
	}
	if got := seen(t, api); got != `parts-a ["get","list"]; parts-b ["get"]` || mark(t, b).Release(parts.Objects, "") != state.Known(older) {
		t.Errorf("%s, %+v", got, mark(t, b).Releases)
	}
	forget(t, api)
	// kube-proxy is one write, and comes right after the mark.
	s = &asleep{API: b, marked: func() { must(t, (&Bringer{API: b, Digest: older}).Bring(t.Context(), parts.KubeProxy)) }}
	err = (&Bringer{API: s, Digest: newer}).Bring(t.Context(), parts.KubeProxy)
	if err == nil || !strings.Contains(err.Error(), "somebody else has written ConfigMap kube-system/holdfast-release") {
		t.Errorf("%v", err)
	}
	if s.images > 0 || mark(t, b).Release(parts.KubeProxy, "") != state.Known(older) {
		t.Errorf("it has changed kube-proxy %d times, %+v", s.images, mark(t, b).Releases)
	}
	forget(t, api)
}

// asleep sleeps after its first object, or after its first mark, while others work.
type asleep struct {
	API
	wake, marked func()
	images       int
}

func (s *asleep) PutMark(ctx context.Context, m kube.Mark, data map[string]string) (kube.Mark, error) {
	out, err := s.API.PutMark(ctx, m, data)
	if s.marked != nil {
		marked := s.marked
		s.marked = nil
		marked()
	}
	return out, err
}

func (s *asleep) SetImage(ctx context.Context, namespace, name, container, image string) (bool, error) {
	s.images++
	return s.API.SetImage(ctx, namespace, name, container, image)
}

func (s *asleep) Apply(ctx context.Context, r state.ObjectRef, document []byte) error {
	err := s.API.Apply(ctx, r, document)
	if s.wake != nil {
		wake := s.wake
		s.wake = nil
		wake()
	}
	return err
}

// TestOnlyWhatAReleaseBroughtIsTakenAway: no kind, no namespace, nothing that the list does
// not name, and nothing that somebody else has made under its name.
func TestOnlyWhatAReleaseBroughtIsTakenAway(t *testing.T) {
	api, b := client(t)
	forget(t, api)
	kind, one := thing(t, "widget")
	space := document(t, "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: parts-space\n")
	gone := document(t, "apiVersion: none.test/v1\nkind: Gone\nmetadata:\n  name: x\n")
	old := &Bringer{API: b, Digest: older, Has: having([]manifests.Document{kind}, []manifests.Document{space, role(t, "a", "get"), role(t, "b", "get"), one})}
	must(t, old.Bring(t.Context(), parts.Objects))
	api.Kubectl(t, "delete", "clusterrole", "parts-b")
	api.Kubectl(t, "create", "clusterrole", "parts-b", "--verb=watch", "--resource=pods")
	api.Kubectl(t, "create", "clusterrole", "parts-c", "--verb=watch", "--resource=pods")
	// The mark also names what no API serves any more.
	at, err := b.Mark(t.Context(), parts.MarkNamespace, parts.MarkName)
	must(t, err)
	m, err := parts.ReadMark(at.Data)
	must(t, err)
	data, err := m.Begin(parts.Objects, []state.ObjectRef{gone.ObjectRef}).Data()
	must(t, err)
	_, err = b.PutMark(t.Context(), at, data)
	must(t, err)
	must(t, (&Bringer{API: b, Digest: newer, Has: having(nil, nil)}).Bring(t.Context(), parts.Objects))
	if got := seen(t, api); got != `parts-b ["watch"]; parts-c ["watch"]` {
		t.Errorf("%s", got)
	}
	for ref, want := range map[state.ObjectRef]bool{kind.ObjectRef: true, space.ObjectRef: true, one.ObjectRef: false} {
		if is, err := b.Exists(t.Context(), ref); err != nil || is != want {
			t.Errorf("%s is there: %v, %v", ref, is, err)
		}
	}
	forget(t, api)
}

// running is an API with a controller of Deployments whose pods run at once.
type running struct{ API }

func (running) RolledOut(context.Context, string, string) (string, error) { return "", nil }

// versions returns the version of each object of some kinds.
func versions(t *testing.T, api *apitest.API) string {
	t.Helper()
	return api.Kubectl(t, "get", "namespaces,clusterroles,clusterrolebindings,roles,rolebindings,serviceaccounts,services,deployments,daemonsets,configmaps", "-A",
		"-o", `jsonpath={range .items[*]}{.kind} {.metadata.namespace}/{.metadata.name} {.metadata.resourceVersion}{"\n"}{end}`)
}

// TestAWholeReleaseIsBroughtAfterAnInstallationAndWhatPeopleChangedStays, with every guard
// in its place. Bringing it once more changes nothing.
func TestAWholeReleaseIsBroughtAfterAnInstallationAndWhatPeopleChangedStays(t *testing.T) {
	api, b := client(t)
	forget(t, api)
	s := pair(t)
	files, err := manifests.Render(s.Config, s.Topology())
	must(t, err)
	api.Install(t, files)
	network, err := manifests.Network(s)
	must(t, err)
	for _, f := range network {
		path := filepath.Join(t.TempDir(), "network.yaml")
		must(t, os.WriteFile(path, f.Data, 0o600))
		api.Kubectl(t, "apply", "--server-side", "--force-conflicts", "--field-manager="+kube.InstallManager, "--filename", path)
	}
	kept, err := NewBringer(running{b}, s.For(state.RoleMaster).Settled(), older)
	must(t, err)
	must(t, kept.Installed(t.Context()))
	before := versions(t, api)
	for _, part := range parts.Order() {
		must(t, kept.Bring(t.Context(), part))
	}
	if diff := cmp.Diff(unmarked(before), unmarked(versions(t, api))); diff != "" {
		t.Errorf("the same release changes objects:\n%s", diff)
	}

	// People, the operator of before and time.
	api.Kubectl(t, "delete", "clusterrolebinding", manifests.Administrators)
	api.Kubectl(t, "delete", "validatingadmissionpolicy,validatingadmissionpolicybinding", "holdfast-network-policy")
	api.Kubectl(t, "-n", "openshift-ingress-operator", "patch", "ingresscontroller", "default", "--type=merge", "--patch", `{"spec":{"replicas":1}}`)
	api.Kubectl(t, "-n", "openshift-etcd", "patch", "secret", "fencing-credentials-cp-1", "--type=merge", "--patch", `{"stringData":{"password":"another"}}`)
	api.Kubectl(t, "-n", "openshift-etcd", "set", "image", "deployment/holdfast-operator", "operator=old")
	api.Kubectl(t, "-n", "kube-flannel", "set", "image", "daemonset/kube-flannel", "flannel=old")
	corefile := []string{"-n", "kube-system", "get", "configmap", "coredns", "-o", "jsonpath={.data.Corefile}"}
	installed := api.Kubectl(t, corefile...)
	api.Kubectl(t, "-n", "kube-system", "patch", "configmap", "coredns", "--type=merge", "--patch", `{"data":{"Corefile":"ours"}}`)
	api.Kubectl(t, "patch", "clusterrole", "holdfast-agents", "--type=json", "--patch", `[{"op":"remove","path":"/rules/0"}]`)
	secret := api.Kubectl(t, "-n", "openshift-etcd", "get", "secret", "fencing-credentials-cp-1", "-o", "jsonpath={.data}")
	next := *kept
	next.Digest = newer
	must(t, next.Bring(t.Context(), parts.Objects))
	images := func() string {
		return api.Kubectl(t, "-n", "openshift-etcd", "get", "deployment", "holdfast-operator", "-o", "jsonpath={.spec.template.spec.containers[0].image}") + " " +
			api.Kubectl(t, "-n", "kube-flannel", "get", "daemonset", "kube-flannel", "-o", "jsonpath={.spec.template.spec.containers[0].image}")
	}
	if got, want := images(), "old "+payload.Image("flannel"); got != want {
		t.Errorf("after the objects: %s, want %s", got, want)
	}
	must(t, next.Bring(t.Context(), parts.Operator))
	if got, want := images(), payload.Image("holdfast-operator")+" "+payload.Image("flannel"); got != want {
		t.Errorf("after the operator: %s, want %s", got, want)
	}
	for _, gone := range []string{"clusterrolebinding/" + manifests.Administrators, "validatingadmissionpolicy/holdfast-network-policy", "validatingadmissionpolicybinding/holdfast-network-policy"} {
		if got := api.Kubectl(t, "get", gone, "--ignore-not-found", "-o", "name"); got != "" {
			t.Errorf("%s is there again", got)
		}
	}
	if got := api.Kubectl(t, "-n", "openshift-etcd", "get", "secret", "fencing-credentials-cp-1", "-o", "jsonpath={.data}"); got != secret {
		t.Error("the account of a BMC was changed")
	}
	if got := api.Kubectl(t, "-n", "openshift-ingress-operator", "get", "ingresscontroller", "default", "-o", "jsonpath={.spec.replicas}"); got != "1" {
		t.Errorf("%s routers", got)
	}
	if got := api.Kubectl(t, "get", "clusterrole", "holdfast-agents", "-o", "jsonpath={.rules[0].resources}"); got != `["nodes"]` {
		t.Errorf("the first rule of agents is about %s", got)
	}
	if got := api.Kubectl(t, corefile...); got != "ours" || !slices.ContainsFunc(next.Left, func(r state.ObjectRef) bool { return r.String() == "ConfigMap kube-system/coredns" }) {
		t.Errorf("the Corefile is %q, left were %v", got, next.Left)
	}
	api.Kubectl(t, "-n", "kube-system", "delete", "configmap", "coredns")
	must(t, next.Bring(t.Context(), parts.Objects))
	if got := api.Kubectl(t, corefile...); got != installed {
		t.Errorf("the Corefile is %q", got)
	}
	m := mark(t, b)
	if got := fmt.Sprint(m.Release(parts.Objects, "").Value == newer, m.Release(parts.KubeProxy, "").Value == older, m.Release(parts.Operator, "").Value == newer); got != "true true true" || len(m.Brought) < 100 {
		t.Errorf("%s, %d objects", got, len(m.Brought))
	}
}

// unmarked leaves out the mark, and what the controllers of the API write by themselves.
func unmarked(lines string) []string {
	return slices.DeleteFunc(strings.Split(lines, "\n"), func(line string) bool {
		return strings.Contains(line, parts.MarkName+" ") || strings.Contains(line, "kube-root-ca.crt") || strings.Contains(line, "apiserver")
	})
}

// TestOfKubeProxyOnlyTheImageChanges: kubeadm has its configuration.
func TestOfKubeProxyOnlyTheImageChanges(t *testing.T) {
	api, b := client(t)
	forget(t, api)
	proxy := &Bringer{API: b, Digest: newer}
	must(t, proxy.Bring(t.Context(), parts.KubeProxy)) // a cluster without one needs none
	made, err := os.ReadFile("../../render/kubeadm/testdata/made/kube-proxy.yaml")
	must(t, err)
	path := filepath.Join(t.TempDir(), "proxy.yaml")
	must(t, os.WriteFile(path, []byte(strings.ReplaceAll(string(made), payload.Image("kube-proxy"), "old")), 0o600))
	api.Kubectl(t, "apply", "--filename", path)
	spec := func() string {
		return api.Kubectl(t, "-n", "kube-system", "get", "daemonset", "kube-proxy", "-o", "jsonpath={.spec}")
	}
	was := spec()
	if !strings.Contains(was, `"image":"old"`) {
		t.Fatalf("%s", was)
	}
	must(t, proxy.Bring(t.Context(), parts.KubeProxy))
	if diff := cmp.Diff(strings.Replace(was, `"image":"old"`, `"image":"`+payload.Image("kube-proxy")+`"`, 1), spec()); diff != "" {
		t.Errorf("%s", diff)
	}
	if got := mark(t, b).Release(parts.KubeProxy, older); got != state.Known(newer) {
		t.Errorf("%+v", got)
	}
	if err := proxy.Bring(t.Context(), "storage"); err == nil || !strings.Contains(err.Error(), "has no part \"storage\": it has objects, kube-proxy, operator") {
		t.Errorf("%v", err)
	}
	forget(t, api)
}

// deployed is an API in which the operator's pods run after some looks; never, for less than
// none.
type deployed struct {
	API
	looks, runsAfter int
	backs            int
	// unknown is true if Kubernetes does not know the former operator.
	unknown bool
}

func (d *deployed) Apply(context.Context, state.ObjectRef, []byte) error { return nil }

func (d *deployed) RolledOut(context.Context, string, string) (string, error) {
	if d.looks++; d.runsAfter >= 0 && d.looks > d.runsAfter {
		return "", nil
	}
	return "0 of 1 pods are available", nil
}

func (d *deployed) SetBack(context.Context, string, string) (bool, error) {
	d.backs++
	return !d.unknown, nil
}

// TestAnOperatorThatDoesNotStartIsSetBack: somebody has to be there who takes the parts back.
func TestAnOperatorThatDoesNotStartIsSetBack(t *testing.T) {
	api, b := client(t)
	for name, c := range map[string]struct {
		api   deployed
		backs int
		// failed is part of the error, undone whether the agent is told that it was set back.
		failed string
		undone bool
	}{
		"it runs":                     {api: deployed{}},
		"it takes a while":            {api: deployed{runsAfter: 2}},
		"it does not start":           {api: deployed{runsAfter: -1}, backs: 1, failed: "did not start within 20ms: 0 of 1 pods are available; the former one is back", undone: true},
		"nobody knows the former one": {api: deployed{runsAfter: -1, unknown: true}, backs: 1, failed: "does not know the former one"},
	} {
		forget(t, api)
		c.api.API = b
		limit := time.Minute
		if c.failed != "" {
			limit = 20 * time.Millisecond
		}
		err := (&Bringer{API: &c.api, Digest: newer, OperatorLimit: limit, Has: manifests.Release{Operator: []manifests.Document{role(t, "a", "get")}}}).Bring(t.Context(), parts.Operator)
		if (err == nil) != (c.failed == "") || err != nil && !strings.Contains(err.Error(), c.failed) || errors.As(err, new(UndoneError)) != c.undone || c.api.backs != c.backs {
			t.Errorf("%s: %v, set back %d times", name, err, c.api.backs)
		}
		if got := mark(t, b).Release(parts.Operator, older); got.Known != (c.failed == "") {
			t.Errorf("%s: the part counts as that of %+v", name, got)
		}
	}
	forget(t, api)
}
