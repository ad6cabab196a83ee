package incident

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	decide "github.com/holdfast/holdfast/internal/decide/incident"
)

// TestWhatAWorkerMeasuredIsInTheReportOfBothHosts has a worker that could not
// write for 4.4 s. Its Lease holds that, and a measurement from before the
// incident. Another worker tells of a year to come.
func TestWhatAWorkerMeasuredIsInTheReportOfBothHosts(t *testing.T) {
	api := newAPI()
	a, b := pairOf(t, api)
	must(t, a.run(-10, nil), b.run(-10, nil))
	loses(t, a)
	must(t, a.run(4, nil))
	if words := a.reports()[0].Words(); strings.Contains(words, "Clients could write") || !strings.Contains(words, "no other machine measured") {
		t.Errorf("nobody has measured yet:\n%s", words)
	}
	gap := func(second float64, long time.Duration) string {
		return fmt.Sprintf(`{"until": %q, "longNanoseconds": %d, "vip": "10.98.0.5"}`, began.Add(time.Duration(second*1e9)).Format(time.RFC3339Nano), long)
	}
	api.leases = map[string]string{
		"worker-1": `{"gaps":[` + gap(-500, 2*time.Second) + "," + gap(4.9, 4400*time.Millisecond) + `]}`,
		"worker-2": `{"gaps":[` + gap(73*365*86400, 2*time.Second) + `]}`, // it belongs to somebody else
	}
	must(t, a.run(6, nil))
	returns(a, b)
	for _, at := range []float64{31, 33, 40} {
		must(t, b.run(at, nil), a.run(at, nil))
	}
	for _, m := range []*machine{a, b} {
		words := strings.Join(strings.Fields(m.reports()[0].Words()), " ")
		if !strings.Contains(words, "as measured by worker-1") || strings.Count(words, "through 10.98.0.5, which another host held, after 4.4s in which") != 2 {
			t.Errorf("%s:\n%s", m.name, words)
		}
	}
	for _, m := range []*machine{a, b} {
		noted, err := readMemory(filepath.Join(m.dir, "incidents"))
		again := m.run(45, nil)
		now, readErr := readMemory(filepath.Join(m.dir, "incidents"))
		must(t, err, again, readErr)
		if n := len(slices.DeleteFunc(slices.Clone(now.Records), func(r decide.Record) bool { return r.Kind != decide.Wrote })); n != 1 || !now.same(noted) {
			t.Errorf("%s noted it %d times", m.name, n)
		}
	}
}
