package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/holdfast/holdfast/internal/model/state"
)

// RemoveMember removes a member; a member that does not exist counts as
// removed. etcd refuses for some seconds if it believes that too few members
// are healthy.
func (c *Client) RemoveMember(ctx context.Context, id state.MemberID) error {
	_, err := pb.NewClusterClient(c.conn).MemberRemove(ctx, &pb.MemberRemoveRequest{ID: uint64(id)})
	if is(err, rpctypes.ErrMemberNotFound) {
		return nil
	}
	return said("remove member "+id.String(), err)
}

// AddLearner adds a learner with a peer URL, and returns its id. A learner that
// was added before and never started is reused.
func (c *Client) AddLearner(ctx context.Context, peerURL string) (state.MemberID, error) {
	client := pb.NewClusterClient(c.conn)
	added, err := client.MemberAdd(ctx, &pb.MemberAddRequest{PeerURLs: []string{peerURL}, IsLearner: true})
	if err == nil {
		return state.MemberID(added.Member.ID), nil
	}
	// The id is derived from the URL and the time: it may exist before the URL
	// does.
	if !is(err, rpctypes.ErrPeerURLExist) && !is(err, rpctypes.ErrMemberExist) {
		return 0, said("add a learner at "+peerURL, err)
	}
	list, err := client.MemberList(ctx, &pb.MemberListRequest{Linearizable: true})
	if err != nil {
		return 0, said("add a learner at "+peerURL+": list the members", err)
	}
	return addedBefore(list.Members, peerURL)
}

// addedBefore returns the learner that an earlier attempt added.
func addedBefore(members []*pb.Member, peerURL string) (state.MemberID, error) {
	for _, m := range members {
		id := state.MemberID(m.ID)
		switch {
		case !slices.Contains(m.PeerURLs, peerURL):
		case m.IsLearner && m.Name == "":
			return id, nil
		case m.IsLearner:
			return 0, fmt.Errorf("add a learner at %s: member %s is a learner there that has started already: remove it first", peerURL, id)
		default:
			return 0, fmt.Errorf("add a learner at %s: member %s is a voter there: remove it first", peerURL, id)
		}
	}
	return 0, fmt.Errorf("add a learner at %s: etcd reports that the URL is taken, but lists no member with it: try again", peerURL)
}

// Promote makes a learner a voter. A voter remains one.
func (c *Client) Promote(ctx context.Context, id state.MemberID) error {
	client := pb.NewClusterClient(c.conn)
	_, err := client.MemberPromote(ctx, &pb.MemberPromoteRequest{ID: uint64(id)})
	if is(err, rpctypes.ErrMemberNotLearner) {
		return nil
	}
	if NotInSync(err) && isVoter(ctx, client, id) {
		return nil // etcd checks the progress of a member before its role
	}
	return said("promote member "+id.String(), err)
}

func isVoter(ctx context.Context, client pb.ClusterClient, id state.MemberID) bool {
	list, err := client.MemberList(ctx, &pb.MemberListRequest{Linearizable: false})
	return err == nil && slices.ContainsFunc(list.Members, func(m *pb.Member) bool { return state.MemberID(m.ID) == id && !m.IsLearner })
}

// NotInSync reports whether a promotion was refused because the learner has not
// caught up yet.
func NotInSync(err error) bool { return is(err, rpctypes.ErrMemberLearnerNotReady) }

// Mark writes the marker of a member and waits for the acknowledgement: the
// write is then committed by the present voters.
func (c *Client) Mark(ctx context.Context, id state.MemberID, seq uint64) error {
	_, err := pb.NewKVClient(c.conn).Put(ctx, &pb.PutRequest{Key: []byte(markers + id.String()), Value: strconv.AppendUint(nil, seq, 10)})
	return said("write the marker of member "+id.String(), err)
}

// leadLimit bounds a transfer of the leadership. Raft gives one up after an election's time-out,
// a second, if the other member did not get to its election in that time. etcd does not tell: it
// waits for as long as its caller does.
const leadLimit = 5 * time.Second

// MoveLeader moves the leadership from the local member to another, within some seconds or not
// at all.
func (c *Client) MoveLeader(ctx context.Context, to state.MemberID) error {
	ctx, cancel := context.WithTimeout(ctx, leadLimit)
	defer cancel()
	client := pb.NewMaintenanceClient(c.conn)
	_, err := client.MoveLeader(ctx, &pb.MoveLeaderRequest{TargetID: uint64(to)})
	if is(err, rpctypes.ErrNotLeader) {
		if st, stErr := client.Status(ctx, &pb.StatusRequest{}); stErr == nil && st.Leader == uint64(to) {
			return nil
		}
	}
	return said("move the leadership to member "+to.String(), err)
}

// is reports whether etcd answered with one of its own errors, even if the
// error has been wrapped since.
func is(err, want error) bool {
	if e, ok := errors.AsType[refusal](err); ok {
		err = e.err
	}
	return err != nil && errors.Is(rpctypes.Error(err), want)
}

// refusal is etcd's error for a change, with the change that was asked for.
type refusal struct {
	asked string
	err   error
}

func (r refusal) Error() string { return r.asked + ": " + rpctypes.ErrorDesc(r.err) }
func (r refusal) Unwrap() error { return r.err }

func said(asked string, err error) error {
	if err == nil {
		return nil
	}
	return refusal{asked, err}
}
