package podmanetcd

import (
	"encoding/json"
	"testing"

	"github.com/holdfast/holdfast/internal/model/state"
)

// FuzzParameters tries any values that Pacemaker's configuration may hold for
// etcd.
func FuzzParameters(f *testing.F) {
	f.Add("cp-1:10.98.0.11;cp-2:fd98::12", "/x.yaml", "/b", "3", "-997")
	f.Add("cp-1:10.98.0.11;cp-1:10.98.0.12", "x", "", "-1", "x")
	f.Add(";;:", "/../x", "/", "101", "")
	f.Fuzz(func(t *testing.T, nodes, manifest, backup, count, oom string) {
		p, err := Parse(map[string]string{"node_ip_map": nodes, "pod_manifest": manifest, "backup_location": backup, "max_backup_snapshots": count, "oom": oom})
		if err != nil {
			return
		}
		if len(p.Nodes) != 2 || p.Backups < 0 || p.PodManifest == "" || p.PodManifest[0] != '/' {
			t.Errorf("%+v", p)
		}
		data, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := state.DecodeEtcdParameters(data); err != nil {
			t.Errorf("%s is not read again: %v", data, err)
		}
	})
}
