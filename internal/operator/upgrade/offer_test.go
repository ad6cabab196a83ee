package upgrade

import (
	"slices"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/decide/upgrade/cluster"
)

// TestAReleaseThatIsOfferedIsFetchedByAllHostsAndInstalledByNone: it is an available update then,
// and an upgrade to it begins without a fetch.
func TestAReleaseThatIsOfferedIsFetchedByAllHostsAndInstalledByNone(t *testing.T) {
	w := newWorld(t, 2, 1)
	must(t, w.look())
	w.annotate(annotation.SourcesOf, `{"folder":"/media/stick"}`)
	w.annotate(annotation.OfferOf, newImage)
	must(t, w.look())
	if said := w.condition("Progressing"); !strings.HasPrefix(said, "False "+string(cluster.Offered)) || !strings.Contains(said, "is fetched by cp-1, cp-2, w-1") {
		t.Errorf("it says %s", said)
	}
	if w.version().Status.AvailableUpdates != nil {
		t.Error("it is available before it lies on a host")
	}
	for _, n := range w.names() {
		fetch, err := annotation.Decode[annotation.Fetch](w.node(n).Annotations[annotation.FetchOf])
		if err != nil || !slices.Equal(fetch.Wanted, []string{oldImage, newImage}) || fetch.Sources.Folder != "/media/stick" {
			t.Errorf("%s: %+v, %v", n, fetch, err)
		}
	}
	want := []configv1.Release{{Image: newImage, Version: "0.2.0"}}
	available := func() bool {
		got := w.version().Status.AvailableUpdates
		return len(got) == 1 && got[0].Image == want[0].Image && got[0].Version == want[0].Version
	}
	w.until("it is available", available)
	for range 5 {
		must(t, w.round())
	}
	if said := w.condition("Progressing"); !strings.Contains(said, "lies on all hosts") {
		t.Errorf("it says %s", said)
	}
	for _, n := range w.names() {
		if h := w.hosts[n]; h.running != oldImage || w.node(n).Annotations[annotation.TurnOf] != "" {
			t.Errorf("%s has a turn: %s, %v", n, h.running, w.node(n).Annotations)
		}
	}
	if w.record().Started {
		t.Error("an upgrade has begun")
	}

	v := w.version()
	delete(v.Annotations, annotation.OfferOf)
	must(t, w.admin.Update(t.Context(), v))
	must(t, w.look())
	if a := w.node("cp-1").Annotations[annotation.FetchOf]; a != "" || !available() {
		t.Errorf("after the offer was taken back cp-1 is to fetch %q; available: %v", a, w.version().Status.AvailableUpdates)
	}
	w.begins()
	w.until("all hosts run it", func() bool { return w.everywhere(newImage) })
	if got := w.version().Status.AvailableUpdates; got != nil {
		t.Errorf("in the middle of an upgrade %v are available", got)
	}
}
