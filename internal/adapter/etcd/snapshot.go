package etcd

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

// ErrCut is returned for a snapshot that ended before its sum, or does not have it.
var ErrCut = errors.New("the snapshot is not whole")

// page is the least size of which every size of a database is a multiple.
const page = 512

// Latest reads the latest revision in a way that needs a quorum: whatever was
// acknowledged before the call has no greater one.
func (c *Client) Latest(ctx context.Context) (int64, error) {
	r, err := pb.NewKVClient(c.conn).Range(ctx, &pb.RangeRequest{Key: []byte(markers), Limit: 1, KeysOnly: true})
	if err != nil {
		return 0, fmt.Errorf("ask etcd for its revision: %w", err)
	}
	return r.Header.GetRevision(), nil
}

// KVHash is a hash of the keys from one revision to another one.
type KVHash struct {
	Hash            uint32 `json:"hash"`
	HashRevision    int64  `json:"hashRevision"`
	CompactRevision int64  `json:"compactRevision"`
}

// HashKV hashes all keys of the local member up to a revision. The member commits nothing
// to its database meanwhile, so the time that it takes is one for which writes wait.
func (c *Client) HashKV(ctx context.Context, revision int64) (KVHash, error) {
	return hashKV(ctx, c.conn, revision)
}

func hashKV(ctx context.Context, conn *grpc.ClientConn, revision int64) (KVHash, error) {
	r, err := pb.NewMaintenanceClient(conn).HashKV(ctx, &pb.HashKVRequest{Revision: revision})
	if err != nil {
		return KVHash{}, fmt.Errorf("have etcd hash its keys: %w", err)
	}
	return KVHash{Hash: r.Hash, HashRevision: r.HashRevision, CompactRevision: r.CompactRevision}, nil
}

// Snapshot writes the database of the local member as it is at one moment, with the sum
// that etcd sends at its end. Without that sum, or with a wrong one, the error is ErrCut. A
// slow writer makes etcd keep pages that it would free.
func (c *Client) Snapshot(ctx context.Context, w io.Writer) (size int64, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := pb.NewMaintenanceClient(c.conn).Snapshot(ctx, &pb.SnapshotRequest{})
	if err != nil {
		return 0, fmt.Errorf("read a snapshot from etcd: %w", err)
	}
	return receive(stream, w)
}

// receive writes what comes. The last message is the sum of everything before it: so each
// message is held back until the next one has come.
func receive(stream grpc.ServerStreamingClient[pb.SnapshotResponse], w io.Writer) (size int64, err error) {
	sum, last := sha256.New(), []byte(nil)
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return size, fmt.Errorf("read a snapshot from etcd: %w", err)
		}
		_, _ = sum.Write(last) // never fails
		last = m.Blob
		if _, err := w.Write(last); err != nil {
			return size, err
		}
		size += int64(len(last))
	}
	if len(last) != sha256.Size || size%page != sha256.Size {
		return size, fmt.Errorf("%w: %d bytes came and no sum", ErrCut, size)
	}
	if !bytes.Equal(sum.Sum(nil), last) {
		return size, fmt.Errorf("%w: its sum is another one", ErrCut)
	}
	return size, nil
}
