package etcd

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/holdfast/holdfast/internal/model/state"
)

// TestASpaceIsFilledAndMended plays it on a real etcd: it is filled until it raises the alarm, its
// old versions are compacted, its file is written anew, and the alarm is taken back.
func TestASpaceIsFilledAndMended(t *testing.T) {
	if testing.Short() {
		t.Skip("it fills an etcd")
	}
	node := newNode(t, "alpha", newAuthority(t, t.TempDir()))
	node.start(t, "--initial-cluster", node.name+"="+node.peerURL(), "--quota-backend-bytes", strconv.Itoa(16<<20))
	node.looks(t, "serves", serving)
	n := node.etcd
	ctx, kv := t.Context(), pb.NewKVClient(n.conn)
	refused := false
	for range 100 {
		_, err := kv.Put(ctx, &pb.PutRequest{Key: []byte("/a"), Value: make([]byte, 1<<20)})
		if refused = err != nil; refused {
			break
		}
	}
	full, err := n.Space(ctx)
	must(t, err)
	if !refused || len(full.NoSpace) != 1 || full.NoSpace[0] != full.Member || full.Quota != 16<<20 || full.Leader != full.Member || len(full.Members) != 1 ||
		full.Size < 15<<20 || full.Version == "" || full.Index == 0 || len(full.Corrupt) != 0 {
		t.Fatalf("refused %v, %+v", refused, full)
	}
	if done, err := n.Compacted(ctx, full.Revision); done || err != nil {
		t.Errorf("%v, %v", done, err)
	}
	for range 2 { // what was compacted is fine
		must(t, n.Compact(ctx, full.Revision))
	}
	if done, err := n.Compacted(ctx, full.Revision-1); !done || err != nil {
		t.Errorf("%v, %v", done, err)
	}
	must(t, n.Defragment(ctx))
	loose, err := n.Space(ctx)
	must(t, err)
	if loose.Size >= full.Size/2 || len(loose.NoSpace) != 1 {
		t.Errorf("%+v", loose)
	}
	must(t, n.DisarmNoSpace(ctx, loose.NoSpace))
	if _, err = kv.Put(ctx, &pb.PutRequest{Key: []byte("/b"), Value: []byte("x")}); err != nil {
		t.Error(err)
	}
	if err := n.Compact(ctx, 1<<40); err == nil || !strings.Contains(err.Error(), "compact: ") {
		t.Errorf("a revision that is not there yet: %v", err)
	}
}

// TestTheAlarmOfAMemberThatIsNotListedIsTakenBack: etcd keeps the alarm of a member that is removed,
// takes no writes for it, and takes it back by its id.
func TestTheAlarmOfAMemberThatIsNotListedIsTakenBack(t *testing.T) {
	node := newNode(t, "alpha", newAuthority(t, t.TempDir()))
	node.start(t, "--initial-cluster", node.name+"="+node.peerURL())
	node.looks(t, "serves", serving)
	n, ctx := node.etcd, t.Context()
	_, err := pb.NewMaintenanceClient(n.conn).Alarm(ctx, &pb.AlarmRequest{Action: pb.AlarmRequest_ACTIVATE, Alarm: pb.AlarmType_NOSPACE, MemberID: 7})
	must(t, err)
	put := func() error {
		_, err := pb.NewKVClient(n.conn).Put(ctx, &pb.PutRequest{Key: []byte("/a"), Value: []byte("x")})
		return err
	}
	if err := put(); err == nil {
		t.Error("etcd takes a write while a member that is not listed has the alarm")
	}
	s, err := n.Space(ctx)
	must(t, err)
	if !slices.Equal(s.NoSpace, []state.MemberID{7}) {
		t.Errorf("%+v", s)
	}
	must(t, n.DisarmNoSpace(ctx, s.NoSpace))
	must(t, put())
}

func TestTheAlarmsInAStatus(t *testing.T) {
	noSpace, corrupt := alarms([]string{"memberID:11 alarm:NOSPACE ", "etcdserver: no leader", "memberID:12 alarm:CORRUPT ", "memberID:13 alarm:NOSPACE ", "memberID:x alarm:NOSPACE ", ""})
	if !slices.Equal(noSpace, []state.MemberID{11, 13}) || !slices.Equal(corrupt, []state.MemberID{12}) {
		t.Errorf("%v, %v", noSpace, corrupt)
	}
}
