package machineconfig

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/holdfast/holdfast/internal/decide/drain"
	"github.com/holdfast/holdfast/internal/decide/rollout"
)

// docs/facts/life.md#configuration-of-hosts, L-M19: a host that failed is seen without a
// look at its log.
func TestTheStateOfAHostIsAMetric(t *testing.T) {
	w := withConfigs(t)
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(w.agent); err != nil {
		t.Fatal(err)
	}
	shown := func() (out []string) {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				out = append(out, f.GetName())
				for _, l := range m.GetLabel() {
					out = append(out, l.GetValue())
				}
			}
		}
		return out
	}
	if got := shown(); len(got) != 0 {
		t.Errorf("before its first configuration: %q", got)
	}
	for _, step := range []struct{ wish, config, stage, state string }{{one, one, "settled", "Done"}, {bad, one, "failed", "Degraded"}} {
		w.wish(step.wish)
		w.settle(hour)
		if got := shown(); len(got) != 4 || got[0] != "holdfast_machine_config_state" || got[1] != step.config || got[2] != step.stage || got[3] != step.state {
			t.Errorf("given %s: %q", step.wish, got)
		}
	}
}

// A reboot that nobody has asked for yet and updates that were not installed are metrics:
// alerts tell a person of them.
func TestWhatUpdatesNeedOfAPersonIsAMetric(t *testing.T) {
	w := at(t, one)
	shown := func() string {
		ch := make(chan prometheus.Metric, 10)
		w.agent.Collect(ch)
		close(ch)
		var out []string
		for m := range ch {
			for name, desc := range map[string]*prometheus.Desc{"boot": bootRequired, "failed": updatesFailed} {
				if m.Desc() == desc {
					out = append(out, name)
				}
			}
		}
		return strings.Join(out, " ")
	}
	const wish = "2026-11-23T12:00:00Z"
	for _, c := range []struct {
		what  string
		notes map[string]string
		want  string
	}{
		{"nothing", nil, ""},
		{"nothing is known", map[string]string{rollout.RebootRequired: ""}, ""},
		{"no reboot", map[string]string{rollout.RebootRequired: "No"}, ""},
		{"a reboot", map[string]string{rollout.RebootRequired: "Yes: libc6"}, "boot"},
		{"a reboot that somebody has asked for", map[string]string{rollout.RebootRequired: "Yes: libc6", rollout.RebootWanted: wish}, ""},
		{"updates that were installed", map[string]string{rollout.PatchDone: wish, rollout.PatchResult: rollout.About(wish, "installed: libc6")}, ""},
		{"updates that failed", map[string]string{rollout.PatchDone: wish, rollout.PatchResult: rollout.About(wish, "failed: no room")}, "failed"},
		{"of before", map[string]string{rollout.PatchDone: "2026-11-24T12:00:00Z", rollout.PatchResult: rollout.About(wish, "failed: no room")}, ""},
	} {
		for _, name := range []string{rollout.RebootRequired, rollout.RebootWanted, rollout.PatchDone, rollout.PatchResult} {
			delete(w.annotations, name)
		}
		maps.Copy(w.annotations, c.notes)
		w.watch()
		if got := shown(); got != c.want {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
}

// A wish that waits is a metric once it has waited for too long: an alert tells a person,
// who may have gone home since.
func TestAWishThatWaitsTooLongIsAMetric(t *testing.T) {
	w := at(t, one)
	shown := func() string {
		ch := make(chan prometheus.Metric, 10)
		w.agent.Collect(ch)
		close(ch)
		var out []string
		for m := range ch {
			if m.Desc() == hostEmpty {
				out = append(out, "empty")
			}
			if m.Desc() == wishLate {
				var d dto.Metric
				if err := m.Write(&d); err != nil {
					t.Fatal(err)
				}
				out = append(out, d.GetLabel()[0].GetValue())
			}
		}
		return strings.Join(out, " ")
	}
	ago := func(d time.Duration) string { return w.now.Add(-d).UTC().Format(time.RFC3339) }
	const day = 24 * time.Hour
	drains := func(d time.Duration) map[string]string {
		return map[string]string{drain.Wanted: ago(d), drain.Began: ago(d), drain.Waits: "shop/db: PodDisruptionBudget db lets none go"}
	}
	for _, c := range []struct {
		what  string
		notes map[string]string
		want  string
	}{
		{"nobody wants anything", nil, ""},
		{"a reboot since yesterday noon", map[string]string{rollout.RebootWanted: ago(23 * time.Hour)}, ""},
		{"a reboot for two days", map[string]string{rollout.RebootWanted: ago(2 * day)}, "reboot"},
		{"updates for two days", map[string]string{rollout.PatchWanted: ago(2 * day)}, "updates"},
		{"updates and a reboot for two days", map[string]string{rollout.PatchWanted: ago(2 * day), rollout.RebootWanted: ago(2 * day)}, "updates reboot"},
		{"a reboot in a window, for two days", map[string]string{rollout.RebootWanted: ago(2*day) + rollout.InWindow}, ""},
		{"empty for a minute", map[string]string{drain.Wanted: ago(time.Minute), drain.Had: ago(time.Minute), drain.CordonedBy: "drain-wanted-x"}, ""},
		{"empty for two days", map[string]string{drain.Wanted: ago(2 * day), drain.Had: ago(2 * day), drain.CordonedBy: "drain-wanted-x"}, "empty"},
		{"a drain for a minute", drains(time.Minute), ""},
		{"a drain for two hours", drains(2 * time.Hour), "drain"},
	} {
		for _, name := range []string{rollout.RebootWanted, rollout.PatchWanted, drain.Wanted, drain.Began, drain.Waits, drain.Had, drain.CordonedBy} {
			delete(w.annotations, name)
		}
		maps.Copy(w.annotations, c.notes)
		w.watch()
		if got := shown(); got != c.want {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
}

// A host that a person had cordoned before somebody wanted it empty has no annotation that says so: the
// operator leaves that cordon alone.
func TestAHostThatAPersonCordonedFirstIsEmptyToo(t *testing.T) {
	w := at(t, one)
	since := w.now.Add(-48 * time.Hour).UTC().Format(time.RFC3339)
	maps.Copy(w.annotations, map[string]string{drain.Wanted: since, drain.Had: since})
	for _, cordoned := range []bool{true, false} { // one that is not: nobody else takes its pods, and they stay
		w.cordoned = cordoned
		w.watch()
		ch, told := make(chan prometheus.Metric, 10), false
		w.agent.Collect(ch)
		close(ch)
		for m := range ch {
			told = told || m.Desc() == hostEmpty
		}
		if told != cordoned {
			t.Errorf("cordoned %t: told %t", cordoned, told)
		}
	}
}
