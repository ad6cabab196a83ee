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

// ErrCut is returned for a snapshot that ended before its sum, or does not match it.
var ErrCut = errors.New("the snapshot is not whole")

// page divides the size of every database, in bytes.
const page = 512

// Latest reads the latest revision with a quorum: every write that was acknowledged before
// the call has at most this revision.
func (c *Client) Latest(ctx context.Context) (int64, error) {
	r, err := pb.NewKVClient(c.conn).Range(ctx, &pb.RangeRequest{Key: []byte(markers), Limit: 1, KeysOnly: true})
	if err != nil {
		return 0, fmt.Errorf("ask etcd for its revision: %w", err)
	}
	return r.Header.GetRevision(), nil
}

// KVHash is a hash of the keys between two revisions.
type KVHash struct {
	Hash            uint32 `json:"hash"`
	HashRevision    int64  `json:"hashRevision"`
	CompactRevision int64  `json:"compactRevision"`
}

// HashKV hashes all keys of the local member up to a revision. Writes wait meanwhile, because
// the member commits nothing to its database.
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

// Snapshot writes the database of the local member as it is at one moment, and returns its
// size in bytes. The error is ErrCut if the sum that etcd sends at the end is missing or
// wrong. While w is slow, etcd keeps pages that it would otherwise free.
func (c *Client) Snapshot(ctx context.Context, w io.Writer) (size int64, err error) {
	return snapshot(ctx, c.conn, w)
}

func snapshot(ctx context.Context, conn *grpc.ClientConn, w io.Writer) (size int64, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := pb.NewMaintenanceClient(conn).Snapshot(ctx, &pb.SnapshotRequest{})
	if err != nil {
		return 0, fmt.Errorf("read a snapshot from etcd: %w", err)
	}
	return receive(stream, w)
}

// receive writes the messages of a stream. It holds each message back until the next one has
// come, because the last message is the sum of all others.
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
		return size, fmt.Errorf("%w: %d bytes came, without a sum", ErrCut, size)
	}
	if !bytes.Equal(sum.Sum(nil), last) {
		return size, fmt.Errorf("%w: its sum does not match", ErrCut)
	}
	return size, nil
}
