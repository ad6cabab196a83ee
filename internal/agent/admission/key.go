package admission

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/model/jointoken"
	"github.com/holdfast/holdfast/internal/model/state"
)

// KeyPath is where a control plane keeps the key of join secrets, once another
// one than the site's own was made.
const KeyPath = "/etc/holdfast/join-key"

// keyAge is how old the cluster's word about the key may be. So much longer may an
// old secret open, and so often at most strangers cause a question to the API.
const keyAge = 5 * time.Second

// Key is the key that join secrets are signed with: the site's own until a person
// had another one made, which is then in a Secret for all control planes.
type Key struct {
	// Own is the site's own.
	Own []byte
	// Path keeps what the cluster said last, for the time after somebody deleted
	// the Secret: an old key must not open again by that.
	Path string
	// Stands reports whether this host's control plane was made. From then on only
	// the cluster says which key counts; before there is nothing to ask.
	Stands func() bool
	// Ask returns the cluster's key, nil where it has none.
	Ask func(context.Context) ([]byte, error)
	Now func() time.Time

	asking singleflight.Group
	mu     sync.Mutex // is not held while the API is asked
	last   []byte
	at     time.Time
}

// askWithin bounds a question to the API. It is less than keyAge: what was heard
// while others waited counts for them.
const askWithin = 3 * time.Second

// Current returns the key that counts. It is an error that the API does not say.
// Callers at one time share one question, and its failure: a thousand strangers
// wait as long as one.
func (k *Key) Current(ctx context.Context) ([]byte, error) {
	if !k.Stands() {
		return k.Own, nil
	}
	now := k.Now()
	if key, at := k.heard(); key != nil && now.Sub(at) >= 0 && now.Sub(at) < keyAge {
		return key, nil
	}
	answer := k.asking.DoChan("", func() (any, error) { return k.hear(context.WithoutCancel(ctx), now) })
	select {
	case a := <-answer:
		if a.Err != nil {
			return nil, fmt.Errorf("which key of join secrets counts: %w", a.Err)
		}
		return a.Val.([]byte), nil
	case <-ctx.Done():
		return nil, fmt.Errorf("which key of join secrets counts: %w", ctx.Err())
	}
}

// hear asks, and remembers what it heard.
func (k *Key) hear(ctx context.Context, now time.Time) ([]byte, error) {
	ctx, stop := context.WithTimeout(ctx, askWithin)
	defer stop()
	key, err := k.ask(ctx)
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.last, k.at = key, now
	return key, nil
}

// ask asks the cluster, and keeps its answer. That it has no key of its own is
// believed only where it never had one.
func (k *Key) ask(ctx context.Context) ([]byte, error) {
	key, err := k.Ask(ctx)
	if err != nil {
		return nil, err
	}
	kept, err := k.kept()
	if err != nil {
		return nil, err
	}
	switch {
	case len(key) == 0:
		return kept, nil
	case len(key) < jointoken.MinKeyBytes:
		return nil, fmt.Errorf("the key in Secret %s/%s has %d bytes, it needs %d", jointoken.KeyNamespace, jointoken.KeySecret, len(key), jointoken.MinKeyBytes)
	case bytes.Equal(key, kept):
		return key, nil
	}
	return key, host.WriteFileAtomic(k.Path, key, state.SecretFileMode)
}

// Known returns the key that counted last, for what opens nothing. It does not
// wait for the API.
func (k *Key) Known() []byte {
	if key, _ := k.heard(); key != nil {
		return key
	}
	if key, err := k.kept(); err == nil {
		return key
	}
	return nil
}

func (k *Key) heard() ([]byte, time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.last, k.at
}

func (k *Key) kept() ([]byte, error) {
	key, err := os.ReadFile(k.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return k.Own, nil
	}
	return key, err
}
