// Package leafcert renews the leaf certificates that kubeadm signed on a control
// plane, and has the static pods restarted that read theirs only when they start.
// Package decide/leafcert decides when. The agent signs with the authorities' keys
// that kubeadm leaves on each control plane, so nothing here needs the API: a host
// that was off for longer than its certificates last renews them before anything
// can answer (docs/adr/0052-leaf-certificates.md).
//
// It changes only the certificate of a file and never a key. One rename replaces
// one file, so no reader sees a certificate beside the key of another one, also
// after a power cut.
package leafcert

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	etcdv1 "github.com/openshift/api/etcd/v1"

	"github.com/holdfast/holdfast/internal/adapter/clock"
	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/agent/loop"
	"github.com/holdfast/holdfast/internal/decide/leafcert"
	"github.com/holdfast/holdfast/internal/decide/rollout"
	"github.com/holdfast/holdfast/internal/model/state"
)

// The times of the task.
const (
	// every is the pause between two looks at the files, of certificates of which
	// many fit into a life.
	every = 5 * time.Minute
	// again is the least pause after a wait. Of two hosts that took their turns
	// together one is first by what comes on top.
	again           = 30 * time.Second
	retry, maxRetry = 10 * time.Second, 5 * time.Minute
	limit           = 5 * time.Minute
	// restartLimit bounds one restart of a static pod.
	restartLimit = time.Minute
)

// endpoint is the host's own API server.
const endpoint = "127.0.0.1:6443"

// API is the part of the API that the Keeper needs.
type API interface {
	Nodes(ctx context.Context) ([]state.Node, error)
	PacemakerCluster(ctx context.Context) (*etcdv1.PacemakerCluster, error)
	Annotate(ctx context.Context, node, name, value string) error
}

// Options holds what a Keeper needs.
type Options struct {
	// Root is empty except in tests.
	Root string
	// Node is the name of the host's node, ControlPlanes the number with which the
	// site was installed.
	Node          string
	ControlPlanes int
	// Life is the life of a new certificate; zero is kubeadm's own.
	Life time.Duration
	// Open returns the API by the agent's account.
	Open func() (API, error)
	// Endpoint is the host's API server, HOST:PORT; empty except in tests.
	Endpoint string
	Log      *slog.Logger
	Now      func() time.Time
	// Synchronised reports whether the kernel counts the clock as synchronised; nil
	// except in tests.
	Synchronised func() (bool, error)
}

// Keeper keeps the leaf certificates of one control plane.
type Keeper struct {
	Options
	// end ends a process, as host.EndProcess does.
	end func(ctx context.Context, pid int, is func() bool) error
	// published is false only if the API surely does not say that this host renews, and said
	// only if it surely does not say that it waits.
	published, said bool
	// waits is the reason that was last logged.
	waits   string
	renewed counts
	late    moments
	// broken says since when a file is of no use, as far as this agent has seen.
	broken map[string]time.Time
}

// New returns the Keeper of a control plane.
func New(o Options) *Keeper {
	o.Life, o.Endpoint = cmp.Or(o.Life, leafcert.Life), cmp.Or(o.Endpoint, endpoint)
	if o.Synchronised == nil {
		o.Synchronised = clock.Synchronised
	}
	// Also the only control plane may have said so, when the site had several.
	return &Keeper{Options: o, end: host.EndProcess, published: true, said: true}
}

// Task returns the loop that renews.
func (k *Keeper) Task() loop.Task {
	return loop.Task{Name: "leaf certificates", Every: min(every, k.Life/60), Retry: min(retry, k.Life/60), MaxRetry: maxRetry, Limit: limit, Step: k.step}
}

// maxSteps bounds the steps of one run: take a turn, work, release it, and once
// more for what became due meanwhile.
const maxSteps = 6

// step does what is to be done now, until nothing is or something has to be waited
// for.
func (k *Keeper) step(ctx context.Context) (loop.Result, error) {
	var did []string
	for range maxSteps {
		host, unread := k.gather(ctx)
		step := leafcert.Decide(host)
		done, more, err := k.do(ctx, step)
		did = append(did, done...)
		problems := errors.Join(unread, err, problemsOf(step))
		if more && err == nil {
			continue
		}
		out := loop.Result{Changed: strings.Join(did, "; ")}
		if step.Why != "" && problems == nil {
			out.Again = min(again+rand.N(again), k.Life/60) //nolint:gosec // it is no secret
		}
		k.tell(step.Why)
		return out, errors.Join(problems, k.say(ctx, host, step))
	}
	return loop.Result{Changed: strings.Join(did, "; "), Soon: true}, nil
}

func problemsOf(s leafcert.Step) error {
	var errs []error
	for _, p := range s.Problems {
		errs = append(errs, errors.New(p))
	}
	return errors.Join(errs...)
}

// do does one step. It returns what was done, and whether there may be more to
// do.
func (k *Keeper) do(ctx context.Context, s leafcert.Step) (did []string, more bool, err error) {
	switch s.Kind {
	case leafcert.Take:
		return nil, true, k.publish(ctx, state.CertificateRenewal{Since: k.Now().UTC().Truncate(time.Second)})
	case leafcert.Work:
		did, err := k.work(ctx, s)
		return did, true, err
	case leafcert.Release:
		return nil, false, k.publish(ctx, state.CertificateRenewal{})
	case leafcert.None, leafcert.Wait:
	}
	return nil, false, nil
}

// work renews certificates and restarts static pods. What it did not come to, or
// failed, is due again in the next run.
func (k *Keeper) work(ctx context.Context, s leafcert.Step) (did []string, err error) {
	for _, l := range s.Renew {
		ends, err := k.renew(l)
		if err != nil {
			return did, fmt.Errorf("renew the certificate in %s: %w", l.Path, err)
		}
		k.renewed.add(l.Path)
		did = append(did, fmt.Sprintf("renewed the certificate in %s, until %s", l.Path, ends.UTC().Format(time.RFC3339)))
	}
	for _, name := range s.Restart {
		if err := k.Restart(ctx, name); err != nil {
			return did, fmt.Errorf("restart %s, which reads its certificate only when it starts: %w", name, err)
		}
		did = append(did, "restarted "+name+" for its new certificate")
	}
	return did, nil
}

// tell logs for what the host waits, once for each reason.
func (k *Keeper) tell(why string) {
	if why != "" && why != k.waits {
		k.Log.Info("the renewal of leaf certificates waits", "for", why)
	}
	k.waits = why
}

// say says in the host's node for what it waits, so that people are told while somebody can still
// mend that. It writes when the reason changes.
func (k *Keeper) say(ctx context.Context, h leafcert.Host, s leafcert.Step) error {
	next, changes, known := h.Saying(s)
	k.said = k.said && !known || known && next.Waits != ""
	if !changes {
		return nil
	}
	api, err := k.Open()
	if err != nil {
		return err
	}
	return api.Annotate(ctx, k.Node, state.AnnotationRenewal, state.FormatAnnotation(next))
}

// publish says in the host's node whether it renews.
func (k *Keeper) publish(ctx context.Context, r state.CertificateRenewal) error {
	api, err := k.Open()
	if err != nil {
		return err
	}
	k.published = true // as long as it is not known that it is not
	if err := api.Annotate(ctx, k.Node, state.AnnotationRenewal, state.FormatAnnotation(r)); err != nil {
		return err
	}
	k.published = !r.Since.IsZero()
	return nil
}

// gather returns the facts of this host, and which files could not be read. It
// asks the API only if the API may still say that this host renews or waits, or if
// something is to be done that concerns other hosts.
func (k *Keeper) gather(ctx context.Context) (leafcert.Host, error) {
	files, unread, err := k.files()
	h := leafcert.Host{Name: k.Node, Now: k.Now(), Life: k.Life, Files: files, Unread: unread, Broken: k.broken, ControlPlanes: k.ControlPlanes}
	k.broken = h.BrokenSince()
	k.late.set(h.Late())
	if later, _ := h.Ahead(); len(later) > 0 {
		accepted, unknown := Accepted(k.Root, h.Now, k.Synchronised)
		h.Accepted, err = accepted, errors.Join(err, unknown)
	}
	if len(files) > 0 && (k.published || k.said || k.ControlPlanes > 1 && h.Pending()) {
		h.Cluster = k.cluster(ctx, h.Now)
		h.Shows = k.shows(ctx)
	}
	return h, err
}

// Accepted reports whether an administrator's word counts now that the clock of the host
// below root is right. It asks whether the clock is synchronised only if there is a word.
func Accepted(root string, now time.Time, synchronised func() (bool, error)) (bool, error) {
	data, err := os.ReadFile(root + leafcert.AcceptedPath)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	var a leafcert.Accepted
	if err == nil {
		err = json.Unmarshal(data, &a)
	}
	if err != nil {
		return false, fmt.Errorf("%s: %w", leafcert.AcceptedPath, err)
	}
	is, err := synchronised()
	return a.Counts(now, is), err
}

// cluster asks the API for all control planes.
func (k *Keeper) cluster(ctx context.Context, now time.Time) state.Fact[leafcert.Cluster] {
	unknown := state.Fact[leafcert.Cluster]{}
	api, err := k.Open()
	if err != nil {
		return unknown
	}
	nodes, err := api.Nodes(ctx)
	if err != nil {
		return unknown
	}
	c := leafcert.Cluster{Nodes: nodes}
	k.published = k.published && leafcert.Renews(k.Node, nodes)
	if k.ControlPlanes == 2 {
		object, err := api.PacemakerCluster(ctx)
		if err == nil && object != nil {
			c.Spare = rollout.PairSpares(object.Status, now)[k.Node]
		}
	}
	return state.Known(c)
}
