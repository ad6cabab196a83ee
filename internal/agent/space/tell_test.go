package space

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	decide "github.com/holdfast/holdfast/internal/decide/etcdspace"
	"github.com/holdfast/holdfast/internal/model/state"
)

// calm has all members well filled.
func (w *world) calm() {
	for _, m := range w.etcds {
		m.Size, m.InUse = 200*mib, 190*mib
	}
}

// clock returns the time by the clock of the hosts.
func (w *world) clock() time.Time { return time.Unix(0, 0).Add(w.up) }

// asks writes a wish to the node of a host, made some time ago.
func (h *hostOf) asks(ago time.Duration) string {
	wish := decide.Ask(h.clock().Add(-ago))
	h.annotated(decide.WantedOf, wish)
	return wish
}

// boots starts the agent of a host anew, without what lay below /run.
func (h *hostOf) boots(shape decide.Shape) {
	h.last, h.note = nil, state.EtcdDefragmentation{}
	h.begin(shape, h.View().Nodes.Value)
	h.Nodes([]state.Node{{Name: h.name, Annotations: h.annotations}})
}

// gathered returns the metrics of an agent.
func gathered(a *Agent) map[string]float64 {
	registry := prometheus.NewRegistry()
	registry.MustRegister(a)
	families, _ := registry.Gather() // what is wrong is missing
	out := map[string]float64{}
	for _, f := range families {
		out[f.GetName()] = f.GetMetric()[0].GetGauge().GetValue()
	}
	return out
}

func TestAHostThatRestsWritesToItsNodeOnce(t *testing.T) {
	w := newWorld(t, decide.Two, 2)
	w.calm()
	for range 60 {
		w.plays(time.Minute)
		for _, m := range w.etcds {
			m.Size += mib
			m.InUse = m.Size - rand.Int64N(30)*mib
		}
	}
	for _, h := range w.hosts {
		s := h.says()
		if h.told != 1 || s.Size != 200*mib || s.Quota != 8<<30 || s.Voters != 2 || s.Verdict.Rule != "rest" || !s.At.Equal(time.Unix(0, 0).Add(time.Hour)) {
			t.Errorf("%s: %d writes in an hour, %+v", h.name, h.told, s)
		}
	}
}

func TestAStateThatComesAndGoesIsWrittenEachTenMinutesAtMost(t *testing.T) {
	w := newWorld(t, decide.Two, 2)
	w.calm()
	for i := range 60 {
		w.backsUp = i%2 == 0
		w.plays(time.Minute)
	}
	if n := w.hosts[0].told; n < 2 || n > 7 {
		t.Errorf("%d writes in an hour", n)
	}
}

func TestWhatAPersonHasToActOnIsWrittenAtOnce(t *testing.T) {
	w := newWorld(t, decide.Two, 2)
	w.calm()
	w.plays(time.Minute)
	for _, m := range w.etcds {
		m.Size, m.InUse = 7<<30, 7<<30-mib
	}
	w.plays(soon)
	if s := w.hosts[0].says(); s.Percent() != 87 || w.hosts[0].told != 2 {
		t.Errorf("%d writes, %+v", w.hosts[0].told, s)
	}
	h := w.hosts[0]
	delete(h.annotations, decide.Annotation)
	h.Nodes([]state.Node{{Name: h.name}})
	w.plays(removedAfter + 2*soon)
	if h.told != 3 || h.says().Percent() != 87 {
		t.Errorf("somebody removed it, and there are %d writes", h.told)
	}
	h.begin(decide.Two, h.View().Nodes.Value)
	h.Nodes([]state.Node{{Name: h.name, Annotations: h.annotations}})
	w.plays(time.Minute)
	if h.told != 3 {
		t.Errorf("an agent that starts writes what stands there")
	}
}

func TestAWishAtTheNodeIsCarriedOutAndAnswered(t *testing.T) {
	w := newWorld(t, decide.Static, 1)
	h := w.hosts[0]
	w.plays(5 * time.Minute)
	if s := h.says(); s.IfAsked.Step != decide.Defragment || s.Verdict.Rule != "alone" || len(w.did) != 0 {
		t.Fatalf("%+v, %q", s, w.did)
	}
	wish := h.asks(time.Second)
	select {
	case <-h.Task().Wake:
	default:
		t.Error("a wish does not wake the loop")
	}
	w.plays(3 * soon)
	w.expect("defragment cp-1")
	s := h.says()
	if text, done := s.Says(wish); !done || !strings.HasPrefix(text, "defragmented, from 400 MiB to 100 MiB") || s.Done.Before != 400*mib || s.Failed != 0 || s.Wish != "" || s.Verdict.Rule != "rest" {
		t.Errorf("%q, %+v", text, s)
	}
	w.etcds[h.address].Size = 400 * mib
	h.boots(decide.Static)
	w.plays(time.Minute)
	w.expect("defragment cp-1")
	if text, done := h.says().Says(wish); !done {
		t.Errorf("after a boot the answer is gone: %q", text)
	}
}

// TestThePersonWhoAskedIsToldThatItRuns: the only member serves nobody meanwhile.
func TestThePersonWhoAskedIsToldThatItRuns(t *testing.T) {
	w := newWorld(t, decide.Static, 1)
	h := w.hosts[0]
	wish := h.asks(time.Second)
	h.late = true
	h.Own = func(string) (Etcd, error) { return toldClient{client{h, h.etcds[h.address]}}, nil }
	w.plays(2 * soon)
	w.expect("defragment cp-1")
	if text, done := h.says().Says(wish); !done || !strings.Contains(text, "deadline exceeded") || h.says().Failed != 1 {
		t.Errorf("%q, %+v", text, h.says())
	}
}

// toldClient expects that the Node says what runs, and of no failure.
type toldClient struct{ client }

func (c toldClient) Defragment(ctx context.Context) error {
	if s := c.h.says(); s.Verdict.Rule != decide.Begun || s.Failed != 0 {
		c.h.t.Errorf("%+v", s)
	}
	return c.client.Defragment(ctx)
}

func TestAWishWaitsForABackupAndSaysSo(t *testing.T) {
	w := newWorld(t, decide.Static, 1)
	h := w.hosts[0]
	w.backsUp = true
	wish := h.asks(0)
	w.plays(time.Minute)
	if text, done := h.says().Says(wish); done || text != "waits: cp-1 takes a backup, or it is not known" || h.told != 1 {
		t.Errorf("%q after %d writes", text, h.told)
	}
	w.backsUp = false
	w.plays(2 * soon)
	w.expect("defragment cp-1")

	w.backsUp = true
	late := h.asks(0)
	w.plays(decide.WishLasts + 2*soon)
	if text, done := h.says().Says(late); !done || text != "was not defragmented: it waited too long: cp-1 takes a backup, or it is not known" {
		t.Errorf("%q", text)
	}
	w.backsUp = false
	w.plays(time.Minute)
	w.expect("defragment cp-1")
}

func TestAWishThatDoesNotCountIsAnswered(t *testing.T) {
	w := newWorld(t, decide.Static, 1)
	h := w.hosts[0]
	for _, wish := range []string{h.asks(decide.WishLasts + time.Minute), "please"} {
		h.annotated(decide.WantedOf, wish)
		w.plays(soon)
		if text, done := h.says().Says(wish); !done || !strings.HasPrefix(text, "was not defragmented: ") {
			t.Errorf("%q: %q", wish, text)
		}
	}
	w.calm()
	wish := h.asks(0)
	w.plays(soon)
	if text, done := h.says().Says(wish); !done || text != "was not defragmented: no member has enough to gain" {
		t.Errorf("%q", text)
	}
	w.expect()
}

func TestAnAPIThatIsAwayKeepsNothingFromBeingDone(t *testing.T) {
	w := newWorld(t, decide.Two, 2)
	w.fails = nil
	for _, h := range w.hosts {
		h.noAPI = errors.New("connection refused")
	}
	for end := w.up + 3*time.Minute; w.up < end; w.up += soon {
		for _, h := range w.hosts {
			if _, err := h.step(t.Context()); err == nil && h.last.Verdict.Step == decide.None {
				t.Errorf("%s does not say that the API is away", h.name)
			}
		}
	}
	w.expect("defragment cp-2", "move from cp-1", "defragment cp-1")
	for _, h := range w.hosts {
		h.noAPI = nil
	}
	w.plays(soon)
	if s := w.hosts[1].says(); s.Done.After != 100*mib {
		t.Errorf("%+v", s)
	}
}

func TestNothingIsWrittenWhileTheAlarmIsRaisedAndTheFileSaysIt(t *testing.T) {
	w := newWorld(t, decide.Two, 2)
	for _, m := range w.etcds {
		m.Size, m.InUse, m.NoSpace = 8<<30, 8<<30-10*mib, []state.MemberID{2}
	}
	w.plays(time.Minute)
	h := w.hosts[0]
	if s := h.last.Summary; h.told != 0 || strings.Join(s.NoSpace, "") != "cp-2" || s.Percent() != 100 {
		t.Errorf("%d writes, %+v", h.told, s)
	}
	if got := gathered(h.Agent); got["holdfast_etcd_no_space"] != 1 || got["holdfast_etcd_database_size_bytes"] != 8<<30 {
		t.Errorf("%v", got)
	}
}

func TestAMemberThatAnswersTellsItsSizeWhileAnotherOneIsAway(t *testing.T) {
	w := newWorld(t, decide.Static, 3)
	w.calm()
	delete(w.etcds, "10.0.0.3")
	w.plays(time.Minute)
	if s := w.hosts[0].says(); s.Size != 200*mib || s.Verdict.Rule != "unknown" {
		t.Errorf("%+v", s)
	}
	if got := gathered(w.hosts[0].Agent); got["holdfast_etcd_quota_bytes"] != 8<<30 || got["holdfast_etcd_no_space"] != 0 || len(got) != 5 {
		t.Errorf("%v", got)
	}
	if h := w.hosts[2]; h.told != 0 || len(gathered(h.Agent)) != 0 {
		t.Errorf("cp-3 tells of a member that does not answer: %d writes", h.told)
	}
}
