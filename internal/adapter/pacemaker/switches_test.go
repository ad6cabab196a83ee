package pacemaker

import (
	"os"
	"strings"
	"testing"
)

// The file is the output of crm_mon 2.1.5 in a lab.
func TestWhatAPersonSwitchedOffKeepsAFenceBack(t *testing.T) {
	healthy, err := os.ReadFile("testdata/crm_mon-healthy.xml")
	if err != nil {
		t.Fatal(err)
	}
	swap := func(old, with string) string { return strings.Replace(string(healthy), old, with, 1) }
	const etcd = `<resource id="etcd" resource_agent="ocf:holdfast:podman-etcd" role="Started" active="true" orphaned="false" blocked="false" managed="true"`
	for sentence, c := range map[string]struct{ text, want string }{
		"all is well":             {string(healthy), ""},
		"of a later version":      {swap("stonith-enabled=", "fencing-enabled="), ""},
		"no fencing":              {swap(`stonith-enabled="true"`, `stonith-enabled="false"`), "stonith-enabled is false"},
		"maintenance of all":      {swap(`maintenance-mode="false"`, `maintenance-mode="true"`), "maintenance mode"},
		"maintenance of a node":   {swap(`maintenance="false"`, `maintenance="true"`), "cp-1 is in maintenance"},
		"etcd is not managed":     {swap(etcd, strings.Replace(etcd, `managed="true"`, `managed="false"`, 1)), "etcd is unmanaged or in maintenance"},
		"etcd is in maintenance":  {swap(etcd, etcd+` maintenance="true"`), "etcd is unmanaged or in maintenance"},
		"Pacemaker gave etcd up":  {swap(etcd, strings.Replace(etcd, `blocked="false" managed="true"`, `blocked="true" managed="false"`, 1)), ""},
		"it says nothing of it":   {swap(`stonith-enabled="true"`, ""), "stonith-enabled is missing"},
		"it says nothing at all":  {"<pacemaker-result/>", "it is not whole"},
		"it says what is no word": {"crm_mon: Connection to cluster failed", "text outside"},
	} {
		if c.text == string(healthy) && sentence != "all is well" {
			t.Fatalf("%s: the text has nothing to swap", sentence)
		}
		tools(t, "crm_mon", "cat <<'E'\n"+c.text+"\nE")
		err := FencingAllowed(t.Context(), "etcd")
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", sentence, err)
		}
	}
}
