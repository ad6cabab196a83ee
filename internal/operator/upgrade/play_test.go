package upgrade

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/decide/upgrade/cluster"
	"github.com/holdfast/holdfast/internal/decide/upgrade/gate"
	"github.com/holdfast/holdfast/internal/decide/upgrade/parachute"
	"github.com/holdfast/holdfast/internal/decide/upgrade/parts"
	"github.com/holdfast/holdfast/internal/model/state"
)

// begins lets a site be looked at for long enough that uses of removed APIs are known, and
// wishes the new release.
func (w *world) begins() {
	w.t.Helper()
	for range 4 {
		must(w.t, w.look())
	}
	w.now = w.now.Add(25 * time.Hour)
	w.surroundings()
	for _, h := range w.hosts {
		w.says(h)
	}
	w.wish(newImage)
}

// sites are the numbers of control planes and workers that are played.
var sites = [][2]int{{1, 0}, {1, 2}, {2, 0}, {2, 1}, {3, 1}}

// TestASiteGoesToAnotherReleaseHostByHostAndIsCommitted plays upgrades from the wish to the
// end, on each size of a site.
func TestASiteGoesToAnotherReleaseHostByHostAndIsCommitted(t *testing.T) {
	for _, size := range sites {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			w := newWorld(t, size[0], size[1])
			w.begins()
			w.until("all hosts run it", func() bool { return w.everywhere(newImage) })
			w.until("it soaks", func() bool { return strings.Contains(w.condition("Progressing"), string(cluster.Proving)) })
			if got := w.version().Status.History[0]; got.State != configv1.CompletedUpdate || got.Image != newImage || got.Version != "0.2.0" || !got.Verified {
				t.Errorf("the history begins with %+v", got)
			}
			w.annotate(annotation.CommitOf, w.record().Upgrade)
			w.until("it is over", func() bool { return !w.record().Started })
			must(t, w.look())
			for _, n := range w.names() {
				if a := w.node(n).Annotations; a[annotation.TurnOf] != "" || a[annotation.FetchOf] != "" {
					t.Errorf("%s has a turn still: %v", n, a)
				}
				if !w.hosts[n].raised {
					t.Errorf("%s is not at the new level", n)
				}
			}
			s := w.version().Status
			if len(s.History) != 2 || s.Desired.Image != newImage || s.AvailableUpdates != nil || s.ObservedGeneration != w.version().Generation || !strings.HasPrefix(w.condition("Progressing"), "False") {
				t.Errorf("%+v", s)
			}
		})
	}
}

// TestWhereverTheOperatorIsKilledTheNextOneGoesOn kills it before and after each write of a
// whole upgrade, and another process goes on.
func TestWhereverTheOperatorIsKilledTheNextOneGoesOn(t *testing.T) {
	for _, size := range [][2]int{{1, 1}, {2, 0}, {3, 0}} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			w := newWorld(t, size[0], size[1])
			w.begins()
			w.writes = writesKilled(w)
			w.until("all hosts run it", func() bool { return w.everywhere(newImage) })
			w.until("it soaks", func() bool { return strings.Contains(w.condition("Progressing"), string(cluster.Proving)) })
			w.annotate(annotation.CommitOf, w.record().Upgrade)
			w.until("it is over", func() bool { return !w.record().Started })
			if w.writes.Count < 20 {
				t.Errorf("only %d writes were cut", w.writes.Count)
			}
		})
	}
}

// TestASiteThatIsSentBackIsWhereItWas plays the way back, at several moments, with an
// operator that is killed at each write.
func TestASiteThatIsSentBackIsWhereItWas(t *testing.T) {
	moments := map[string]func(*world) bool{
		"while the release is fetched": func(w *world) bool { return w.record().Started },
		"in the middle":                func(w *world) bool { return len(w.atWork()) > 0 && w.record().Started },
		"in the soak":                  func(w *world) bool { return strings.Contains(w.condition("Progressing"), string(cluster.Proving)) },
	}
	for what, moment := range moments {
		for _, size := range [][2]int{{1, 0}, {2, 1}, {3, 0}} {
			t.Run(fmt.Sprint(what, size), func(t *testing.T) {
				w := newWorld(t, size[0], size[1])
				w.begins()
				w.writes = writesKilled(w)
				w.until("the moment", func() bool { return moment(w) })
				w.wish(oldImage)
				w.until("it is back", func() bool { return !w.record().Started && w.everywhere(oldImage) })
				w.until("the history says so", func() bool {
					h := w.version().Status.History
					return h[0].Image == oldImage && h[0].State == configv1.CompletedUpdate
				})
			})
		}
	}
}

// TestARollbackOutlivesTheReplacementOfAllHosts: both control planes are replaced in the soak, nobody
// returns, and the wish of the rollback, which still stands, begins nothing.
func TestARollbackOutlivesTheReplacementOfAllHosts(t *testing.T) {
	w := newWorld(t, 2, 0)
	w.begins()
	w.until("it soaks", func() bool { return strings.Contains(w.condition("Progressing"), string(cluster.Proving)) })
	for _, h := range w.hosts { // other machines, installed with the new release
		h.journal, h.whole = parachute.Journal{}, []string{newImage}
		w.says(h)
	}
	w.wish(oldImage)
	w.until("it is back", func() bool { return !w.record().Started && w.everywhere(oldImage) })
	for range 20 {
		must(t, w.round())
		if r := w.record(); r.Started {
			t.Fatalf("an upgrade begins that nobody wants: %+v", r)
		}
	}
	w.wish(newImage)
	w.until("a person wants it again", func() bool { return w.record().Started && w.record().To == newImage })
}

// TestAHostThatWasCutOffHasASecondTurn: it boots before its switch, and is not well for a while.
// Nobody begins meanwhile, and then it has its turn once more.
func TestAHostThatWasCutOffHasASecondTurn(t *testing.T) {
	w := newWorld(t, 2, 0)
	w.begins()
	h := w.hosts["cp-2"]
	w.until("it leaves", func() bool { return h.journal.Step == parachute.Leave })
	h.boot, h.unready = h.boot+1, true
	for range 10 {
		must(t, w.round())
	}
	if j := h.journal; j.Step != parachute.Returned || j.Attempts != 1 || len(w.record().Turns) > 0 {
		t.Fatalf("%+v, %+v", j, w.record())
	}
	h.unready = false
	w.until("all hosts run it", func() bool { return w.everywhere(newImage) })
	if h.journal.Attempts != 2 {
		t.Errorf("%+v", h.journal)
	}
}

// TestAPersonWhoGoesOnAfterAllHasTheHostsThatWentBackGoAgain, and no record is written over and over.
func TestAPersonWhoGoesOnAfterAllHasTheHostsThatWentBackGoAgain(t *testing.T) {
	w := newWorld(t, 2, 1)
	w.begins()
	w.until("all hosts run it", func() bool { return w.everywhere(newImage) })
	w.wish(oldImage)
	w.until("one is back", func() bool {
		h := w.hosts["w-1"]
		return h.running == oldImage && h.journal.Step == parachute.Returned
	})
	w.wish(newImage)
	w.until("all hosts run it again", func() bool { return w.everywhere(newImage) && !w.record().Returning })
}

// TestAHostThatFailsInTheSoakGoesBackFirst: the new release fails there long after it was accepted, and
// a person goes back.
func TestAHostThatFailsInTheSoakGoesBackFirst(t *testing.T) {
	for _, size := range [][2]int{{1, 1}, {2, 1}, {3, 0}} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			w := newWorld(t, size[0], size[1])
			w.begins()
			w.until("it soaks", func() bool { return strings.Contains(w.condition("Progressing"), string(cluster.Proving)) })
			w.hosts["cp-1"].bad = true
			for range 5 {
				must(t, w.round())
			}
			w.wish(oldImage)
			w.until("it is back", func() bool { return !w.record().Started && w.everywhere(oldImage) })
		})
	}
}

// TestABadReleaseStopsAtTheFirstHostAndAPersonGoesBack: nobody else begins, the reason is
// said, and the site serves.
func TestABadReleaseStopsAtTheFirstHostAndAPersonGoesBack(t *testing.T) {
	w := newWorld(t, 2, 0)
	w.begins()
	for _, h := range w.hosts {
		h.bad = true
	}
	w.until("it pauses", func() bool { return strings.Contains(w.condition("Failing"), "An administrator decides") })
	if got := w.condition("Failing"); !strings.HasPrefix(got, "True Paused cp-2 went back: not accepted; not shown: ") {
		t.Errorf("it says %s", got)
	}
	for _, name := range w.names() {
		if h := w.hosts[name]; h.running != oldImage || !h.serves() {
			t.Errorf("%+v", h)
		}
	}
	if w.hosts["cp-1"].journal.Upgrade != "" {
		t.Errorf("cp-1 began: %+v", w.hosts["cp-1"].journal)
	}
	if text := strings.Join(w.events, "\n"); !strings.Contains(text, "version Warning UpgradeHosts: Hosts: cp-2 went back") {
		t.Errorf("people are told\n%s", text)
	}
	w.wish(oldImage)
	w.until("it is back", func() bool { return !w.record().Started })
}

// TestWithoutAWishTheOperatorGivesNothingAndASecondLookWritesNothing: an idle site is told
// of, once.
func TestWithoutAWishTheOperatorGivesNothingAndASecondLookWritesNothing(t *testing.T) {
	w := newWorld(t, 2, 1)
	for range 4 {
		must(t, w.look())
	}
	id := w.version().Spec.ClusterID
	w.writes.Count = 0
	for range 5 {
		w.now = w.now.Add(atRest)
		w.surroundings()
		for _, h := range w.hosts {
			w.says(h)
		}
		must(t, w.look())
	}
	if w.writes.Count > 0 {
		t.Errorf("%d writes at rest", w.writes.Count)
	}
	for _, name := range w.names() {
		if a := w.node(name).Annotations; a[annotation.TurnOf] != "" || a[annotation.FetchOf] != "" {
			t.Errorf("%s: %v", name, a)
		}
	}
	if w.record().Started || id == "" || w.version().Spec.ClusterID != id {
		t.Errorf("%+v, id %s", w.record(), id)
	}
	h := w.version().Status.History
	if len(h) != 1 || h[0].Image != oldImage || h[0].State != configv1.CompletedUpdate {
		t.Errorf("%+v", h)
	}
	w.restart()
	w.writes.Count = 0
	must(t, w.look())
	if w.writes.Count > 0 {
		t.Errorf("%d writes of a new process at rest", w.writes.Count)
	}
}

// TestAnUpgradeDoesNotBeginWhileAGateIsClosed: the reason stands in the object, the hosts
// have the release, and none has a turn.
func TestAnUpgradeDoesNotBeginWhileAGateIsClosed(t *testing.T) {
	w := newWorld(t, 2, 0)
	w.clockless = true
	w.begins()
	w.until("it pauses", func() bool { return strings.Contains(w.condition("Failing"), "clock-source") })
	for range 10 {
		must(t, w.round())
	}
	for _, name := range w.names() {
		if h := w.hosts[name]; !slices.Contains(h.whole, newImage) || h.journal.Upgrade != "" {
			t.Errorf("%+v", h)
		}
	}
	if got := w.condition("Upgradeable"); !strings.HasPrefix(got, "False") {
		t.Errorf("Upgradeable is %s", got)
	}
	w.annotate(annotation.OverridesOf, `[{"gate":"clock-source","reason":"there is no time server, and they agree","by":"ada","at":"2026-11-24T12:00:00Z"}]`)
	w.until("all hosts run it", func() bool { return w.everywhere(newImage) })
	w.until("the history has the risk", func() bool {
		return strings.Contains(w.version().Status.History[0].AcceptedRisks, "ada skipped clock-source")
	})
}

// TestAHostThatSaysNothingForLongIsUnknownAndHoldsAll: no further host begins.
func TestAHostThatSaysNothingForLongIsUnknownAndHoldsAll(t *testing.T) {
	w := newWorld(t, 3, 0)
	w.begins()
	w.until("one is done", func() bool {
		return w.hosts["cp-2"].running == newImage && len(w.atWork()) == 0 && len(w.record().Turns) == 0
	})
	w.now = w.now.Add(16 * time.Minute) // nobody says anything
	must(t, w.look())
	if got := w.condition("Failing"); !strings.Contains(got, "cp-1 and cp-2 and cp-3 is not known to be well") {
		t.Errorf("it says %s", got)
	}
	if got := w.record().Turns; len(got) > 0 {
		t.Errorf("%v have a turn", got)
	}
}

// TestARecordOfALaterReleaseStopsEverything: nothing is written but that it is so.
func TestARecordOfALaterReleaseStopsEverything(t *testing.T) {
	w := newWorld(t, 1, 0)
	w.begins()
	must(t, w.admin.DeleteAllOf(t.Context(), &corev1.ConfigMap{}, client.InNamespace(annotation.RecordNamespace)))
	must(t, w.admin.Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: annotation.RecordNamespace, Name: annotation.RecordName}, Data: map[string]string{annotation.RecordKey: `{"format":2,"started":true}`},
	}))
	pausedMetric.Set(0) // as the last look before left it
	must(t, w.look())
	if got := w.condition("Failing"); !strings.Contains(got, "a later release of Holdfast has written it. Nothing is begun") {
		t.Errorf("it says %s", got)
	}
	if paused(t) != 1 {
		t.Error("Prometheus does not hear that it waits for a person")
	}
	w.writes.Count = 0
	must(t, w.look())
	if w.writes.Count > 0 || w.node("cp-1").Annotations[annotation.TurnOf] != "" {
		t.Errorf("%d writes, %v", w.writes.Count, w.node("cp-1").Annotations)
	}
}

// paused returns what Prometheus reads of whether an upgrade waits.
func paused(t *testing.T) float64 {
	t.Helper()
	var m dto.Metric
	must(t, pausedMetric.Write(&m))
	return m.GetGauge().GetValue()
}

// TestASoakThatIsOverIsCommittedByItself, and its time counts across operators.
func TestASoakThatIsOverIsCommittedByItself(t *testing.T) {
	w := newWorld(t, 1, 0)
	w.begins()
	w.annotate(annotation.SoakOf, "10m")
	w.until("it soaks", func() bool { return w.record().Healthy > 0 })
	w.restart()
	writes := w.writes.Count
	w.until("it is over", func() bool { return !w.record().Started })
	if !w.everywhere(newImage) {
		t.Error("it is elsewhere")
	}
	if n := w.writes.Count - writes; n > 40 {
		t.Errorf("%d writes for ten minutes", n)
	}
}

// TestThePartsFollowAllHostsInTheirOrderAndGoBackInTheOther: objects, kube-proxy, the
// operator; also where both releases have the same operator image.
func TestThePartsFollowAllHostsInTheirOrderAndGoBackInTheOther(t *testing.T) {
	w := newWorld(t, 2, 1)
	w.begins()
	w.until("a part is brought", func() bool { return len(w.brought) > 0 })
	if !w.everywhere(newImage) {
		t.Error("it was brought before all hosts run the release")
	}
	w.until("it soaks", func() bool { return strings.Contains(w.condition("Progressing"), string(cluster.Proving)) })
	w.until("nobody is told to bring anything", func() bool {
		return !slices.ContainsFunc(w.names(), func(n string) bool { return w.node(n).Annotations[annotation.PartOf] != "" })
	})
	w.wish(oldImage)
	w.until("it is back", func() bool { return !w.record().Started && w.everywhere(oldImage) })
	want := []string{"objects 2", "kube-proxy 2", "operator 2", "operator 1", "kube-proxy 1", "objects 1"}
	var got []string
	for _, b := range w.brought {
		part, image, _ := strings.Cut(b, " ")
		_, version, _ := strings.Cut(image, ":v0.")
		got = append(got, part+" "+version[:1])
	}
	if got = slices.Compact(got); !slices.Equal(got, want) {
		t.Errorf("brought %q", got)
	}
}

// TestAPartThatCannotBeBroughtIsToldAndHoldsTheCommit: with the host and its words; the way
// back is open.
func TestAPartThatCannotBeBroughtIsToldAndHoldsTheCommit(t *testing.T) {
	w := newWorld(t, 2, 0)
	w.badPart = parts.KubeProxy
	w.begins()
	w.until("it is told", func() bool {
		return w.condition("Failing") == "True Paused kube-proxy follows: cp-1 could not bring it, and tries again: kube-proxy: the API refuses it"
	})
	w.annotate(annotation.CommitOf, w.record().Upgrade)
	for range 10 {
		must(t, w.round())
	}
	if r := w.record(); r.NoWayBack || r.Healthy > 0 {
		t.Errorf("%+v", r)
	}
	w.wish(oldImage)
	w.until("it is back", func() bool { return !w.record().Started && w.everywhere(oldImage) })
}

// TestAnotherControlPlaneBringsAPartWhereTheFirstOneIsNotReady, and the first one is told
// before.
func TestAnotherControlPlaneBringsAPartWhereTheFirstOneIsNotReady(t *testing.T) {
	w := newWorld(t, 3, 0)
	w.badPart = parts.Objects
	w.begins()
	w.until("cp-1 is told", func() bool { return w.node("cp-1").Annotations[annotation.PartOf] != "" })
	g, next := &gathered{}, cluster.Step{Do: cluster.Bring, Part: parts.Objects, Release: newImage}
	for _, n := range w.names() {
		g.seen.Nodes = append(g.seen.Nodes, *w.node(n))
		ready := state.Known(n != "cp-1")
		g.survey.Facts.Hosts = append(g.survey.Facts.Hosts, gate.Host{Name: n, Ready: ready, Whole: state.Known([]string{newImage})})
	}
	w.writes.Count = 0
	w.writes.Before = func(n int) error {
		if had := w.node("cp-1").Annotations[annotation.PartOf] != ""; had != (n == 1) {
			t.Errorf("at write %d cp-1 is told: %v", n, had)
		}
		return nil
	}
	must(t, w.r.bring(t.Context(), g, next))
	if one, two := w.node("cp-1").Annotations[annotation.PartOf], w.node("cp-2").Annotations[annotation.PartOf]; one != "" || two == "" || w.writes.Count != 2 {
		t.Errorf("%q, %q, %d writes", one, two, w.writes.Count)
	}
}

// TestWithoutAControlPlaneThatHasTheReleaseAPartWaitsAndSaysSo.
func TestWithoutAControlPlaneThatHasTheReleaseAPartWaitsAndSaysSo(t *testing.T) {
	g := &gathered{}
	got := g.withPart(cluster.Step{Do: cluster.Bring, Part: parts.Objects, Release: newImage, Why: "objects follows"})
	if want := "objects follows: no control plane is ready and has release " + newImage + " whole"; got.Do != cluster.Pause || got.Why != want {
		t.Errorf("%+v", got)
	}
}
