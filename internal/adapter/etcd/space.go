package etcd

import (
	"context"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast/holdfast/internal/model/state"
)

// MemberSpace is the size of the database of a member, in its own words.
type MemberSpace struct {
	Member, Leader state.MemberID
	// Size and InUse are in bytes, as Quota is.
	Size, InUse, Quota int64
	// Revision is the newest one that the member has.
	Revision int64
	Index    uint64
	Version  string
	Learner  bool
	// NoSpace and Corrupt have the members that raised these alarms, as this member knows them.
	NoSpace, Corrupt []state.MemberID
	// Members lists all members.
	Members []state.EtcdMember
}

// Space asks the member about the size of its database and its alarms. No part of the answer needs
// a quorum, and nothing is written for it.
func (c *Client) Space(ctx context.Context) (MemberSpace, error) {
	var status *pb.StatusResponse
	var members []state.EtcdMember
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		status, err = pb.NewMaintenanceClient(c.conn).Status(ctx, &pb.StatusRequest{})
		return err
	})
	g.Go(func() (err error) { members, err = c.members(ctx); return err })
	if err := g.Wait(); err != nil {
		return MemberSpace{}, said("ask for the size of the database", err)
	}
	noSpace, corrupt := alarms(status.Errors)
	return MemberSpace{
		Member: state.MemberID(status.Header.GetMemberId()), Leader: state.MemberID(status.Leader), Learner: status.IsLearner,
		Size: status.DbSize, InUse: status.DbSizeInUse, Quota: status.DbSizeQuota,
		Revision: status.Header.GetRevision(), Index: status.RaftIndex, Version: status.Version, Members: members,
		NoSpace: noSpace, Corrupt: corrupt,
	}, nil
}

// alarms reads the alarms that a member names in its status: to list them in another way is
// written into etcd's log.
func alarms(list []string) (noSpace, corrupt []state.MemberID) {
	for _, text := range list {
		var id uint64
		var kind string
		if n, err := fmt.Sscanf(text, "memberID:%d alarm:%s", &id, &kind); err != nil || n != 2 {
			continue // another error: no leader, for example
		}
		switch kind {
		case pb.AlarmType_NOSPACE.String():
			noSpace = append(noSpace, state.MemberID(id))
		case pb.AlarmType_CORRUPT.String():
			corrupt = append(corrupt, state.MemberID(id))
		}
	}
	return noSpace, corrupt
}

// Compacted reports whether a revision can no longer be read.
func (c *Client) Compacted(ctx context.Context, revision int64) (bool, error) {
	_, err := pb.NewKVClient(c.conn).Range(ctx, &pb.RangeRequest{Key: []byte{0}, Limit: 1, KeysOnly: true, Revision: revision, Serializable: true})
	if is(err, rpctypes.ErrCompacted) {
		return true, nil
	}
	return false, said("read an old revision", err)
}

// Compact gives up what was overwritten or deleted before a revision; one that was given up
// before is fine.
func (c *Client) Compact(ctx context.Context, revision int64) error {
	_, err := pb.NewKVClient(c.conn).Compact(ctx, &pb.CompactionRequest{Revision: revision, Physical: true})
	if is(err, rpctypes.ErrCompacted) {
		return nil
	}
	return said("compact", err)
}

// Defragment writes the database of the member anew without its free space. The member answers
// nothing meanwhile, and goes on if the caller does not wait.
func (c *Client) Defragment(ctx context.Context) error {
	_, err := pb.NewMaintenanceClient(c.conn).Defragment(ctx, &pb.DefragmentRequest{})
	return said("defragment", err)
}

// DisarmNoSpace takes the alarm NOSPACE of these members back.
func (c *Client) DisarmNoSpace(ctx context.Context, members []state.MemberID) error {
	for _, id := range members {
		_, err := pb.NewMaintenanceClient(c.conn).Alarm(ctx, &pb.AlarmRequest{Action: pb.AlarmRequest_DEACTIVATE, Alarm: pb.AlarmType_NOSPACE, MemberID: uint64(id)})
		if err != nil {
			return said("take back the alarm of member "+id.String(), err)
		}
	}
	return nil
}

// Space asks the members of all hosts at once, as Statuses does.
func (m *Members) Space(ctx context.Context, addresses map[string]string) map[string]MemberSpace {
	return ask(m, addresses, func(c *Client) (MemberSpace, error) { return c.Space(ctx) })
}

// Client returns the client of the member at an address.
func (m *Members) Client(address string) (*Client, error) { return m.client(address) }
