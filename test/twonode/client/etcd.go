package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
)

// OpenEtcd returns a client of one member. The client reconnects quickly:
// otherwise its own back-off would be measured.
func OpenEtcd(t Target, dial Dialer, tlsConfig *tls.Config) (*clientv3.Client, error) {
	params := grpc.ConnectParams{
		Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.2, MaxDelay: 200 * time.Millisecond},
		MinConnectTimeout: 500 * time.Millisecond,
	}
	return clientv3.New(clientv3.Config{
		Endpoints: []string{"https://" + t.Address}, TLS: tlsConfig, Logger: zap.NewNop(),
		DialKeepAliveTime: time.Second, DialKeepAliveTimeout: time.Second,
		DialOptions: []grpc.DialOption{
			grpc.WithConnectParams(params),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return dial(ctx, "tcp", t.Address) }),
		},
	})
}

// StartEtcd starts writing to etcd itself, below a prefix that nobody else
// uses.
func StartEtcd(ctx context.Context, rec *Recorder, shape Shape, prefix string, dial Dialer, tlsConfig *tls.Config) (*Load, error) {
	shape = shape.withDefaults()
	var stores []store
	for _, t := range shape.Targets {
		c, err := OpenEtcd(t, dial, tlsConfig)
		if err != nil {
			return nil, fmt.Errorf("etcd of %s: %w", t.Name, err)
		}
		stores = append(stores, etcdStore{client: c, prefix: prefix})
	}
	after, err := currentRevision(ctx, stores, prefix, shape.Timeout)
	if err != nil {
		return nil, err
	}
	return start(ctx, rec, shape, stores, prefix, after), nil
}

// currentRevision returns the revision from the first member that answers.
func currentRevision(ctx context.Context, stores []store, prefix string, timeout time.Duration) (int64, error) {
	var errs []error
	for _, s := range stores {
		once, cancel := context.WithTimeout(ctx, timeout)
		_, revision, err := s.read(once, prefix)
		cancel()
		if err == nil {
			return revision, nil
		}
		errs = append(errs, err)
	}
	return 0, fmt.Errorf("no member answers: %w", errors.Join(errs...))
}

type etcdStore struct {
	client *clientv3.Client
	prefix string
}

// write treats every error as unknown: etcd may carry out a write although it
// could not answer.
func (s etcdStore) write(ctx context.Context, key, value string) (int64, Outcome, error) {
	answer, err := s.client.Put(ctx, key, value)
	if err != nil {
		return 0, Unknown, err
	}
	return answer.Header.Revision, OK, nil
}

func (s etcdStore) read(ctx context.Context, key string) (string, int64, error) {
	answer, err := s.client.Get(ctx, key)
	if err != nil {
		return "", 0, err
	}
	if len(answer.Kvs) == 0 {
		return "", answer.Header.Revision, nil
	}
	return string(answer.Kvs[0].Value), answer.Header.Revision, nil
}

// newest always fails, because etcd has no reason to forget a change while a
// load runs.
func (s etcdStore) newest(context.Context) (int64, error) { return 0, errLost }

func (s etcdStore) watch(ctx context.Context, after int64, see func(key, value string, revision int64)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // also ends the watch at the server
	for answer := range s.client.Watch(ctx, s.prefix, clientv3.WithPrefix(), clientv3.WithRev(after+1)) {
		if answer.CompactRevision != 0 {
			return errLost
		}
		for _, e := range answer.Events {
			if e.Type == mvccpb.PUT {
				see(string(e.Kv.Key), string(e.Kv.Value), e.Kv.ModRevision)
			}
		}
		if err := answer.Err(); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (s etcdStore) close() { _ = s.client.Close() }
