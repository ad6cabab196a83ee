package leafcert_test

import (
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/leafcert"
	"github.com/holdfast/holdfast/internal/model/state"
)

// TestUntilACertificateIsLateItWaitsForAHostThatIsAway, and from then on for nobody: with
// each life, by the day of the certificate or that of its authority.
func TestUntilACertificateIsLateItWaitsForAHostThatIsAway(t *testing.T) {
	for _, life := range []time.Duration{6 * time.Minute, time.Hour, day, 30 * day, 90 * day, year} {
		for _, from := range []time.Duration{life, 10 * life} { // a renewed one is valid from the day of its authority on
			for _, name := range []string{"apiserver.crt", "front-proxy-client.crt", "etcd/peer.crt"} {
				f := leaf(name, life)
				f.Ends, f.From = noon.Add(life), noon.Add(life-from)
				f.Issuer.From = noon.Add(-20 * year)
				h := host(2, f)
				h.Life = life
				h.Cluster.Value.Nodes[1].Ready = false
				at, is := h.Late()[f.Path]
				if !is || len(h.Late()) != 1 || !at.Equal(f.Ends.Add(-life/6)) {
					t.Fatalf("a life of %s: late at %s, and it ends at %s", life, at, f.Ends)
				}
				for after, want := range map[time.Duration]leafcert.Kind{
					-life/6 - 1: leafcert.None, -life / 6: leafcert.Wait, -1: leafcert.Wait, 0: leafcert.Work, 1: leafcert.Work, life / 6: leafcert.Work, life: leafcert.Work,
				} {
					h.Now = at.Add(after)
					if s := leafcert.Decide(h); s.Kind != want {
						t.Errorf("%s with a life of %s, %s after it is late: %+v, want %s", name, life, after, s, want)
					}
				}
			}
		}
	}
}

// TestAFileThatIsOfNoUseIsLateSinceItWasSeen: a torn one, and one that cannot be read. Each other one
// has its own time.
func TestAFileThatIsOfNoUseIsLateSinceItWasSeen(t *testing.T) {
	torn, young, old := leaf("apiserver.crt", year), leaf("etcd/peer.crt", 300*day), leaf("etcd/server.crt", 20*day)
	torn.Torn = true
	h := host(2, torn, young, old)
	h.Cluster = state.Fact[leafcert.Cluster]{}
	h.Unread = []string{"damaged.crt"}
	late := h.Late()
	if len(late) != 4 || !late[torn.Path].Equal(noon) || !late["damaged.crt"].Equal(noon) || !late[young.Path].Equal(young.Ends.Add(-year/6)) || !late[old.Path].Equal(old.Ends.Add(-year/6)) {
		t.Errorf("%v", late)
	}
	if s := leafcert.Decide(h); s.Kind != leafcert.Work || len(s.Renew) != 2 {
		t.Errorf("it waits for nobody: %+v", s)
	}
	h.Broken, h.Now = h.BrokenSince(), noon.Add(time.Hour)
	if late := h.Late(); len(h.Broken) != 2 || !late[torn.Path].Equal(noon) || !late["damaged.crt"].Equal(noon) {
		t.Errorf("an hour later: %v", late)
	}
	h.Files[0].Torn, h.Unread = false, nil
	if late := h.Late(); len(h.BrokenSince()) > 0 || len(late) != 3 || !late[torn.Path].Equal(torn.Ends.Add(-year/6)) {
		t.Errorf("once they are whole: %v", late)
	}
	h.Files = nil
	if late := h.Late(); len(late) != 0 {
		t.Errorf("without files: %v", late)
	}
}
