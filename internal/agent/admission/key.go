package admission

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/model/jointoken"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
)

// KeyPath is the file in which a control plane keeps the key of join secrets
// after a key other than the site's own was made.
const KeyPath = site.JoinKeyPath

// keyAge is the time for which the cluster's answer about the key is reused. An
// old secret opens at most that much longer, and unknown callers cause at most
// one request to the API in that time.
const keyAge = 5 * time.Second

// Key is the key that signs join secrets: the site's own until an administrator
// has another one made. That one is in a Secret for all control planes.
type Key struct {
	// Own is the site's own key.
	Own []byte
	// Path keeps the cluster's last answer: if somebody deletes the Secret, the
	// old key must not open again.
	Path string
	// Stands reports whether this host's control plane was set up. From then on
	// only the cluster says which key is in force; before, there is no cluster to
	// ask.
	Stands func() bool
	// Ask returns the cluster's key, or nil if it has none.
	Ask func(context.Context) ([]byte, error)
	Now func() time.Time

	asking singleflight.Group
	mu     sync.Mutex // is not held while the API is asked
	last   []byte
	at     time.Time
}

// askWithin bounds a request to the API. It is less than keyAge, so that an
// answer is still fresh for those who waited for it.
const askWithin = 3 * time.Second

// Current returns the key in force, or an error if the API does not tell it.
// Concurrent callers share one request and its failure: a thousand unknown
// callers wait no longer than one.
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
			return nil, fmt.Errorf("find the key of join secrets in force: %w", a.Err)
		}
		return a.Val.([]byte), nil
	case <-ctx.Done():
		return nil, fmt.Errorf("find the key of join secrets in force: %w", ctx.Err())
	}
}

// hear asks for the key and remembers the answer.
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

// ask asks the cluster and keeps its answer on disk. If the cluster has no key,
// the kept one stays; that is the site's own only if the cluster never had
// another. A key that was replaced never counts again, also if etcd is restored from
// before that.
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
	if err := k.replace(kept, key); err != nil {
		return nil, err
	}
	return key, host.WriteFileAtomic(k.Path, key, state.SecretFileMode)
}

// past ends the name of the file beside Path that has the digests of replaced keys.
const past = ".past"

// errRestored says that the cluster's key is one that was replaced.
var errRestored = errors.New("etcd was restored from before the last change of the key: holdfast join-secret rotate")

// replace remembers a key that another one is about to replace. It returns errRestored if
// that one was replaced itself: whoever had a secret of it would get in again.
func (k *Key) replace(former, next []byte) error {
	text, err := os.ReadFile(k.Path + past)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	digests := strings.Fields(string(text))
	switch {
	case slices.Contains(digests, digestOf(next)):
		return errRestored
	case slices.Contains(digests, digestOf(former)):
		return nil
	}
	text = []byte(strings.Join(append(digests, digestOf(former)), "\n") + "\n")
	return host.WriteFileAtomic(k.Path+past, text, state.SecretFileMode)
}

func digestOf(key []byte) string {
	sum := sha256.Sum256(key)
	return hex.EncodeToString(sum[:])
}

// Known returns the last key in force, for uses that open nothing. It does not
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
