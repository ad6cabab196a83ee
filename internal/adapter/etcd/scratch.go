package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/model/etcdpod"
)

// Scratch describes the etcd that OpenScratch starts.
type Scratch struct {
	// Program is the path of etcd; empty for the one in PATH.
	Program string
	// DataDir is the data directory of one member; Name and PeerURL are those of that member.
	DataDir, Name, PeerURL string
	// Log receives etcd's output.
	Log io.Writer
	// only makes it the only member, whoever else the data name.
	only bool
}

// Alone is an etcd over the data of no running cluster. Only this process reaches it. The
// caller closes it.
type Alone struct {
	kv   pb.KVClient
	conn *grpc.ClientConn
	// dir has etcd's sockets, whose paths must be short. Nobody else may enter it.
	dir string
	end context.CancelFunc
	// ended is closed once etcd has ended; err then says how.
	ended chan struct{}
	err   error
}

const (
	// scratchMessage bounds an answer, in bytes: scratchPage objects of the largest size.
	scratchMessage = 64 << 20
	// scratchPage is how many keys are read at once. An object has at most 1.5 MiB.
	scratchPage = 40
	// scratchQuota, in bytes, is twice the largest quota of a site: data that had reached that,
	// and a little more, can be changed. Nobody is served with it.
	scratchQuota = 2 * int64(etcdpod.LargestQuota) << 30
	// scratchGrace is the time that etcd gets for an orderly end.
	scratchGrace = 30 * time.Second
)

// OpenScratch starts etcd over a data directory, and waits until it answers.
func OpenScratch(ctx context.Context, s Scratch) (*Alone, error) {
	dir, err := os.MkdirTemp("", "etcd-")
	if err != nil {
		return nil, err
	}
	client, peer := "unix://"+filepath.Join(dir, "client.sock"), "unix://"+filepath.Join(dir, "peer.sock")
	args := []string{
		"--data-dir", s.DataDir, "--name", s.Name, "--log-level", "warn",
		"--listen-client-urls", client, "--listen-peer-urls", peer,
		"--advertise-client-urls", "http://localhost:2379", // it must be one with a port; nobody asks it
		"--initial-advertise-peer-urls", s.PeerURL, "--initial-cluster", s.Name + "=" + s.PeerURL,
		"--quota-backend-bytes", fmt.Sprint(scratchQuota),
	}
	if s.only {
		args = append(args, "--force-new-cluster")
	}
	running, end := context.WithCancel(context.WithoutCancel(ctx))
	a := &Alone{dir: dir, end: end, ended: make(chan struct{})}
	go func() {
		defer close(a.ended)
		_, a.err = host.Run(running, host.Cmd{
			Name: cmp.Or(s.Program, "etcd"), Dir: dir, Stdout: s.Log, Grace: scratchGrace, Args: args,
		})
	}()
	conn, err := grpc.NewClient(client, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(scratchMessage), grpc.WaitForReady(true)))
	if err != nil {
		end()
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	a.conn, a.kv = conn, pb.NewKVClient(conn)
	if err := a.answers(ctx); err != nil {
		return nil, fmt.Errorf("start etcd over %s: %w", s.DataDir, errors.Join(err, a.Close()))
	}
	return a, nil
}

// answers waits until etcd answers or has ended.
func (a *Alone) answers(ctx context.Context) error {
	asked := make(chan error, 1)
	go func() {
		_, err := a.kv.Range(ctx, &pb.RangeRequest{Key: []byte("/"), CountOnly: true})
		asked <- err
	}()
	select {
	case err := <-asked:
		return err
	case <-a.ended: // Close tells why
		return errEnded
	}
}

// errEnded says that etcd ended before it was asked to.
var errEnded = errors.New("etcd has ended")

// Close ends etcd. The end need not be orderly: writes that were acknowledged are on the disk.
func (a *Alone) Close() error {
	_ = a.conn.Close()
	select {
	case <-a.ended:
		a.end()
		return errors.Join(fmt.Errorf("%w: %w", errEnded, a.err), os.RemoveAll(a.dir))
	default:
	}
	a.end()
	<-a.ended
	return os.RemoveAll(a.dir)
}

// HashKV hashes the keys from the compacted revision up to a revision.
func (a *Alone) HashKV(ctx context.Context, revision int64) (KVHash, error) {
	return hashKV(ctx, a.conn, revision)
}

// Each calls do for all keys with a prefix, in their order. do may put and delete the key that
// it is given, and those that it was given before. Each returns the revision at which the first page was read.
func (a *Alone) Each(ctx context.Context, prefix string, do func(key string, value []byte) error) (revision int64, err error) {
	key, end := []byte(prefix), prefixEnd(prefix)
	for {
		got, err := a.kv.Range(ctx, &pb.RangeRequest{Key: key, RangeEnd: end, Limit: scratchPage})
		if err != nil {
			return revision, fmt.Errorf("read etcd: %w", err)
		}
		if revision == 0 {
			revision = got.Header.Revision
		}
		for _, pair := range got.Kvs {
			key = append([]byte(string(pair.Key)), 0)
			if err := do(string(pair.Key), pair.Value); err != nil {
				return revision, fmt.Errorf("key %s: %w", pair.Key, err)
			}
		}
		if !got.More {
			return revision, nil
		}
	}
}

// prefixEnd returns the first key behind all keys with a prefix. A prefix must not be empty,
// nor end in the highest byte.
func prefixEnd(prefix string) []byte {
	end := []byte(prefix)
	end[len(end)-1]++
	return end
}

// Put writes a key.
func (a *Alone) Put(ctx context.Context, key string, value []byte) error {
	_, err := a.kv.Put(ctx, &pb.PutRequest{Key: []byte(key), Value: value})
	return err
}

// DeleteThrough removes all keys from the first to the last one, which it removes too. It is one
// entry of etcd's log, and one wait for the disk, however many there are.
func (a *Alone) DeleteThrough(ctx context.Context, first, last string) error {
	_, err := a.kv.DeleteRange(ctx, &pb.DeleteRangeRequest{Key: []byte(first), RangeEnd: append([]byte(last), 0)})
	return err
}

// Disarm takes back all alarms. An alarm is a part of the data, and etcd accepts no write
// while one stands. The caller has to mend the reason of the alarm.
func (a *Alone) Disarm(ctx context.Context) error {
	m := pb.NewMaintenanceClient(a.conn)
	got, err := m.Alarm(ctx, &pb.AlarmRequest{Action: pb.AlarmRequest_GET})
	if err != nil {
		return fmt.Errorf("ask etcd for its alarms: %w", err)
	}
	for _, alarm := range got.Alarms {
		_, err := m.Alarm(ctx, &pb.AlarmRequest{Action: pb.AlarmRequest_DEACTIVATE, MemberID: alarm.MemberID, Alarm: alarm.Alarm})
		if err != nil {
			return fmt.Errorf("take back etcd's alarm %s: %w", alarm.Alarm, err)
		}
	}
	return nil
}

// Compact gives up the values of keys that were deleted or written over. Without it a
// defragmentation keeps them.
func (a *Alone) Compact(ctx context.Context) error {
	now, err := a.kv.Range(ctx, &pb.RangeRequest{Key: []byte("/"), CountOnly: true})
	if err != nil {
		return fmt.Errorf("read etcd: %w", err)
	}
	_, err = a.kv.Compact(ctx, &pb.CompactionRequest{Revision: now.Header.Revision, Physical: true})
	return said("compact", err)
}

// Defragment gives the disk space back of what Compact gave up.
func (a *Alone) Defragment(ctx context.Context) error {
	_, err := pb.NewMaintenanceClient(a.conn).Defragment(ctx, &pb.DefragmentRequest{})
	return err
}

// Snapshot writes the database, as that of Client does.
func (a *Alone) Snapshot(ctx context.Context, w io.Writer) (size int64, err error) {
	return snapshot(ctx, a.conn, w)
}

// Compacted reports whether a read at a revision fails, as after its compaction.
func (a *Alone) Compacted(ctx context.Context, revision int64) bool {
	_, err := a.kv.Range(ctx, &pb.RangeRequest{Key: []byte("/"), Revision: revision, CountOnly: true})
	return err != nil
}
