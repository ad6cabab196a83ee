package etcd

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Applied asks the etcd at a client URL, which may be another host's and a learner, which member it
// is, and up to which entry it has applied the log.
func Applied(ctx context.Context, clientURL string) (state.MemberID, uint64, error) {
	c, err := Open(Config{ClientURL: clientURL})
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = c.Close() }()
	return c.applied(ctx)
}

func (c *Client) applied(ctx context.Context) (state.MemberID, uint64, error) {
	status, err := pb.NewMaintenanceClient(c.conn).Status(ctx, &pb.StatusRequest{})
	if err != nil {
		return 0, 0, said("ask how far its log is", err)
	}
	return state.MemberID(status.Header.GetMemberId()), status.RaftAppliedIndex, nil
}
