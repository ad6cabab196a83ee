package clusterhealth

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	etcdv1 "github.com/openshift/api/etcd/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/decide/handover"
	"github.com/holdfast/holdfast/internal/decide/pacemakerstatus"
	"github.com/holdfast/holdfast/internal/model/corosync"
	"github.com/holdfast/holdfast/internal/model/crmmon"
	"github.com/holdfast/holdfast/internal/model/state"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// object returns the object of a recorded state, written at the given time.
func object(t *testing.T, name string, at time.Time, before *etcdv1.PacemakerCluster) *etcdv1.PacemakerCluster {
	t.Helper()
	dir := filepath.Join("../../../test/corpus/pacemaker/cases", name, "cp-1")
	text, err := os.ReadFile(filepath.Join(dir, "crm_mon.xml"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := crmmon.Parse(text, time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	text, err = os.ReadFile(filepath.Join(dir, "corosync.conf"))
	if err != nil {
		t.Fatal(err)
	}
	conf, err := corosync.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	s := pacemakerstatus.Status(pacemakerstatus.Input{Host: "cp-1", Cluster: state.Known(c), Corosync: state.Known(conf)})
	out := &etcdv1.PacemakerCluster{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(noon.Add(-time.Hour))}}
	var was *etcdv1.PacemakerClusterStatus
	if before != nil {
		was = &before.Status
	}
	out.Status = pacemakerstatus.Timed(s, was, at)
	return out
}

func judged(t *testing.T, name string) Verdict {
	t.Helper()
	return Judge(Input{HandedOver: true, Since: noon.Add(-time.Hour), Object: object(t, name, noon, nil), Seen: noon, Now: noon.Add(time.Second)})
}

func TestWhatDegradesAndWhatOnlyWarns(t *testing.T) {
	for name, want := range map[string]string{
		"healthy":                   "",
		"lost-fenced":               "cp-2 is offline",
		"lost-fence-failed":         "cp-2 is unclean: its fence failed",
		"standby":                   "cp-2 is in standby",
		"maintenance-mode":          "the cluster is in maintenance",
		"maintenance-node":          "cp-1 is in maintenance",
		"fencing-disabled":          "fencing is disabled",
		"no-quorum-policy-ignore":   "a setting was changed: no-quorum-policy is ignore",
		"no-quorum":                 "no quorum",
		"etcd-failed":               "etcd on cp-1 is unhealthy",
		"etcd-unmanaged":            "etcd on cp-1 is unhealthy",
		"etcd-blocked":              "etcd on cp-2 is unhealthy",
		"kubelet-cannot-start":      "kubelet on cp-2 is unhealthy",
		"device-monitor-failed":     "cp-2 cannot be fenced",
		"device-on-its-own-target":  "cp-2 cannot be fenced",
		"no-devices":                "cp-1 cannot be fenced: there is no fence agent",
		"no-nodes":                  "Pacemaker reports no nodes",
		"three-nodes":               "not two nodes",
		"one-node-in-pacemaker":     "cp-2 is offline",
		"etcd-failed-and-restarted": "",
		"nine-devices":              "",
		"joining":                   "",
		"back-after-a-fence":        "",
	} {
		v := judged(t, name)
		if name == "no-nodes" { // Corosync's file still names them
			o := object(t, "healthy", noon, nil)
			o.Status.Nodes = &[]etcdv1.PacemakerClusterNodeStatus{}
			v = Judge(Input{HandedOver: true, Object: o, Seen: noon, Now: noon})
		}
		if v.Condition.Status != (want != "") || !slices.ContainsFunc(append(v.Errors, ""), func(e string) bool { return strings.HasPrefix(e, want) }) {
			t.Errorf("%s: %v %q", name, v.Condition.Status, v.Errors)
		}
	}
	if v := judged(t, "nine-devices"); len(v.Warnings) == 0 || !strings.Contains(v.Condition.Message, "warning: not every way to fence cp-2 works") {
		t.Errorf("%+v", v)
	}
	if v := judged(t, "joining"); len(v.Warnings) == 0 {
		t.Errorf("%+v", v)
	}
	v := Judge(Input{HandedOver: true, Object: object(t, "joining", noon, nil), Seen: noon, Moved: true, Now: noon.Add(maxPending + time.Second)})
	if !v.Condition.Status {
		t.Error("a node may not be joining for ever")
	}
}

func TestB3HardCase35WhenSilenceDegrades(t *testing.T) {
	good := object(t, "healthy", noon, nil)
	empty := &etcdv1.PacemakerCluster{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(noon)}}
	for _, c := range []struct {
		name   string
		in     Input
		reason string
	}{
		{"exactly five minutes", Input{Object: good, Seen: noon, Now: noon.Add(MaxAge)}, handover.AsExpected},
		{"more", Input{Object: good, Seen: noon, Now: noon.Add(MaxAge + time.Second)}, ReasonStale},
		{"an operator that was just started", Input{Object: good, Seen: noon.Add(time.Hour), Now: noon.Add(time.Hour)}, ReasonStale},
		{"a host's clock is behind, the status moves", Input{Object: good, Seen: noon.Add(time.Hour), Moved: true, Now: noon.Add(time.Hour + time.Minute)}, handover.AsExpected},
		{"it moved once and then no more", Input{Object: good, Seen: noon, Moved: true, Now: noon.Add(MaxAge + time.Second)}, ReasonStale},
		{"a host's clock is ahead", Input{Object: good, Seen: noon.Add(-time.Hour), Now: noon.Add(-time.Hour + time.Minute)}, handover.AsExpected},
		{"a host's clock is ahead, the status stands", Input{Object: good, Seen: noon.Add(-time.Hour), Moved: true, Now: noon.Add(-time.Hour + MaxAge + time.Second)}, ReasonStale},
		{"no object, at first", Input{Now: noon.Add(time.Minute)}, "Waiting"},
		{"no object", Input{Now: noon.Add(MaxAge + time.Second)}, ReasonMissing},
		{"no status, at first", Input{Object: empty, Now: noon.Add(time.Minute)}, "Waiting"},
		{"no status", Input{Object: empty, Now: noon.Add(MaxAge + time.Second)}, ReasonMissing},
	} {
		c.in.HandedOver, c.in.Since = true, noon
		if v := Judge(c.in); v.Condition.Reason != c.reason || v.Condition.Status != (c.reason == ReasonStale || c.reason == ReasonMissing) {
			t.Errorf("%s: %+v", c.name, v.Condition)
		}
	}
	if v := Judge(Input{Now: noon}); v.Condition.Status || v.Condition.Reason != ReasonPending {
		t.Errorf("before the hand-over: %+v", v)
	}
}

func TestB10EachChangeIsOneEventOfItsOwnReason(t *testing.T) {
	good := object(t, "healthy", noon.Add(-59*time.Minute), nil)
	if e := Events(good, noon); len(e) != 0 {
		t.Errorf("nothing happened lately: %+v", e)
	}
	fresh := object(t, "healthy", noon, nil)
	fresh.CreationTimestamp = metav1.NewTime(noon)
	if e := Events(fresh, noon); len(e) != 0 {
		t.Errorf("a new object: %+v", e)
	}
	lost := object(t, "lost-fenced", noon, good)
	first := Events(lost, noon.Add(time.Second))
	reasons := map[string]int{}
	for _, e := range first {
		reasons[e.Reason]++
	}
	for _, want := range []string{"PacemakerNodeOffline", "PacemakerResourceStopped", "PacemakerResourceUnhealthy", "PacemakerFencingUnavailable"} {
		if reasons[want] == 0 {
			t.Errorf("%s is not told: %v", want, reasons)
		}
	}
	again := object(t, "lost-fenced", noon.Add(2*time.Minute), lost)
	if second := Events(again, noon.Add(2*time.Minute)); !slices.Equal(names(first), names(second)) {
		t.Errorf("told again under other names")
	}
	if e := Events(again, noon.Add(Recent+time.Minute)); len(e) != 0 {
		t.Errorf("told after the API may have forgotten: %+v", e)
	}
	back := object(t, "healthy", noon.Add(5*time.Minute), again)
	for _, e := range Events(back, noon.Add(5*time.Minute)) {
		if slices.Contains(names(first), e.Name) {
			t.Errorf("the same name for another thing: %+v", e)
		}
		if e.Reason == "PacemakerResourceStarted" && !e.Warning {
			t.Errorf("a start is a warning: %+v", e)
		}
	}
}

func names(list []Event) (out []string) {
	for _, e := range list {
		out = append(out, e.Name)
	}
	return out
}
