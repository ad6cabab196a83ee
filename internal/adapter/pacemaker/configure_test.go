package pacemaker

import (
	"strings"
	"testing"
)

func TestAFileIsChangedByWhatChangesNothingElse(t *testing.T) {
	for _, c := range []struct {
		file, line, want string
	}{
		{"cib", "property set a=b", "pcs -f F property set a=b"},
		{"cib", "constraint delete x", "pcs -f F constraint delete x"},
		{"cib", "cluster destroy", ""},
		{"cib", "stonith fence cp-2", ""},
		{"cib", "stonith confirm cp-2", ""},
		{"cib", "property", ""},
		{"cib", "", ""},
		{"corosync", "cluster config update totem token=1", "pcs cluster config update totem token=1 --corosync_conf F"},
		{"corosync", "cluster setup pcm cp-1", "pcs cluster setup pcm cp-1 --corosync_conf F"},
		{"corosync", "cluster destroy", ""},
		{"corosync", "property set a=b", ""},
	} {
		edit := EditCIB
		if c.file == "corosync" {
			edit = EditCorosync
		}
		got, err := edit("F", strings.Fields(c.line)...)
		if c.want == "" && err == nil || c.want != "" && (err != nil || got.String() != c.want) {
			t.Errorf("%s of %s: %s, %v", c.line, c.file, got, err)
		}
	}
	if got := CommandLine("property", "set", "a=b c"); got != "pcs property set 'a=b c'" {
		t.Error(got)
	}
}
