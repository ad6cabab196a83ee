package doctor

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	decide "github.com/holdfast/holdfast/internal/decide/doctor"
)

// metricsURLs lists the addresses of etcd's metrics on this host.
var metricsURLs = []string{"http://127.0.0.1:2381/metrics", "http://[::1]:2381/metrics"}

func (l *observation) etcd(ctx context.Context) (decide.Etcd, error) {
	var failed error
	for _, url := range metricsURLs {
		page, err := l.Get(ctx, url)
		if err == nil {
			return l.withDisk(parseEtcd(page))
		}
		failed = errors.Join(failed, err)
	}
	return decide.Etcd{}, failed
}

// withDisk adds the size of the file system with etcd's data, if it can be read.
func (l *observation) withDisk(e decide.Etcd, err error) (decide.Etcd, error) {
	if err != nil {
		return e, err
	}
	_, size, err := l.Space(l.path(l.DataDir))
	l.note("size of etcd's disk", err)
	e.Disk = size
	return e, nil
}

const fsync = "etcd_disk_wal_fsync_duration_seconds"

// parseEtcd extracts the needed values from etcd's metrics.
func parseEtcd(page []byte) (decide.Etcd, error) {
	var e decide.Etcd
	var buckets []bucket
	for scan := bufio.NewScanner(bytes.NewReader(page)); scan.Scan(); {
		name, text, ok := strings.Cut(scan.Text(), " ")
		value, err := strconv.ParseFloat(text, 64)
		if !ok || err != nil || !finite(value) {
			continue
		}
		switch name {
		case "etcd_mvcc_db_total_size_in_bytes":
			e.Size = uint64(value)
		case "etcd_mvcc_db_total_size_in_use_in_bytes":
			e.InUse = uint64(value)
		case "etcd_server_quota_backend_bytes":
			e.Quota = uint64(value)
		}
		if le, ok := strings.CutPrefix(name, fsync+`_bucket{le="`); ok {
			if bound, err := strconv.ParseFloat(strings.TrimSuffix(le, `"}`), 64); err == nil && (finite(bound) || math.IsInf(bound, 1)) {
				buckets = append(buckets, bucket{bound, value})
			}
		}
	}
	if e.Size == 0 || len(buckets) == 0 {
		return e, errors.New("not the metrics of etcd")
	}
	e.Writes = uint64(buckets[len(buckets)-1].count)
	e.FsyncP99 = quantile(0.99, buckets)
	return e, nil
}

// finite reports whether a value is a usable number: not negative, and small
// enough for an integer.
func finite(v float64) bool { return v >= 0 && v < math.MaxInt64 }

// bucket counts the operations that took at most bound seconds.
type bucket struct{ bound, count float64 }

// quantile interpolates within the bucket that contains the quantile. Beyond
// the last finite bound it returns that bound, as Prometheus does.
func quantile(q float64, buckets []bucket) time.Duration {
	slices.SortFunc(buckets, func(a, b bucket) int { return cmp.Compare(a.bound, b.bound) })
	rank := q * buckets[len(buckets)-1].count
	var before bucket
	for _, b := range buckets {
		if math.IsInf(b.bound, 1) {
			break
		}
		if b.count >= rank && b.count > before.count {
			return seconds(before.bound + (b.bound-before.bound)*(rank-before.count)/(b.count-before.count))
		}
		before = b
	}
	if rank == 0 {
		return 0
	}
	return seconds(before.bound)
}

// longest is more than any operation of etcd takes, in seconds, and still fits
// into a duration.
const longest = 1e9

func seconds(s float64) time.Duration { return time.Duration(min(s, longest) * float64(time.Second)) }
