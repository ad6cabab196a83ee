package twonode_test

import (
	"testing"
	"time"

	"github.com/holdfast/holdfast/test/twonode/client"
)

// TestNothingIsBroken lets the clients write to an unbroken cluster. It shows
// that later failures are not the clients' fault.
func TestNothingIsBroken(t *testing.T) {
	s := open(t)
	tr := newTrial(t, s, "nothing is broken", 0)
	defer tr.finish()
	tr.began = time.Now()
	tr.startLoads()
	pause(t.Context(), 5*time.Second)
	tr.endLoads()
	for name, rec := range map[string]*client.Recorder{"etcd": tr.rec, "API": tr.apiRec} {
		h := rec.Copy()
		gap := h.Gap("", time.Second, h.Ops[len(h.Ops)-1].End)
		t.Logf("%s: %d operations, %d events, %v broken watches, longest gap %s", name, len(h.Ops), len(h.Events), h.Broken, gap.Length)
		for _, e := range h.Endpoints() {
			if rec.Last(e) == 0 {
				t.Errorf("nothing was written through %s", e)
			}
		}
	}
}
