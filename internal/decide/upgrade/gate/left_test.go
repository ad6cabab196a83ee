package gate

import (
	"slices"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// TestOneOfTwoThatIsLeftAloneIsNotAskedForTheOther: neither who fences it, nor where its links lead.
// A plan took the other one out, and the host that stays may be committed.
func TestOneOfTwoThatIsLeftAloneIsNotAskedForTheOther(t *testing.T) {
	f := good(t)
	for i := range f.Hosts {
		f.Hosts[i].Fenced, f.Hosts[i].Links = state.Fact[time.Time]{}, state.Fact[bool]{}
	}
	if ids, _ := closed(f, Commit); !slices.Contains(ids, "fencing") || !slices.Contains(ids, "pacemaker") {
		t.Fatalf("of two: %v", ids)
	}
	f.Hosts, f.Etcd.Members.Value = f.Hosts[:1], f.Etcd.Members.Value[:1]
	if ids, text := closed(f, Commit); len(ids) > 0 {
		t.Errorf("of one that is left: %s", text)
	}
	// The other one is still a member: it was not taken out.
	f.Etcd = good(t).Etcd
	if ids, _ := closed(f, Commit); !slices.Contains(ids, "etcd-members") {
		t.Errorf("of one whose Node alone is gone: %v", ids)
	}
}
