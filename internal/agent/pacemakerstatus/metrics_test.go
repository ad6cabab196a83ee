package pacemakerstatus

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	decide "github.com/holdfast/holdfast/internal/decide/pacemakerstatus"
	"github.com/holdfast/holdfast/internal/state"
)

func TestMetricsTellWhatThisHostSees(t *testing.T) {
	dir := t.TempDir()
	fenceHistory, fenceDevices = filepath.Join(dir, "history.jsonl"), dir
	t.Cleanup(func() { fenceHistory, fenceDevices = state.FencingHistoryPath, state.FencingDir })
	files := map[string]string{
		"history.jsonl": `{"time":"2026-11-20T12:00:00Z","target":"cp-2","off":true,"phases":{"identify":1000000000,"hold":9000000000,"powerOff":2000000000,"total":12000000000}}` + "\n" +
			`{"time":"2026-11-20T12:10:00Z","target":"cp-2","off":false}` + "\n",
		"cp-2.json": `{"target":"cp-2","delay":20000000000,"password":"hush"}`,
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := newCluster(t)
	in := c.look(t.Context(), "cp-1")
	var r state.EtcdReport
	r.Snapshot.Record = state.Known(state.EtcdRecord{State: state.EtcdPair, TakeOver: state.EtcdTakeOver{Counter: 3}})
	in.Etcd = state.Known(r)
	n := New(Options{Now: time.Now})
	n.set(decide.Report{Host: "cp-1", At: time.Unix(1000, 0), Writes: true, Status: decide.Status(in)}, in)
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(n); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, f := range families {
		for _, m := range f.GetMetric() {
			text.WriteString(f.GetName())
			for _, l := range m.GetLabel() {
				text.WriteString(" " + l.GetValue())
			}
			v := m.GetGauge().GetValue() + m.GetCounter().GetValue()
			text.WriteString(" " + time.Duration(v*1e9).String() + "\n")
		}
	}
	for _, want := range []string{
		"holdfast_pacemaker_cluster_condition FencingEnabled 1s", "holdfast_pacemaker_node_condition Online cp-2 1s",
		"holdfast_pacemaker_resource_condition Healthy cp-1 etcd 1s", "holdfast_pacemaker_fence_agent_condition cp-2_redfish Started cp-2 1s",
		"holdfast_etcd_record pair 1s", "holdfast_etcd_take_overs_total 3s", "holdfast_fences_total cp-2 true 1s", "holdfast_fences_total cp-2 false 1s",
		"holdfast_fence_last_seconds cp-2 12s", "holdfast_fence_worst_seconds cp-2 3s", "holdfast_fence_delay_seconds cp-2 20s", "holdfast_pacemaker_status_writer 1s",
	} {
		if !strings.Contains(text.String(), want+"\n") {
			t.Errorf("%q is missing in\n%s", want, text.String())
		}
	}
	if strings.Contains(text.String(), "hush") {
		t.Error("a password")
	}
}
