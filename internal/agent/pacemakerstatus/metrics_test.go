package pacemakerstatus

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/records"
	"github.com/holdfast/holdfast/internal/decide/clusterhealth"
	decide "github.com/holdfast/holdfast/internal/decide/pacemakerstatus"
	"github.com/holdfast/holdfast/internal/model/state"
)

func TestMetricsTellWhatThisHostSees(t *testing.T) {
	fenceFiles = records.Files{Root: t.TempDir()}
	t.Cleanup(func() { fenceFiles = records.Files{} })
	files := map[string]string{
		// cp-3 was off already at its second fence, which proves nothing about its BMC. The BMC of cp-2
		// booted at the first one: it answered late, and its host was off already.
		state.FencingHistoryPath: `{"time":"1970-01-01T00:01:00Z","target":"cp-3","off":true,"requests":1}` + "\n" +
			`{"time":"1970-01-01T00:02:00Z","target":"cp-3","off":true}` + "\n" +
			`{"time":"2026-11-20T11:00:00Z","target":"cp-2","off":true,"phases":{"identify":15000000000,"total":15000000000}}` + "\n" +
			`{"time":"2026-11-20T12:00:00Z","target":"cp-2","off":true,"requests":1,"phases":{"identify":1000000000,"hold":9000000000,"powerOff":2000000000,"total":12000000000}}` + "\n" +
			`{"time":"2026-11-20T12:10:00Z","target":"cp-2","off":false}` + "\n" +
			`{"time":"2026-11-20T12:20:00Z","target":"cp-4","off":true,"requests":1,"bmc":"https://10.99.0.4","phases":{"powerOff":2000000000}}` + "\n",
		state.FencingDir + "/cp-2.json": `{"target":"cp-2","delay":20000000000,"password":"hush"}`,
		state.FencingDir + "/cp-3.json": `{"tar`,                                           // its fences still count
		state.FencingDir + "/cp-4.json": `{"target":"cp-4","address":"https://10.99.0.9"}`, // the BMC that fenced it is gone
	}
	for name, text := range files {
		if err := host.WriteFileAtomic(fenceFiles.Path(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := newCluster(t)
	in := c.look(t.Context(), "cp-1")
	var r state.EtcdReport
	r.Snapshot.Record = state.Known(state.EtcdRecord{State: state.EtcdPair, TakeOver: state.EtcdTakeOver{Counter: 3}})
	r.Snapshot.Local = state.EtcdLocal{
		Running: state.Known(true), Leader: state.Known(state.MemberID(1)), Members: state.Known([]state.EtcdMember{{ID: 1}, {ID: 2, Learner: true}}),
		Stalled: 20 * time.Second,
	}
	r.Verdict.Action = state.EtcdAskHuman
	in.Etcd = state.Known(r)
	n := New(Options{Log: slog.New(slog.DiscardHandler), Now: time.Now})
	n.standIn = func() map[string]float64 { return map[string]float64{"committing": 1200} }
	n.failover = []clusterhealth.Failover{{Host: "cp-1", Resource: "cpu", Requested: 5, Allocatable: 4}}
	n.set(decide.Report{
		Host: "cp-1", At: time.Unix(1000, 0), Writes: true, Status: decide.Status(in), Lost: time.Unix(2, 0),
		TakeOver: decide.TakeOver{Lost: time.Unix(10, 0), Alone: time.Unix(19, 0), Pair: time.Unix(79, 0)},
	}, in)
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
		"holdfast_etcd_record pair 1s", "holdfast_etcd_take_overs_total 3s", "holdfast_fences_total cp-2 true 2s", "holdfast_fences_total cp-2 false 1s", "holdfast_fences_total cp-3 false 0s",
		"holdfast_fence_proven_timestamp_seconds cp-3 1m0s", "holdfast_fence_proven_timestamp_seconds cp-4 0s", "holdfast_fences_total cp-4 true 1s",
		"holdfast_fence_last_seconds cp-2 12s", "holdfast_fence_worst_seconds cp-2 3s", "holdfast_fence_delay_seconds cp-2 20s", "holdfast_pacemaker_status_writer 1s",
		"holdfast_fence_last_phase_seconds cp-2 power-off 2s", "holdfast_etcd_step ask-human 1s", "holdfast_etcd_members voter 1s",
		"holdfast_etcd_members learner 1s", "holdfast_etcd_has_leader 1s", "holdfast_etcd_stalled_seconds 20s", "holdfast_etcd_take_over_last_seconds 9s",
		"holdfast_etcd_alone_last_seconds 1m0s", "holdfast_etcd_take_over_last_timestamp_seconds 19s", "holdfast_peer_lost_timestamp_seconds 2s",
		"holdfast_etcd_stand_in_last_seconds committing 1.2s", "holdfast_survives_loss cp-2 0s", "holdfast_failover_requests cp-1 cpu 5s",
		"holdfast_failover_allocatable cp-1 cpu 4s",
	} {
		if !strings.Contains(text.String(), want+"\n") {
			t.Errorf("%q is missing in\n%s", want, text.String())
		}
	}
	if strings.Contains(text.String(), "holdfast_fence_worst_seconds cp-4") {
		t.Error("a BMC that is gone says how slow the present one is")
	}
	if strings.Contains(text.String(), "hush") {
		t.Error("a password")
	}
}
