package install

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/model/payload"
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
