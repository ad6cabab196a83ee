package etcd

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/holdfast/holdfast/internal/model/state"
)

// PeerURLs returns at which URLs each member is looked for, as this member has it on its
// disk, and the id of this member.
func (c *Client) PeerURLs(ctx context.Context) (self state.MemberID, at map[state.MemberID][]string, err error) {
	list, err := pb.NewClusterClient(c.conn).MemberList(ctx, &pb.MemberListRequest{})
	if err != nil {
		return 0, nil, said("list the members", err)
	}
	at = map[state.MemberID][]string{}
	for _, m := range list.Members {
		at[state.MemberID(m.ID)] = m.PeerURLs
	}
	return state.MemberID(list.Header.MemberId), at, nil
}

// Relocate has all members look for a member at another URL. It needs a quorum.
func (c *Client) Relocate(ctx context.Context, id state.MemberID, peerURL string) error {
	_, err := pb.NewClusterClient(c.conn).MemberUpdate(ctx, &pb.MemberUpdateRequest{ID: uint64(id), PeerURLs: []string{peerURL}})
	return said("look for member "+id.String()+" at "+peerURL, err)
}
