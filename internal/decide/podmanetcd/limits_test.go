package podmanetcd

import (
	"bytes"
	"encoding/xml"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// down returns the report of an etcd that should run and has been down for a
// while.
func down(d time.Duration, action state.EtcdAction) state.EtcdReport {
	r := state.EtcdReport{Wish: state.EtcdStarted, Down: d}
	r.Snapshot.Local.Running = state.Known(false)
	r.Verdict = state.EtcdVerdict{Action: action, Reason: "beta is absent", Next: "holdfast explain etcd"}
	r.Problem = "the disk is full"
	return r
}

func TestAMonitorSaysWhatAnAdministratorHasToKnow(t *testing.T) {
	const words = "beta is absent (the disk is full); run: holdfast explain etcd"
	for name, c := range map[string]struct {
		r    state.EtcdReport
		code Code
		why  string
	}{
		"a question at its limit":      {down(Question, state.EtcdAskHuman), Success, ""},
		"a question beyond it":         {down(Question+1, state.EtcdAskHuman), Generic, words},
		"a wait at its limit":          {down(Patience, state.EtcdWait), Success, ""},
		"a wait beyond it":             {down(Patience+1, state.EtcdWait), Generic, "etcd has been down for 2m0s: " + words},
		"kubeadm's etcd is not ours":   {state.EtcdReport{Wish: state.EtcdNotAsked}, NotRunning, ""},
		"nobody knows whether it runs": {state.EtcdReport{Wish: state.EtcdStarted, Down: time.Hour}, Success, ""},
	} {
		if code, why := Monitor(c.r); code != c.code || why != c.why {
			t.Errorf("%s: %d %q", name, code, why)
		}
	}
	plain := down(Question+1, state.EtcdAskHuman)
	plain.Problem, plain.Verdict.Next = "", ""
	if _, why := Monitor(plain); why != "beta is absent" {
		t.Errorf("%q", why)
	}
}

func TestEachParameterHasItsRange(t *testing.T) {
	const nodes = "a:10.0.0.1;b:10.0.0.2"
	for name, values := range map[string]map[string]bool{
		"max_backup_snapshots": {"0": true, "100": true, "-1": false, "101": false, "x": false},
		"oom":                  {"-1000": true, "1000": true, "-1001": false, "1001": false, "1.5": false},
		"pod_manifest":         {"/a/../b": true, "a": false},
		"backup_location":      {"/a": true, "./a": false},
	} {
		for value, ok := range values {
			_, err := Parse(map[string]string{"node_ip_map": nodes, name: value})
			if (err == nil) != ok || err != nil && !strings.HasPrefix(err.Error(), name+": ") {
				t.Errorf("%s=%s: %v", name, value, err)
			}
		}
	}
	if p, err := Parse(map[string]string{"node_ip_map": nodes, "backup_location": "/a/../b", "oom": ""}); err != nil || p.BackupDir != "/b" || p.OOM != state.UsualEtcdParameters().OOM {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestTheTwoNodesHaveTwoNamesAndTwoAddresses(t *testing.T) {
	for text, ok := range map[string]bool{
		"a:10.0.0.1;b:10.0.0.2": true, "a:10.0.0.1; b:10.0.0.2;": true, "a:[fd00::1];b:fd00::2": true,
		"": false, "a:10.0.0.1": false, "a:10.0.0.1;a:10.0.0.2": false, "a:10.0.0.1;b:10.0.0.1": false, "a:10.0.0.1;b:::ffff:10.0.0.1": false,
		"a:10.0.0.1;b:10.0.0.2;c:10.0.0.3": false, "a:10.0.0.1;b:10.0.0.2;a:10.0.0.3": false, ":10.0.0.1;b:10.0.0.2": false, "a:x;b:10.0.0.2": false,
	} {
		nodes, err := nodeMap(text)
		if (err == nil) != ok || ok != (len(nodes) == 2) {
			t.Errorf("%q: %v, %v", text, nodes, err)
		}
	}
	_, err := Parse(nil)
	if err == nil || err.Error() != "node_ip_map: required: Both nodes and their addresses" {
		t.Errorf("%v", err)
	}
}

func TestTheMetaDataListsEachParameterAndActionOnce(t *testing.T) {
	text, err := MetaData()
	if err != nil || !bytes.HasPrefix(text, []byte(xml.Header)) {
		t.Fatal(err)
	}
	var doc xmlAgent
	if err := xml.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range doc.Parameters {
		names = append(names, p.Name)
		if (p.Required == 1) != (p.Name == "node_ip_map") || p.Reloadable != 1 || p.Content.Type == "" || p.Long.Text == "" || p.Short.Lang != "en" {
			t.Errorf("%+v", p)
		}
	}
	if want := []string{"node_ip_map", "pod_manifest", "backup_location", "max_backup_snapshots", "oom"}; !slices.Equal(names, want) || !slices.Equal(Names(), want) {
		t.Errorf("%q", names)
	}
	for i, a := range doc.Actions {
		want := Actions()[i]
		if a.Name != want.Name || a.Timeout != seconds(want.Timeout) || (a.Interval != "") != (a.Name == "monitor") || (a.Depth == "0") != (a.Name == "monitor") {
			t.Errorf("%+v, want %+v", a, want)
		}
	}
}
