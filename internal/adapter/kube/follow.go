package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/holdfast/holdfast/internal/adapter/host"
)

// silence is the longest time that a watch may be silent before it is replaced. An
// API server sends a bookmark about every minute, so a server that is silent for
// longer hangs. The new watch continues where the old one ended, without a new
// list.
const silence = 150 * time.Second

// opening is the time that a server gets until its answer begins and, within a
// whole list, between two objects.
const opening = 15 * time.Second

// Follow watches the objects of one kind and calls changed with all of them after
// each change, and first as soon as the list is complete. It asks the servers in
// the order of Servers and goes on at the next one when one fails. It lists again
// only if a server has forgotten the last version; it does so within the watch.
// Calls of changed do not overlap. Follow returns with the context.
func Follow[T any](ctx context.Context, s *Servers, kind Kind[T], logf func(string, ...any), changed func([]T)) error {
	f := &follower[T]{servers: s, kind: kind, changed: changed, collection: collection[T]{read: kind.Read}}
	for failures, said := 0, ""; ; {
		heard, err := f.once(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		failures++
		if heard || errors.Is(err, fs.ErrNotExist) { // there is no access yet, and looking for it costs nothing
			failures = 0
		}
		if heard {
			said = ""
		}
		if text := f.complaint(err); text != "" && said == "" && failures >= len(s.Addresses()) {
			said = text
			logf("watch %s: no API server gives a valid answer, last error: %s", kind.Path, text)
		}
		if err := host.Sleep(ctx, jitter(gap(max(failures, 1)))); err != nil {
			return err
		}
	}
}

// follower is the state of one Follow.
type follower[T any] struct {
	collection[T]
	servers *Servers
	kind    Kind[T]
	changed func([]T)
}

// complaint returns what an administrator should read about the end of a watch,
// nothing for an ordinary end.
func (f *follower[T]) complaint(err error) string {
	switch {
	case ordinary(err), errors.Is(err, fs.ErrNotExist):
		return ""
	case f.whole:
		return err.Error() + " (continuing with the last known state)"
	}
	return err.Error()
}

// ordinary reports whether the watch of a healthy server may end with this error.
func ordinary(err error) bool {
	return err == nil || errors.Is(err, io.EOF) || errors.Is(err, errStartOver)
}

// once watches at the first of the servers until that watch ends, and reports
// whether it got any event while the list was complete.
func (f *follower[T]) once(ctx context.Context) (heard bool, err error) {
	addresses := f.servers.order(time.Now())
	if len(addresses) == 0 {
		return false, errNoAddress
	}
	address := addresses[0]
	client, err := f.servers.client(address)
	if err != nil {
		return false, err
	}
	if heard, err = f.at(ctx, address, client); ctx.Err() == nil {
		f.servers.note(address, heard && ordinary(err), time.Now())
	}
	return heard, err
}

// at watches at one server.
func (f *follower[T]) at(ctx context.Context, address string, client *Client) (heard bool, err error) {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	idle := time.AfterFunc(opening, func() { end(fmt.Errorf("no data from %s", address)) })
	defer idle.Stop()
	f.begin()
	stream, err := f.open(ctx, client)
	if err != nil {
		return false, fmt.Errorf("%s: %w", address, err)
	}
	defer func() { _ = stream.Close() }()
	for lines := json.NewDecoder(stream); ; {
		idle.Reset(f.patience())
		var e event
		if err := lines.Decode(&e); err != nil {
			return heard, ended(ctx, address, err)
		}
		changed, err := f.take(e)
		if err != nil {
			return heard, err
		}
		heard = f.fresh == nil
		if changed {
			f.changed(f.list())
		}
	}
}

// patience returns how long to wait for the next event.
func (f *follower[T]) patience() time.Duration {
	if f.fresh != nil {
		return opening
	}
	return silence
}

func ended(ctx context.Context, address string, err error) error {
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return fmt.Errorf("%s: %w", address, err)
}

// open starts the watch, from the last event if there is one.
func (f *follower[T]) open(ctx context.Context, c *Client) (io.ReadCloser, error) {
	req := c.set.CoreV1().RESTClient().Get().AbsPath(f.kind.Path).
		SetHeader("Accept", "application/json").Param("watch", "1").Param("allowWatchBookmarks", "true")
	if f.kind.Only != "" {
		req = req.Param("fieldSelector", "metadata.name="+f.kind.Only)
	}
	if f.version != "" {
		req = req.Param("resourceVersion", f.version)
	} else {
		req = req.Param("sendInitialEvents", "true").Param("resourceVersionMatch", "NotOlderThan")
	}
	// Without this, the library would ask a server that is too busy ten times more:
	// the next server may have time.
	stream, err := req.MaxRetries(0).Stream(ctx)
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		f.version = ""
		return nil, errStartOver
	}
	return stream, err
}

// jitter keeps hosts that lost their watches at the same time from coming back at
// the same time.
func jitter(d time.Duration) time.Duration {
	return d/2 + rand.N(d) //nolint:gosec // nobody has to be unable to guess it
}
