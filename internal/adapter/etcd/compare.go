package etcd

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/holdfast/holdfast/internal/model/state"
)

// The limits of one answer: of the versions, and of a hash, for which a member reads
// all of its data: about a second for each half GiB, of which there are 16 at the largest quota.
const (
	versionLimit = time.Second
	hashLimit    = 30 * time.Second
)

// Versions are those that a member has stored beside its data, such as 3.6.0: Cluster is
// the lowest minor release of all members, Storage that of the data's format. Empty is
// unknown.
type Versions struct {
	Cluster string `json:"etcdcluster"`
	Storage string `json:"storage"`
}

// Versions asks a member for its versions.
func (c *Client) Versions(ctx context.Context) (Versions, error) {
	ctx, cancel := context.WithTimeout(ctx, versionLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.cfg.ClientURL+"/version", nil)
	if err != nil {
		return Versions{}, err
	}
	answer, err := c.http.Do(req)
	if err != nil {
		return Versions{}, fmt.Errorf("ask etcd for its versions: %w", err)
	}
	defer func() { _ = answer.Body.Close() }() // it was read
	var out Versions
	if err := json.NewDecoder(http.MaxBytesReader(nil, answer.Body, maxVersions)).Decode(&out); err != nil {
		return Versions{}, fmt.Errorf("read the versions of etcd: %w", err)
	}
	return out, nil
}

// maxVersions bounds the answer, in bytes.
const maxVersions = 4 << 10

// Versions asks all hosts at once. One that does not answer is missing.
func (m *Members) Versions(ctx context.Context, addresses map[string]string) map[string]Versions {
	return ask(addresses, func(address string) (Versions, error) {
		c, err := m.client(address)
		if err != nil {
			return Versions{}, err
		}
		return c.Versions(ctx)
	})
}

// hash is what a member says of its data at one revision.
type hash struct {
	Sum                 uint32
	Revision, Compacted int64
}

// hash asks a member for the hash of its data at a revision, or at its present one for
// 0. It reads all keys: ask seldom.
func (c *Client) hash(ctx context.Context, revision int64) (hash, error) {
	ctx, cancel := context.WithTimeout(ctx, hashLimit)
	defer cancel()
	r, err := pb.NewMaintenanceClient(c.conn).HashKV(ctx, &pb.HashKVRequest{Revision: revision})
	if err != nil {
		return hash{}, err
	}
	return hash{r.Hash, r.HashRevision, r.CompactRevision}, nil
}

// Equal tells whether the data of all hosts' members are equal at one revision. It is
// unknown if one does not answer, does not have that revision yet, or has compacted
// another part of its data. It reads all data of each member: ask seldom.
func (m *Members) Equal(ctx context.Context, addresses map[string]string) state.Fact[bool] {
	var revision int64
	for _, address := range addresses {
		c, err := m.client(address)
		if err != nil {
			return state.Fact[bool]{}
		}
		first, err := c.hash(ctx, 0)
		if err != nil {
			return state.Fact[bool]{}
		}
		if revision == 0 || first.Revision < revision {
			revision = first.Revision
		}
	}
	if revision == 0 {
		return state.Fact[bool]{}
	}
	all := ask(addresses, func(address string) (hash, error) {
		c, err := m.client(address)
		if err != nil {
			return hash{}, err
		}
		return c.hash(ctx, revision)
	})
	return equal(all, len(addresses))
}

func equal(all map[string]hash, members int) state.Fact[bool] {
	if len(all) != members {
		return state.Fact[bool]{}
	}
	sums, compacted := map[uint32]bool{}, map[int64]bool{}
	for _, h := range all {
		sums[h.Sum], compacted[h.Compacted] = true, true
	}
	if len(compacted) > 1 {
		return state.Fact[bool]{}
	}
	return state.Known(len(sums) == 1)
}

// ask asks all addresses at once. One that gives an error is not in the result.
func ask[T any](addresses map[string]string, one func(address string) (T, error)) map[string]T {
	var mu sync.Mutex
	var group sync.WaitGroup
	out := map[string]T{}
	for name, address := range addresses {
		group.Go(func() {
			answer, err := one(address)
			if err != nil {
				return // an unknown host is not in the result
			}
			mu.Lock()
			defer mu.Unlock()
			out[name] = answer
		})
	}
	group.Wait()
	return out
}
