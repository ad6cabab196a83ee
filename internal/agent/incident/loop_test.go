package incident

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/records"
	decide "github.com/holdfast/holdfast/internal/decide/incident"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/report/incident"
)

var began = time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)

// errCut stands for the end of an agent in the middle of something.
var errCut = errors.New("cut off")

// budget ends an agent at its n-th effect: before it, or just after.
type budget struct {
	left  int
	after bool
}

func (b *budget) spend(do func() error) error {
	if b == nil {
		return do()
	}
	b.left--
	switch {
	case b.left < 0, b.left == 0 && !b.after:
		return errCut
	case b.left == 0:
		return errors.Join(do(), errCut)
	}
	return do()
}

// fakeAPI is an API that may be down.
type fakeAPI struct {
	down   bool
	maps   map[string]map[string]string
	events map[string]*corev1.Event
	writes int
	pods   []decide.Pod
	leases map[string]string // what machines measured, by name
}

func newAPI() *fakeAPI {
	return &fakeAPI{maps: map[string]map[string]string{}, events: map[string]*corev1.Event{}}
}

type asHost struct {
	*fakeAPI
	b *budget
}

func (a asHost) ConfigMaps(context.Context, string, string) (map[string]map[string]string, error) {
	return maps.Clone(a.maps), nil
}

func (a asHost) PutConfigMap(_ context.Context, _, name string, labels, data map[string]string) error {
	return a.b.spend(func() error {
		if labels[incident.Label] == "" {
			return errors.New("no label")
		}
		a.maps[name] = data
		a.writes++
		return nil
	})
}

func (a asHost) CreateEvent(_ context.Context, e *corev1.Event) error {
	return a.b.spend(func() error {
		a.events[e.Name] = e
		return nil
	})
}

func (a asHost) Places(context.Context) ([]decide.Pod, error) { return a.pods, nil }

func (a asHost) NodeLeaseAnnotation(_ context.Context, name string) (map[string]string, error) {
	if name != decide.OutsideAnnotation {
		return nil, fmt.Errorf("asked for %s", name)
	}
	return a.leases, nil
}

// machine is a host of the test: its files and its clock.
type machine struct {
	t      *testing.T
	name   string
	dir    string
	api    *fakeAPI
	now    time.Time
	kernel string    // the name of its boot
	origin time.Time // when the kernel's clock began
	start  time.Time // when the host's boot did
	// container reports whether the host shares a kernel with others.
	container bool
}

func newMachine(t *testing.T, name string, api *fakeAPI) *machine {
	return &machine{t: t, name: name, dir: t.TempDir(), api: api, kernel: "0123abcd" + name[3:], origin: began.Add(-time.Hour), start: began.Add(-time.Hour + time.Second), now: began}
}

// notes makes a program of the host record an event, at a second.
func (m *machine) notes(second float64, program string, e state.Event) {
	m.t.Helper()
	at := began.Add(time.Duration(second * float64(time.Second)))
	e.Boot, e.At, e.Up = m.id(), at, at.Sub(m.origin)
	must(m.t, m.files().AppendEvents(program, []state.Event{e}))
}

func (m *machine) files() records.Files { return records.Files{Root: m.dir} }

// sees makes Corosync report the members.
func (m *machine) sees(second float64, ring uint64, members ...string) {
	m.t.Helper()
	seen := state.Membership{Members: members, Ring: ring, Quorate: ring != 8}
	m.notes(second, state.EtcdEvents, state.MembershipEvent(state.Known(seen)))
}

// decides makes another rule decide; records makes it have a record written.
func (m *machine) decides(second float64, rule string, action state.EtcdAction, why string) {
	m.t.Helper()
	m.notes(second, state.EtcdEvents, state.DecisionEvent(state.EtcdVerdict{Rule: rule, Action: action, Reason: why}))
}

func (m *machine) records(second float64, seq uint64, to state.EtcdState, rule, why string) {
	m.t.Helper()
	m.notes(second, state.EtcdEvents, state.RecordEvent(state.EtcdRecord{Seq: seq, State: to}, state.EtcdVerdict{Rule: rule, Reason: why}))
}

// boots begins another boot: with a kernel of its own, or with one that goes on,
// as below a container.
func (m *machine) boots(second float64) {
	m.start = began.Add(time.Duration(second * float64(time.Second)))
	if !m.container {
		m.kernel, m.origin = m.kernel+"f", m.start.Add(-10*time.Millisecond)
	}
}

// id returns the boot's id in the form of observe.Boot.
func (m *machine) id() string {
	return fmt.Sprintf("%s-%s-%d", m.kernel[:4], m.kernel[4:], m.start.Sub(m.origin)/tick)
}

func (m *machine) loop(b *budget) *Loop {
	l := New(Options{Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return m.now }})
	l.dir = filepath.Join(m.dir, "incidents")
	l.name = func() (string, error) { return m.name, nil }
	l.write = func(path string, data []byte, mode fs.FileMode) error {
		return b.spend(func() error { return writeFile(path, data, mode) })
	}
	l.api = func(ctx context.Context, do func(context.Context, api) error) error {
		if m.api.down {
			return errors.New("connection refused")
		}
		return do(ctx, asHost{m.api, b})
	}
	file := func(name string) string { return filepath.Join(m.dir, name) }
	l.sources = sources{
		boot:  func() (string, time.Duration, error) { return m.id(), m.now.Sub(m.origin), nil },
		now:   func() time.Time { return m.now },
		files: m.files(), network: file("network.json"),
		redact: func(s string) string { return strings.ReplaceAll(s, "hunter22", "<redacted>") },
	}
	return l
}

// run starts an agent, runs one step and ends it.
func (m *machine) run(second float64, b *budget) error {
	m.t.Helper()
	m.now = began.Add(time.Duration(second * float64(time.Second)))
	l := m.loop(b)
	if err := l.start(); err != nil {
		m.t.Fatal(err)
	}
	return l.Step(m.t.Context())
}

func (m *machine) file(name, text string) {
	m.t.Helper()
	if err := host.WriteFileAtomic(filepath.Join(m.dir, name), []byte(text), 0o600); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) reports() []decide.Incident {
	m.t.Helper()
	list, problems, err := incident.Files(filepath.Join(m.dir, "incidents"))
	if err != nil || len(problems) > 0 {
		m.t.Fatal(err, problems)
	}
	return list
}

// pairOf returns two hosts that are a healthy pair.
func pairOf(t *testing.T, api *fakeAPI) (a, b *machine) {
	a, b = newMachine(t, "cp-1", api), newMachine(t, "cp-2", api)
	for _, m := range []*machine{a, b} {
		m.sees(-3000, 0xa, "cp-1", "cp-2")
		m.records(-2990, 4, "pair", "equal.pair-first", "both are marked voters")
		m.decides(-2980, "equal.idle", "idle", "all is as it should be")
	}
	return a, b
}

// loses ends cp-2, and cp-1 takes over.
func loses(t *testing.T, a *machine) {
	a.sees(1.8, 0xe, "cp-1")
	a.records(3.2, 5, "taking-over", "take-over.announce", "the peer cannot act")
	a.records(3.3, 6, "sole", "take-over.sole", "the removal is committed")
	a.decides(3.4, "gone.sole-alone", "idle", "goes on alone")
	line, err := json.Marshal(state.FenceEntry{
		Time: began.Add(3150 * time.Millisecond), Target: "cp-2", By: "cp-1", Action: "reboot", Off: true, Detail: "the BMC says Off, not hunter22",
		Phases: state.FencePhases{Total: 1250 * time.Millisecond, PowerOn: 50 * time.Millisecond},
	})
	if err != nil {
		t.Fatal(err)
	}
	a.file(state.FencingHistoryPath, string(line)+"\n")
}

// returns brings cp-2 back and makes it a voter.
func returns(a, b *machine) {
	b.boots(20)
	b.sees(25, 0x8, "cp-2")
	for _, m := range []*machine{a, b} {
		m.sees(27, 0x12, "cp-1", "cp-2")
	}
	b.records(28.2, 5, "none", "follow.give-up", "gives up its data directory")
	b.records(30.2, 7, "voter", "follow.promoted", "a voter")
	a.records(30.5, 7, "pair", "lead.pair", "the peer holds everything")
	b.records(30.7, 8, "pair", "equal.pair", "this host holds everything")
	a.decides(30.8, "equal.idle", "idle", "all is as it should be")
	b.decides(30.9, "equal.idle", "idle", "all is as it should be")
}

func TestATakeOverAndAReturnAreOneReportOnBothHostsAndOneEvent(t *testing.T) {
	for _, container := range []bool{false, true} {
		t.Run(fmt.Sprintf("container %t", container), func(t *testing.T) { takeOverAndReturn(t, container) })
	}
}

func takeOverAndReturn(t *testing.T, container bool) {
	api := newAPI()
	a, b := pairOf(t, api)
	a.container, b.container = container, container
	must(t, a.run(-10, nil), b.run(-10, nil))
	loses(t, a)
	must(t, a.run(4, nil))
	if list := a.reports(); len(list) != 1 || list[0].State != decide.UnderWay || len(api.events) != 0 {
		t.Fatalf("while it is under way: %d reports, %d events", len(list), len(api.events))
	}
	returns(a, b)
	for _, at := range []float64{31, 33, 40} {
		must(t, b.run(at, nil), a.run(at, nil))
	}
	for _, m := range []*machine{a, b} {
		list := m.reports()
		if len(list) != 1 || list[0].State != decide.Over || len(list[0].Journals) != 2 || list[0].Failures[0].Cause != decide.Lost {
			t.Errorf("%s: %+v", m.name, list)
		}
	}
	if len(api.events) != 1 {
		t.Errorf("events %v", slices.Collect(maps.Keys(api.events)))
	}
	for _, e := range api.events {
		if e.Source.Host != "cp-1" || e.Reason != decide.ReasonOver || !strings.Contains(e.Message, "cp-2 stopped without notice") || e.InvolvedObject.Kind != "PacemakerCluster" {
			t.Errorf("%+v", e)
		}
	}
	seen, err := incident.InCluster(t.Context(), asHost{api, nil})
	if err != nil || len(seen.Incidents) != 1 || seen.Incidents[0].ID != a.reports()[0].ID {
		t.Errorf("in the cluster: %+v, %v", seen, err)
	}
}

// TestAnAgentThatEndsAnywhereReportsOnceAfterItsRestart ends the agent of the
// survivor before each of its effects, and just after each.
func TestAnAgentThatEndsAnywhereReportsOnceAfterItsRestart(t *testing.T) {
	cuts := 0
	for n := 1; ; n++ {
		cut := false
		for _, after := range []bool{false, true} {
			api := newAPI()
			a, b := pairOf(t, api)
			must(t, b.run(-10, nil))
			loses(t, a)
			returns(a, b)
			must(t, b.run(31, nil))
			limit := &budget{left: n, after: after}
			for _, at := range []float64{32, 33} {
				if err := a.run(at, limit); errors.Is(err, errCut) {
					cut = true
				}
				limit = nil // it was started anew
			}
			must(t, a.run(60, nil), b.run(61, nil), a.run(62, nil))
			if got := a.reports(); len(got) != 1 || got[0].State != decide.Over || len(api.events) != 1 {
				t.Errorf("cut at effect %d (after it: %v): %d reports, %d events", n, after, len(got), len(api.events))
			}
			if x, y := a.reports()[0], b.reports()[0]; x.ID != y.ID || x.Words() != y.Words() {
				t.Errorf("cut at effect %d: the hosts disagree: %s, %s", n, x.ID, y.ID)
			}
		}
		if !cut {
			break
		}
		cuts++
	}
	if cuts < 4 {
		t.Errorf("only %d effects were cut off", cuts)
	}
}

func TestWithoutAnAPIAHostReportsFromItsOwnEvents(t *testing.T) {
	api := newAPI()
	api.down = true
	a, _ := pairOf(t, api)
	loses(t, a)
	if err := a.run(5, nil); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("the API is down: %v", err)
	}
	list := a.reports()
	if len(list) != 1 || list[0].Failures[0].Moment(decide.PhaseFenced).After != 1300*time.Millisecond {
		t.Fatalf("%+v", list)
	}
	text, err := os.ReadFile(filepath.Join(a.dir, "incidents", list[0].ID+".json"))
	if err != nil || strings.Contains(string(text), "hunter22") || !strings.Contains(string(text), "redacted") {
		t.Errorf("a secret in a report, or nothing: %v", err)
	}
	info, err := os.Stat(filepath.Join(a.dir, "incidents", list[0].ID+".json"))
	if err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("everybody may read a report: %v %v", info.Mode(), err)
	}
	api.down = false
	must(t, a.run(3*60, nil))
	if len(api.events) != 1 || len(api.maps) != 1 {
		t.Errorf("once there is an API it is told that the incident lasts: %v", api.events)
	}
}

func TestNothingIsWrittenWhileNothingHappens(t *testing.T) {
	api := newAPI()
	a, _ := pairOf(t, api)
	must(t, a.run(-10, nil))
	before := api.writes
	l, files := a.loop(nil), 0
	l.write = func(path string, data []byte, mode fs.FileMode) error {
		files++
		return writeFile(path, data, mode)
	}
	must(t, l.start())
	l.shown = "" // it does not know what it published, as after a restart
	for i := range 20 {
		a.now = began.Add(time.Duration(i) * 10 * time.Minute)
		if err := l.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if api.writes-before > 1 || files > 0 {
		t.Errorf("%d writes to the API, %d to the disk", api.writes-before, files)
	}
}

func TestVirtualIPsAndTheAPIServerAreNotedWhenTheyChange(t *testing.T) {
	a, _ := pairOf(t, newAPI())
	status := func(second float64, holds string, ready bool) {
		a.file("network.json", fmt.Sprintf(`{"at":%q,"holds":[%s],"pieces":null,"view":{"localAPI":%t}}`,
			began.Add(time.Duration(second*float64(time.Second))).Format(time.RFC3339Nano), holds, ready))
	}
	for _, c := range []struct {
		second float64
		holds  string
		ready  bool
	}{{-100, "", true}, {-50, "", true}, {2, `"10.0.0.5"`, false}, {2.5, `"10.0.0.5"`, true}} {
		status(c.second, c.holds, c.ready)
		must(t, a.run(c.second+0.1, nil))
	}
	m, err := readMemory(filepath.Join(a.dir, "incidents"))
	must(t, err)
	var got []string
	for _, r := range m.Records {
		if r.Kind == decide.Holds || r.Kind == decide.API {
			got = append(got, fmt.Sprintf("%s %v %t at %v", r.Kind, r.VIPs, r.OK, r.At.Sub(began)))
		}
	}
	slices.Sort(got)
	want := []string{"api [] false at 2s", "api [] true at -1m40s", "api [] true at 2.5s", "holds [10.0.0.5] false at 2s", "holds [] false at -1m40s"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// The clock is set back by a year after the first look of a boot.
func TestAClockThatIsSetBackRepeatsNoNote(t *testing.T) {
	a, _ := pairOf(t, newAPI())
	const year = 365 * 24 * time.Hour
	at := func(second int, ahead time.Duration, holds string) {
		a.origin, a.start = began.Add(-time.Hour).Add(ahead), began.Add(-time.Hour+time.Second).Add(ahead)
		now := began.Add(time.Duration(second) * time.Second).Add(ahead)
		a.file("network.json", fmt.Sprintf(`{"at":%q,"holds":[%s],"pieces":null,"view":{"localAPI":true}}`, now.Format(time.RFC3339Nano), holds))
		must(t, a.run((now.Sub(began)+100*time.Millisecond).Seconds(), nil))
	}
	at(0, year, "")
	for i := range 20 {
		at(30+30*i, 0, `"10.0.0.5"`)
	}
	m, err := readMemory(filepath.Join(a.dir, "incidents"))
	must(t, err)
	of := func(kind decide.Kind) (n int) {
		for _, r := range m.Records {
			if r.Kind == kind {
				n++
			}
		}
		return n
	}
	if of(decide.Holds) != 2 || of(decide.API) != 1 {
		t.Errorf("%d notes of virtual IPs, %d of the API server", of(decide.Holds), of(decide.API))
	}
}

func TestPodsThatMovedAreNotedOnce(t *testing.T) {
	api := newAPI()
	a, _ := pairOf(t, api)
	must(t, a.run(-10, nil))
	loses(t, a)
	a.notes(3.6, state.AgentEvents, state.TaintEvent("cp-2", true, "the host was fenced"))
	api.pods = []decide.Pod{{Node: "cp-2", Created: began.Add(-time.Hour)}, {Node: "cp-2", Bound: true}}
	must(t, a.run(5, nil))
	api.pods = []decide.Pod{{Node: "cp-1", Created: began.Add(6 * time.Second)}, {Node: "cp-2", Bound: true}}
	must(t, a.run(7, nil))
	if !a.reports()[0].Failures[0].Moment(decide.PhasePods).At.IsZero() {
		t.Error("pods that are not ready have not moved")
	}
	api.pods[0].Ready = began.Add(9 * time.Second)
	must(t, a.run(10, nil), a.run(12, nil))
	if m := a.reports()[0].Failures[0].Moment(decide.PhasePods); m.After != 7200*time.Millisecond || !strings.Contains(m.Words, "1 pod of cp-2") {
		t.Errorf("%+v", m)
	}
}

func TestWhatWasNotedAndIsNotUnderstoodIsBegunAnew(t *testing.T) {
	a, _ := pairOf(t, newAPI())
	must(t, a.run(-10, nil))
	must(t, os.WriteFile(filepath.Join(a.dir, "incidents", memoryFile), []byte(`{"records":[{`), 0o600))
	must(t, a.run(-5, nil))
	if m, err := readMemory(filepath.Join(a.dir, "incidents")); err != nil || len(m.Records) < 4 {
		t.Errorf("%d records, %v", len(m.Records), err)
	}
}

func TestTheRecordOfEtcdIsTakenFromItsFileWhereNoEventTellsIt(t *testing.T) {
	a := newMachine(t, "cp-1", newAPI())
	text, err := state.EncodeEtcdRecord(state.EtcdRecord{State: state.EtcdPair, Seq: 9, Member: 1, Cluster: 2, Written: began.Add(-time.Hour)})
	must(t, err)
	a.file(state.EtcdRecordPath, string(text))
	must(t, a.run(0, nil), a.run(60, nil))
	m, err := readMemory(filepath.Join(a.dir, "incidents"))
	must(t, err)
	n := 0
	for _, r := range m.Records {
		if r.Kind == decide.Recorded && r.State == state.EtcdPair && r.At.Equal(began.Add(-time.Hour)) {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d records in %+v", n, m.Records)
	}
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}
