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
)

// Scratch says which etcd OpenScratch starts.
type Scratch struct {
	// Program is etcd; empty means the one in the path.
	Program string
	// DataDir is the data directory of one member; Name and PeerURL are that member's.
	DataDir, Name, PeerURL string
	// Log gets etcd's output.
	Log io.Writer
}

// Alone is an etcd over data that belong to no running cluster. Nobody but this process
// reaches it.
type Alone struct {
	kv   pb.KVClient
	conn *grpc.ClientConn
	// dir has etcd's sockets: the path of one must be short. Nobody else enters it.
	dir string
	end context.CancelFunc
	// ended is closed when etcd has ended, with err.
	ended chan struct{}
	err   error
}

const (
	// scratchMessage bounds an answer, in bytes: scratchPage objects of etcd's own limit.
	scratchMessage = 64 << 20
	// scratchPage is how many keys are read at once. An object has at most 1.5 MiB.
	scratchPage = 40
	// scratchQuota lets data be changed that were at their limit: the most that etcd
	// advises.
	scratchQuota = 8 << 30
	// scratchGrace is the time that etcd gets to end in order.
	scratchGrace = 30 * time.Second
)

// OpenScratch starts etcd, and waits until it answers.
func OpenScratch(ctx context.Context, s Scratch) (*Alone, error) {
	dir, err := os.MkdirTemp("", "etcd-")
	if err != nil {
		return nil, err
	}
	client, peer := "unix://"+filepath.Join(dir, "client.sock"), "unix://"+filepath.Join(dir, "peer.sock")
	running, end := context.WithCancel(context.WithoutCancel(ctx))
	a := &Alone{dir: dir, end: end, ended: make(chan struct{})}
	go func() {
		defer close(a.ended)
		_, a.err = host.Run(running, host.Cmd{
			Name: cmp.Or(s.Program, "etcd"), Dir: dir, Stdout: s.Log, Grace: scratchGrace,
			Args: []string{
				"--data-dir", s.DataDir, "--name", s.Name, "--log-level", "warn",
				"--listen-client-urls", client, "--listen-peer-urls", peer,
				"--advertise-client-urls", "http://localhost:2379", // it must be one with a port; nobody asks it
				"--initial-advertise-peer-urls", s.PeerURL, "--initial-cluster", s.Name + "=" + s.PeerURL,
				"--quota-backend-bytes", fmt.Sprint(scratchQuota),
			},
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

// errEnded says that etcd ended before anybody asked it to.
var errEnded = errors.New("etcd has ended")

// Close ends etcd. It need not end in order: what it has acknowledged is on its disk.
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

// HashKV hashes all keys up to a revision.
func (a *Alone) HashKV(ctx context.Context, revision int64) (KVHash, error) {
	return hashKV(ctx, a.conn, revision)
}

// Each goes once through all keys with a prefix, in their order. do may put and delete the
// key that it is given. It returns the revision that the first page was read at.
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

// prefixEnd is the first key behind all with a prefix. A prefix must not be empty, nor end
// in the highest byte.
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

// Delete removes a key.
func (a *Alone) Delete(ctx context.Context, key string) error {
	_, err := a.kv.DeleteRange(ctx, &pb.DeleteRangeRequest{Key: []byte(key)})
	return err
}

// Disarm takes back alarms: with one, etcd accepts no write, and an alarm is a part of the
// data. What it was about must be mended by whoever uses the data.
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

// Defragment gives the room of what was deleted back to the disk.
func (a *Alone) Defragment(ctx context.Context) error {
	_, err := pb.NewMaintenanceClient(a.conn).Defragment(ctx, &pb.DefragmentRequest{})
	return err
}

// Compacted reports whether a revision cannot be read any more.
func (a *Alone) Compacted(ctx context.Context, revision int64) bool {
	_, err := a.kv.Range(ctx, &pb.RangeRequest{Key: []byte("/"), Revision: revision, CountOnly: true})
	return err != nil
}
