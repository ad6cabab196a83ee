package etcd

import (
	"context"
	"errors"
	"strconv"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/holdfast/holdfast/internal/model/state"
)

// TestTheDataOfMembersAreEqualOnlyIfAllSayTheSame of one revision, and nobody is missing.
func TestTheDataOfMembersAreEqualOnlyIfAllSayTheSame(t *testing.T) {
	a, b := hash{Sum: 7, Revision: 9, Compacted: 2}, hash{Sum: 8, Revision: 9, Compacted: 2}
	compacted := hash{Sum: 7, Revision: 9, Compacted: 5}
	for what, c := range map[string]struct {
		all  map[string]hash
		want state.Fact[bool]
	}{
		"the same":             {map[string]hash{"cp-1": a, "cp-2": a}, state.Known(true)},
		"another sum":          {map[string]hash{"cp-1": a, "cp-2": b}, state.Known(false)},
		"one is missing":       {map[string]hash{"cp-1": a}, state.Fact[bool]{}},
		"compacted elsewhere":  {map[string]hash{"cp-1": a, "cp-2": compacted}, state.Fact[bool]{}},
		"compacted, other sum": {map[string]hash{"cp-1": b, "cp-2": compacted}, state.Fact[bool]{}},
	} {
		if got := equal(c.all, 2); got != c.want {
			t.Errorf("%s: %+v", what, got)
		}
	}
}

// TestLargeDataAreComparedByTheHashesOfCompactions: no member reads its data for it, and one that has no
// hash of a compaction, since it started later, makes the answer unknown.
func TestLargeDataAreComparedByTheHashesOfCompactions(t *testing.T) {
	n := newNode(t, "cp-1", newAuthority(t, t.TempDir()))
	n.start(t)
	n.looks(t, "it serves", func(s MemberStatus) bool { return s.Serves && s.Leader != 0 })
	m := &Members{clients: map[string]*Client{"here": n.etcd}}
	here := map[string]string{"cp-1": "here"}
	kv := pb.NewKVClient(n.etcd.conn)
	compact := func() { // as an API server does
		t.Helper()
		put, err := kv.Put(t.Context(), &pb.PutRequest{Key: []byte("a"), Value: []byte(t.Name())})
		if err != nil {
			t.Fatal(err)
		}
		revision := put.Header.Revision
		_, err = kv.Put(t.Context(), &pb.PutRequest{Key: []byte(compactRevKey), Value: []byte(strconv.FormatInt(revision, 10))})
		if err == nil {
			_, err = kv.Compact(t.Context(), &pb.CompactionRequest{Revision: revision, Physical: true})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	see := func(what string, want state.Fact[bool]) {
		t.Helper()
		if got := m.equal(t.Context(), here, 0); got != want {
			t.Errorf("%s: %+v, want %+v", what, got, want)
		}
	}
	see("nothing was compacted yet", state.Fact[bool]{})
	compact()
	see("one compaction was seen", state.Fact[bool]{})
	compact()
	see("two were", state.Known(true))
	see("and again", state.Known(true))
	n.kill()
	n.start(t)
	n.looks(t, "it serves again", func(s MemberStatus) bool { return s.Serves && s.Leader != 0 })
	see("a member that has started since has no hash of it", state.Fact[bool]{})
	compact()
	see("the last one before it started", state.Fact[bool]{})
	compact()
	see("one of its own", state.Known(true))
}

// TestARealEtcdTellsItsVersionsAndTheHashOfItsData starts the etcd of a release.
func TestARealEtcdTellsItsVersionsAndTheHashOfItsData(t *testing.T) {
	n := newNode(t, "cp-1", newAuthority(t, t.TempDir()))
	n.start(t)
	n.looks(t, "it serves", func(s MemberStatus) bool { return s.Serves && s.Leader != 0 })
	eventually(t, "its versions", func(ctx context.Context) error {
		v, err := n.etcd.Versions(ctx)
		if err == nil && (v.Cluster == "" || v.Cluster == "not_decided" || v.Storage == "") {
			err = errors.New("it has " + v.Cluster + " and " + v.Storage)
		}
		return err
	})
	m := &Members{clients: map[string]*Client{"here": n.etcd}}
	if got := m.Equal(t.Context(), map[string]string{"cp-1": "here"}); got != state.Known(true) {
		t.Errorf("its data are equal to themselves: %+v", got)
	}
	if got := m.Equal(t.Context(), nil); got.Known {
		t.Errorf("nobody was asked: %+v", got)
	}
	n.kill()
	if got := m.Equal(t.Context(), map[string]string{"cp-1": "here"}); got.Known {
		t.Errorf("it is down: %+v", got)
	}
	if got := m.Versions(t.Context(), map[string]string{"cp-1": "here"}); len(got) > 0 {
		t.Errorf("it is down: %+v", got)
	}
}
