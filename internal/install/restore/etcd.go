package restore

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/holdfast/holdfast/internal/adapter/host"
)

// scratch is an etcd that nobody but this process reaches: it listens on sockets in a
// folder that root alone enters.
type scratch struct {
	pb.KVClient
	conn  *grpc.ClientConn
	end   context.CancelFunc
	ended chan error
}

// maxMessage is etcd's own limit of a request, with room for the frame, in bytes.
const maxMessage = 64 << 20

// endGrace is the time that etcd gets to end in order.
const endGrace = 30 * time.Second

// start starts etcd over the restored data, and waits until it answers.
func start(ctx context.Context, w work) (*scratch, error) {
	client, peer := filepath.Join(w.dir, "client.sock"), filepath.Join(w.dir, "peer.sock")
	running, end := context.WithCancel(context.WithoutCancel(ctx))
	s := &scratch{end: end, ended: make(chan error, 1)}
	go func() {
		_, err := host.Run(running, host.Cmd{
			Name: "etcd", Dir: w.dir, Stdout: w.Log, Grace: endGrace,
			Args: []string{
				"--data-dir", w.data(), "--name", w.Name, "--log-level", "warn",
				"--listen-client-urls", "unix://" + client, "--advertise-client-urls", "http://localhost:2379", // it must be one with a port; nobody asks
				"--listen-peer-urls", "unix://" + peer,
				"--initial-advertise-peer-urls", w.PeerURL, "--initial-cluster", w.Name + "=" + w.PeerURL,
				"--quota-backend-bytes", fmt.Sprint(quota),
			},
		})
		s.ended <- err
	}()
	conn, err := grpc.NewClient("unix://"+client, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.WaitForReady(true)))
	if err != nil {
		end()
		return nil, err
	}
	s.conn, s.KVClient = conn, pb.NewKVClient(conn)
	if err := s.answers(ctx); err != nil {
		return nil, fmt.Errorf("start etcd over the restored data: %w", errors.Join(err, s.stop()))
	}
	return s, nil
}

// quota lets etcd change data that were at their limit: 8 GiB, the most that etcd advises.
const quota = 8 << 30

// answers waits until etcd answers or has ended.
func (s *scratch) answers(ctx context.Context) error {
	asked := make(chan error, 1)
	go func() {
		_, err := s.Range(ctx, &pb.RangeRequest{Key: []byte("/"), CountOnly: true})
		asked <- err
	}()
	select {
	case err := <-asked:
		return err
	case err := <-s.ended:
		s.ended <- err // stop tells it
		return errEnded
	}
}

// errEnded says that etcd ended before anybody asked it to.
var errEnded = errors.New("etcd has ended")

// stop ends etcd. It need not end in order: what it has acknowledged is on its disk.
func (s *scratch) stop() error {
	_ = s.conn.Close()
	select {
	case err := <-s.ended:
		s.end()
		return fmt.Errorf("%w: %w", errEnded, err)
	default:
	}
	s.end()
	<-s.ended
	return nil
}
