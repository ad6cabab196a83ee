package rollout

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/model/state"
)

// only returns the one trouble of a host, or of a pool.
func only(t *testing.T, list []Trouble) Trouble {
	t.Helper()
	if len(list) != 1 {
		t.Fatalf("%+v", list)
	}
	return list[0]
}

func TestWhenAPersonLooksAtAHost(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	given := Host{Name: "w", Ready: true, Current: "a", Desired: "b"}
	for name, c := range map[string]struct {
		change func(h *Host)
		kind   TroubleKind
		late   bool
	}{
		"one at work":                        {func(h *Host) { h.State, h.Given = Working, now.Add(-LateAfter) }, IsUnderWay, false},
		"one at work for long":               {func(h *Host) { h.State, h.Given = Working, now.Add(-LateAfter-1) }, IsUnderWay, true},
		"one at work, nobody knows how long": {func(h *Host) { h.State = Working }, IsUnderWay, false},
		"one whose pods move for long":       {func(h *Host) { h.State, h.Draining = Working, now.Add(-LateAfter-1) }, IsUnderWay, true},
		"one that a person is to boot":       {func(h *Host) { h.State, h.Stage, h.Given = Working, WaitsForBoot, now.Add(-BootLateAfter) }, NeedsBoot, false},
		"one that waits a day for that":      {func(h *Host) { h.State, h.Stage, h.Given = Working, WaitsForBoot, now.Add(-BootLateAfter-1) }, NeedsBoot, true},
		"one that has not answered yet":      {func(h *Host) { h.Given = now.Add(-AnswerLimit) }, IsUnderWay, false},
		"one that does not answer":           {func(h *Host) { h.Given = now.Add(-AnswerLimit - 1) }, IsSilent, true},
		"one that is away and was to answer": {func(h *Host) { h.Ready, h.Given = false, now.Add(-AnswerLimit-1) }, IsUnderWay, false},
		"one that failed":                    {func(h *Host) { h.State = Degraded }, HasFailed, true},
		"one that refused it":                {func(h *Host) { h.State = Unreconcilable }, HasRefused, true},
		"one that somebody changed":          {func(h *Host) { h.State, h.Stage, h.Desired = Degraded, Changed, "a" }, WasChanged, true},
	} {
		h := given
		c.change(&h)
		if got := only(t, Troubles(now, []Host{h}, nil)); got.Kind != c.kind || got.Late != c.late || got.Host != "w" || got.Has != "a" {
			t.Errorf("%s: %+v", name, got)
		}
	}
	for name, h := range map[string]Host{
		"one that has it":                       {Name: "w", Ready: true, Current: "a", Desired: "a", State: Done},
		"one that is away and has it":           {Name: "w", Current: "a", Desired: "a", State: Done},
		"one that was never given a thing":      {Name: "w", Ready: true},
		"one that failed and is given no thing": {Name: "w", State: Degraded},
	} {
		if got := Troubles(now, []Host{h}, nil); len(got) > 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestAHostThatIsNotReadySaysWhatItDidBefore(t *testing.T) {
	h := Host{Name: "w", Desired: "b", State: Working, Reason: "boots"}
	if got := only(t, Troubles(time.Now(), []Host{h}, nil)); got.Why != "boots; it is not ready" {
		t.Errorf("%q", got.Why)
	}
}

func TestWhenAPersonLooksAtAPool(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		pool PoolState
		kind TroubleKind
		late bool
	}{
		"one that waits":            {PoolState{Lacking: 1, Since: now.Add(-LateAfter)}, PoolThatWaits, false},
		"one that waits for long":   {PoolState{Lacking: 1, Since: now.Add(-LateAfter - 1)}, PoolThatWaits, true},
		"one with a window":         {PoolState{Windows: true, Lacking: 1, Since: now.Add(-WindowLateAfter)}, PoolThatWaits, false},
		"one that missed it":        {PoolState{Windows: true, Lacking: 1, Since: now.Add(-WindowLateAfter - 1)}, PoolThatWaits, true},
		"one that is paused":        {PoolState{Paused: true, Lacking: 1, Since: now.Add(-PauseLateAfter)}, PoolIsPaused, false},
		"one that is paused long":   {PoolState{Paused: true, Lacking: 1, Since: now.Add(-PauseLateAfter - 1)}, PoolIsPaused, true},
		"one with mistakes":         {PoolState{Refused: "no"}, PoolRefused, true},
		"one with mistakes, paused": {PoolState{Refused: "no", Paused: true, Lacking: 1}, PoolRefused, true},
	} {
		c.pool.Name, c.pool.Config = "p", "b"
		if got := only(t, Troubles(now, nil, []PoolState{c.pool})); got.Kind != c.kind || got.Late != c.late || got.Pool != "p" {
			t.Errorf("%s: %+v", name, got)
		}
	}
	for name, p := range map[string]PoolState{
		"one that has it":                  {Name: "p", Config: "b"},
		"one that is paused and has it":    {Name: "p", Config: "b", Paused: true},
		"one that was never given a thing": {Name: "p", Lacking: 2},
	} {
		if got := Troubles(now, nil, []PoolState{p}); len(got) > 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
	// A host at work, or one that failed, says for what its pool waits.
	worker := Host{Name: "w", Ready: true, Current: "a", Desired: "b", State: Working}
	waits := PoolState{Name: "master", Config: "b", Lacking: 2}
	if got := only(t, Troubles(now, []Host{worker}, []PoolState{waits})); got.Host != "w" {
		t.Errorf("%+v", got)
	}
}

func TestWhatPeopleAreToldOfUpdates(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	rest := Host{Name: "w", Ready: true, Current: "a", Desired: "a", State: Done, Given: now.Add(-1000 * time.Hour)}
	h := rest
	h.Required = "the kernel 2 is installed"
	if got := only(t, Troubles(now, []Host{h}, nil)); got.Kind != WantsBoot || got.Late || got.Why != h.Required {
		t.Errorf("a reboot is wanted: %+v", got)
	}
	h.Wish = Wish{Wanted: "x"}
	if got := Troubles(now, []Host{h}, nil); len(got) > 0 {
		t.Errorf("somebody wants it already: %+v", got)
	}
	h = rest
	h.UpdatesFailed = "no route"
	if got := only(t, Troubles(now, []Host{h}, nil)); got.Kind != UpdatesFailed || !got.Late || got.Why != "no route" {
		t.Errorf("they failed: %+v", got)
	}
	h = rest
	h.State, h.Wish = Working, Wish{Patch: true, Wanted: "x", From: "y", Given: now.Add(-LateAfter)}
	if got := only(t, Troubles(now, []Host{h}, nil)); got.Kind != IsUnderWay || got.Late || got.Cancel != "holdfast host patch w --cancel" {
		t.Errorf("it gets them, long after it got its configuration: %+v", got)
	}
	h.Wish.Given = now.Add(-LateAfter - 1)
	if got := only(t, Troubles(now, []Host{h}, nil)); !got.Late {
		t.Errorf("it has been at it for long: %+v", got)
	}
}

// TestAHostThatNoPoolConfiguresIsTold, once it is no newcomer and pools are known.
func TestAHostThatNoPoolConfiguresIsTold(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	selects := func(label string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{label: ""}}
	}
	pools := []PoolState{{Name: Master, Selector: selects(state.LabelControlPlane)}, {Name: Worker, Selector: selects(state.LabelWorker)}, {Name: "gpu", Selector: selects("gpu")}, {Name: "db", Selector: selects("db")}}
	host := func(labels ...string) Host {
		h := Host{Name: "w", Ready: true, Current: "a", Desired: "a", State: Done, Created: now.Add(-AnswerLimit), Labels: map[string]string{}}
		for _, l := range labels {
			h.Labels[l] = ""
		}
		return h
	}
	for why, h := range map[string]Host{
		"no pool selects it":             host(),
		"several pools select it":        host(state.LabelWorker, "gpu", "db"),
		"gpu also selects it":            host(state.LabelControlPlane, "gpu"),
		"pool master does not select it": host(state.LabelMaster, state.LabelWorker),
	} {
		if got := only(t, Troubles(now, []Host{h}, pools)); got.Kind != HasNoPool || !got.Late || got.Host != "w" || !strings.Contains(got.Why, why) {
			t.Errorf("%s: %+v", why, got)
		}
	}
	young := host()
	young.Created = now.Add(-AnswerLimit + 1)
	for what, got := range map[string][]Trouble{
		"a worker": Troubles(now, []Host{host(state.LabelWorker, "gpu")}, pools), "one that has just joined": Troubles(now, []Host{young}, pools),
		"nobody knows the pools": Troubles(now, []Host{host()}, nil), "nobody knows what they select": Troubles(now, []Host{host()}, []PoolState{{Name: Worker}}),
	} {
		if len(got) > 0 {
			t.Errorf("%s: %+v", what, got)
		}
	}
}
