package podmanetcd

import (
	"encoding/xml"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/golden"
)

func TestParametersAreReadFromWhatPacemakerPasses(t *testing.T) {
	got, err := Parse(map[string]string{"node_ip_map": "cp-1:10.98.0.11;cp-2:2001:db8::2", "oom": "-5"})
	if err != nil {
		t.Fatal(err)
	}
	want := state.EtcdParameters{
		Nodes:       map[string]netip.Addr{"cp-1": netip.MustParseAddr("10.98.0.11"), "cp-2": netip.MustParseAddr("2001:db8::2")},
		PodManifest: "/etc/kubernetes/static-pod-resources/etcd-certs/configmaps/external-etcd-pod/pod.yaml",
		BackupDir:   "/var/lib/holdfast/etcd-backup", Backups: 3, OOM: -5,
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
		t.Error(diff)
	}
}

func TestEveryMistakeOfTheParametersIsToldAtOnce(t *testing.T) {
	_, err := Parse(map[string]string{
		"node_ip_map": "cp-1:10.98.0.11;cp-1:10.98.0.12", "pod_manifest": "pod.yaml", "max_backup_snapshots": "many", "oom": "2000",
	})
	for _, want := range []string{"node_ip_map: names 1 nodes", "pod_manifest: ", "max_backup_snapshots: ", "oom: "} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %q", err, want)
		}
	}
	for _, bad := range []string{"", "cp-1", "cp-1:10.0.0.1", "cp-1:x;cp-2:10.0.0.2", "cp-1:10.0.0.1;cp-2:10.0.0.1", "a:10.0.0.1;b:10.0.0.2;c:10.0.0.3", "cp-1:10.0.0.1;cp-2:::ffff:10.0.0.1"} {
		if p, err := Parse(map[string]string{"node_ip_map": bad}); err == nil {
			t.Errorf("node_ip_map %q was read as %v", bad, p.Nodes)
		}
	}
}

func TestThePeerIsFoundByItsWholeName(t *testing.T) {
	p := state.EtcdParameters{Nodes: map[string]netip.Addr{"master-1": {}, "master-1-b": {}}}
	for host, want := range map[string]string{"master-1": "master-1-b", "master-1-b": "master-1", "master": ""} {
		if got, err := p.Peer(host); got != want || (err == nil) != (want != "") {
			t.Errorf("peer of %s: %q, %v", host, got, err)
		}
	}
}

func TestTheMetaDataIsMadeFromTheTables(t *testing.T) {
	got, err := MetaData()
	if err != nil {
		t.Fatal(err)
	}
	if err := xml.Unmarshal(got, new(struct{})); err != nil {
		t.Error(err)
	}
	golden.Check(t, "meta-data.xml", got)
}

func TestAMonitorFailsOnlyWhereARestartOrAPersonHelps(t *testing.T) {
	report := func(wish state.EtcdWish, running state.Fact[bool], action state.EtcdAction, down time.Duration) state.EtcdReport {
		r := state.EtcdReport{Wish: wish, Down: down, Verdict: state.EtcdVerdict{Action: action, Reason: "because", Next: "do this"}}
		r.Snapshot.Local.Running = running
		return r
	}
	up, down, unknown := state.Known(true), state.Known(false), state.Fact[bool]{}
	for sentence, c := range map[string]struct {
		r    state.EtcdReport
		want Code
	}{
		"it runs": {report(state.EtcdStarted, up, state.EtcdIdle, 0), Success},
		"kubelet's etcd before the hand-over is not": {report(state.EtcdNotAsked, up, state.EtcdIdle, 0), NotRunning},
		"it was stopped":             {report(state.EtcdStopped, down, state.EtcdIdle, 0), NotRunning},
		"unknown is never a failure": {report(state.EtcdStarted, unknown, state.EtcdWait, time.Hour), Success},
		"it waits for its peer":      {report(state.EtcdStarted, down, state.EtcdWait, time.Minute), Success},
		"it waits for too long":      {report(state.EtcdStarted, down, state.EtcdWait, Patience+1), Generic},
		"a person is needed":         {report(state.EtcdStarted, down, state.EtcdAskHuman, Question+1), Generic},
		"a person may be needed, and the host was just told to start": {report(state.EtcdStarted, down, state.EtcdAskHuman, Question), Success},
		"a person is needed and it runs":                              {report(state.EtcdStarted, up, state.EtcdAskHuman, 0), Success},
	} {
		if got, reason := Monitor(c.r); got != c.want || (got == Generic) != (reason != "") {
			t.Errorf("%s: %d %q", sentence, got, reason)
		}
	}
}

func TestAParameterThatAnEarlierVersionDidNotKnowHasItsDefault(t *testing.T) {
	want, err := Parse(map[string]string{"node_ip_map": "cp-1:10.0.0.1;cp-2:10.0.0.2"})
	if err != nil {
		t.Fatal(err)
	}
	got, err := state.DecodeEtcdParameters([]byte(`{"nodes":{"cp-1":"10.0.0.1","cp-2":"10.0.0.2"},"backups":3,"later":true}`))
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Addr{})); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if p, err := state.DecodeEtcdParameters([]byte(`{"nodes":{"cp`)); err == nil {
		t.Errorf("a torn file was read as %+v", p)
	}
}

func TestAMonitorLooksForItselfWhereTheDaemonDoesNot(t *testing.T) {
	yes, no, unknown := state.Known(true), state.Known(false), state.Fact[bool]{}
	for sentence, c := range map[string]struct {
		s     Seen
		stale Code
		first Code
	}{
		"etcd runs":                             {Seen{Held: yes, Lives: yes, StandsIn: no}, Success, Success},
		"the lock cannot be seen and it lives":  {Seen{Held: unknown, Lives: yes, StandsIn: no}, Success, Success},
		"its process never took its data":       {Seen{Held: no, Lives: yes, StandsIn: no}, Generic, Generic},
		"it is down":                            {Seen{Held: no, Lives: no, StandsIn: no}, Generic, NotRunning},
		"nothing is known":                      {Seen{}, Generic, Generic},
		"kubelet runs it, before the hand-over": {Seen{Foreign: true, Held: yes, Lives: no, StandsIn: no}, Success, NotRunning},
	} {
		if got, why := Stale(time.Hour, c.s); got != c.stale || why == "" {
			t.Errorf("%s, and the daemon hangs: %d %q", sentence, got, why)
		}
		if got, why := Unanswered("no answer", false, c.s); got != c.first {
			t.Errorf("%s, and there was no daemon in this boot: %d %q", sentence, got, why)
		}
		if got, _ := Unanswered("no answer", true, c.s); got != c.stale {
			t.Errorf("%s, and the daemon is gone: %d", sentence, got)
		}
	}
}

func TestAStopHasNothingToDoOnlyWhereThatIsCertain(t *testing.T) {
	yes, no, unknown := state.Known(true), state.Known(false), state.Fact[bool]{}
	for sentence, c := range map[string]struct {
		s    Seen
		want bool
	}{
		"nothing of ours is there":    {Seen{Held: no, Lives: no, StandsIn: no}, true},
		"etcd holds its data":         {Seen{Held: yes, Lives: no, StandsIn: no}, false},
		"its process lives":           {Seen{Held: no, Lives: yes, StandsIn: no}, false},
		"a stand-in speaks":           {Seen{Held: no, Lives: no, StandsIn: yes}, false},
		"the lock cannot be seen":     {Seen{Held: unknown, Lives: no, StandsIn: no}, false},
		"the stand-in cannot be seen": {Seen{Held: no, Lives: no, StandsIn: unknown}, false},
		"kubelet runs etcd":           {Seen{Foreign: true, Held: yes, Lives: no, StandsIn: no}, true},
	} {
		if got := c.s.Nothing(); got != c.want {
			t.Errorf("%s: %t", sentence, got)
		}
	}
}
