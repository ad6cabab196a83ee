package etcd

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

// stream is what an etcd sends.
type stream struct {
	grpc.ServerStreamingClient[pb.SnapshotResponse]
	blobs [][]byte
	end   error
}

func (s *stream) Recv() (*pb.SnapshotResponse, error) {
	if len(s.blobs) == 0 {
		return nil, s.end
	}
	b := s.blobs[0]
	s.blobs = s.blobs[1:]
	return &pb.SnapshotResponse{Blob: b}, nil
}

// The sum comes last: a stream that was cut before it has left files that were taken for
// backups.
func TestASnapshotWithoutItsSumIsNotWhole(t *testing.T) {
	a, b := bytes.Repeat([]byte("a"), 4096), bytes.Repeat([]byte("b"), 4096)
	sum := sha256.Sum256(append(bytes.Clone(a), b...))
	lost := errors.New("the connection is lost")
	for name, c := range map[string]struct {
		blobs [][]byte
		end   error
		want  error
	}{
		"whole":               {[][]byte{a, b, sum[:]}, io.EOF, nil},
		"in other pieces":     {[][]byte{a[:100], a[100:], b, sum[:]}, io.EOF, nil},
		"nothing":             {nil, io.EOF, ErrCut},
		"no sum":              {[][]byte{a, b}, io.EOF, ErrCut},
		"half a sum":          {[][]byte{a, b, sum[:16]}, io.EOF, ErrCut},
		"the sum of less":     {[][]byte{a, sum[:]}, io.EOF, ErrCut},
		"a part of a page":    {[][]byte{a, b[:100], sum[:]}, io.EOF, ErrCut},
		"cut off":             {[][]byte{a}, lost, lost},
		"cut off at its end":  {[][]byte{a, b, sum[:]}, lost, lost},
		"something flipped":   {[][]byte{b, b, sum[:]}, io.EOF, ErrCut},
		"a sum and more":      {[][]byte{a, b, sum[:], a}, io.EOF, ErrCut},
		"a page as if a sum":  {[][]byte{a, b[:32]}, io.EOF, ErrCut},
		"an empty one at end": {[][]byte{a, b, {}, sum[:]}, io.EOF, nil},
	} {
		var got bytes.Buffer
		n, err := receive(&stream{blobs: c.blobs, end: c.end}, &got)
		if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) || n != int64(got.Len()) {
			t.Errorf("%s: %d bytes, %v", name, n, err)
		}
	}
}

func TestASnapshotHasWhatWasAcknowledgedBeforeIt(t *testing.T) {
	n, _ := founded(t, newAuthority(t, t.TempDir()))
	for range 3 {
		must(t, n.etcd.Pulse(t.Context()))
	}
	rev, err := n.etcd.Latest(t.Context())
	must(t, err)
	h, err := n.etcd.HashKV(t.Context(), rev)
	must(t, err)
	size, err := n.etcd.Snapshot(t.Context(), io.Discard)
	if err != nil || rev != 4 || h.HashRevision != rev || h.Hash == 0 || size%page != sha256.Size {
		t.Errorf("revision %d, hash %+v, %d bytes, %v", rev, h, size, err)
	}
	if _, err := n.etcd.HashKV(t.Context(), rev+1); err == nil {
		t.Error("a revision of the future has a hash")
	}
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := n.etcd.Snapshot(ctx, ending{cancel}); err == nil {
		t.Error("a snapshot whose context has ended is whole")
	}
}

// ending ends a context with the first byte.
type ending struct{ cancel func() }

func (e ending) Write(p []byte) (int, error) {
	e.cancel()
	return 0, fmt.Errorf("after %d bytes: %w", len(p), context.Canceled)
}
