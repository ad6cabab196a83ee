package kube

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/pager"
)

// Rewriter writes objects again without changes, so that etcd stores them with
// the key that the API server uses for writing now.
type Rewriter struct{ client dynamic.Interface }

// OpenRewriter returns a Rewriter for the kubeconfig file. It does not connect
// yet.
func OpenRewriter(access Access) (*Rewriter, error) {
	cfg, err := access.Config()
	if err != nil {
		return nil, err
	}
	return NewRewriter(cfg)
}

// NewRewriter is OpenRewriter for an existing access.
func NewRewriter(cfg *rest.Config) (*Rewriter, error) {
	client, err := dynamic.NewForConfig(cfg)
	return &Rewriter{client}, err
}

// Rewrite writes every object of a kind again, in its version v1, and returns
// their number; the kind is given as "secrets" or "kind.group". An object that
// somebody else changed meanwhile was written by that change; an object that is
// gone needs nothing. The error names objects, never their content.
func (r *Rewriter) Rewrite(ctx context.Context, kind string) (int, error) {
	of := r.client.Resource(schema.ParseGroupResource(kind).WithVersion("v1"))
	count := 0
	list := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return of.List(ctx, o) })
	err := list.EachListItem(ctx, metav1.ListOptions{}, func(o runtime.Object) error {
		object, ok := o.(*unstructured.Unstructured)
		if !ok {
			return errors.New("the API returned an object of another type")
		}
		count++
		return again(ctx, of, object)
	})
	if apierrors.IsNotFound(err) {
		return 0, nil // the cluster does not know the kind
	}
	if err != nil {
		return count, fmt.Errorf("rewrite %s: %w", kind, err)
	}
	return count, nil
}

func again(ctx context.Context, of dynamic.NamespaceableResourceInterface, o *unstructured.Unstructured) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	in := dynamic.ResourceInterface(of)
	if o.GetNamespace() != "" {
		in = of.Namespace(o.GetNamespace())
	}
	_, err := in.Update(ctx, o, metav1.UpdateOptions{FieldManager: fieldManager})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s/%s: %w", o.GetNamespace(), o.GetName(), err)
	}
	return nil
}

// configInfo is the metric in which an API server reports the SHA-256 of the
// file of keys that it has loaded.
const configInfo = "apiserver_encryption_config_controller_last_config_info{"

// LoadedEncryption returns the digest of the file of keys that the API server
// has loaded, "sha256:...", empty if there is none. It reads all metrics of the
// server, which are large: call it only when there is a reason.
func (c *Client) LoadedEncryption(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	body, err := c.set.CoreV1().RESTClient().Get().AbsPath("/metrics").Stream(ctx)
	if err != nil {
		return "", fmt.Errorf("metrics of the API server: %w", err)
	}
	defer func() { _ = body.Close() }() // the needed part was read
	return loadedDigest(body)
}

func loadedDigest(metrics io.Reader) (string, error) {
	lines := bufio.NewScanner(metrics)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		labels, ours := strings.CutPrefix(lines.Text(), configInfo)
		if !ours {
			continue
		}
		_, rest, _ := strings.Cut(","+labels, `,hash="`)
		digest, _, _ := strings.Cut(rest, `"`)
		return digest, nil
	}
	if err := lines.Err(); err != nil {
		return "", fmt.Errorf("metrics of the API server: %w", err)
	}
	return "", nil
}
