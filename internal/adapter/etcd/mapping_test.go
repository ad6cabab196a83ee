package etcd

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/holdfast/holdfast/internal/model/state"
)

func TestAStatusAMembershipAndMarkersMakeALook(t *testing.T) {
	status := &pb.StatusResponse{
		Header: &pb.ResponseHeader{ClusterId: 0xc, MemberId: 0xfedcba9876543210}, Leader: 0xb, RaftTerm: 3, RaftIndex: 900, RaftAppliedIndex: 890,
		Version: "3.6.14", DbSize: 4096, Errors: []string{"memberID:11 alarm:NOSPACE "},
	}
	members := listed([]*pb.Member{
		{ID: 0xfedcba9876543210, Name: "cp-1"}, {ID: 0xb, Name: "cp-2", IsLearner: true}, {ID: 0xa, IsLearner: true},
	})
	got := merge(status, members, map[state.MemberID]uint64{0xb: 7, 0xdead: 9})
	want := MemberStatus{
		Cluster: 0xc, Member: 0xfedcba9876543210, Leader: 0xb, Serves: true, Term: 3, RaftIndex: 900, Applied: 890, Version: "3.6.14", DBSize: 4096,
		Errors: []string{"memberID:11 alarm:NOSPACE "},
		Members: []state.EtcdMember{
			{ID: 0xa, Learner: true},
			{ID: 0xb, Name: "cp-2", Learner: true, InSync: true, Marked: 7},
			{ID: 0xfedcba9876543210, Name: "cp-1"},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// An etcd that joined lists itself as a voter until it has taken in the leader's data.
func TestAMemberThatHasAppliedNothingIsALearner(t *testing.T) {
	members := listed([]*pb.Member{{ID: 0xa, Name: "cp-1"}, {ID: 0xb, Name: "cp-2"}})
	got := merge(&pb.StatusResponse{Header: &pb.ResponseHeader{ClusterId: 0xc, MemberId: 0xb}, Leader: 0xa, RaftIndex: 900}, members, nil)
	want := []state.EtcdMember{{ID: 0xa, Name: "cp-1"}, {ID: 0xb, Name: "cp-2", Learner: true}}
	if diff := cmp.Diff(want, got.Members); diff != "" || !got.Learner {
		t.Errorf("a learner: %t\n%s", got.Learner, diff)
	}
}

func TestAMarkerThatIsNotUnderstoodMarksNothing(t *testing.T) {
	for text, want := range map[string]string{
		markers + "fedcba9876543210=18446744073709551615": "fedcba9876543210 18446744073709551615 true",
		markers + "a=7":      "a 7 true",
		markers + "A=7":      "0 0 false", // not as we write it
		markers + "0a=7":     "0 0 false",
		markers + "=7":       "0 0 false",
		markers + "a=":       "0 0 false",
		markers + "a=-1":     "0 0 false",
		markers + "a=7 ":     "0 0 false",
		markers + "a/b=7":    "0 0 false",
		"holdfast/other/a=7": "0 0 false",
	} {
		key, value, _ := strings.Cut(text, "=")
		id, seq, ok := readMarker(key, value)
		if got := fmt.Sprint(id, seq, ok); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
	if !strings.HasPrefix(markers, "holdfast/marker") || markersEnd <= markers+"\xff\xff" || markersEnd > "holdfast/marker1" {
		t.Errorf("%s to %s is not the range of all markers", markers, markersEnd)
	}
}

const someMetrics = `# HELP etcd_server_has_leader Whether or not a leader exists. 1 is existence, 0 is not.
# TYPE etcd_server_has_leader gauge
etcd_server_has_leader %s
etcd_server_id{server_id="86bf9d278edcf5b2"} 1
etcd_server_is_leader %s
etcd_server_is_leader_x 1
`

func TestWhoLeadsIsReadFromTheMetrics(t *testing.T) {
	const self, other = 0x86bf9d278edcf5b2, 0xb
	two := []state.EtcdMember{{ID: self}, {ID: other}}
	for name, c := range map[string]struct {
		has, is string
		members []state.EtcdMember
		want    state.MemberID
		err     string
	}{
		"nobody":                        {"0", "0", two, 0, ""},
		"this one":                      {"1", "1", two, self, ""},
		"the other voter":               {"1", "0", two, other, ""},
		"the other voter of a learner":  {"1", "0", []state.EtcdMember{{ID: self, Learner: true}, {ID: other}}, other, ""},
		"none that could":               {"1", "0", []state.EtcdMember{{ID: self}, {ID: other, Learner: true}}, 0, "does not list"},
		"one of two others":             {"1", "0", append(two, state.EtcdMember{ID: 0xd}), 0, "several"},
		"a value that nobody has given": {"", "0", two, 0, "no etcd_server_id"},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := readMetrics(strings.NewReader(fmt.Sprintf(someMetrics, c.has, c.is)))
			var got state.MemberID
			if err == nil {
				got, err = m.leader(c.members)
			}
			if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("got %s, %v; want %s, %q", got, err, c.want, c.err)
			}
		})
	}
	if m, err := readMetrics(strings.NewReader("<html>")); err == nil {
		t.Errorf("something else is %+v", m)
	}
}

func TestWhatAPeerIsToldOfTheMembers(t *testing.T) {
	got, err := readPeerMembers(strings.NewReader(`[{"id":18364758544493064720,"peerURLs":["https://192.0.2.2:2380"],"name":"cp-2","clientURLs":["x"]},
		{"id":10,"peerURLs":["https://192.0.2.1:2380"],"isLearner":true}]`))
	want := []state.EtcdMember{{ID: 10, Learner: true}, {ID: 0xfedcba9876543210, Name: "cp-2"}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if got, err := readPeerMembers(strings.NewReader(`[{"id":`)); err == nil {
		t.Errorf("half an answer is %v", got)
	}
}

func TestALearnerThatWasAddedBeforeIsFoundByItsURL(t *testing.T) {
	const url = "https://192.0.2.2:2380"
	other := &pb.Member{ID: 1, Name: "cp-1", PeerURLs: []string{"https://192.0.2.1:2380"}}
	for name, c := range map[string]struct {
		member *pb.Member
		want   state.MemberID
		err    string
	}{
		"a learner that never started": {&pb.Member{ID: 2, IsLearner: true, PeerURLs: []string{url}}, 2, ""},
		"a learner that has started":   {&pb.Member{ID: 2, IsLearner: true, Name: "cp-2", PeerURLs: []string{url}}, 0, "member 2 is a learner there that has started"},
		"a voter":                      {&pb.Member{ID: 2, Name: "cp-2", PeerURLs: []string{url}}, 0, "member 2 is a voter there"},
		"nobody":                       {&pb.Member{ID: 2, Name: "cp-2", PeerURLs: []string{"https://192.0.2.3:2380"}}, 0, "try again"},
	} {
		got, err := addedBefore([]*pb.Member{other, c.member}, url)
		if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: got %s, %v", name, got, err)
		}
	}
}

func TestEtcdsRefusalsAreRecognisedAndReadable(t *testing.T) {
	err := fmt.Errorf("act: %w", said("promote member a", rpctypes.ErrGRPCLearnerNotReady))
	if !NotInSync(err) || NotInSync(errors.New("x")) || NotInSync(nil) || NotInSync(said("x", rpctypes.ErrGRPCMemberNotFound)) {
		t.Error("a learner that is not in sync is not told apart")
	}
	if got, want := err.Error(), "act: promote member a: etcdserver: can only promote a learner member which is in sync with leader"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if err := said("x", nil); err != nil {
		t.Errorf("a success is %v", err)
	}
}

func FuzzReadMetrics(f *testing.F) {
	f.Add(fmt.Sprintf(someMetrics, "1", "0"))
	f.Fuzz(func(t *testing.T, text string) {
		if m, err := readMetrics(strings.NewReader(text)); err == nil && (m.member == 0 || m.hasLeader == "" || m.isLeader == "") {
			t.Errorf("%+v was taken", m)
		}
	})
}
