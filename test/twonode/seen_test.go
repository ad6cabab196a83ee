package twonode_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/decide/clusterhealth"
	decide "github.com/holdfast/holdfast/internal/decide/incident"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/report/incident"
	"github.com/holdfast/holdfast/test/twonode/evidence"
	"github.com/holdfast/holdfast/test/twonode/witness"
)

// Without these flags nothing is watched. The scenarios' proofs about etcd do
// not depend on it, and measurements are made without a witness.
var (
	watched = flag.Bool("witness", false, "watch what people are told in each scenario, and compare it where there is an approved text")
	again   = flag.Bool("again", false, "with -witness, what differs from the approved text is a failure only where it differs in a second play too")
	update  = flag.Bool("update", false, "with -witness, approve what each scenario showed; read the difference before you commit it")
)

// seeing watches what people are told in a trial.
type seeing struct {
	api        *witness.API
	prometheus *witness.Prometheus
	began      time.Time
	before     witness.Version // before the fault
	ids        map[string]bool // of the reports that existed before
}

// see begins to watch, unless something watches already.
func (tr *trial) see() {
	tr.Helper()
	if tr.seen != nil {
		return
	}
	var err error
	s := &seeing{began: time.Now(), ids: map[string]bool{}}
	tr.seen = s
	for _, i := range tr.reports() {
		s.ids[i.ID] = true
	}
	root := func(ctx context.Context, host string) (string, error) { return tr.Lab.Root(ctx, tr.Power, host) }
	if s.prometheus, err = witness.StartPrometheus(tr.Context(), tr.hosts(), root); err != nil {
		tr.Fatal(err)
	}
	var servers []string
	for _, h := range tr.hosts() {
		servers = append(servers, net.JoinHostPort(tr.address(h), "6443"))
	}
	if s.api, err = witness.StartAPI(tr.Context(), tr.api, tr.Lab.Dial, servers); err != nil {
		tr.Fatal(err)
	}
	tr.eventually(wholeWithin, "people are told of nothing before", tr.settled)
	s.began, s.before = time.Now(), s.api.Current()
}

// settled returns nil once the API shows a healthy cluster, and Prometheus no
// alert except those from before.
func (tr *trial) settled() error {
	var wrong []string
	for subject, value := range tr.seen.api.Current().Values {
		if !strings.HasPrefix(value, "True ") {
			wrong = append(wrong, subject+" is "+value)
		}
	}
	if born := tr.seen.api.Current().Born; time.Since(born) < clusterhealth.Settling {
		wrong = append(wrong, "PacemakerCluster was made at "+born.String()+", and no event tells yet of what became well")
	}
	// A new operator may have to be elected first.
	if judgement := tr.seen.api.Judgement(); !strings.HasPrefix(judgement, "False ") {
		wrong = append(wrong, "etcd is judged "+judgement)
	}
	if len(wrong) > 0 {
		return errors.New(strings.Join(wrong, ", "))
	}
	return nil
}

// toldOfTheLoss waits, if the trial is watched, until the first failure is
// known and every alert of it could be raised. Otherwise chance decides how
// much of it is reported before a second failure a moment later.
func (tr *trial) toldOfTheLoss() {
	tr.Helper()
	if tr.seen == nil {
		return
	}
	var was map[string]string
	var since time.Time
	tr.eventually(2*time.Minute, "people are told of the loss, and of nothing more", func() error {
		is := tr.seen.api.Current().Values
		if !maps.Equal(is, was) {
			was, since = is, time.Now()
		}
		judgement := tr.seen.api.Judgement()
		if is["cluster: Redundant"] != "False PeerLost" || !strings.HasPrefix(judgement, "True ") {
			return fmt.Errorf("redundancy is %s, and etcd is judged %s", is["cluster: Redundant"], judgement)
		}
		if rest := time.Since(since); rest < 2*settleFor {
			return fmt.Errorf("nothing has changed for %s", rest)
		}
		return nil
	})
}

// blind stops watching.
func (tr *trial) blind() {
	if tr.seen == nil {
		return
	}
	if tr.seen.api != nil {
		tr.seen.api.Stop()
	}
	if tr.seen.prometheus != nil {
		if err := tr.seen.prometheus.Stop(); err != nil {
			tr.Error(err)
		}
	}
}

// told checks what people were told in a finished scenario, and how soon.
func (tr *trial) told() {
	tr.Helper()
	if tr.seen == nil {
		return
	}
	tr.eventually(wholeWithin, "the API shows the cluster as well as before", tr.settled)
	var r witness.Recording
	var since time.Time // time since which the reports have not changed
	tr.eventually(2*time.Minute, "every report is over, told by both hosts, and at rest", func() error {
		was := fmt.Sprint(r.Reports)
		r.Reports = nil
		for _, i := range tr.reports() {
			if tr.seen.ids[i.ID] || i.Start.Before(tr.began.Add(-time.Second)) {
				continue // from an earlier scenario
			}
			r.Reports = append([]decide.Incident{i}, r.Reports...)
			if i.State != decide.Over || len(i.Journals) < len(tr.hosts()) {
				return fmt.Errorf("%s is %s, told by %v: %s", i.ID, i.State, i.Journals, i.Title)
			}
		}
		if now := fmt.Sprint(r.Reports); now != was || since.IsZero() {
			since = time.Now()
		}
		if rest := time.Since(since); rest < settleFor {
			return fmt.Errorf("the reports have been at rest for %s", rest)
		}
		return nil
	})
	var err error
	if r.Alerts, err = tr.seen.prometheus.Alerts(tr.Context()); err != nil {
		tr.Error(err)
	}
	r.Alerts = witness.Lasting(witness.Begun(r.Alerts, tr.at))
	r.Versions, r.Events = tr.seen.api.Seen(tr.seen.began)
	tr.keepRecording(r)
	tr.compare(r)
	tr.delays(r)
	tr.reportsFit(r.Reports)
}

// settleFor is the time for the last events and reports after the cluster is
// whole: a host that has booted reads the other's report every two seconds.
const settleFor = 10 * time.Second

// reports returns the reports of `holdfast incidents`, the newest first.
func (tr *trial) reports() []decide.Incident {
	tr.Helper()
	var list incident.List
	tr.eventually(wholeWithin, "holdfast incidents answers", func() error {
		out, err := tr.Holdfast(tr.Context(), "incidents", "--lab", *labName, "-o", "json")
		if err == nil {
			err = json.Unmarshal([]byte(out), &list)
		}
		return err
	})
	return list.Incidents
}

func (tr *trial) keepRecording(r witness.Recording) {
	if err := os.MkdirAll(tr.artefact, 0o750); err != nil {
		tr.Error(err)
	}
	data, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		tr.Error(err)
	}
	_ = os.WriteFile(filepath.Join(tr.artefact, "seen.json"), data, 0o600)
}

// names returns the roles of hosts in this scenario.
func (tr *trial) names() witness.Names {
	first, second := tr.leads, tr.other(tr.leads)
	roles := [2]string{"leader", "follower"}
	switch {
	case tr.byName:
		first, second, roles = tr.hosts()[0], tr.hosts()[1], [2]string{"first", "second"}
	case tr.survivor != "":
		first, second, roles = tr.survivor, tr.other(tr.survivor), [2]string{"survivor", "lost"}
	}
	n := witness.Names{
		first: roles[0], second: roles[1], tr.address(first): roles[0] + "'s address", tr.address(second): roles[1] + "'s address",
	}
	for _, v := range tr.Lab.Layout.APIVIPs {
		n[v.String()] = "the API's VIP"
	}
	for _, v := range tr.Lab.Layout.IngressVIPs {
		n[v.String()] = "the ingress VIP"
	}
	return n
}

// compare compares the recording with the text that a person has approved.
func (tr *trial) compare(r witness.Recording) {
	tr.Helper()
	path := filepath.Join("testdata", "seen", slug(tr.result.Scenario)+".txt")
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && !*update {
		tr.Errorf("nobody has approved what people are told here: play it with -update and read %s", path)
		return
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		tr.Fatal(err)
	}
	shared, err := os.ReadFile(filepath.Join("testdata", "always.txt"))
	if err != nil {
		tr.Fatal(err)
	}
	approved, err := witness.ReadScenario(string(text), string(shared))
	if err != nil {
		tr.Fatalf("%s: %v", path, err)
	}
	got := approved.With(r.Rows(tr.names()))
	if *update {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(got), 0o644)); err != nil {
			tr.Error(err)
		}
		return
	}
	if diff := cmp.Diff(strings.Split(string(text), "\n"), strings.Split(got, "\n")); diff != "" {
		tr.differs = true
		complain := tr.Errorf
		if tr.lenient {
			complain = tr.Logf
		}
		complain("what people were told differs from %s (-want +got):\n%s", path, diff)
	}
}

// delays records how soon people were told.
func (tr *trial) delays(r witness.Recording) {
	tr.Helper()
	var journal []witness.Line
	for _, h := range tr.hosts() {
		journal = append(journal, tr.journal(h)...)
	}
	for _, d := range witness.Delays(r.Versions, journal, tr.hosts(), tr.outages()) {
		tr.Logf("%s %s: logged %s, told after %.2f s, of which the API was down %.2f s", d.Subject, d.Value,
			d.Event.UTC().Format("15:04:05.000"), d.Told.Sub(d.Event).Seconds(), d.Open.Sub(d.Event).Seconds())
		tr.result.Told = append(tr.result.Told, evidence.In(d.Long()))
	}
	for _, v := range r.Versions {
		if v.At.After(tr.at) && !v.Same(tr.seen.before) {
			tr.result.FirstTold = new(evidence.In(v.At.Sub(tr.at)))
			break
		}
	}
	tr.result.AgentCPU = witness.Spent(tr.seen.prometheus.Costs(), tr.at, time.Now())
}

// journal returns the log lines of a host's cluster manager and the events of
// its etcd keeper since the trial began.
func (tr *trial) journal(host string) []witness.Line {
	tr.Helper()
	since := tr.began.UTC().Format("2006-01-02 15:04:05")
	out, err := tr.Sh(tr.Context(), host, "journalctl --no-pager -o json --output-fields=MESSAGE -u corosync -u pacemaker --utc --since '"+since+"'")
	if err != nil {
		tr.Errorf("journal of %s: %v", host, err)
	}
	lines := witness.Journal(host, []byte(out))
	events, err := tr.Sh(tr.Context(), host, "cat "+state.EventsDir+"/"+state.EtcdEvents+"*.jsonl")
	if err != nil {
		tr.Errorf("events of %s: %v", host, err)
	}
	for _, l := range witness.Events(host, []byte(events)) {
		if !l.At.Before(tr.began) {
			lines = append(lines, l)
		}
	}
	return lines
}

// outages returns the times in which nobody could write to the API.
func (tr *trial) outages() [][2]time.Time {
	h := tr.apiRec.Copy()
	var out [][2]time.Time
	for at := tr.apiRec.At(tr.at); ; {
		gap := h.Outage("", at, h.End(), outage)
		if gap.Length == 0 || gap.Until <= at {
			return out
		}
		out = append(out, [2]time.Time{h.Began.Add(gap.From), h.Began.Add(gap.Until)})
		at = gap.Until
	}
}
