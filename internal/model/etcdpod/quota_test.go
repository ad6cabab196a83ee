package etcdpod_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/model/etcdpod"
	"github.com/holdfast/holdfast/internal/render/etcdmanifest"
)

func TestAQuotaHasFlagsUnlessItIsEtcdsOwn(t *testing.T) {
	for q, want := range map[etcdpod.Quota][]string{
		0: nil, etcdpod.OwnQuota: nil,
		3:                    {"--quota-backend-bytes=3221225472", "--snapshot-catchup-entries=22500"},
		4:                    {"--quota-backend-bytes=4294967296", "--snapshot-catchup-entries=30000"},
		etcdpod.LargestQuota: {"--quota-backend-bytes=8589934592", "--snapshot-catchup-entries=60000"},
	} {
		if diff := cmp.Diff(want, q.Args()); diff != "" {
			t.Errorf("%d GiB: %s", q, diff)
		}
	}
	if got := etcdpod.Quota(0).Bytes(); got != 2<<30 {
		t.Errorf("without one it is %d bytes", got)
	}
}

func TestTheQuotaOfAHostIsReadBack(t *testing.T) {
	for given, want := range map[etcdpod.Quota]etcdpod.Quota{0: 2, 2: 2, 4: 4, 8: 8} {
		text, err := etcdmanifest.Pod(etcdmanifest.Spec{
			Name: "cp-1", Image: "etcd:1", CABundle: []byte("an authority\n"), Quota: given,
			Nodes: [2]etcdmanifest.Node{{Name: "cp-1", Address: netip.MustParseAddr("10.98.0.11")}, {Name: "cp-2", Address: netip.MustParseAddr("10.98.0.12")}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := etcdpod.QuotaOf(text); err != nil || got != want {
			t.Errorf("%d: %d, %v", given, got, err)
		}
		if given == 4 {
			if _, err := etcdpod.QuotaOf([]byte(strings.ReplaceAll(string(text), "4294967296", "much"))); err == nil {
				t.Error("a quota that is no number is read")
			}
		}
	}
	if _, err := etcdpod.QuotaOf([]byte("kind: Pod")); err == nil {
		t.Error("a manifest without etcd has a quota")
	}
}
