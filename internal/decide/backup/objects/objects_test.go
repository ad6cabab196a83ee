package objects_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/decide/backup/objects"
	"github.com/holdfast/holdfast/internal/testkit/golden"
)

// object returns the object of a YAML text.
func object(t *testing.T, resource, text string) objects.Object {
	t.Helper()
	var content map[string]any
	if err := yaml.Unmarshal([]byte(text), &content); err != nil {
		t.Fatal(err)
	}
	return objects.Of(resource, content)
}

// written returns a content as YAML.
func written(t *testing.T, o objects.Object) string {
	t.Helper()
	text, err := yaml.Marshal(o.Content)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestAKeyOfEtcdSaysWhatItsObjectIs(t *testing.T) {
	for key, want := range map[string]objects.Place{
		"/registry/configmaps/shop/prices":                                           {Resource: "configmaps", Namespace: "shop", Name: "prices"},
		"/registry/minions/cp-1":                                                     {Resource: "nodes", Name: "cp-1"},
		"/registry/controllers/shop/web":                                             {Resource: "replicationcontrollers", Namespace: "shop", Name: "web"},
		"/registry/ingress/shop/web":                                                 {Resource: "ingresses", Namespace: "shop", Name: "web"},
		"/registry/services/specs/shop/web":                                          {Resource: "services", Namespace: "shop", Name: "web"},
		"/registry/services/endpoints/shop/web":                                      {Resource: "endpoints", Namespace: "shop", Name: "web"},
		"/registry/example.com/tills/shop/first":                                     {Group: "example.com", Resource: "tills", Namespace: "shop", Name: "first"},
		"/registry/apiextensions.k8s.io/customresourcedefinitions/tills.example.com": {Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions", Name: "tills.example.com"},
		"/registry/masterleases/192.0.2.1":                                           {Resource: "masterleases", Name: "192.0.2.1", Internal: true},
		"/registry/ranges/serviceips":                                                {Resource: "ranges", Name: "serviceips", Internal: true},
	} {
		if got, ok := objects.PlaceOf(key); !ok || got != want {
			t.Errorf("%s: %+v, %v", key, got, ok)
		}
	}
	for _, key := range []string{"compact_rev_key", "/registry/", "/registry/configmaps", "/registry/example.com/tills", "/other/configmaps/shop/prices"} {
		if got, ok := objects.PlaceOf(key); ok {
			t.Errorf("%s: %+v", key, got)
		}
	}
}

func TestArgumentsAreReadAsKubectlReadsThem(t *testing.T) {
	for line, want := range map[string]string{
		"":                       "",
		"deployments":            "deployments",
		"Deployment,cm":          "deployment cm",
		"cm a b":                 "cm/a cm/b",
		"cm,secret a":            "cm/a secret/a",
		"cm/a secret/b":          "cm/a secret/b",
		"tills.example.com/a":    "tills.example.com/a",
		"cm/a b":                 `! "b": must be TYPE/NAME, like the others`,
		"cm/ /a cm/a/b":          "! \"cm/\": must be TYPE/NAME, like the others\n\"/a\": must be TYPE/NAME, like the others\n\"cm/a/b\": must be TYPE/NAME, like the others",
		"deployments,,cm,secret": `! "deployments,,cm,secret": there is an empty type`,
	} {
		wants, err := objects.Wants(strings.Fields(line))
		words := make([]string, 0, len(wants))
		for _, w := range wants {
			words = append(words, w.String())
		}
		got := strings.Join(words, " ")
		if err != nil {
			got = "! " + err.Error()
		}
		if got != want {
			t.Errorf("%q: %s, want %s", line, got, want)
		}
	}
}

func TestATypeMayBeAResourceAKindOrAShortName(t *testing.T) {
	names := objects.NamesOf([]objects.Object{object(t, "customresourcedefinitions", `{spec: {group: example.com, names: {plural: tills, singular: till, shortNames: [tl]}}}`)})
	deployment := objects.Kind{Group: "apps", Version: "v1", Kind: "Deployment", Resource: "deployments"}
	till := objects.Kind{Group: "example.com", Version: "v1", Kind: "TillOfShop", Resource: "tills"}
	for typed, want := range map[string]objects.Kind{
		"deployments": deployment, "deployment": deployment, "deploy": deployment, "deployments.apps": deployment, "deployment.apps": deployment, "deployments.v1.apps": deployment,
		"tills": till, "till": till, "tl": till, "tills.example.com": till, "tillofshop": till,
	} {
		for _, k := range []objects.Kind{deployment, till} {
			if got := names.IsOf(typed, k); got != (k == want) {
				t.Errorf("%s is %s: %v", typed, k, got)
			}
		}
	}
	if names.IsOf("tills.other.com", till) || names.IsOf("deployments.example.com", deployment) {
		t.Error("a resource of another group is taken for this one")
	}
}

func TestWhatIsAskedForAndNotThereIsNamed(t *testing.T) {
	prices := object(t, "configmaps", `{kind: ConfigMap, metadata: {name: prices, namespace: shop}}`)
	s := objects.Selector{Namespace: "shop", Wants: []objects.Want{{Type: "cm", Name: "prices"}, {Type: "cm", Name: "other"}, {Type: "pods"}}}
	if got := fmt.Sprint(s.Missing([]objects.Object{prices})); got != "[cm/other pods]" {
		t.Errorf("missing is %s", got)
	}
	elsewhere := prices
	elsewhere.Namespace = "mill"
	if !s.Fits(prices) || s.Fits(elsewhere) {
		t.Error("the namespace does not count")
	}
}

func TestObjectsAreCountedByResourceAndNamespace(t *testing.T) {
	var c objects.Counter
	for _, path := range []string{"shop/a", "shop/b", "mill/a", "/x"} {
		namespace, name, _ := strings.Cut(path, "/")
		c.Add(objects.Object{Kind: objects.Kind{Resource: "configmaps"}, Namespace: namespace, Name: name, Size: 10})
	}
	const want = `[{"resource":"configmaps","objects":1,"size":10},{"resource":"configmaps","namespace":"mill","objects":1,"size":10},{"resource":"configmaps","namespace":"shop","objects":2,"size":20}]`
	if got := jsonOf(t, c.Counts()); got != want {
		t.Errorf("counted %s", got)
	}
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestSecretsAreHiddenWhereverTheyStand(t *testing.T) {
	const secret = `{apiVersion: v1, kind: Secret, type: Opaque, immutable: true, data: {a: S3cr3t, b: ""}, metadata: {name: tls, labels: {x: seen},
annotations: {kubectl.kubernetes.io/last-applied-configuration: S3cr3t, other: seen}}}`
	proxy := object(t, "proxies", `{apiVersion: config.openshift.io/v1, kind: Proxy, spec: {httpProxy: "http://a:S3cr3t@b", list: [S3cr3t]}}`)
	custom := object(t, "tills", `{apiVersion: example.com/v1, kind: Till, spec: {pin: S3cr3t}}`)
	custom.Encrypted = true
	for name, o := range map[string]objects.Object{"a Secret": object(t, "secrets", secret), "a proxy": proxy, "what is encrypted": custom} {
		before := written(t, o)
		if text := written(t, o.Hidden()); strings.Contains(text, "S3cr3t") || !strings.Contains(text, "(hidden, ") {
			t.Errorf("%s: %s", name, text)
		}
		if written(t, o) != before {
			t.Errorf("%s: the object itself was changed", name)
		}
	}
	if text := written(t, object(t, "secrets", secret).Hidden()); strings.Count(text, "seen") != 2 || !strings.Contains(text, "type: Opaque") {
		t.Errorf("too much is hidden: %s", text)
	}
	if o := object(t, "configmaps", `{kind: ConfigMap, data: {a: b}}`); written(t, o.Hidden()) != written(t, o) {
		t.Error("what is no secret is hidden")
	}
}

// cases are objects as etcd has them.
var cases = []struct{ name, resource, text string }{
	{"metadata of the server", "configmaps", `{apiVersion: v1, kind: ConfigMap, data: {a: b}, metadata: {name: a, namespace: shop, uid: u, resourceVersion: "7", generation: 2,
creationTimestamp: "2026-01-01T00:00:00Z", managedFields: [{}], finalizers: [x], selfLink: /x, labels: {l: m}, annotations: {kubectl.kubernetes.io/last-applied-configuration: "{}"}}}`},
	{"an owner that is no controller of Kubernetes", "secrets", `{apiVersion: v1, kind: Secret, metadata: {name: a, ownerReferences: [{kind: Certificate, name: tls, uid: gone, controller: true}]}}`},
	{"deleted", "configmaps", `{apiVersion: v1, kind: ConfigMap, metadata: {name: a, deletionTimestamp: "2026-01-01T00:00:00Z", deletionGracePeriodSeconds: 0}}`},
	{"a namespace", "namespaces", `{apiVersion: v1, kind: Namespace, metadata: {name: shop}, spec: {finalizers: [kubernetes]}, status: {phase: Terminating}}`},
	{"a Service", "services", `{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {clusterIP: 10.0.0.7, clusterIPs: [10.0.0.7], healthCheckNodePort: 30001, type: NodePort, ports: [{port: 80, nodePort: 30000}]}}`},
	{"a headless Service", "services", `{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {clusterIP: None, clusterIPs: [None], ports: [{port: 80}]}}`},
	{"a claim", "persistentvolumeclaims", `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data, annotations: {pv.kubernetes.io/bind-completed: "yes", volume.kubernetes.io/selected-node: cp-1}}, spec: {volumeName: pv-1}}`},
	{"a volume", "persistentvolumes", `{apiVersion: v1, kind: PersistentVolume, metadata: {name: pv-1}, spec: {claimRef: {name: data, namespace: shop, uid: u, resourceVersion: "7"}}}`},
	{"an account", "serviceaccounts", `{apiVersion: v1, kind: ServiceAccount, metadata: {name: till}, secrets: [{name: till-token}], imagePullSecrets: [{name: pull}]}`},
	{"a pod", "pods", `{apiVersion: v1, kind: Pod, metadata: {name: lone}, spec: {nodeName: cp-1, priority: 0, serviceAccount: a, serviceAccountName: a,
volumes: [{name: kube-api-access-x}, {name: data}], containers: [{name: c, volumeMounts: [{name: kube-api-access-x}, {name: data}]}, {name: d, volumeMounts: [{name: kube-api-access-x}]}]}, status: {phase: Running}}`},
	{"a Job", "jobs", `{apiVersion: batch/v1, kind: Job, metadata: {name: j, labels: {controller-uid: u, mine: x}}, spec: {selector: {matchLabels: {controller-uid: u}}, template: {metadata: {labels: {batch.kubernetes.io/controller-uid: u}}}}}`},
	{"a Job with a selector of its own", "jobs", `{apiVersion: batch/v1, kind: Job, metadata: {name: j}, spec: {manualSelector: true, selector: {matchLabels: {mine: x}}}}`},
}

// TestHowAnObjectIsCleanedIsApproved shows each object as it is written, with its notes, in both
// ways.
func TestHowAnObjectIsCleanedIsApproved(t *testing.T) {
	var out strings.Builder
	for _, c := range cases {
		o := object(t, c.resource, c.text)
		before := written(t, o)
		fresh, notes := o.Clean(objects.Keep{})
		kept, also := o.Clean(objects.Keep{ServiceAddresses: true, NewVolumes: true})
		fmt.Fprintf(&out, "# %s\n%s", c.name, written(t, fresh))
		for _, n := range notes {
			fmt.Fprintf(&out, "note: %s\n", n)
		}
		if written(t, kept) != written(t, fresh) || !slices.Equal(notes, also) {
			fmt.Fprintf(&out, "# %s, with its addresses, and with new volumes\n%s", c.name, written(t, kept))
			for _, n := range also {
				fmt.Fprintf(&out, "note: %s\n", n)
			}
		}
		out.WriteString("\n")
		if written(t, o) != before {
			t.Errorf("%s: the object itself was changed", c.name)
		}
	}
	golden.Check(t, "clean.txt", []byte(out.String()))
}

// shop is a namespace with one object of each fate.
var shop = []struct{ resource, text string }{
	{"deployments", `{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop, uid: d}}`},
	{"replicasets", `{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: web-1, namespace: shop, uid: r, ownerReferences: [{kind: Deployment, name: web, uid: d, controller: true}]}}`},
	{"pods", `{apiVersion: v1, kind: Pod, metadata: {name: web-1-x, namespace: shop, ownerReferences: [{kind: ReplicaSet, name: web-1, uid: r, controller: true}]}}`},
	{"pods", `{apiVersion: v1, kind: Pod, metadata: {name: orphan, namespace: shop, ownerReferences: [{kind: ReplicaSet, name: gone, uid: gone, controller: true}]}}`},
	{"pods", `{apiVersion: v1, kind: Pod, metadata: {name: over, namespace: shop}, status: {phase: Succeeded}}`},
	{"pods", `{apiVersion: v1, kind: Pod, metadata: {name: static-cp-1, namespace: shop, annotations: {kubernetes.io/config.mirror: x}}}`},
	{"jobs", `{apiVersion: batch/v1, kind: Job, metadata: {name: paid, namespace: shop}, status: {conditions: [{type: Complete, status: "True"}]}}`},
	{"jobs", `{apiVersion: batch/v1, kind: Job, metadata: {name: running, namespace: shop}, status: {conditions: [{type: Suspended, status: "False"}]}}`},
	{"events", `{apiVersion: v1, kind: Event, metadata: {name: e, namespace: shop}}`},
	{"leases", `{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: l, namespace: shop}}`},
	{"services", `{apiVersion: v1, kind: Service, metadata: {name: web, namespace: shop, uid: s}, spec: {selector: {app: web}}}`},
	{"services", `{apiVersion: v1, kind: Service, metadata: {name: outside, namespace: shop}}`},
	{"endpoints", `{apiVersion: v1, kind: Endpoints, metadata: {name: web, namespace: shop}}`},
	{"endpoints", `{apiVersion: v1, kind: Endpoints, metadata: {name: outside, namespace: shop}}`},
	{"endpoints", `{apiVersion: v1, kind: Endpoints, metadata: {name: leader, namespace: shop, annotations: {control-plane.alpha.kubernetes.io/leader: "{}"}}}`},
	{"endpointslices", `{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: outside-x, namespace: shop, labels: {endpointslice.kubernetes.io/managed-by: endpointslicemirroring-controller.k8s.io}}}`},
	{"endpointslices", `{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: mine, namespace: shop}}`},
	{"secrets", `{apiVersion: v1, kind: Secret, type: kubernetes.io/service-account-token, metadata: {name: token, namespace: shop}}`},
	{"secrets", `{apiVersion: v1, kind: Secret, type: Opaque, metadata: {name: tls, namespace: shop}}`},
	{"serviceaccounts", `{apiVersion: v1, kind: ServiceAccount, metadata: {name: default, namespace: shop}, imagePullSecrets: [{name: pull}]}`},
	{"serviceaccounts", `{apiVersion: v1, kind: ServiceAccount, metadata: {name: till, namespace: shop}}`},
	{"configmaps", `{apiVersion: v1, kind: ConfigMap, metadata: {name: kube-root-ca.crt, namespace: shop}}`},
	{"configmaps", `{apiVersion: v1, kind: ConfigMap, metadata: {name: prices, namespace: shop}}`},
	{"tills", `{apiVersion: example.com/v1, kind: Till, metadata: {name: first, namespace: shop}}`},
	{"namespaces", `{apiVersion: v1, kind: Namespace, metadata: {name: shop}}`},
	{"namespaces", `{apiVersion: v1, kind: Namespace, metadata: {name: mill}}`},
	{"configmaps", `{apiVersion: v1, kind: ConfigMap, metadata: {name: flour, namespace: mill}}`},
	{"clusterroles", `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: till}}`},
	{"customresourcedefinitions", `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: tills.example.com}}`},
}

func shopObjects(t *testing.T) (out []objects.Object) {
	t.Helper()
	for _, c := range shop {
		out = append(out, object(t, c.resource, c.text))
	}
	return out
}

func TestWhatIsExtractedAndInWhichOrderIsApproved(t *testing.T) {
	all := shopObjects(t)
	var out strings.Builder
	for _, c := range []struct {
		name string
		objects.Extract
	}{
		{"a namespace", objects.Extract{Selector: objects.Selector{Namespace: "shop"}}},
		{"a namespace with definitions and without secrets", objects.Extract{Selector: objects.Selector{Namespace: "shop"}, Definitions: true, NoSecrets: true}},
		{"some objects", objects.Extract{Selector: objects.Selector{Namespace: "shop", Wants: []objects.Want{{Type: "cm"}, {Type: "tills"}}}}},
		{"objects without a namespace", objects.Extract{Selector: objects.Selector{Wants: []objects.Want{{Type: "clusterrole", Name: "till"}}}}},
	} {
		var needed []objects.Object
		for _, o := range all {
			if c.Needs(o) {
				needed = append(needed, o)
			}
		}
		x := c.From(needed)
		fmt.Fprintf(&out, "# %s; secrets: %v; lacking: %v\n", c.name, x.Secrets, x.Lacking())
		for _, o := range x.Objects {
			fmt.Fprintf(&out, "%s %s\n", o.Kind, o.Path())
		}
		for _, line := range x.LeftLines() {
			fmt.Fprintf(&out, "left out: %s\n", line)
		}
		for _, n := range x.Notes {
			fmt.Fprintf(&out, "note: %s %s: %s\n", n.Kind, n.Path, n.Says)
		}
		fmt.Fprintf(&out, "needs: %v\n\n", x.Needs)
	}
	golden.Check(t, "extract.txt", []byte(out.String()))
}

func TestAnObjectThatThisBuildKnowsInPartIsNoted(t *testing.T) {
	o := object(t, "configmaps", `{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: shop}}`)
	o.Partial = true
	x := objects.Extract{Selector: objects.Selector{Namespace: "shop"}}.From([]objects.Object{o})
	if !x.Lacking() || len(x.Notes) != 1 || !strings.Contains(x.Notes[0].Says, "does not know") {
		t.Errorf("%+v", x.Notes)
	}
}

func TestWhatOfAnObjectDiffers(t *testing.T) {
	const old = `{apiVersion: v1, kind: X, metadata: {name: a, uid: u, labels: {a.b/c: x}, annotations: {kubectl.kubernetes.io/last-applied-configuration: a}, resourceVersion: "1"},
spec: {n: 1, gone: true, none: null, list: [1, 2], containers: [{name: a, image: x}, {name: b, image: w}]}, status: {s: 1}}`
	for now, want := range map[string]string{
		old: "",
		`{apiVersion: v1, kind: X, metadata: {name: a, uid: u, labels: {a.b/c: z}, annotations: {kubectl.kubernetes.io/last-applied-configuration: b}, resourceVersion: "9"},
spec: {n: 1.0, list: [1, 3], containers: [{name: b, image: w}, {name: c}, {name: a, image: z}]}, status: {s: 2}}`: `metadata.labels["a.b/c"]: "x" "z"; spec.containers[a].image: "x" "z"; spec.containers[c]:  {"name":"c"}; spec.gone: true ; spec.list[1]: 2 3; `,
		`{apiVersion: v1, kind: X, metadata: {name: a, uid: u, labels: {a.b/c: x}}, spec: {n: 1, gone: true, list: [1], containers: [{name: b, image: w}, {name: a, image: x}]}}`:        `spec.containers: [{"image":"x","name":"a"},{"image":"w","name":"b"}] [{"image":"w","name":"b"},{"image":"x","name":"a"}]; spec.list: [1,2] [1]; `,
		`{apiVersion: v2, kind: X, metadata: {name: a, uid: other, labels: {a.b/c: x}}, spec: {n: 1, gone: true, list: [1, 2], containers: [{name: a, image: x}, {name: b, image: w}]}}`: `again apiVersion: "v1" "v2"; `,
	} {
		var got strings.Builder
		for _, d := range (objects.Compare{}).Diff([]objects.Object{object(t, "xs", old)}, []objects.Object{object(t, "xs", now)}) {
			if d.Again {
				got.WriteString("again ")
			}
			for _, f := range d.Fields {
				fmt.Fprintf(&got, "%s: %s %s; ", f.Path, f.From, f.To)
			}
		}
		if diff := cmp.Diff(want, got.String()); diff != "" {
			t.Errorf("%s: -want +got:\n%s", now, diff)
		}
	}
	status := objects.Compare{Status: true}.Diff([]objects.Object{object(t, "xs", `{metadata: {name: a}, status: {s: 1}}`)}, []objects.Object{object(t, "xs", `{metadata: {name: a}, status: {s: 2}}`)})
	if len(status) != 1 || status[0].Fields[0].Path != "status.s" {
		t.Errorf("statuses: %+v", status)
	}
}

func TestAnObjectThatWasMadeAgainTheSameIsADifferenceOnlyIfAllIsCompared(t *testing.T) {
	a, b := object(t, "xs", `{metadata: {name: a, uid: u}}`), object(t, "xs", `{metadata: {name: a, uid: v}}`)
	for all, want := range map[bool]int{false: 0, true: 1} {
		if got := (objects.Compare{All: all}).Diff([]objects.Object{a}, []objects.Object{b}); len(got) != want {
			t.Errorf("all %v: %+v", all, got)
		}
	}
}

func TestADifferenceShowsNoSecret(t *testing.T) {
	a := object(t, "secrets", `{apiVersion: v1, kind: Secret, metadata: {name: a, labels: {x: y}}, data: {p: S3cr3t}}`)
	b := object(t, "secrets", `{apiVersion: v1, kind: Secret, metadata: {name: a}, data: {p: Other}, stringData: {q: S3cr3t}}`)
	got := jsonOf(t, objects.Compare{}.Diff([]objects.Object{a}, []objects.Object{b}))
	if strings.Contains(got, "S3cr3t") || strings.Contains(got, "Other") || !strings.Contains(got, "data.p") || !strings.Contains(got, "metadata.labels") {
		t.Error(got)
	}
}

func TestWhatChangesByItselfIsComparedOnRequestAlone(t *testing.T) {
	all := shopObjects(t)
	all = append(all, object(t, "pods", `{apiVersion: v1, kind: Pod, metadata: {name: etcd-cp-1, namespace: kube-system, ownerReferences: [{kind: Node, name: cp-1, controller: true}]}}`))
	var left []string
	for _, o := range all {
		if !(objects.Compare{}).Takes(o) {
			left = append(left, o.ID())
		}
		if !(objects.Compare{All: true}).Takes(o) {
			t.Errorf("%s is never compared", o.ID())
		}
	}
	want := []string{
		"replicasets.apps shop/web-1", "pods shop/web-1-x", "pods shop/orphan", "events shop/e", "leases.coordination.k8s.io shop/l", "endpoints shop/web", "endpoints shop/outside", "endpoints shop/leader",
		"endpointslices.discovery.k8s.io shop/outside-x", "endpointslices.discovery.k8s.io shop/mine", "pods kube-system/etcd-cp-1",
	}
	if diff := cmp.Diff(want, left); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	a := object(t, "nodes", `{apiVersion: v1, kind: Node, metadata: {name: cp-1, annotations: {holdfast.io/backup: a, mine: x}}}`)
	b := object(t, "nodes", `{apiVersion: v1, kind: Node, metadata: {name: cp-1, annotations: {holdfast.io/backup: b, mine: x}}}`)
	for all, want := range map[bool]int{false: 0, true: 1} {
		if got := (objects.Compare{All: all}).Diff([]objects.Object{a}, []objects.Object{b}); len(got) != want {
			t.Errorf("what a host reports at its node, all %v: %+v", all, got)
		}
	}
}

func TestALivingClusterIsAskedForTheVersionsOfTheBackup(t *testing.T) {
	served := func(group, version, resource string, namespaced bool) objects.Serves {
		return objects.Serves{Kind: objects.Kind{Group: group, Version: version, Resource: resource}, Namespaced: namespaced}
	}
	serves := []objects.Serves{
		served("", "v1", "configmaps", true), served("", "v1", "events", true), served("", "v1", "nodes", false),
		served("example.com", "v2", "tills", true), served("example.com", "v1", "tills", true), served("new.com", "v1", "things", true), served("old.com", "v2", "things", true),
	}
	stored := []objects.Object{
		object(t, "tills", `{apiVersion: example.com/v1, kind: Till, metadata: {name: a}}`),
		object(t, "things", `{apiVersion: old.com/v1, kind: Thing, metadata: {name: a}}`),
		object(t, "others", `{apiVersion: gone.com/v1, kind: Other, metadata: {name: a}}`),
	}
	for name, c := range map[string]struct {
		objects.Compare
		want string
	}{
		"everything":  {objects.Compare{}, "configmaps/v1 nodes/v1 tills.example.com/v1 things.new.com/v1"},
		"all":         {objects.Compare{All: true}, "configmaps/v1 events/v1 nodes/v1 tills.example.com/v1 things.new.com/v1"},
		"a namespace": {objects.Compare{Selector: objects.Selector{Namespace: "shop"}}, "configmaps/v1 tills.example.com/v1 things.new.com/v1"},
		"one type":    {objects.Compare{Selector: objects.Selector{Wants: []objects.Want{{Type: "no"}}}}, "nodes/v1"},
	} {
		list, _ := c.Plan(stored, serves)
		got := make([]string, 0, len(list))
		for _, s := range list {
			got = append(got, s.String()+"/"+s.Version)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %s", name, got)
		}
	}
	_, not := (objects.Compare{}).Plan(stored, serves)
	if got := fmt.Sprint(not); got != "[{others.gone.com the cluster does not know it} {things.old.com the cluster does not serve its version v1 any more}]" {
		t.Error(got)
	}
}
