package install

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/model/payload"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
)

const digestOfNext = "sha256:0123456789abcdef"

// A wiped host keeps the program of its earlier life, and is given a newer release.
func TestAProgramOfAnotherReleaseHandsOverOnce(t *testing.T) {
	r, log := newRun(t, state.RoleWorker)
	tries := 0
	unpack := step{name: "unpack release", do: func(context.Context) error {
		tries++
		return r.handOver("v9.9.9", digestOfNext)
	}}
	if err := r.persist(t.Context(), unpack); !errors.Is(err, errHandOver) || tries != 1 {
		t.Errorf("%d tries: %v", tries, err)
	}
	if host.Exists(r.done + "/unpack-release") {
		t.Error("the step is marked as done: the release's own program would not do it")
	}
	if last, _ := r.fromFile(t).Current(); !strings.HasPrefix(last.Message, "release v9.9.9 is in place, and this program is of "+payload.Version) {
		t.Errorf("the host reports %+v, log %s", last, log)
	}
}

func TestAProgramThatIsOfAnotherReleaseAgainSaysSo(t *testing.T) {
	r, _ := newRun(t, state.RoleWorker)
	if err := r.handOver("v9.9.9", digestOfNext); !errors.Is(err, errHandOver) {
		t.Fatal(err)
	}
	for range 2 {
		err := r.handOver("v9.9.9", digestOfNext)
		if err == nil || errors.Is(err, errHandOver) || !strings.Contains(err.Error(), "/usr/local/bin/holdfast-agent has to lead to it") {
			t.Errorf("it would end again: %v", err)
		}
	}
	if err := r.handOver("v9.9.8", "sha256:another"); !errors.Is(err, errHandOver) {
		t.Errorf("for another release: %v", err)
	}
}

func TestTheProgramOfTheReleaseGoesOn(t *testing.T) {
	r, _ := newRun(t, state.RoleWorker)
	if err := r.handOver(payload.Version, digestOfNext); err != nil {
		t.Error(err)
	}
}

// A worker whose admission has ended is given another configuration while it waits.
func TestAConfigurationThatIsAppliedMeanwhileIsSeen(t *testing.T) {
	const before, after = `{"role":"worker"}`, `{"role":"worker","fresh":true}`
	given := func(t *testing.T) (*run, func(string)) {
		r, _ := newRun(t, state.RoleWorker)
		r.root, r.Text = t.TempDir(), []byte(before)
		apply := func(text string) {
			t.Helper()
			if err := host.WriteFileAtomic(filepath.Join(r.root, site.Path), []byte(text), state.SecretFileMode); err != nil {
				t.Fatal(err)
			}
		}
		apply(before)
		return r, apply
	}
	for name, join := range map[string]func(*run, func()) func(context.Context) error{
		"in a step that waits": func(r *run, tried func()) func(context.Context) error {
			return func(ctx context.Context) error {
				return r.poll(ctx, time.Second, func(context.Context) (bool, string, error) {
					tried()
					return false, "", errors.New("the token has ended")
				})
			}
		},
		"in a step that fails": func(_ *run, tried func()) func(context.Context) error {
			return func(context.Context) error { tried(); return errors.New("the token has ended") }
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			r, apply := given(t)
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			tries := 0
			err := r.persist(ctx, step{name: "join cluster", do: join(r, func() {
				if tries++; tries == 3 {
					apply(after)
				}
			})})
			if !errors.Is(err, errAnew) || tries != 3 {
				t.Errorf("%s: %d tries: %v", name, tries, err)
			}
		})
	}
	r, _ := given(t)
	if err := os.Remove(filepath.Join(r.root, site.Path)); err != nil {
		t.Fatal(err)
	}
	if err := r.sameSite(); err != nil {
		t.Errorf("without the file the unit would not start again: %v", err)
	}
}
