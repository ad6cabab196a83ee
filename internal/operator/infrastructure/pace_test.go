package infrastructure

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/holdfast/holdfast/internal/adapter/kube/vipobject"
	"github.com/holdfast/holdfast/internal/decide/vips"
)

func TestTheReportOfHundredsOfHostsIsWrittenSeldomer(t *testing.T) {
	for hosts, want := range map[int]time.Duration{
		0: 0, 3: 0, 10: 0, 11: 220 * time.Millisecond, 100: 2 * time.Second, 250: 5 * time.Second, 5000: 5 * time.Second,
	} {
		if got := pace(hosts); got != want {
			t.Errorf("%d hosts: %v, want %v", hosts, got, want)
		}
	}
}

func TestWhatSaysSomethingElseNeverWaits(t *testing.T) {
	report := func(change func(*vipobject.Report)) vipobject.Report {
		r := vipobject.Report{There: true, Conditions: []vips.Condition{{Type: vips.ConditionApplied, Status: vips.False, Reason: "A", Message: "1 of 300"}}}
		r.Extension.API = parse("10.98.0.5")
		change(&r)
		return r
	}
	before := report(func(*vipobject.Report) {})
	for name, change := range map[string]func(*vipobject.Report){
		"a status":      func(r *vipobject.Report) { r.Conditions[0].Status = vips.True },
		"a reason":      func(r *vipobject.Report) { r.Conditions[0].Reason = "B" },
		"a condition":   func(r *vipobject.Report) { r.Conditions = append(r.Conditions, r.Conditions[0]) },
		"other VIPs":    func(r *vipobject.Report) { r.Extension.API = parse("10.98.0.5", "fd98::5") },
		"all hosts":     func(r *vipobject.Report) { r.Extension.Everywhere = true },
		"its end":       func(r *vipobject.Report) { r.Extension.Rollout.Applied = true },
		"complete VIPs": func(r *vipobject.Report) { r.Extension.Applied = parse("10.98.0.5") },
	} {
		if !urgent(before, report(change)) {
			t.Errorf("%s waits", name)
		}
	}
	if urgent(before, report(func(r *vipobject.Report) { r.Conditions[0].Message = "2 of 300" })) {
		t.Error("a number does not wait")
	}
	if !urgent(vipobject.Report{}, before) {
		t.Error("the first report waits")
	}
}

func TestManyHostsThatApplyAChangeAreFewReports(t *testing.T) {
	s := newSite(t)
	var many []*agent
	for i := range 20 {
		h := &agent{name: fmt.Sprintf("m-%02d", i), addresses: []string{fmt.Sprintf("10.98.0.%d", 100+i), fmt.Sprintf("fd98::%d", 100+i)}, ready: true, on: true}
		s.join(h)
		s.hosts, many = append(s.hosts, h), append(many, h)
	}
	s.settle()
	for _, h := range many {
		h.lazy = true
	}
	s.wish("10.98.0.5 fd98::5", "10.98.0.6 fd98::6")
	s.settle()
	s.condition(vips.ConditionApplied, "False")
	s.past()

	for _, h := range many {
		h.lazy = false
		s.playHosts()
		result, err := s.r.Reconcile(t.Context(), reconcile.Request{})
		must(t, err)
		if result.RequeueAfter > lookWhenDone || result.RequeueAfter == 0 {
			t.Errorf("it looks again in %v", result.RequeueAfter)
		}
		s.now = s.now.Add(10 * time.Millisecond)
	}
	reports := 0
	for _, w := range s.past() {
		if strings.Contains(w, "ClusterOperator") {
			reports++
		}
	}
	// One report for the first detail, one for the last, which is another
	// condition, and at most one between.
	if reports == 0 || reports > 3 {
		t.Errorf("%d hosts were %d reports", len(many), reports)
	}
	s.condition(vips.ConditionApplied, "True")
}
