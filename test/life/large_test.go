package life_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast/holdfast/internal/decide/etcdspace"
	"github.com/holdfast/holdfast/internal/decide/standing"
	"github.com/holdfast/holdfast/internal/lab"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/test/twonode/client"
)

const (
	// leastQuota, in GiB, has room for large and for what clients write meanwhile.
	leastQuota = 5
	large      = 4 << 30
	// pieceSize is the size of a value, in bytes, that of a large object of Kubernetes. etcd compacts
	// 1000 keys at once and takes no write meanwhile: values of 1 MiB held it up for a minute.
	pieceSize = 64 << 10
	// ballast is where the values are: no API server reads there, so none keeps them in memory.
	ballast = "/holdfast-test/ballast/"
	// learnsWithin has room for the copy of the former data, and for the snapshot of a learner
	// on a disk of 50 MB/s.
	learnsWithin = 15 * time.Minute
)

// TestADatabaseOfFourGigabytes gives etcd 4 GiB of data. A control plane that loses its power
// then comes back with a copy that the other one has taken over from: it is emptied, and learns
// all of it anew. After that etcd is filled to its quota: people are told, and once the
// values are deleted the hosts mend it by themselves. No acknowledged write is lost.
//
// It takes about 25 minutes, and 40 GiB of the machine's disk.
func TestADatabaseOfFourGigabytes(t *testing.T) {
	const scenario = "a database of 4 GB"
	if *quota < leastQuota {
		leaveOut(t, scenario, fmt.Sprintf("it needs a new lab with QUOTA=%d", leastQuota))
		return
	}
	play(t, scenario, func(tr *trial) {
		b := tr.openBallast()
		began := time.Now()
		if err := b.put(tr.Context(), large/pieceSize); err != nil {
			tr.Fatal(err)
		}
		tr.Trial.Took("filling", time.Since(began))
		tr.Noticed("while it is filled", began)
		for _, m := range tr.freshSpace().Members {
			if m.InUse < large || m.Quota != int64(*quota)<<30 {
				tr.Fatalf("etcd of %s has %d MiB in use of %d MiB, want at least %d of %d", m.Name, m.InUse>>20, m.Quota>>20, large>>20, *quota<<10)
			}
		}
		tr.learnsAnew()
		tr.isFull(b)
		tr.hasSpaceAgain(b)
	})
}

// learnsAnew cuts the power of a control plane, and waits until it is one of a pair again under
// another member id, which is a new member with all data.
func (tr *trial) learnsAnew() {
	tr.Helper()
	victim := tr.ControlPlanes()[1]
	before := tr.memberOf(victim)
	began := tr.Now()
	tr.Inject(lab.Fault{Host: victim, Kind: lab.FaultReset})
	tr.Eventually(learnsWithin, victim+" has learnt everything", func() error {
		if err := tr.Whole(tr.Context()); err != nil {
			return err
		}
		r, err := tr.Etcd(tr.Context(), victim)
		if err == nil && r.Snapshot.Record.Value.Member == before {
			err = fmt.Errorf("it is member %s as before", before)
		}
		return err
	})
	tr.Trial.Took("from the power cut until both are a pair", time.Since(began))
	tr.Noticed("until both are a pair", began)
	tr.outages(began)
	for _, m := range tr.freshSpace().Members {
		if m.InUse < large {
			tr.Errorf("etcd of %s has %d MiB in use, want at least %d", m.Name, m.InUse>>20, large>>20)
		}
	}
}

func (tr *trial) memberOf(host string) state.MemberID {
	tr.Helper()
	r, err := tr.Etcd(tr.Context(), host)
	if err != nil || r.Snapshot.Record.Value.Member == 0 {
		tr.Fatalf("the member of %s: %+v, %v", host, r.Snapshot.Record, err)
	}
	return r.Snapshot.Record.Value.Member
}

// isFull writes until etcd takes no more, and waits until the status says so.
func (tr *trial) isFull(b *ballastOf) {
	tr.Helper()
	began := tr.Now()
	if err := b.put(tr.Context(), *quota<<30/pieceSize); !errors.Is(err, rpctypes.ErrNoSpace) {
		tr.Fatalf("etcd takes more than its quota: %v", err)
	}
	tr.Trial.Took("filling to the quota", time.Since(began))
	full := time.Now()
	tr.Eventually(2*time.Minute, "the status on a host says that etcd is full", func() error {
		if !tr.saysFull() {
			return errors.New("it does not")
		}
		return nil
	})
	tr.Trial.Took("from the alarm until the status says so", time.Since(full))
	// From outside only the API tells, and nothing is written to it: its last word of etcd is older.
	tr.Logf("told after %.0f s on a host; from outside: %q", time.Since(full).Seconds(), tr.found(standing.EtcdFull, ""))
}

// saysFull reports whether the status says on the first host that etcd is full.
func (tr *trial) saysFull() bool {
	tr.Helper()
	out := tr.On(tr.ControlPlanes()[0], "holdfast status -o json || true") // its exit code says how the cluster is
	return strings.Contains(out, `"`+string(standing.EtcdFull)+`"`)
}

// hasSpaceAgain deletes what fills etcd, as a person does, and waits until the hosts have
// compacted, defragmented and taken the alarm back.
func (tr *trial) hasSpaceAgain(b *ballastOf) {
	tr.Helper()
	began := tr.Now()
	if err := b.remove(tr.Context()); err != nil {
		tr.Fatal(err)
	}
	tr.Eventually(smallerWithin, "etcd has space again", func() error {
		var errs []error
		r := tr.space(tr.ControlPlanes()[0])
		for _, m := range r.Members {
			if m.NoSpace || m.Percent() >= etcdspace.Low {
				errs = append(errs, fmt.Errorf("%s has %d %% of its quota, NOSPACE %t", m.Name, m.Percent(), m.NoSpace))
			}
		}
		if len(r.Members) != len(tr.ControlPlanes()) || r.At.Before(began) {
			errs = append(errs, fmt.Errorf("the report of %s has %d members", r.At.UTC().Format(time.TimeOnly), len(r.Members)))
		}
		if len(errs) > 0 {
			errs = append(errs, fmt.Errorf("%s: %s", r.Verdict.Rule, r.Verdict.Why))
		}
		return errors.Join(errs...)
	})
	tr.Trial.Took("from the deletion until etcd has space", time.Since(began))
	tr.Eventually(2*time.Minute, "the status says nothing of a full etcd", func() error {
		if said := tr.found(standing.EtcdFull, ""); said != "" || tr.saysFull() {
			return fmt.Errorf("it does; from outside: %q", said)
		}
		return nil
	})
	tr.Noticed("until etcd has space", began)
	tr.outages(began)
}

// ballastOf are values in etcd that belong to nobody.
type ballastOf struct {
	client *clientv3.Client
	next   int
}

func (tr *trial) openBallast() *ballastOf {
	tr.Helper()
	if err := tr.LetIntoEtcd(tr.Context()); err != nil {
		tr.Fatal(err)
	}
	keys, err := tr.EtcdKeys(tr.Context())
	if err != nil {
		tr.Fatal(err)
	}
	h := tr.ControlPlanes()[0]
	c, err := client.OpenEtcd(client.Target{Name: h, Address: net.JoinHostPort(tr.Address(h, lab.V4).String(), "2379")}, tr.Lab.Dial, keys)
	if err != nil {
		tr.Fatal(err)
	}
	b := &ballastOf{client: c}
	tr.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := errors.Join(b.remove(ctx), c.Close()); err != nil {
			tr.Error(err)
		}
	})
	return b
}

// atOnce is how many values are on their way: more keep the writes of the cluster from the disk.
const atOnce = 4

// put writes so many values of random bytes, which nothing makes smaller. It ends with etcd's
// error if etcd is full, and tries again after any other one.
func (b *ballastOf) put(ctx context.Context, pieces int) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for range pieces {
		if ctx.Err() != nil {
			break
		}
		key := fmt.Sprintf("%s%06d", ballast, b.next)
		b.next++
		g.Go(func() error { return b.one(ctx, key) })
	}
	return g.Wait()
}

func (b *ballastOf) one(ctx context.Context, key string) error {
	data := make([]byte, pieceSize)
	_, _ = rand.Read(data) // it never fails
	var err error
	for range 20 {
		once, cancel := context.WithTimeout(ctx, 15*time.Second)
		_, err = b.client.Put(once, key, string(data))
		cancel()
		if err == nil || errors.Is(err, rpctypes.ErrNoSpace) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
	return fmt.Errorf("write %s: %w", key, err)
}

func (b *ballastOf) remove(ctx context.Context) error {
	_, err := b.client.Delete(ctx, ballast, clientv3.WithPrefix())
	return err
}
