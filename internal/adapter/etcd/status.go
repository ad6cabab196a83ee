package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Limits of one status request. etcd gets a moment to answer as usual, and less time if
// it is not connected. If it does not answer, it may be waiting for a leader:
// then it is asked where it answers even in that state.
const (
	statusLimit  = 400 * time.Millisecond
	connected    = 150 * time.Millisecond
	notConnected = 30 * time.Millisecond
)

// markers is the prefix of the protocol's markers: one key per member, whose
// value is the number of that member's record.
const (
	markers    = "holdfast/marker/"
	markersEnd = "holdfast/marker0" // the first key after them
)

// MemberStatus is the local etcd's answer about itself, from its own memory and
// disk only: no part of it needs a quorum.
type MemberStatus struct {
	Cluster state.MemberID `json:"cluster"`
	Member  state.MemberID `json:"member"`
	// Leader is zero if etcd knows none.
	Leader  state.MemberID     `json:"leader,omitempty"`
	Members []state.EtcdMember `json:"members"`
	// Serves is false while etcd waits for its first leader since its start: it
	// then serves no clients, and its markers cannot be read.
	Serves bool `json:"serves"`
	// The fields below are known only if it serves.
	Learner   bool   `json:"learner,omitempty"`
	Term      uint64 `json:"term,omitempty"`
	RaftIndex uint64 `json:"raftIndex,omitempty"`
	// Applied is how much of its log is in its database, zero for a member that joined and has
	// taken in nothing yet.
	Applied uint64   `json:"applied,omitempty"`
	DBSize  int64    `json:"dbSize,omitempty"`
	Version string   `json:"version,omitempty"`
	Errors  []string `json:"errors,omitempty"` // alarms, in etcd's words
}

// Votes reports whether a member serves clients, knows a leader, is no learner and
// has no alarm.
func (s MemberStatus) Votes() bool {
	return s.Serves && s.Leader != 0 && !s.Learner && len(s.Errors) == 0
}

// Status asks the local etcd, for at most 0.4 s. If any part of the answer is
// missing, it returns an error: no answer is partial.
func (c *Client) Status(ctx context.Context) (MemberStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, statusLimit)
	defer cancel()
	asClient := answer(func() (MemberStatus, error) { return c.serving(ctx) })
	patience := notConnected
	if c.conn.GetState() == connectivity.Ready {
		patience = connected
	}
	var refused error
	select {
	case r := <-asClient:
		if r.err == nil {
			return r.status, nil
		}
		refused = r.err
	case <-time.NewTimer(patience).C:
	}
	asPeer := answer(func() (MemberStatus, error) { return c.waiting(ctx) })
	return either(asClient, asPeer, refused)
}

// answered is a status, or the error that prevented it.
type answered struct {
	status MemberStatus
	err    error
}

// answer calls ask in the background.
func answer(ask func() (MemberStatus, error)) <-chan answered {
	out := make(chan answered, 1)
	go func() {
		status, err := ask()
		out <- answered{status, err}
	}()
	return out
}

// either returns the first successful one of two answers. It does not wait for
// asClient if that was refused already.
func either(asClient, asPeer <-chan answered, refused error) (MemberStatus, error) {
	var errs []error
	if refused != nil {
		errs, asClient = append(errs, fmt.Errorf("ask etcd: %w", refused)), nil
	}
	for len(errs) < 2 {
		select {
		case r := <-asClient:
			if r.err == nil {
				return r.status, nil
			}
			errs, asClient = append(errs, fmt.Errorf("ask etcd: %w", r.err)), nil
		case r := <-asPeer:
			if r.err == nil {
				return r.status, nil
			}
			errs, asPeer = append(errs, fmt.Errorf("ask etcd, which has no leader yet: %w", r.err)), nil
		}
	}
	return MemberStatus{}, errors.Join(errs...)
}

// serving asks as any client does.
func (c *Client) serving(ctx context.Context) (MemberStatus, error) {
	var status *pb.StatusResponse
	var marked map[state.MemberID]uint64
	var members []state.EtcdMember
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		status, err = pb.NewMaintenanceClient(c.conn).Status(ctx, &pb.StatusRequest{})
		return err
	})
	g.Go(func() (err error) { marked, members, err = inOrder(ctx, c.markers, c.members); return err })
	if err := g.Wait(); err != nil {
		return MemberStatus{}, err
	}
	return merge(status, members, marked), nil
}

// inOrder asks for the markers and then for the members: a list that is older than a marker could lack
// a third voter that was let in before the marker was written (docs/adr/0097).
func inOrder(ctx context.Context, markers func(context.Context) (map[state.MemberID]uint64, error), members func(context.Context) ([]state.EtcdMember, error)) (map[state.MemberID]uint64, []state.EtcdMember, error) {
	marked, err := markers(ctx)
	if err != nil {
		return nil, nil, err
	}
	list, err := members(ctx)
	return marked, list, err
}

// members lists the members as this member knows them.
func (c *Client) members(ctx context.Context) ([]state.EtcdMember, error) {
	list, err := pb.NewClusterClient(c.conn).MemberList(ctx, &pb.MemberListRequest{Linearizable: false})
	if err == nil {
		return listed(list.Members), nil
	}
	if ctx.Err() != nil || c.cfg.PeerURL == "" {
		return nil, err
	}
	// A learner does not list the members to clients.
	_, members, peerErr := c.peerMembers(ctx)
	if peerErr != nil {
		return nil, fmt.Errorf("%w; %w", err, peerErr)
	}
	return members, nil
}

func (c *Client) markers(ctx context.Context) (map[state.MemberID]uint64, error) {
	r, err := pb.NewKVClient(c.conn).Range(ctx, &pb.RangeRequest{Key: []byte(markers), RangeEnd: []byte(markersEnd), Serializable: true})
	if err != nil {
		return nil, err
	}
	out := make(map[state.MemberID]uint64, len(r.Kvs))
	for _, kv := range r.Kvs {
		if id, seq, ok := readMarker(string(kv.Key), string(kv.Value)); ok {
			out[id] = seq
		}
	}
	return out, nil
}

// readMarker reads one key. A marker that cannot be parsed counts as none.
func readMarker(key, value string) (id state.MemberID, seq uint64, ok bool) {
	hex, found := strings.CutPrefix(key, markers)
	seq, err := strconv.ParseUint(value, 10, 64)
	if !found || err != nil || id.UnmarshalText([]byte(hex)) != nil || id.String() != hex {
		return 0, 0, false
	}
	return id, seq, true
}

// listed converts etcd's list to ours, ordered by id. A learner that has
// started counts as in sync: etcd itself refuses a promotion that comes too
// early, and nobody else knows how far the learner is.
func listed(members []*pb.Member) []state.EtcdMember {
	out := make([]state.EtcdMember, 0, len(members))
	for _, m := range members {
		out = append(out, member(state.MemberID(m.ID), m.Name, m.IsLearner))
	}
	return sorted(out)
}

func member(id state.MemberID, name string, learner bool) state.EtcdMember {
	return state.EtcdMember{ID: id, Name: name, Learner: learner, InSync: learner && name != ""}
}

func sorted(members []state.EtcdMember) []state.EtcdMember {
	slices.SortFunc(members, func(a, b state.EtcdMember) int { return cmp.Compare(a.ID, b.ID) })
	return members
}

func merge(s *pb.StatusResponse, members []state.EtcdMember, marked map[state.MemberID]uint64) MemberStatus {
	self := state.MemberID(s.Header.GetMemberId())
	// A member that joined lists those with which it was started until it has taken in the
	// leader's data, itself as a voter. So its own list cannot tell that it was promoted.
	fresh := s.RaftAppliedIndex == 0
	for i, m := range members {
		members[i].Marked = marked[m.ID]
		members[i].Learner = m.Learner || fresh && m.ID == self
	}
	return MemberStatus{
		Cluster: state.MemberID(s.Header.GetClusterId()), Member: self, Leader: state.MemberID(s.Leader),
		Members: members, Serves: true, Learner: s.IsLearner || fresh, Term: s.RaftTerm, RaftIndex: s.RaftIndex, Applied: s.RaftAppliedIndex,
		DBSize: s.DbSize, Version: s.Version, Errors: s.Errors,
	}
}

// Confirm reads a key in a way that needs a quorum: if it succeeds, the members
// have agreed on something after the call began.
func (c *Client) Confirm(ctx context.Context) error {
	_, err := pb.NewKVClient(c.conn).Range(ctx, &pb.RangeRequest{Key: []byte(markers), Limit: 1, KeysOnly: true})
	return err
}

// pulses is the key that is written now and then while nobody else writes;
// pulseSize is the size of its value in bytes, more than a packet.
const (
	pulses    = "holdfast/pulse/"
	pulseSize = 16 << 10
)

// Pulse commits an entry that takes several packets. An etcd that refuses it
// for lack of space has answered, and that is enough.
func (c *Client) Pulse(ctx context.Context) error {
	_, err := pb.NewKVClient(c.conn).Put(ctx, &pb.PutRequest{Key: []byte(pulses), Value: make([]byte, pulseSize)})
	if status.Code(err) == codes.ResourceExhausted {
		return nil
	}
	return err
}
