package bundle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/adapter/kube"
)

// objects selects the objects of one kind.
type objects struct {
	group, version, kind string
	own                  bool // only those in the cluster's own namespaces
	namesOnly            bool // only the names, never the contents
}

// kinds lists the objects of a bundle. For Secrets, and for kinds that may hold
// anything, it asks the API for names only, so that their data is never read.
var kinds = []objects{
	{"", "v1", "Node", false, false},
	{"", "v1", "Namespace", false, false},
	{"", "v1", "Pod", false, false},
	{"", "v1", "Service", false, false},
	{"", "v1", "Event", false, false},
	{"", "v1", "PersistentVolumeClaim", false, false},
	{"", "v1", "PersistentVolume", false, false},
	{"", "v1", "ConfigMap", true, false},
	{"", "v1", "Secret", false, true},
	{"apps", "v1", "Deployment", false, false},
	{"apps", "v1", "DaemonSet", false, false},
	{"apps", "v1", "StatefulSet", false, false},
	{"batch", "v1", "Job", true, false},
	{"policy", "v1", "PodDisruptionBudget", false, false},
	{"coordination.k8s.io", "v1", "Lease", true, false},
	{"storage.k8s.io", "v1", "VolumeAttachment", false, false},
	{"networking.k8s.io", "v1", "NetworkPolicy", false, false},
	{"networking.k8s.io", "v1", "IngressClass", false, false},
	{"admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicy", false, false},
	{"admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicyBinding", false, false},
	{"admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration", false, true},
	{"admissionregistration.k8s.io", "v1", "MutatingWebhookConfiguration", false, true},
	{"apiextensions.k8s.io", "v1", "CustomResourceDefinition", false, true},
	{"config.openshift.io", "v1", "Infrastructure", false, false},
	{"config.openshift.io", "v1", "ClusterOperator", false, false},
	{"config.openshift.io", "v1", "Network", false, false},
	{"config.openshift.io", "v1", "Ingress", false, false},
	{"config.openshift.io", "v1", "ImageDigestMirrorSet", false, false},
	{"config.openshift.io", "v1", "ImageTagMirrorSet", false, false},
	{"operator.openshift.io", "v1", "Etcd", false, false},
	{"operator.openshift.io", "v1", "IngressController", false, false},
	{"etcd.openshift.io", "v1", "PacemakerCluster", false, false},
	{"holdfast.io", "v1", "RouteHosts", true, false},
	{"machineconfiguration.openshift.io", "v1", "MachineConfigPool", false, false},
	{"machineconfiguration.openshift.io", "v1", "MachineConfig", false, false},
	{"machineconfiguration.openshift.io", "v1", "KubeletConfig", false, false},
	{"machineconfiguration.openshift.io", "v1", "ContainerRuntimeConfig", false, false},
	{"operator.openshift.io", "v1", "MachineConfiguration", false, false},
}

// secretive says for kinds that may hold the secrets of a host how an object is shown
// without them.
var secretive = map[string]func(o map[string]any){
	"MachineConfig": hideContents, "KubeletConfig": hideContents,
}

// ownNamespace reports whether a namespace is the cluster's own.
func ownNamespace(name string) bool {
	return name == "" || strings.HasPrefix(name, "kube-") || strings.HasPrefix(name, "openshift")
}

// Cluster collects from an API.
type Cluster struct {
	Client client.Client
	// Logs reads the ends of the logs of pods.
	Logs func(ctx context.Context, namespaces []string, lines int64) ([]kube.PodLog, error)

	first sync.Once
	mu    sync.Mutex
	// gone is the error of an API that does not answer: after that, the other
	// kinds do not wait for it again.
	gone error
}

// logsTime bounds the logs of all pods together; each pod takes a request.
const logsTime = 30 * time.Second

// logLines is the number of lines taken from the log of each container.
const logLines = 600

// Items lists the items to collect from the API.
func (c *Cluster) Items() []Item {
	var out []Item
	for _, k := range kinds {
		what := "all " + k.kind + " objects"
		if k.namesOnly {
			what = "names of all " + k.kind + " objects, without their contents"
		}
		out = append(out, Item{
			Path: "cluster/" + strings.ToLower(strings.Trim(k.kind+"."+k.group, ".")) + ".json", From: "API", What: what,
			Collect: func(ctx context.Context) ([]byte, error) {
				return c.ask(ctx, func(ctx context.Context) ([]byte, error) { return c.list(ctx, k) })
			},
		})
	}
	return append(out, Item{
		Path: "cluster/pods.log", From: "API", What: "ends of the logs of the cluster's own pods", Heavy: true, Time: logsTime,
		Collect: func(ctx context.Context) ([]byte, error) { return c.ask(ctx, c.logs) },
	})
}

// ask asks the API unless it is known not to answer. The first question runs
// alone, and the others wait for its result.
func (c *Cluster) ask(ctx context.Context, question func(context.Context) ([]byte, error)) (data []byte, err error) {
	first := false
	c.first.Do(func() {
		first = true
		data, err = question(ctx)
		c.note(err)
	})
	if first {
		return data, err
	}
	if gone := c.away(); gone != nil {
		return nil, fmt.Errorf("the API did not answer an earlier request: %w", gone)
	}
	data, err = question(ctx)
	if ctx.Err() == nil { // a long list may time out where a short one does not
		c.note(err)
	}
	return data, err
}

// note remembers an error which means that the API does not answer.
func (c *Cluster) note(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil && unreachable(err) {
		c.gone = err
	}
}

func (c *Cluster) away() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.gone
}

// unreachable reports whether an error means no answer, in contrast to an
// answer that refuses.
func unreachable(err error) bool {
	var status interface{ Status() metav1.Status }
	return !errors.As(err, &status) && !meta.IsNoMatchError(err)
}

func (c *Cluster) list(ctx context.Context, k objects) ([]byte, error) {
	gvk := schema.GroupVersionKind{Group: k.group, Version: k.version, Kind: k.kind + "List"}
	if k.namesOnly {
		return c.names(ctx, gvk)
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(gvk)
	if err := c.Client.List(ctx, list); err != nil {
		return nil, err
	}
	items := []any{}
	for _, o := range list.Items {
		if !k.own || ownNamespace(o.GetNamespace()) {
			if hide := secretive[k.kind]; hide != nil {
				hide(o.Object)
			}
			items = append(items, pruned(o.Object))
		}
	}
	return json.MarshalIndent(items, "", " ")
}

// names reads the metadata only.
func (c *Cluster) names(ctx context.Context, gvk schema.GroupVersionKind) ([]byte, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(gvk)
	if err := c.Client.List(ctx, list); err != nil {
		return nil, err
	}
	type named struct {
		Namespace string      `json:"namespace,omitempty"`
		Name      string      `json:"name"`
		Created   metav1.Time `json:"created"`
	}
	items := []named{}
	for _, o := range list.Items {
		items = append(items, named{o.Namespace, o.Name, o.CreationTimestamp})
	}
	return json.MarshalIndent(items, "", " ")
}

// private lists fields of workloads in which people put secrets. They are
// removed from workloads outside the cluster's own namespaces.
var private = []string{"env", "envFrom", "args", "command", "exec", "httpHeaders", "lifecycle", "attributes", "volumeAttributes"}

// pruned returns an object without fields that nobody reads, and without fields
// that may hold anything.
func pruned(o map[string]any) map[string]any {
	meta, _ := o["metadata"].(map[string]any)
	delete(meta, "managedFields")
	own := true
	if ns, ok := meta["namespace"].(string); ok {
		own = ownNamespace(ns)
	}
	delete(o, "binaryData")
	if annotations, ok := meta["annotations"].(map[string]any); ok {
		delete(annotations, "kubectl.kubernetes.io/last-applied-configuration")
		if !own {
			delete(meta, "annotations")
		}
	}
	if !own {
		strip(o)
	}
	return o
}

func strip(v any) {
	switch v := v.(type) {
	case map[string]any:
		for _, name := range private {
			delete(v, name)
		}
		for name, inner := range v {
			if name == "annotations" {
				delete(v, name)
				continue
			}
			strip(inner)
		}
	case []any:
		for _, inner := range v {
			strip(inner)
		}
	}
}

// logs returns the ends of the logs of the cluster's own pods.
func (c *Cluster) logs(ctx context.Context) ([]byte, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "NamespaceList"})
	if err := c.Client.List(ctx, list); err != nil {
		return nil, err
	}
	var names []string
	for _, n := range list.Items {
		if ownNamespace(n.Name) {
			names = append(names, n.Name)
		}
	}
	slices.Sort(names)
	all, err := c.Logs(ctx, names, logLines)
	var out strings.Builder
	for _, l := range all {
		fmt.Fprintf(&out, "==> %s/%s %s <==\n%s", l.Namespace, l.Pod, l.Container, l.Text)
		if l.Err != nil {
			fmt.Fprintf(&out, "(no log: %v)\n", l.Err)
		}
	}
	return []byte(out.String()), err
}
