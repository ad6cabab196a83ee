package admission

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast/holdfast/internal/model/jointoken"
	"github.com/holdfast/holdfast/internal/model/state"
)

// clusterKey plays the cluster's answer about the key.
type clusterKey struct {
	key   []byte
	err   error
	asked int
}

func newKey(t *testing.T, c *clusterKey, stands *bool, now *time.Time) *Key {
	t.Helper()
	return &Key{
		Own: keyOf("own"), Path: filepath.Join(t.TempDir(), "join-key"), Stands: func() bool { return *stands }, Now: func() time.Time { return *now },
		Ask: func(context.Context) ([]byte, error) { c.asked++; return c.key, c.err },
	}
}

// keyOf returns a key that begins with a word.
func keyOf(word string) []byte {
	return append([]byte(word), bytes.Repeat([]byte("."), jointoken.MinKeyBytes-len(word))...)
}

func TestWhichKeyCounts(t *testing.T) {
	var c clusterKey
	stands, now := false, time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	k := newKey(t, &c, &stands, &now)
	want := func(what, word string, asked int) {
		t.Helper()
		c.asked = 0
		got, err := k.Current(t.Context())
		if word == "" {
			if err == nil {
				t.Errorf("%s: %q is taken", what, got)
			}
		} else if err != nil || !bytes.Equal(got, keyOf(word)) {
			t.Errorf("%s: %q, %v", what, got, err)
		}
		if c.asked != asked {
			t.Errorf("%s: asked %d times, want %d", what, c.asked, asked)
		}
		now = now.Add(keyAge)
	}
	c.err = errors.New("no API yet")
	want("before the control plane stands", "own", 0)
	stands = true
	want("the API is away", "", 1)
	if !bytes.Equal(k.Known(), keyOf("own")) {
		t.Errorf("known is %q", k.Known())
	}
	c.err = nil
	want("nobody made another one", "own", 1)
	c.key = keyOf("second")
	want("a person made another one", "second", 1)
	now = now.Add(-keyAge)
	want("right after", "second", 0)
	if data, err := os.ReadFile(k.Path); err != nil || !bytes.Equal(data, keyOf("second")) {
		t.Errorf("kept is %q, %v", data, err)
	}
	if info, err := os.Stat(k.Path); err != nil || info.Mode().Perm() != state.SecretFileMode {
		t.Errorf("%v, %v", info, err)
	}
	c.key = nil
	want("somebody deleted the Secret", "second", 1)
	k = &Key{Own: k.Own, Path: k.Path, Stands: k.Stands, Ask: k.Ask, Now: k.Now}
	if !bytes.Equal(k.Known(), keyOf("second")) {
		t.Errorf("after a restart %q is known", k.Known())
	}
	want("the same after a restart", "second", 1)
	c.key = []byte("short")
	want("a key that anybody guesses", "", 1)
	c.key, c.err = nil, errors.New("away")
	want("the API went away", "", 1)
	if !bytes.Equal(k.Known(), keyOf("second")) {
		t.Errorf("known is %q", k.Known())
	}
	c.err = nil
	want("and is back", "second", 1)
	now = now.Add(-time.Hour)
	want("a clock that was set back", "second", 1)
	c.key = keyOf("third")
	want("a person made a third one", "third", 1)
	c.key = keyOf("second")
	for _, what := range []string{"etcd is that of before", "the same after a restart"} {
		want(what, "", 1)
		if data, err := os.ReadFile(k.Path); err != nil || !bytes.Equal(data, keyOf("third")) {
			t.Errorf("%s: kept is %q, %v", what, data, err)
		}
		if _, err := k.Current(t.Context()); err == nil || !strings.Contains(err.Error(), "holdfast join-secret rotate") {
			t.Errorf("%s: %v", what, err)
		}
		k = &Key{Own: k.Own, Path: k.Path, Stands: k.Stands, Ask: k.Ask, Now: k.Now}
	}
	c.key = keyOf("own") // the Secret holds the installation's only if somebody wrote it there
	want("etcd is that of before the first", "", 1)
	c.key = keyOf("fourth")
	want("a person made a fourth one", "fourth", 1)
	c.key = keyOf("third")
	want("etcd is that of before the fourth", "", 1)
	if info, err := os.Stat(k.Path + past); err != nil || info.Mode().Perm() != state.SecretFileMode {
		t.Errorf("%v, %v", info, err)
	}
}

// A hundred unknown callers at one time cause one request, and wait only for that
// one (seen with a hostile worker: requests to the configuration server waited
// 30 s in a row).
func TestStrangersWaitAsLongAsOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, stands := 0, true
		k := &Key{
			Own: keyOf("own"), Path: filepath.Join(t.TempDir(), "join-key"), Stands: func() bool { return stands }, Now: time.Now,
			Ask: func(ctx context.Context) ([]byte, error) { asked++; <-ctx.Done(); return nil, ctx.Err() },
		}
		began := time.Now()
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				if key, err := k.Current(t.Context()); err == nil {
					t.Errorf("%q is taken from an API that says nothing", key)
				}
			})
		}
		impatient, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		if _, err := k.Current(impatient); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("who gave up has %v after %s", err, time.Since(began))
		}
		all.Wait()
		if waited := time.Since(began); asked != 1 || waited != askWithin {
			t.Errorf("asked %d times, in %s", asked, waited)
		}
	})
}
