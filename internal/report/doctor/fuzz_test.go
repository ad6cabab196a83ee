package doctor

import "testing"

// FuzzMetricsOfEtcd parses arbitrary metrics.
func FuzzMetricsOfEtcd(f *testing.F) {
	f.Add([]byte("etcd_mvcc_db_total_size_in_bytes 1e+07\n" + fsync + "_bucket{le=\"0.001\"} 5\n" + fsync + "_bucket{le=\"+Inf\"} 10\n"))
	f.Add([]byte("etcd_mvcc_db_total_size_in_bytes 1\n" + fsync + "_bucket{le=\"NaN\"} +Inf\n"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, page []byte) {
		if e, err := parseEtcd(page); err == nil && e.FsyncP99 < 0 {
			t.Errorf("%q: a write took %s", page, e.FsyncP99)
		}
	})
}

// FuzzSwitches parses arbitrary output of lldpctl.
func FuzzSwitches(f *testing.F) {
	f.Add([]byte(`{"lldp":[{"interface":[{"name":"eth0","chassis":[{"id":[{"value":"aa"}],"name":[{"value":"sw"}]}]}]}]}`))
	f.Add([]byte(`{"lldp":[{"interface":null}]}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(_ *testing.T, text []byte) { _ = switchesOf(text) })
}
