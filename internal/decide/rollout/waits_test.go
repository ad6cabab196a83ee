package rollout_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/decide/drain"
	"github.com/holdfast/holdfast/internal/decide/rollout"
)

// TestWhatSomebodyWantsAndDoesNotGetIsTold: at first as a note, later as something to look at.
func TestWhatSomebodyWantsAndDoesNotGetIsTold(t *testing.T) {
	const wanted = "2026-11-23T12:00:00Z"
	at := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	emptied := map[string]string{drain.Wanted: wanted, drain.Began: wanted, drain.Waits: "pod a/b: its budget c allows none"}
	for sentence, c := range map[string]struct {
		annotations map[string]string
		after       time.Duration
		kind        rollout.TroubleKind
		late        bool
		cancel      string
	}{
		"a reboot for an hour":             {map[string]string{rollout.RebootWanted: wanted, rollout.RebootWaits: rollout.About(wanted, "cp-2 is absent")}, time.Hour, rollout.WishWaits, false, "holdfast host reboot cp-1 --cancel"},
		"a reboot for two days":            {map[string]string{rollout.RebootWanted: wanted}, 48 * time.Hour, rollout.WishWaits, true, "holdfast host reboot cp-1 --cancel"},
		"updates for two days":             {map[string]string{rollout.PatchWanted: wanted + rollout.HeldToo}, 48 * time.Hour, rollout.WishWaits, true, "holdfast host patch cp-1 --cancel"},
		"a window within a week":           {map[string]string{rollout.RebootWanted: wanted + rollout.InWindow}, 48 * time.Hour, rollout.WishWaits, false, "holdfast host reboot cp-1 --cancel"},
		"a window that does not open":      {map[string]string{rollout.RebootWanted: wanted + rollout.InWindow}, 9 * 24 * time.Hour, rollout.WishWaits, true, "holdfast host reboot cp-1 --cancel"},
		"a time that has not come":         {map[string]string{rollout.RebootWanted: wanted}, -time.Hour, "", false, ""},
		"it has its turn":                  {map[string]string{rollout.RebootWanted: wanted, rollout.RebootFrom: rollout.About(wanted, "1"), rollout.RebootGiven: rollout.About(wanted, wanted)}, time.Hour, "", false, ""},
		"it was carried out":               {map[string]string{rollout.RebootWanted: wanted, rollout.RebootDone: wanted}, time.Hour, "", false, ""},
		"nobody wants anything":            {nil, time.Hour, "", false, ""},
		"a drain with somebody in the way": {emptied, time.Minute, rollout.DrainWaits, false, "holdfast host uncordon cp-1"},
		"a drain for two hours":            {emptied, 2 * time.Hour, rollout.DrainWaits, true, "holdfast host uncordon cp-1"},
		"a drain that cannot begin":        {map[string]string{drain.Wanted: wanted, drain.Waits: "no other host takes pods now"}, 2 * time.Hour, rollout.DrainWaits, true, "holdfast host uncordon cp-1"},
		"a drain that nobody hinders":      {map[string]string{drain.Wanted: wanted, drain.Began: wanted}, 2 * time.Hour, "", false, ""},
		"a host that keeps its pods":       {map[string]string{drain.Wanted: wanted, drain.Had: wanted, drain.Began: wanted, drain.Waits: "x"}, 2 * time.Hour, "", false, ""},
		"a host that is empty":             {map[string]string{drain.Wanted: wanted, drain.Had: wanted, drain.CordonedBy: "drain-wanted-" + wanted}, time.Hour, rollout.IsEmpty, false, "holdfast host uncordon cp-1"},
		"a host that is empty for a day":   {map[string]string{drain.Wanted: wanted, drain.Had: wanted, drain.CordonedBy: "drain-wanted-" + wanted}, 25 * time.Hour, rollout.IsEmpty, true, "holdfast host uncordon cp-1"},
	} {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "cp-1", Annotations: c.annotations}}
		found := rollout.HostOf(n).OfWishes(at.Add(c.after))
		if c.kind == "" {
			if len(found) > 0 {
				t.Errorf("%s: %+v", sentence, found)
			}
			continue
		}
		if len(found) != 1 || found[0].Kind != c.kind || found[0].Late != c.late || found[0].Cancel != c.cancel {
			t.Errorf("%s: %+v", sentence, found)
		}
	}
}
