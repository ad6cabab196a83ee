package pacemakerstatus

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/records"
	"github.com/holdfast/holdfast/internal/decide/clusterhealth"
	decide "github.com/holdfast/holdfast/internal/decide/pacemakerstatus"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/golden"
)

// moment holds what a host sees at a moment of a story: a healthy site, the loss
// of cp-2, and its return. Seconds count from the start of the story.
type moment struct {
	name, host, corpus string
	at                 int64
	members            []string
	record             state.EtcdState
	fences             string
	lost, alone, pair  int64
	failover           []clusterhealth.Failover
}

const (
	firstFence  = `{"time":"1970-01-01T00:01:00Z","target":"%","off":true,"requests":1,"phases":{"identify":400000000,"powerOff":3600000000,"evidence":5000000}}` + "\n"
	secondFence = `{"time":"1970-01-01T00:10:08Z","target":"%","off":true,"requests":1,"phases":{"identify":300000000,"powerOff":5200000000,"evidence":5000000}}` + "\n"
)

func story() []moment {
	load := []clusterhealth.Failover{
		{Host: "cp-1", Resource: "cpu", Requested: 3, Allocatable: 4}, {Host: "cp-2", Resource: "cpu", Requested: 5, Allocatable: 4},
	}
	both := []string{"cp-1", "cp-2"}
	return []moment{
		{name: "healthy", host: "cp-1", corpus: "healthy", at: 300, members: both, record: state.EtcdPair, fences: firstFence, failover: load},
		{name: "healthy", host: "cp-2", corpus: "healthy", at: 300, members: both, record: state.EtcdPair, fences: firstFence},
		{name: "lost", host: "cp-1", corpus: "lost-fenced", at: 900, members: both[:1], record: state.EtcdSole, fences: firstFence + secondFence, lost: 600, alone: 609, failover: load},
		{name: "back", host: "cp-1", corpus: "healthy", at: 1500, members: both, record: state.EtcdPair, fences: firstFence + secondFence, lost: 600, alone: 609, pair: 1309, failover: load},
		{name: "back", host: "cp-2", corpus: "healthy", at: 1500, members: both, record: state.EtcdPair, fences: firstFence},
	}
}

// report returns what the etcd keeper reports at the moment.
func (m moment) report() state.EtcdReport {
	var r state.EtcdReport
	e := state.EtcdRecord{State: m.record, Written: time.Unix(max(m.alone, m.pair), 0)}
	members := []state.EtcdMember{{ID: 1, Name: "cp-1"}, {ID: 2, Name: "cp-2"}}
	if m.alone != 0 {
		e.TakeOver = state.EtcdTakeOver{ID: "a", Counter: 1}
	}
	if m.record == state.EtcdSole {
		members = members[:1]
	}
	r.Verdict.Action = state.EtcdIdle
	r.Snapshot.Record = state.Known(e)
	r.Snapshot.Pacemaker.Contact = state.Known(len(m.members) > 1)
	r.Snapshot.Local = state.EtcdLocal{Running: state.Known(true), Leader: state.Known(state.MemberID(1)), Members: state.Known(members)}
	return r
}

func (m moment) served(t *testing.T) []byte {
	t.Helper()
	fenceFiles = records.Files{Root: t.TempDir()}
	t.Cleanup(func() { fenceFiles = records.Files{} })
	peer := map[string]string{"cp-1": "cp-2", "cp-2": "cp-1"}[m.host]
	delay := map[string]time.Duration{"cp-1": 20 * time.Second}[peer] // the second one waits
	_, err := fenceFiles.WriteDevice(state.FencingDevice{Target: peer, Delay: delay, Password: "hush"})
	must(t, err)
	must(t, host.WriteFileAtomic(fenceFiles.Path(state.FencingHistoryPath), []byte(strings.ReplaceAll(m.fences, "%", peer)), 0o600))

	site := newCluster(t)
	in := site.read(filepath.Join("../../../test/corpus/pacemaker/cases", m.corpus, "cp-1"))
	in.Host, in.Membership, in.Etcd = m.host, state.Known(state.Membership{Members: m.members, Quorate: true}), state.Known(m.report())
	at := time.Unix(m.at, 0)
	r := decide.Report{Host: m.host, At: at, Writes: m.host == "cp-1", Status: decide.Timed(decide.Status(in), nil, at)}
	if r.Writes {
		r.Published = at
	}
	if m.alone != 0 {
		r.TakeOver = decide.TakeOver{ID: "a", Counter: 1, Lost: time.Unix(m.lost, 0), Alone: time.Unix(m.alone, 0)}
	}
	if m.pair != 0 {
		r.TakeOver.Pair = time.Unix(m.pair, 0)
	}
	if len(m.members) == 1 {
		r.Lost = time.Unix(m.lost, 0)
	}
	n := New(Options{Log: slog.New(slog.DiscardHandler), Now: time.Now})
	n.failover, n.standIn = m.failover, func() map[string]float64 { return nil }
	if m.alone != 0 {
		n.standIn = func() map[string]float64 {
			return map[string]float64{"checked": 60, "leading": 410, "committing": 450, "removed": 520, "ended": 640}
		}
	}
	n.set(r, in)
	return exposition(t, n)
}

// exposition returns the metrics as Prometheus gets them.
func exposition(t *testing.T, c prometheus.Collector) []byte {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	must(t, registry.Register(c))
	w := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("%d: %s", w.Code, w.Body)
	}
	return w.Body.Bytes()
}

// TestTheRecordedMetricsAreThoseThatAreServed keeps the metrics for the tests of
// alerts and of the dashboard in step with what a host serves.
func TestTheRecordedMetricsAreThoseThatAreServed(t *testing.T) {
	for _, m := range story() {
		golden.Check(t, filepath.Join("../../../render/alerts/testdata/metrics", m.name, m.host+".pacemaker.prom"), m.served(t))
	}
}
