// Package parts brings what of a release runs in the cluster and not on a host: its
// objects, kube-proxy and the operator (decide/upgrade/parts).
//
// It owns the fields of these objects as kube.InstallManager, versions and arguments in
// kubeadm's configuration, the ConfigMap kube-system/holdfast-release, the unit
// render/host.BringUnit, and Folder. The Agent follows the annotation annotation.PartOf of
// this host's node and starts the unit; the Bringer is what the unit runs, a program of the
// release that is brought. An installation writes the same ConfigMap. While no annotation
// asks for it, nothing is changed.
package parts

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/decide/upgrade/parts"
	"github.com/holdfast/holdfast/internal/model/payload"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/kubeadm"
	"github.com/holdfast/holdfast/internal/render/manifests"
	render "github.com/holdfast/holdfast/internal/render/operator"
)

// How long and how often the Bringer looks whether the API serves new kinds, and whether the
// pods of the operator run. An operator that is there runs within seconds, on a busy host
// within a minute; the unit has five minutes.
const (
	kindsLimit    = 30 * time.Second
	kindsPause    = 200 * time.Millisecond
	operatorLimit = 3 * time.Minute
	operatorPause = time.Second
)

// UndoneError says that a part was brought, did not start, and was set back.
type UndoneError struct{ Why string }

func (e UndoneError) Error() string { return e.Why }

// API is what the Bringer has of the API; kube.Bringer is it.
type API interface {
	Apply(ctx context.Context, r state.ObjectRef, document []byte) error
	Offer(ctx context.Context, r state.ObjectRef, document []byte) (left bool, err error)
	Exists(ctx context.Context, r state.ObjectRef) (bool, error)
	Established(ctx context.Context, kind state.ObjectRef) (bool, error)
	Delete(ctx context.Context, r state.ObjectRef) (bool, error)
	RolledOut(ctx context.Context, namespace, name string) (missing string, err error)
	SetBack(ctx context.Context, namespace, name string) (bool, error)
	SetImage(ctx context.Context, namespace, name, container, image string) (bool, error)
	Mark(ctx context.Context, namespace, name string) (kube.Mark, error)
	PutMark(ctx context.Context, m kube.Mark, data map[string]string) (kube.Mark, error)
	Unchanged(ctx context.Context, m kube.Mark) error
}

// Bringer brings parts of one release. All that it does may be cut off at any point and
// done again, also by a Bringer of another release.
type Bringer struct {
	API
	// Digest is that of the release.
	Digest string
	// Has is what the release has for this site.
	Has manifests.Release
	// Versions are those that kubeadm's configuration gets.
	Versions parts.Versions
	// OperatorLimit is the time in which the operator has to run; operatorLimit if zero.
	OperatorLimit time.Duration
	// Left names the objects that were left as somebody has changed them.
	Left []state.ObjectRef
}

// NewBringer returns the one of a site.
func NewBringer(api API, s *site.Site, digest string) (*Bringer, error) {
	has, err := manifests.ReleaseOf(s)
	return &Bringer{API: api, Digest: digest, Has: has, Versions: ofThisRelease()}, err
}

// Bring brings a part. Its last write says in the cluster that it is brought.
func (b *Bringer) Bring(ctx context.Context, part string) error {
	switch part {
	case parts.Objects:
		return b.marked(ctx, part, refs(b.Has.Kinds, b.Has.Objects), b.objects)
	case parts.KubeProxy:
		return b.marked(ctx, part, nil, func(ctx context.Context, w *work) error {
			if err := b.Unchanged(ctx, w.at); err != nil {
				return err
			}
			_, err := b.SetImage(ctx, parts.MarkNamespace, "kube-proxy", "kube-proxy", payload.Image("kube-proxy"))
			return err
		})
	case parts.Operator:
		return b.marked(ctx, part, nil, b.operator)
	}
	return fmt.Errorf("release %s has no part %q: it has %s", b.Digest, part, strings.Join(parts.Order(), ", "))
}

// Installed writes the mark of an installation, which has brought all parts.
func (b *Bringer) Installed(ctx context.Context) error {
	w, err := b.read(ctx)
	if err != nil {
		return err
	}
	for _, part := range parts.Order() {
		w.mark = w.mark.Done(part, b.Digest, refs(b.Has.Kinds, b.Has.Objects))
	}
	return b.write(ctx, w)
}

// work is the mark while a part is being brought.
type work struct {
	at   kube.Mark
	mark parts.Mark
}

func (b *Bringer) read(ctx context.Context) (*work, error) {
	at, err := b.Mark(ctx, parts.MarkNamespace, parts.MarkName)
	if err != nil {
		return nil, err
	}
	mark, err := parts.ReadMark(at.Data)
	if err != nil {
		return nil, fmt.Errorf("what the cluster says of its parts, ConfigMap %s/%s: %w", parts.MarkNamespace, parts.MarkName, err)
	}
	return &work{at, mark}, nil
}

func (b *Bringer) write(ctx context.Context, w *work) error {
	data, err := w.mark.Data()
	if err == nil {
		w.at, err = b.PutMark(ctx, w.at, data)
	}
	return err
}

// marked writes before a part that it is between two releases, and afterwards that it is
// of this one.
func (b *Bringer) marked(ctx context.Context, part string, list []state.ObjectRef, do func(context.Context, *work) error) error {
	w, err := b.read(ctx)
	if err != nil {
		return err
	}
	w.mark = w.mark.Begin(part, list)
	if err := b.write(ctx, w); err != nil {
		return err
	}
	if err := do(ctx, w); err != nil {
		return err
	}
	w.mark = w.mark.Done(part, b.Digest, list)
	return b.write(ctx, w)
}

// ofThisRelease is what kubeadm's configuration says once this release is brought.
func ofThisRelease() parts.Versions {
	return parts.Versions{Kubernetes: payload.KubernetesVersion, EtcdTag: payload.ImageTag("etcd"), Arguments: kubeadm.Arguments()}
}

// objects applies kinds, what is made of them, and takes away what no release has any more. Then
// it gives kubeadm's configuration the versions and arguments of the release.
func (b *Bringer) objects(ctx context.Context, w *work) error {
	if err := b.apply(ctx, w, b.Has.Kinds); err != nil {
		return err
	}
	if err := b.awaitKinds(ctx); err != nil {
		return err
	}
	if err := b.apply(ctx, w, b.Has.Objects); err != nil {
		return err
	}
	for _, r := range w.mark.Stale(b.Has.Every) {
		if err := b.Unchanged(ctx, w.at); err != nil {
			return err
		}
		if _, err := b.Delete(ctx, r); err != nil {
			return err
		}
	}
	return b.kubeadm(ctx, w)
}

// kubeadm gives kubeadm's configuration the versions and arguments of the release: nobody runs its
// own upgrade, which would do that. One that somebody deleted is not made here: control planes make
// it again.
func (b *Bringer) kubeadm(ctx context.Context, w *work) error {
	at, err := b.Mark(ctx, parts.KubeadmNamespace, parts.KubeadmName)
	if err != nil || at.Data == nil {
		return err
	}
	var former map[string]map[string]string
	if said := at.Data[parts.ArgumentsKey]; said != "" {
		if err := json.Unmarshal([]byte(said), &former); err != nil {
			former = nil // somebody wrote it: nobody knows what was given
		}
	}
	text, err := parts.Kubeadm(at.Data[parts.KubeadmKey], b.Versions, former)
	if err != nil {
		return fmt.Errorf("ConfigMap %s/%s, %s: %w", parts.KubeadmNamespace, parts.KubeadmName, parts.KubeadmKey, err)
	}
	if err := b.Unchanged(ctx, w.at); err != nil {
		return err
	}
	data := maps.Clone(at.Data)
	data[parts.KubeadmKey] = text
	gives, err := json.Marshal(b.Versions.Arguments)
	if err != nil {
		return err
	}
	data[parts.ArgumentsKey] = string(gives)
	_, err = b.PutMark(ctx, at, data)
	return err
}

// operator applies the operator and waits until it runs. One that does not start would leave
// nobody who takes parts back: the former one is set back then, and goes on.
func (b *Bringer) operator(ctx context.Context, w *work) error {
	if err := b.apply(ctx, w, b.Has.Operator); err != nil {
		return err
	}
	limit := cmp.Or(b.OperatorLimit, operatorLimit)
	missing, err := b.awaitOperator(ctx, limit)
	if missing == "" || err != nil {
		return err
	}
	why := fmt.Sprintf("the operator did not start within %s: %s", limit, missing)
	if err := b.Unchanged(ctx, w.at); err != nil {
		return err
	}
	switch back, err := b.SetBack(ctx, render.Namespace, render.Name); {
	case err != nil:
		return fmt.Errorf("%s; the former one is not back: %w", why, err)
	case !back:
		return fmt.Errorf("%s; Kubernetes does not know the former one any more", why)
	}
	return UndoneError{why + "; the former one is back"}
}

// awaitOperator returns what of the operator does not run after a time; empty if all does.
// While the API does not answer nothing is known, and that is an error.
func (b *Bringer) awaitOperator(ctx context.Context, limit time.Duration) (missing string, err error) {
	limited, stop := context.WithTimeout(ctx, limit)
	defer stop()
	for {
		missing, err = b.RolledOut(ctx, render.Namespace, render.Name)
		if err == nil && missing == "" || host.Sleep(limited, min(operatorPause, limit)) != nil {
			return missing, err
		}
	}
}

// apply applies documents in their order. Before each it looks whether another program has
// begun meanwhile: one that slept in between must not undo what that one brought.
func (b *Bringer) apply(ctx context.Context, w *work, list []manifests.Document) error {
	for _, d := range list {
		if err := b.Unchanged(ctx, w.at); err != nil {
			return err
		}
		if d.WhileThere {
			if there, err := b.Exists(ctx, d.ObjectRef); err != nil || !there {
				if err != nil {
					return err
				}
				continue
			}
		}
		if !d.UnlessChanged {
			if err := b.Apply(ctx, d.ObjectRef, d.Data); err != nil {
				return err
			}
			continue
		}
		left, err := b.Offer(ctx, d.ObjectRef, d.Data)
		if err != nil {
			return err
		}
		if left {
			b.Left = append(b.Left, d.ObjectRef)
		}
	}
	return nil
}

// awaitKinds waits until the API serves all kinds.
func (b *Bringer) awaitKinds(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, kindsLimit)
	defer stop()
	for _, d := range b.Has.Kinds {
		for {
			is, err := b.Established(ctx, d.ObjectRef)
			if err != nil {
				return fmt.Errorf("wait for the kind %s: %w", d.Name, err)
			}
			if is {
				break
			}
			if host.Sleep(ctx, kindsPause) != nil {
				return fmt.Errorf("the API does not serve the kind %s after %s: kubectl describe crd %s", d.Name, kindsLimit, d.Name)
			}
		}
	}
	return nil
}

func refs(lists ...[]manifests.Document) []state.ObjectRef {
	out := []state.ObjectRef{}
	for _, list := range lists {
		for _, d := range list {
			out = append(out, d.ObjectRef)
		}
	}
	return out
}
