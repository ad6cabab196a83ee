package upgrade

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/decide/upgrade/cluster"
	"github.com/holdfast/holdfast/internal/decide/upgrade/parts"
)

func broughtOperator(w *world) bool {
	return slices.ContainsFunc(w.brought, func(b string) bool { return strings.HasPrefix(b, parts.Operator+" ") })
}

// TestEachPartWaitsUntilThePodsOfTheOneBeforeRun: nothing follows, and nothing is complete,
// while pods are replaced.
func TestEachPartWaitsUntilThePodsOfTheOneBeforeRun(t *testing.T) {
	w := newWorld(t, 2, 1)
	w.begins()
	waited := map[string]bool{}
	w.until("it soaks", func() bool {
		said := w.condition("Progressing")
		for _, p := range []string{parts.Objects, parts.KubeProxy} {
			if strings.Contains(said, "waiting for the pods of "+p) {
				waited[p] = true
			}
		}
		if len(waited) < 2 && broughtOperator(w) {
			t.Fatalf("the operator was brought, and pods were awaited of %v", waited)
		}
		return strings.Contains(said, string(cluster.Proving))
	})
	if len(waited) != 2 {
		t.Errorf("pods were awaited of %v", waited)
	}
	if r := w.record(); r.Rollout != (cluster.Rollout{}) || r.Failed != "" {
		t.Errorf("%+v", r)
	}
}

// TestPartsWhosePodsCrashGoBackByThemselvesInTime: hosts stay, the way back is open, nothing
// is committed, and the reason is told.
func TestPartsWhosePodsCrashGoBackByThemselvesInTime(t *testing.T) {
	for part, words := range map[string]string{parts.Operator: "routers of default: 1 pods of the former version are left", parts.Objects: "the pod network: 1 of 2 pods are available; DNS: 1 of 2 pods are available", parts.KubeProxy: "kube-proxy: 1 of 2 pods are available"} {
		t.Run(part, func(t *testing.T) {
			w := newWorld(t, 2, 0)
			w.crash = part
			w.begins()
			w.writes = writesKilled(w)
			w.annotate(annotation.SoakOf, "5m")
			w.until("pods are awaited", func() bool { return w.record().Rollout.Part == part })
			began := w.now
			w.until("parts go back", func() bool { return w.record().Failed != "" })
			if took := w.now.Sub(began); took > 7*time.Minute {
				t.Errorf("it is noticed after %s", took)
			}
			if got := w.condition("Failing"); strings.HasPrefix(got, "True") {
				t.Errorf("before the limit it says %s", got)
			}
			want := "True Paused the parts went back: the pods of " + part + " did not all run within 6m00s: " + words + ". All hosts run the new release."
			w.until("it is told", func() bool { return strings.HasPrefix(w.condition("Failing"), want) })
			for range 30 {
				if err := w.round(); err != nil && !errors.Is(err, errKilled) {
					t.Fatal(err)
				}
			}
			if r := w.record(); r.NoWayBack || r.Healthy > 0 || !w.everywhere(newImage) || broughtOperator(w) != (part == parts.Operator) {
				t.Errorf("%+v, brought %q", r, w.brought)
			}
			if h := w.version().Status.History[0]; h.CompletionTime != nil {
				t.Errorf("the history says %+v", h)
			}
			w.wish(oldImage)
			w.until("it is back", func() bool { return !w.record().Started && w.everywhere(oldImage) })
		})
	}
}

// TestPodsThatCrashInTheSoakHoldTheCommitAndNothingGoesBack by itself.
func TestPodsThatCrashInTheSoakHoldTheCommitAndNothingGoesBack(t *testing.T) {
	w := newWorld(t, 2, 0)
	w.begins()
	w.until("it soaks", func() bool { return w.record().Healthy > 0 })
	w.crash = parts.KubeProxy
	w.annotate(annotation.CommitOf, w.record().Upgrade)
	w.surroundings()
	w.until("it is told", func() bool { return strings.Contains(w.condition("Failing"), "Nothing goes back by itself") })
	if r := w.record(); r.NoWayBack || r.Failed != "" {
		t.Errorf("%+v", r)
	}
	w.crash = ""
	w.until("it is over", func() bool { return !w.record().Started })
}

// TestAnOperatorThatStartsAnewInTheSoakIsNotBroughtAgain: its host was switched off, or emptied. No
// host sets the former one back, and the soak goes on.
func TestAnOperatorThatStartsAnewInTheSoakIsNotBroughtAgain(t *testing.T) {
	w := newWorld(t, 2, 0)
	w.begins()
	w.until("it soaks", func() bool { return w.record().Healthy > 0 })
	brought := len(w.brought)
	w.starts, w.dead = true, true // whoever brought it now would set it back
	w.annotate(annotation.CommitOf, w.record().Upgrade)
	w.surroundings()
	w.until("it is told", func() bool {
		return strings.Contains(w.condition("Failing"), "the operator: 0 of 1 pods are available")
	})
	if r := w.record(); r.NoWayBack || r.Failed != "" || !r.Settled || len(w.brought) > brought || w.tried > 0 {
		t.Errorf("%+v, brought %v, tried %d times", r, w.brought[brought:], w.tried)
	}
	w.starts = false
	w.until("it is over", func() bool { return !w.record().Started })
}

// TestAnOperatorThatDoesNotStartTakesThePartsBack: it is tried for one wish, and not again.
func TestAnOperatorThatDoesNotStartTakesThePartsBack(t *testing.T) {
	w := newWorld(t, 2, 0)
	w.dead = true
	w.begins()
	w.writes = writesKilled(w)
	want := "True Paused the parts went back: the operator did not start; the former one is back. All hosts run the new release."
	w.until("it is told", func() bool { return strings.HasPrefix(w.condition("Failing"), want) })
	tried := w.tried
	for range 30 {
		if err := w.round(); err != nil && !errors.Is(err, errKilled) {
			t.Fatal(err)
		}
	}
	if last := w.brought[len(w.brought)-3:]; tried == 0 || w.tried != tried || !w.everywhere(newImage) || w.record().NoWayBack ||
		!slices.ContainsFunc(last, func(b string) bool { return b == parts.Objects+" "+image(release(oldImage)) }) {
		t.Errorf("tried %d times, then %d; brought %q, %+v", tried, w.tried, w.brought, w.record())
	}
	w.wish(oldImage)
	w.until("it is back", func() bool { return !w.record().Started && w.everywhere(oldImage) })
}
