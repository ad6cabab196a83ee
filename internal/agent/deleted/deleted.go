// Package deleted notices within seconds that somebody deleted something on this host. It
// puts a file back if it has a copy (decide/deleted), and reports the rest in a file of the
// host and in an annotation of its node. It owns the copies in Dir. It puts a file
// back only if it is missing or empty, and never changes one that has content.
package deleted

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/agent/loop"
	"github.com/holdfast/holdfast/internal/agent/twonode"
	"github.com/holdfast/holdfast/internal/decide/deleted"
	"github.com/holdfast/holdfast/internal/model/corosync"
	"github.com/holdfast/holdfast/internal/model/state"
)

// every is the pause between two looks. A look asks for the names of about thirty
// files.
const every = 3 * time.Second

// tellTime bounds a write to the node, and after a failure the next one waits for
// tellAgain: an API that is down must not delay the look for missing files.
const (
	tellTime  = 5 * time.Second
	tellAgain = 30 * time.Second
)

// limit bounds one look, which may write a few small files and ask the API once.
const limit = time.Minute

// pacemakerRuns is a link that systemd keeps while the unit is active.
const pacemakerRuns = "/run/systemd/units/invocation:pacemaker.service"

// Options holds the functions that the keeper needs.
type Options struct {
	// Root is put before every path; it is empty on a real host.
	Root string
	Kind deleted.Kind
	// EncryptionRoot is what the keys of the API server's file are derived from; empty without such keys.
	EncryptionRoot []byte

	Now func() time.Time
	// View returns the view of the network, which names the other hosts.
	View func() state.NetworkView
	// Installed reports whether the host is installed, Pair whether it is one of two
	// hosts on which Pacemaker runs etcd.
	Installed, Pair func() bool
	// Tell sets the annotation of this host's node; an empty value removes it.
	Tell func(ctx context.Context, node, value string) error
	// EtcdRuns reports whether etcd runs, of three control planes or more.
	EtcdRuns func() (bool, error)
}

// Keeper notices what is missing.
type Keeper struct {
	Options
	store     *Store
	installed bool
	gone      map[string]time.Time   // since when a file is missing
	put       map[string][]time.Time // the times at which it was put back
	wrote     *state.DeletedStatus
	failed    time.Time // when a write to the node failed last
}

// New returns the keeper of this host.
func New(o Options) *Keeper {
	return &Keeper{Options: o, store: &Store{Root: o.Root, Now: o.Now, EncryptionRoot: o.EncryptionRoot}, gone: map[string]time.Time{}, put: map[string][]time.Time{}}
}

// Task looks again and again.
func (k *Keeper) Task() loop.Task {
	return loop.Task{Name: "deleted files", First: every, Every: every, Limit: limit, Spared: true, Step: func(ctx context.Context) (loop.Result, error) {
		changed, err := k.step(ctx)
		return loop.Result{Changed: changed}, err
	}}
}

// step looks once, puts back what it may, and reports the rest.
func (k *Keeper) step(ctx context.Context) (string, error) {
	k.installed = k.installed || k.Installed()
	if !k.installed {
		return "", nil
	}
	in, err := k.look()
	if err != nil {
		return "", err
	}
	sealed, errSeal := k.seal(&in) // before a copy of the manifest is put back
	v := deleted.Decide(in)
	back, errPut := k.putBack(v.Put, in.Now)
	return strings.Trim(sealed+"\n"+back, "\n"), errors.Join(errSeal, errPut, k.keep(in), k.write(v.Lost, in.Now), k.tell(ctx, v.Lost))
}

// look gathers the facts for the decision.
func (k *Keeper) look() (deleted.Input, error) {
	now := k.Now()
	view := k.View()
	in := deleted.Input{Now: now, Host: view.Host.NodeName, Peer: other(view)}
	leave, err := k.leave()
	if err != nil {
		return in, err
	}
	in.Leave = leave
	for _, s := range deleted.Specs(k.Kind) {
		f := deleted.File{Spec: s, Kept: k.store.Has(s.Path), Put: deleted.Lately(k.put[s.Path], now)}
		f.There, f.Empty = k.store.there(s.Path)
		if !f.Missing() {
			delete(k.gone, s.Path)
		} else if k.gone[s.Path].IsZero() {
			k.gone[s.Path] = now
		}
		if f.Missing() {
			f.Gone = now.Sub(k.gone[s.Path])
		}
		in.Files = append(in.Files, f)
	}
	if k.Pair() {
		in.Pair, err = k.pair()
	}
	return in, err
}

// other returns the name of another control plane, empty if none is known.
func other(v state.NetworkView) string {
	for _, n := range v.Nodes.Value {
		if n.ControlPlane() && n.Name != v.Host.NodeName {
			return n.Name
		}
	}
	return ""
}

// leave reads the paths that an administrator wants to stay away.
func (k *Keeper) leave() ([]string, error) {
	data, err := os.ReadFile(k.store.path(deleted.LeavePath))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return strings.Fields(string(data)), nil
}

// pair looks at Corosync's and Pacemaker's configuration.
func (k *Keeper) pair() (*deleted.Pair, error) {
	listed, broken, err := hosts(k.store.path(corosync.Path))
	if err != nil {
		return nil, err
	}
	kept, _, err := hosts(k.store.copyOf(corosync.Path))
	return &deleted.Pair{
		Listed: listed, Broken: broken, Kept: kept, Key: host.Exists(k.store.path(twonode.CorosyncKey)),
		CIB: host.Exists(k.store.path(twonode.CIBFile)), Running: isThere(k.store.path(pacemakerRuns)),
	}, err
}

// isThere reports whether a name exists, even if it is a link that leads nowhere.
func isThere(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// putBack puts files back and describes that for the log.
func (k *Keeper) putBack(list []string, now time.Time) (string, error) {
	var done []string
	var errs []error
	for _, p := range list {
		k.put[p] = append(deleted.Lately(k.put[p], now), now) // a try that fails counts too
		if err := k.store.Put(p); err != nil {
			errs = append(errs, err)
			continue
		}
		done = append(done, p)
	}
	if len(done) == 0 {
		return "", errors.Join(errs...)
	}
	return "somebody deleted files of this host: put back " + strings.Join(done, ", "), errors.Join(errs...)
}

// keep copies the files that are there. A missing file is no error here.
func (k *Keeper) keep(in deleted.Input) error {
	var errs []error
	for _, f := range in.Files {
		if !f.Missing() && f.Back {
			errs = append(errs, present(k.store.Keep(f.Path, k.store.goodFor(f.Path))))
		}
	}
	if in.Pair != nil {
		errs = append(errs, present(k.store.KeepCorosync(in.Host)), present(k.store.Keep(twonode.CIBFile, twonode.WholeCIB)))
	}
	return errors.Join(errs...)
}

func present(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// write writes the list for programs of the host, if it has changed.
func (k *Keeper) write(lost []state.Deleted, now time.Time) error {
	if k.wrote != nil && slices.Equal(k.wrote.Lost, lost) {
		return nil
	}
	s := &state.DeletedStatus{At: now, Lost: lost}
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if err := host.WriteFileAtomic(k.store.path(state.DeletedStatusPath), append(data, '\n'), state.DefaultFileMode); err != nil {
		return err
	}
	k.wrote = s
	return nil
}

// tell writes the list to the annotation of this host's node, if it differs.
func (k *Keeper) tell(ctx context.Context, lost []state.Deleted) error {
	v := k.View()
	self, listed := v.Self()
	if !listed || self.Absent || v.Stale {
		return nil
	}
	want := ""
	if len(lost) > 0 {
		data, err := json.Marshal(lost)
		if err != nil {
			return err
		}
		want = string(data)
	}
	if self.Annotations[state.AnnotationDeleted] == want || k.Now().Sub(k.failed) < tellAgain {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, tellTime)
	defer cancel()
	if err := k.Tell(ctx, self.Name, want); err != nil {
		k.failed = k.Now()
		return fmt.Errorf("write to the node what is missing on this host: %w", err)
	}
	return nil
}
