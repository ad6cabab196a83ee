package etcd

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/holdfast/holdfast/internal/model/state"
)

// The limits of one answer: of the versions, and of a hash.
const (
	versionLimit = time.Second
	hashLimit    = 10 * time.Second
)

// readsMost is the largest database in use, in bytes, of which members are asked for a hash of the
// present data. For it a member reads all of them, and takes no write meanwhile: half a second for
// each 256 MiB. With 4.7 GB on a busy disk it was 44 s (hack/test life QUOTA=5 SCENARIOS=FourGigabytes,
// 2026-11-28), after which the etcd keeper had ended one of two as mute.
const readsMost = 512 << 20

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
	return ask(m, addresses, func(c *Client) (Versions, error) { return c.Versions(ctx) })
}

// hash is what a member says of its data at one revision.
type hash struct {
	Sum                 uint32
	Revision, Compacted int64
}

// hash asks a member for the hash of its data at a revision, or at its present one for
// 0. It reads all keys for it, unless it knows the hash from a compaction: ask seldom.
func (c *Client) hash(ctx context.Context, revision int64) (hash, error) {
	ctx, cancel := context.WithTimeout(ctx, hashLimit)
	defer cancel()
	r, err := pb.NewMaintenanceClient(c.conn).HashKV(ctx, &pb.HashKVRequest{Revision: revision})
	if err != nil {
		return hash{}, err
	}
	return hash{r.Hash, r.HashRevision, r.CompactRevision}, nil
}

// Equal tells whether the data of all hosts' members are equal at one revision: the present one, or
// for more than readsMost one of the last compactions. It is unknown if one does not answer, does not
// have that revision, or has compacted another part of its data. A member reads all of its data for the
// present one: ask seldom.
func (m *Members) Equal(ctx context.Context, addresses map[string]string) state.Fact[bool] {
	return m.equal(ctx, addresses, readsMost)
}

func (m *Members) equal(ctx context.Context, addresses map[string]string, most int64) state.Fact[bool] {
	sizes, stop := context.WithTimeout(ctx, versionLimit)
	defer stop()
	all := m.Space(sizes, addresses)
	if len(all) != len(addresses) {
		return state.Fact[bool]{}
	}
	for _, s := range all {
		if s.InUse > most {
			return m.equalCompacted(ctx, addresses)
		}
	}
	return m.equalNow(ctx, addresses)
}

// compactRevKey is the key in which API servers keep the revision of their last compaction
// (k8s.io/apiserver, storage/etcd3/compact.go).
const compactRevKey = "compact_rev_key"

// compacted returns the revision of the last compaction of the API servers, which make one every five
// minutes.
func (c *Client) compacted(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, versionLimit)
	defer cancel()
	r, err := pb.NewKVClient(c.conn).Range(ctx, &pb.RangeRequest{Key: []byte(compactRevKey), Serializable: true})
	if err != nil || len(r.Kvs) == 0 {
		return 0, err
	}
	return strconv.ParseInt(string(r.Kvs[0].Value), 10, 64)
}

// equalCompacted compares the hashes that members keep of their compactions, for which they read
// nothing. It asks for the compaction before the last one: a member that has started since, and so has
// no hash of it, then refuses at once, where for the last one it would read all of its data.
func (m *Members) equalCompacted(ctx context.Context, addresses map[string]string) state.Fact[bool] {
	all := ask(m, addresses, func(c *Client) (int64, error) { return c.compacted(ctx) })
	if len(all) != len(addresses) {
		return state.Fact[bool]{}
	}
	revision := m.before(slices.Min(slices.Collect(maps.Values(all)))) // one may be a moment behind
	if revision == 0 {
		return state.Fact[bool]{}
	}
	return m.equalAt(ctx, addresses, revision)
}

// before returns the revision of the compaction that this process saw before the newest one; 0 if it
// has seen no other one.
func (m *Members) before(newest int64) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if newest > m.newest {
		m.previous, m.newest = m.newest, newest
	}
	return m.previous
}

func (m *Members) equalNow(ctx context.Context, addresses map[string]string) state.Fact[bool] {
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
	return m.equalAt(ctx, addresses, revision)
}

func (m *Members) equalAt(ctx context.Context, addresses map[string]string, revision int64) state.Fact[bool] {
	all := ask(m, addresses, func(c *Client) (hash, error) { return c.hash(ctx, revision) })
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

// ask asks the members of all hosts at once. One that gives an error is not in the result.
func ask[T any](m *Members, addresses map[string]string, one func(*Client) (T, error)) map[string]T {
	var mu sync.Mutex
	var group sync.WaitGroup
	out := map[string]T{}
	for name, address := range addresses {
		group.Go(func() {
			c, err := m.client(address)
			if err != nil {
				return // an unknown host is not in the result
			}
			answer, err := one(c)
			if err != nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			out[name] = answer
		})
	}
	group.Wait()
	return out
}
