package keeper

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/podman"
	"github.com/holdfast/holdfast/internal/model/state"
)

// TestPodmanIsAskedSeldomAboutAProcessWithoutANote: each report and each round ask for
// its manifest. What podman once said holds, though the note may not have been written.
func TestPodmanIsAskedSeldomAboutAProcessWithoutANote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, asked, says := starting(t), 0, ""
		now := podman.Process{Running: true, PID: 7, Started: 1}
		p.look = func(context.Context) (podman.Process, error) { return now, nil }
		p.adopt = func(context.Context, string, podman.Process) (string, error) {
			if asked++; says == "" {
				return "", errors.New("no answer")
			}
			return says, nil
		}
		is := func(what string, times int, old, unknown bool) {
			t.Helper()
			if is, err := p.Outdated(); is != old || (err != nil) != unknown || asked != times {
				t.Errorf("%s: %t, %v, asked %d times", what, is, err, asked)
			}
		}
		is("no answer", 1, false, true)
		says = "other"
		time.Sleep(askAgain - 1)
		is("too early for a second question", 1, false, true)
		time.Sleep(time.Nanosecond)
		is("an answer", 2, true, false)
		time.Sleep(time.Hour)
		is("the same process", 2, true, false)
		now.Started++
		says = ""
		is("another process", 3, false, true)
	})
}

// TestAnEtcdWithoutANoteIsRestartedOnlyOncePodmanNamesAnotherManifest: until then its
// manifest is unknown, so that nobody takes it for the present one.
func TestAnEtcdWithoutANoteIsRestartedOnlyOncePodmanNamesAnotherManifest(t *testing.T) {
	silent := errors.New("podman does not say")
	for name, c := range map[string]struct {
		says  string
		err   error
		stops int
		want  state.Fact[bool]
	}{
		"podman does not say":     {"", silent, 0, state.Fact[bool]{}},
		"podman names another":    {"other", nil, 1, state.Known(true)},
		"podman fails with words": {"other", silent, 0, state.Fact[bool]{}},
	} {
		p, stops := starting(t), 0
		p.look = func(context.Context) (podman.Process, error) {
			return podman.Process{Running: true, PID: 7, Started: 1}, nil
		}
		p.blocked = func(podman.Process) (bool, error) { return false, nil }
		p.adopt = func(context.Context, string, podman.Process) (string, error) { return c.says, c.err }
		p.stop = func(context.Context, time.Duration) error { stops++; return silent }
		k := newKeeper(t, &world{}, state.EtcdStarted)
		k.Process = p
		var r state.EtcdReport
		r.Snapshot.Local.Running = state.Known(true)
		if got := k.Manifest(r).Outdated; got != c.want {
			t.Errorf("%s: the report says %+v", name, got)
		}
		s := state.EtcdSnapshot{Uptime: 2 * lively} // too early for an etcd that does not answer
		s.Local.Running, s.Local.Leader = state.Known(true), state.Known[state.MemberID](0xb)
		if err := k.care(t.Context(), k.Wish(), s, state.EtcdVerdict{Action: state.EtcdIdle}); !errors.Is(err, silent) || stops != c.stops {
			t.Errorf("%s: stopped %d times, %v", name, stops, err)
		}
	}
}
