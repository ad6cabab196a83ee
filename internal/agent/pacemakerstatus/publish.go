package pacemakerstatus

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"time"

	etcdv1 "github.com/openshift/api/etcd/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	decide "github.com/holdfast/holdfast/internal/decide/pacemakerstatus"
)

// api is the part of the API that the collector needs.
type api interface {
	PacemakerCluster(ctx context.Context) (*etcdv1.PacemakerCluster, error)
	WritePacemakerStatus(ctx context.Context, version string, status json.RawMessage) (string, error)
	CreateEvent(ctx context.Context, e *corev1.Event) error
	EachPod(ctx context.Context, do func(*corev1.Pod)) ([]corev1.Node, error)
}

// access calls do with the first API server that answers.
type access func(ctx context.Context, do func(context.Context, api) error) error

// writeTimeout bounds one attempt to write: an API server without etcd hangs, and
// meanwhile this host must go on looking.
const writeTimeout = 4 * time.Second

// errNoObject reports that there is nothing to write to: the operator makes the
// object once etcd is handed over.
var errNoObject = errors.New("the API has no PacemakerCluster \"cluster\" yet: holdfast-operator creates it once etcd is handed over")

// publish writes the status if that is this host's turn, and otherwise looks
// whether somebody else does.
func (c *Collector) publish(ctx context.Context, in decide.Input, r *decide.Report) error {
	if !r.Writes && c.Now().Sub(c.pubbed.read) < resync {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, writeTimeout, errors.New("no API server answers in time"))
	defer cancel()
	if mine, _ := decide.Writes(in, 0); !mine { // somebody may have written since
		c.pubbed.object = nil
	}
	err := c.bring(ctx, in, r)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		c.pubbed.object = nil
		err = c.bring(ctx, in, r)
	}
	if err == nil && r.Writes {
		err = c.tell(ctx, in)
	}
	if ctx.Err() != nil && err != nil {
		err = errors.Join(context.Cause(ctx), err)
	}
	return err
}

// bring writes through one server. A missing object is no reason to ask another.
func (c *Collector) bring(ctx context.Context, in decide.Input, r *decide.Report) error {
	missing := false
	err := c.api(ctx, func(ctx context.Context, a api) error {
		err := c.write(ctx, a, in, r)
		missing = errors.Is(err, errNoObject)
		if missing {
			return nil
		}
		return err
	})
	if missing {
		return errNoObject
	}
	return err
}

// write changes the object to what this host sees. While nothing changes it
// writes only signs of life.
func (c *Collector) write(ctx context.Context, a api, in decide.Input, r *decide.Report) error {
	if err := c.read(ctx, a); err != nil {
		return err
	}
	if r.Writes, r.Why = decide.Writes(in, c.silent()); !r.Writes {
		return nil
	}
	old, now := c.pubbed.object.Status, c.Now()
	merged := decide.Merged(r.Status, r.Known, old, now)
	same := decide.SameSince(merged, old)
	if same && now.Sub(c.pubbed.wrote) < heartbeatInterval {
		r.Status = merged
		return nil
	}
	status := json.RawMessage(decide.JSON(merged))
	if same {
		status = beat(merged)
	}
	version, err := a.WritePacemakerStatus(ctx, c.pubbed.object.ResourceVersion, status)
	if err != nil {
		return err
	}
	c.pubbed.object.ResourceVersion, c.pubbed.object.Status = version, merged
	c.pubbed.wrote, c.pubbed.at = now, merged.LastUpdated.Time
	r.Published, r.Status = now, merged
	return nil
}

// beat returns the part of a status that is the sign of life.
func beat(s etcdv1.PacemakerClusterStatus) json.RawMessage {
	data, err := json.Marshal(map[string]any{"lastUpdated": s.LastUpdated})
	if err != nil {
		panic(err) // cannot happen: it is a time
	}
	return data
}

// read reads the object if it is not known, and notes whether others change it.
func (c *Collector) read(ctx context.Context, a api) error {
	if c.pubbed.object != nil {
		return nil
	}
	o, err := a.PacemakerCluster(ctx)
	if err != nil {
		return err
	}
	if o == nil {
		return errNoObject
	}
	first, at := c.pubbed.read.IsZero(), o.Status.LastUpdated.Time
	c.pubbed.read = c.Now()
	switch {
	case first: // its age, as far as clocks agree; its writer has until the next look
		c.pubbed.at, c.pubbed.moved = at, later(at, c.Now().Add(resync-decide.Silence))
	case !at.Equal(c.pubbed.at):
		c.pubbed.at, c.pubbed.moved = at, c.Now()
	}
	c.pubbed.object = o
	return nil
}

// silent returns for how long nobody else has written, as far as this host has
// looked.
func (c *Collector) silent() time.Duration { return c.Now().Sub(c.pubbed.moved) }

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// isNoAccess reports whether an error only says that this host is not, or not
// yet, part of a cluster with such an object.
func isNoAccess(err error) bool {
	return errors.Is(err, errNoObject) || errors.Is(err, fs.ErrNotExist)
}
