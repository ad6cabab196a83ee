package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/model/etcdpod"
)

// TestAQuotaIsKeptUnlessItIsEtcdsOwn: a file that names etcd's own quota is that of a site without the
// field, so the two are no difference.
func TestAQuotaIsKeptUnlessItIsEtcdsOwn(t *testing.T) {
	corpus := validConfigs(t)
	for patch, want := range map[string]etcdpod.Quota{"{}": 2, "etcdQuotaGiB: null": 2, "etcdQuotaGiB: 2": 2, "etcdQuotaGiB: 3": 3, "etcdQuotaGiB: 8": 8} {
		c := mustParse(t, patched(t, corpus["one"], patch))
		text, err := Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		if c.EtcdQuota() != want || strings.Contains(string(text), "etcdQuotaGiB") != (want > etcdpod.OwnQuota) {
			t.Errorf("%s: %d GiB, in\n%s", patch, c.EtcdQuota(), text)
		}
		made, err := Made(text)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c, made); diff != "" {
			t.Errorf("%s: %s", patch, diff)
		}
		found, err := Compare(mustParse(t, corpus["one"]), c)
		if err != nil || (len(found) > 0) != (want > etcdpod.OwnQuota) || len(found) > 0 && (found[0].Path != "etcdQuotaGiB" || !strings.HasPrefix(found[0].How, "is fixed at the installation: ")) {
			t.Errorf("%s: %+v, %v", patch, found, err)
		}
	}
}
