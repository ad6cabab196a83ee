// Package rotation does a control plane's part when an authority of the site is
// replaced: it keeps the files of authorities at what `holdfast ca rotate` wishes,
// has the programs read them, and publishes in the host's node what these programs
// use. Package decide/rotation decides the order.
//
// No key is sent. The wish holds a random salt, and each control plane derives the
// same new authority from it and the site's root (docs/adr/0065). It owns the files
// of authorities below /etc/kubernetes/pki once a rotation has begun, and what
// kubeconfigs of this host trust. Their leaf certificates have other writers too,
// which sign by the key that is there.
package rotation

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/agent/loop"
	"github.com/holdfast/holdfast/internal/agent/operatorkey"
	"github.com/holdfast/holdfast/internal/decide/rotation"
	"github.com/holdfast/holdfast/internal/model/state"
)

// The times of the task.
const (
	// every is the pause between two looks at the wishes, tellAnew the number of
	// looks after which the node is told again: it may have been made anew.
	every    = 10 * time.Second
	tellAnew = 30
	// restFor is for how long the files of authorities are not read again while nobody
	// replaces one and all is well: only a person changes them then.
	restFor = time.Minute
	// limit bounds a run with the restart of an API server, which first ends the
	// requests that it has. Its last part, tellTime, is left for the report of what the
	// work did not come to.
	limit    = 8 * time.Minute
	tellTime = time.Minute
)

// maxChanges bounds the changes of one run.
const maxChanges = 8

// Cluster is the part of the API that the Keeper needs.
type Cluster interface {
	Nodes(ctx context.Context) ([]state.Node, error)
	Secret(ctx context.Context, namespace, name string) (map[string][]byte, error)
	Annotate(ctx context.Context, node, name, value string) error
}

// Server is one API server.
type Server interface {
	VerifyingKeys(ctx context.Context) ([]string, error)
	APIReady(ctx context.Context) error
}

// Options holds what a Keeper needs.
type Options struct {
	// Root is empty except in tests.
	Root string
	// Node is the name of the host's node, ControlPlanes the number with which the
	// site was installed.
	Node          string
	ControlPlanes int
	// Secret is the site's root of derived keys; a site from before it has none.
	Secret []byte
	// Life is the life of a new leaf certificate.
	Life time.Duration
	// Open returns the API by the agent's account, OpenAt one of its servers,
	// HOST:PORT.
	Open   func() (Cluster, error)
	OpenAt func(address string) (Server, error)
	// Endpoint is the host's API server, Etcd its etcd, both HOST:PORT.
	Endpoint, Etcd string
	// Kept is true if etcd runs under the etcd keeper, which restarts it in a
	// planned way when the operator finds other authorities.
	Kept bool
	// Gauge tells Prometheus of rotations; nil for nobody.
	Gauge *Gauge
	Log   *slog.Logger
	Now   func() time.Time
}

// Keeper does one control plane's part.
type Keeper struct {
	Options
	// write and remove change files durably. running returns the processes of a
	// program, and end ends one. accepts returns the subjects of the CAs that a
	// server of this host names to its clients. operator reports whether the files
	// with which the operator reaches etcd follow etcd's CA. Tests replace them.
	write   func(path string, data []byte, mode fs.FileMode) error
	remove  func(path string) error
	running func(p host.PodProgram) ([]int, error)
	end     func(ctx context.Context, pid int, is func() bool) error
	accepts func(ctx context.Context, address string) ([]string, error)

	operator func() (bool, error)
	// What only the Kubernetes CA needs, in kubernetes.go.
	kubernetes effects
	// seen says since when the leaf certificates are what they are, by authority.
	seen map[rotation.Authority]sighting
	told string
	// looks counts since the node was told.
	looks int
	// rest is restFor, and calm what the last look at the files found, if nothing was to be done.
	rest time.Duration
	calm calm
}

// calm is a look at the files that found all as it is to be, by the wishes of that time.
type calm struct {
	at     time.Time
	wishes map[string][]byte
	said   rotation.Reports
}

// New returns the Keeper of a control plane.
func New(o Options) *Keeper {
	k := &Keeper{Options: o, write: host.WriteFileAtomic, remove: os.Remove, end: host.EndProcess, rest: restFor, seen: make(map[rotation.Authority]sighting)}
	k.running, k.accepts, k.operator = k.processes, accepted, operatorkey.Keeper{Root: o.Root, Period: o.Life, Now: o.Now}.Follows
	k.kubernetes = thisHost(o)
	return k
}

// Task returns the loop of the Keeper.
func (k *Keeper) Task(notYet func(error) bool) loop.Task {
	return loop.Task{Name: "authorities", First: every, Every: every, Limit: limit, NotYet: notYet, Step: k.step}
}

// step does what is wished, and publishes what the host's programs use.
func (k *Keeper) step(ctx context.Context) (loop.Result, error) {
	cluster, err := k.Open()
	if err != nil {
		return loop.Result{}, err
	}
	wishes, err := cluster.Secret(ctx, rotation.WishNamespace, rotation.WishName)
	if err != nil {
		return loop.Result{}, err
	}
	if k.rests(wishes) {
		return loop.Result{}, k.tell(ctx, cluster, k.calm.said)
	}
	said := rotation.Reports{ControlPlanes: k.ControlPlanes, NoRoot: len(k.Secret) == 0, Authorities: make(map[rotation.Authority]rotation.Report)}
	var did []string
	var errs []error
	late := make(map[rotation.Authority]time.Time)
	work, stop := context.WithTimeout(ctx, limit-tellTime)
	defer stop()
	for _, a := range rotation.Authorities() {
		report, changed, err := k.keep(work, cluster, a, wishes[string(a)])
		said.Authorities[a] = report
		late[a] = report.Late
		did = append(did, changed...)
		if waits := (waiting{}); err != nil && !errors.As(err, &waits) && !isByPerson(err) {
			errs = append(errs, fmt.Errorf("%s: %w", a, err))
		}
	}
	k.Gauge.set(late)
	k.calm = calm{}
	if len(errs) == 0 && len(did) == 0 && said.Quiet() {
		k.calm = calm{at: k.Now(), wishes: maps.Clone(wishes), said: said}
	}
	if err := k.tell(ctx, cluster, said); err != nil {
		errs = append(errs, err)
	}
	return loop.Result{Changed: strings.Join(did, "; ")}, errors.Join(errs...)
}

// rests reports whether the files need no look yet. Another wish ends the rest.
func (k *Keeper) rests(wishes map[string][]byte) bool {
	age := k.Now().Sub(k.calm.at)
	return age >= 0 && age < k.rest && maps.EqualFunc(wishes, k.calm.wishes, bytes.Equal)
}

// waiting is an error that passes by itself.
type waiting struct{ error }

func (w waiting) Unwrap() error { return w.error }

// byPerson is an error that passes when a person does something.
type byPerson struct{ error }

func (b byPerson) Unwrap() error { return b.error }

func isByPerson(err error) bool {
	_, is := errors.AsType[byPerson](err)
	return is
}

// keep does what is wished about one authority, one change after the other.
func (k *Keeper) keep(ctx context.Context, cluster Cluster, a rotation.Authority, text []byte) (said rotation.Report, did []string, err error) {
	w, err := rotation.WishOf(a, text)
	if err != nil {
		return rotation.Report{Problem: err.Error(), Unreadable: true}, nil, err
	}
	said.Of, said.Phase, said.Turn = w.Name(), w.Phase, w.Turn
	if w.Running() {
		said.Began, said.Late = w.Began, w.Late(a)
	}
	now, err := k.read(a)
	if err == nil && w.Phase != "" && a.Replaceable() {
		var fresh authority
		if fresh, err = k.derive(now, w); err == nil {
			said.New = fresh.id
			err = k.mayFollow(w, fresh, now)
		}
		if err == nil {
			did, now, err = k.follow(ctx, cluster, w, fresh, now)
		}
	}
	said.Restored = errors.Is(err, errRestored)
	if said.Restored || err == nil && w.Phase == "" && a.Replaceable() {
		var late error
		if did, now, late = k.catchUp(ctx, cluster, now); late != nil {
			err = late
		}
	}
	said.Unable = now.unable
	if err != nil {
		said.Problem, said.ByPerson = err.Error(), isByPerson(err)
	} else if len(now.uneven) > 0 {
		said.Problem = strings.Join(now.uneven, " and ") + ": other authorities than in " + places[a].trusts
	}
	if now.Loaded { // else nobody knows what the programs use
		said.Trusts, said.Signs, said.Ends = now.Trusts, now.signs(said.New), now.ends
	}
	return said, did, err
}

// catchUp has programs read files that a rotation left which is no longer known: somebody took its
// wish away, or restored etcd from before it. Until then nobody knows what this host trusts, and no
// other rotation may begin. It changes no file. No turn says who restarts programs, so it is one
// control plane after the other, by name.
func (k *Keeper) catchUp(ctx context.Context, cluster Cluster, now files) (did []string, _ files, err error) {
	if len(now.unread) == 0 {
		return nil, now, nil
	}
	nodes, err := cluster.Nodes(ctx)
	if err != nil {
		return nil, now, err
	}
	for _, n := range nodes {
		said := state.ParseAnnotation[rotation.Reports](n.Annotations[state.AnnotationTrust])
		if n.ControlPlane() && n.Name < k.Node && len(said.Value.Authorities[now.authority].Trusts) == 0 {
			return nil, now, waiting{fmt.Errorf("programs of this host read what an earlier rotation left once those of %s have", n.Name)}
		}
	}
	if err := k.load(ctx, cluster, now); err != nil {
		return nil, now, err
	}
	did = []string{fmt.Sprintf("%s: programs have read what an earlier rotation left", now.authority)}
	now, err = k.read(now.authority)
	return did, now, err
}

// mayFollow returns nil if the files may follow a wish, and remembers the wish before they
// do. A certificate that is not valid yet would have programs show what nobody takes: the
// rotation waits while it has changed nothing.
func (k *Keeper) mayFollow(w rotation.Wish, fresh authority, now files) error {
	if at := k.Now(); !slices.Contains(now.Trusts, fresh.id) && fresh.from.After(at) {
		return waiting{fmt.Errorf("the new authority is valid from %s on, and this host's clock says %s: the clock of the machine on which the rotation began is ahead, or this one is behind", fresh.from.UTC().Format(time.RFC3339), at.UTC().Format(time.RFC3339))}
	}
	return k.remember(now.authority, rotation.Followed{Of: w.Name(), Began: w.Began}, w.Phase)
}

// follow makes changes until nothing is to be done or something is in the way.
func (k *Keeper) follow(ctx context.Context, cluster Cluster, w rotation.Wish, fresh authority, now files) (did []string, _ files, err error) {
	for range maxChanges {
		c := rotation.NextChange(w, k.Node, fresh.id, now.Have)
		if c.Act == rotation.Rest {
			return did, now, nil
		}
		if err := k.change(ctx, cluster, c, fresh, now); err != nil {
			return did, now, err
		}
		did = append(did, fmt.Sprintf("%s: %s", now.authority, c.Act))
		if now, err = k.read(now.authority); err != nil {
			return did, now, err
		}
	}
	return did, now, nil
}

// tell publishes the reports, when they changed and again every tellAnew looks.
func (k *Keeper) tell(ctx context.Context, cluster Cluster, r rotation.Reports) error {
	text := state.FormatAnnotation(r)
	if k.looks++; text == k.told && k.looks < tellAnew {
		return nil
	}
	if err := cluster.Annotate(ctx, k.Node, state.AnnotationTrust, text); err != nil {
		return err
	}
	k.told, k.looks = text, 0
	return nil
}

// others returns the addresses of the other control planes' API servers, by node.
func (k *Keeper) others(ctx context.Context, cluster Cluster) (map[string]string, error) {
	nodes, err := cluster.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, n := range nodes {
		if n.ControlPlane() && n.Name != k.Node && len(n.Addresses) > 0 {
			out[n.Name] = hostPort(n.Addresses[0])
		}
	}
	if len(out)+1 < k.ControlPlanes {
		return nil, waiting{fmt.Errorf("only %d of %d control planes have a Node with an address", len(out)+1, k.ControlPlanes)}
	}
	return out, nil
}

// spared returns an error unless the API servers of all other control planes are
// ready, so that this host's may be restarted.
func (k *Keeper) spared(ctx context.Context, cluster Cluster) error {
	if k.ControlPlanes == 1 {
		return nil
	}
	others, err := k.others(ctx, cluster)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(others)) {
		server, err := k.OpenAt(others[name])
		if err == nil {
			err = server.APIReady(ctx)
		}
		if err != nil {
			return waiting{fmt.Errorf("the API server of this host is restarted only while that of %s is ready: %w", name, err)}
		}
	}
	return nil
}
