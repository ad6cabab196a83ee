package machineconfig

import (
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/holdfast/holdfast/internal/decide/hostapply"
	"github.com/holdfast/holdfast/internal/decide/rollout"
	"github.com/holdfast/holdfast/internal/decide/updates"
	"github.com/holdfast/holdfast/internal/model/state"
)

// reboot and patch are annotations of a node on which somebody wants that.
func reboot(wanted, reason string) map[string]string {
	return map[string]string{rollout.RebootWanted: wanted, rollout.RebootReason: reason}
}

func patch(wanted, reason string) map[string]string {
	return map[string]string{rollout.PatchWanted: wanted, rollout.PatchReason: reason}
}

// because returns what a host knows of why it boots that has these annotations.
func because(annotations map[string]string) purpose {
	wish := rollout.WishOf(annotations)
	return purpose{wish: wish, reason: annotations[wish.Names().Reason]}
}

// with adds how far the updates are, and the reason for which the distribution wants a boot.
func (p purpose) with(r updates.Record, required string) purpose {
	p.record, p.required = r, updates.Required{Wants: state.Known(required != ""), Why: required}
	return p
}

const newKernel = "the kernel 2 is installed, and 1 runs"

func TestWhyAHostBootsIsSaidInPlainWords(t *testing.T) {
	installed := func(names ...string) updates.Record { return updates.Record{Phase: updates.Installed, Updates: names} }
	held := func(names ...string) updates.Record {
		return updates.Record{Phase: updates.Staged, Updates: []string{"libc6"}, Stack: names}
	}
	back := hostapply.Journal{Target: two, Good: one, Back: true, Why: "the host was not ready:\n  kubelet is not healthy"}
	backToNone := hostapply.Journal{Target: two, Back: true, Why: "it booted 3 times"}
	for want, p := range map[string]purpose{
		"it boots for its configuration rendered-worker-2": {journal: hostapply.Journal{Target: two, Good: one}},

		"it boots to go back from its configuration rendered-worker-2 to rendered-worker-1, because the host was not ready: kubelet is not healthy": {journal: back},
		"it boots to go back from its configuration rendered-worker-2 to what it had before, because it booted 3 times":                             {journal: backToNone},

		"it boots, because somebody wanted it at 2026-11-23T03:00:00Z":                                                  because(reboot(tonight, "")),
		`it boots, because somebody wanted it at 2026-11-23T03:00:00Z ("new kernel")`:                                   because(reboot(tonight, "new kernel")),
		`it boots, because somebody wanted it at 2026-11-23T03:00:00Z ("a \"quoted\" word")`:                            because(reboot(tonight, `a "quoted" word`)),
		`it boots, because somebody wanted it at 2026-11-23T03:00:00Z, for its maintenance window ("doubts")`:           because(reboot(tonight+rollout.InWindow, "doubts")),
		`it boots, because somebody wanted it at 2026-11-23T03:00:00Z ("a [31mred line and more")`:                      because(reboot(tonight, "a\x1b[31mred\nline\u202e and\r\tmore ")),
		"it boots, because its distribution wants it (the kernel 2 is installed, and 1 runs)":                           because(reboot(tonight+rollout.InWindow, "its distribution wants it: "+newKernel)),
		"it boots for a wish that was taken back a moment ago":                                                          because(nil),
		`it boots for its updates; somebody wanted its updates at 2026-11-23T03:00:00Z ("CVE-2026-1")`:                  because(patch(tonight, "CVE-2026-1")),
		"it boots, because its distribution wants it (" + newKernel + "); somebody wanted its updates at " + tonight:    because(patch(tonight, "")).with(installed(), newKernel),
		"it boots after 1 update, because its distribution wants it; somebody wanted its updates at " + tonight:         because(patch(tonight, "")).with(installed("a"), ""),
		"it boots for 1 held update of what etcd runs on; somebody wanted its updates at " + tonight:                    because(patch(withHeld, "")).with(held("corosync=2"), ""),
		`it boots for 2 held updates of what etcd runs on; somebody wanted its updates at ` + tonight + ` ("new etcd")`: because(patch(withHeld, "new etcd")).with(held("corosync=2", "pacemaker=3"), newKernel),

		"it boots after 2 updates, because its distribution wants it (" + newKernel + "); somebody wanted its updates at " + tonight + `, for its maintenance window ("CVE-2026-1")`: because(patch(tonight+rollout.InWindow, "CVE-2026-1")).with(installed("a", "b"), newKernel),
	} {
		if got := p.boots(); got != want {
			t.Errorf("it says %q\nwant    %q", got, want)
		}
	}
}

// TestWhateverAPersonWritesANoteOfABootStaysOneShortLine, also one of two texts of others: a
// report of an incident keeps it whole.
func TestWhateverAPersonWritesANoteOfABootStaysOneShortLine(t *testing.T) {
	const kept = 400
	record := updates.Record{Phase: updates.Installed, Updates: make([]string, 1000)}
	for _, text := range []string{strings.Repeat("long ", 200), strings.Repeat("ü\x1b", 500), "\x00\xff\xfe\n\u2028\u202e", "\n \t"} {
		for _, p := range []purpose{
			because(reboot(tonight+rollout.InWindow, text)),
			because(reboot(tonight, rollout.ByDistribution+text)),
			because(patch(tonight+rollout.InWindow, text)).with(record, text),
		} {
			got := p.boots()
			if len(got) > kept || !utf8.ValidString(got) || strings.ContainsFunc(got, func(r rune) bool { return !unicode.IsPrint(r) }) {
				t.Errorf("%d bytes: %q", len(got), got)
			}
		}
	}
}

// TestAHostNotesWhatItsNodeSaysOfItsBoot has the notes of a whole way to each kind of boot.
func TestAHostNotesWhatItsNodeSaysOfItsBoot(t *testing.T) {
	for name, c := range map[string]struct {
		begin func(w *world)
		want  []string
	}{
		"a reboot that a person wants": {func(w *world) {
			w.annotations[rollout.RebootReason] = "new kernel"
			w.wants(tonight)
		}, []string{`it boots, because somebody wanted it at 2026-11-23T03:00:00Z ("new kernel")`}},
		"a reboot that the distribution wants": {func(w *world) {
			w.annotations[rollout.RebootReason] = rollout.ByDistribution + newKernel
			w.wants(tonight + rollout.InWindow)
		}, []string{"it boots, because its distribution wants it (the kernel 2 is installed, and 1 runs)"}},
		"updates": {func(w *world) {
			w.needsBoot()
			w.annotations[rollout.PatchReason] = "CVE-2026-1"
			w.wantsUpdates(tonight)
		}, []string{
			`it installs 1 update of its distribution; somebody wanted its updates at 2026-11-23T03:00:00Z ("CVE-2026-1")`,
			`it boots after 1 update, because its distribution wants it (the kernel 2 is installed, and 1 runs); somebody wanted its updates at 2026-11-23T03:00:00Z ("CVE-2026-1")`,
		}},
		"held updates too": {func(w *world) { w.wantsUpdates(withHeld) }, []string{
			"it installs 1 update of its distribution; somebody wanted its updates at 2026-11-23T03:00:00Z",
			"it boots for 1 held update of what etcd runs on; somebody wanted its updates at 2026-11-23T03:00:00Z",
		}},
	} {
		w := at(t, one)
		c.begin(w)
		w.settle(hour)
		var notes []string
		for _, e := range w.events {
			notes = append(notes, e.Why)
		}
		if !slices.Equal(notes, c.want) || w.boot != 1 {
			t.Errorf("%s: %d boots, it notes %q\nwant %q", name, w.boot, notes, c.want)
		}
	}
}
