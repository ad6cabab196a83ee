package parts

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/model/state"
	renderhost "github.com/holdfast/holdfast/internal/render/host"
)

// unit plays the unit of a host.
type unit struct {
	works  bool
	code   int
	state  State
	starts []string
	err    error
}

func (u *unit) of() Unit {
	return Unit{
		Start: func(_ context.Context, request, digest, part string) error {
			if u.err == nil {
				u.starts, u.works, u.state = append(u.starts, part+" of "+digest), true, State{}
			}
			return u.err
		},
		Works: func(context.Context) (bool, int, error) { return u.works, u.code, nil },
		State: func() (State, error) { return u.state, nil },
	}
}

// ends plays how a run ended.
func (u *unit) ends(s State, code int) { u.works, u.state, u.code = false, s, code }

type played struct {
	*Agent
	u   *unit
	now time.Time
}

func newPlayed() *played {
	p := &played{u: &unit{}, now: time.Unix(1e9, 0)}
	p.Agent = New(Options{Unit: p.u.of(), Node: func() string { return "cp-1" }, Now: func() time.Time { return p.now }})
	return p
}

func (p *played) wants(text string) {
	p.Nodes([]state.Node{{Name: "cp-2", Annotations: map[string]string{annotation.PartOf: "x"}}, {Name: "cp-1", Annotations: map[string]string{annotation.PartOf: text}}})
}

func request(t *testing.T, part string) string {
	t.Helper()
	text, err := annotation.Encode(annotation.Part{Upgrade: "u", Release: newer, Part: part})
	must(t, err)
	return text
}

func TestAHostThatIsToldNothingStartsNothing(t *testing.T) {
	p := newPlayed()
	p.wants("")
	if got, err := p.step(t.Context()); err != nil || got.Again != 0 || len(p.u.starts) > 0 {
		t.Errorf("%+v, %v, %q", got, err, p.u.starts)
	}
}

func TestAHostBringsThePartThatItIsToldOnceAndLaterAnew(t *testing.T) {
	p, text := newPlayed(), request(t, "objects")
	p.wants(text)
	select {
	case <-p.Task().Wake:
	default:
		t.Fatal("the annotation does not wake it")
	}
	if got, err := p.step(t.Context()); err != nil || got.Again != follow || !slices.Equal(p.u.starts, []string{"objects of " + newer}) {
		t.Fatalf("%+v, %v, %q", got, err, p.u.starts)
	}
	if got, err := p.step(t.Context()); err != nil || got.Again != follow || len(p.u.starts) != 1 {
		t.Fatalf("while it works: %+v, %v, %q", got, err, p.u.starts)
	}
	p.u.ends(State{Request: text}, 0)
	if got, err := p.step(t.Context()); err != nil || got.Again != again || got.Changed == "" || (p.PartFailed() != Failure{}) {
		t.Errorf("%+v, %v, %+v", got, err, p.PartFailed())
	}
	p.now = p.now.Add(time.Minute)
	other := newPlayed() // the agent starts anew
	other.u.state = p.u.state
	other.wants(text)
	for _, p := range []*played{p, other} {
		if got, err := p.step(t.Context()); err != nil || got.Again <= 0 || got.Again > again || len(p.u.starts) > 1 || p == other && len(p.u.starts) > 0 {
			t.Errorf("%+v, %v, %q", got, err, p.u.starts)
		}
	}
	p.now = p.now.Add(again) // the operator still wants it: somebody has changed it
	if _, err := p.step(t.Context()); err != nil || len(p.u.starts) != 2 {
		t.Errorf("%q, %v", p.u.starts, err)
	}
	p.u.ends(State{Request: text}, 0)
	p.wants(request(t, "operator"))
	for range 2 {
		_, err := p.step(t.Context())
		must(t, err)
	}
	if !slices.Equal(p.u.starts, []string{"objects of " + newer, "objects of " + newer, "operator of " + newer}) {
		t.Errorf("%q", p.u.starts)
	}
}

func TestAPartThatFailsIsTriedAgainLaterAndLaterAndSaysWhy(t *testing.T) {
	text := request(t, "objects")
	for name, c := range map[string]struct {
		state State
		code  int
		want  string
	}{
		"the API refuses":              {State{Request: text, Failed: "apply Role x: no"}, 1, "objects of " + newer + ": apply Role x: no"},
		"it is cut off":                {State{}, 15, "objects of " + newer + ": holdfast-bring.service ended in the middle: sudo journalctl -u holdfast-bring.service"},
		"a release of before":          {State{}, 2, "objects of " + newer + ": that release is of a time before releases brought their parts: bring them by hand (docs/runbook/upgrade.md)"},
		"a word about another request": {State{Request: "other"}, 1, "objects of " + newer + ": holdfast-bring.service ended in the middle: sudo journalctl -u holdfast-bring.service"},
	} {
		p := newPlayed()
		p.wants(text)
		var pauses []string
		for range 7 {
			_, err := p.step(t.Context())
			must(t, err)
			p.u.ends(c.state, c.code)
			got, err := p.step(t.Context())
			if err == nil || p.PartFailed().Why != c.want {
				t.Fatalf("%s: %v, %+v", name, err, p.PartFailed())
			}
			pauses = append(pauses, got.Again.String())
		}
		if want := []string{"10s", "20s", "40s", "1m20s", "2m40s", "5m0s", "5m0s"}; !slices.Equal(pauses, want) {
			t.Errorf("%s: %v", name, pauses)
		}
		p.wants("")
		if _, err := p.step(t.Context()); err != nil || (p.PartFailed() != Failure{}) {
			t.Errorf("%s: it is told still: %+v, %v", name, p.PartFailed(), err)
		}
	}
}

// TestAPartThatWasSetBackIsToldAndNotTriedAgain: also by an agent that starts anew.
func TestAPartThatWasSetBackIsToldAndNotTriedAgain(t *testing.T) {
	p, text := newPlayed(), request(t, "operator")
	p.wants(text)
	_, err := p.step(t.Context())
	must(t, err)
	p.u.ends(State{Request: text, Failed: "it did not start", Undone: true}, 1)
	if got, err := p.step(t.Context()); err == nil || got.Again != again {
		t.Errorf("%+v, %v", got, err)
	}
	other := newPlayed()
	other.u.state = p.u.state
	other.wants(text)
	for _, p := range []*played{p, other} {
		starts := len(p.u.starts)
		got, err := p.step(t.Context())
		if want := (Failure{Why: "it did not start", Undone: true}); err != nil || got.Again != again || p.PartFailed() != want || len(p.u.starts) != starts {
			t.Errorf("%+v, %v, %+v, %q", got, err, p.PartFailed(), p.u.starts)
		}
		p.wants("")
		if _, err := p.step(t.Context()); err != nil || p.PartFailed() != (Failure{}) {
			t.Errorf("it is told still: %+v, %v", p.PartFailed(), err)
		}
	}
}

// TestAPartThatWasSetBackOnItsWayBackIsTriedAgain: the operator that was to be replaced is there
// again, and wants the same once more. Also an agent that starts anew tries again.
func TestAPartThatWasSetBackOnItsWayBackIsTriedAgain(t *testing.T) {
	p := newPlayed()
	text, err := annotation.Encode(annotation.Part{Upgrade: "u", Release: newer, Part: "operator", Back: true})
	must(t, err)
	p.wants(text)
	var pauses []time.Duration
	for range 3 {
		_, err := p.step(t.Context())
		must(t, err)
		p.u.ends(State{Request: text, Failed: "it did not start", Undone: true}, 1)
		got, err := p.step(t.Context())
		if want := (Failure{Why: "operator of " + newer + ": it did not start", Undone: true}); err == nil || p.PartFailed() != want {
			t.Errorf("%+v, %v, %+v", got, err, p.PartFailed())
		}
		pauses = append(pauses, got.Again)
	}
	if want := []time.Duration{retry, 2 * retry, 4 * retry}; !slices.Equal(pauses, want) || len(p.u.starts) != 3 {
		t.Errorf("it tries again after %v, started %q", pauses, p.u.starts)
	}
	other := newPlayed()
	other.u.state = p.u.state
	other.wants(text)
	if _, err := other.step(t.Context()); err != nil || len(other.u.starts) != 1 {
		t.Errorf("an agent that starts anew: %q, %v", other.u.starts, err)
	}
}

func TestAnAnnotationThatNamesNoPartStartsNothing(t *testing.T) {
	for text, want := range map[string]string{
		`{"format":9}`: "a later release",
		`{`:            "not readable",
		`{"format":1,"release":"sha256:../../etc","part":"objects"}`:      "names no part of a release",
		`{"format":1,"release":"` + newer + `","part":"objects --force"}`: "names no part of a release",
	} {
		p := newPlayed()
		p.wants(text)
		if got, err := p.step(t.Context()); err == nil || !strings.Contains(p.PartFailed().Why, want) || got.Again != retry || len(p.u.starts) > 0 {
			t.Errorf("%s: %+v, %v, %q", text, got, err, p.u.starts)
		}
	}
	p := newPlayed()
	p.u.err = errors.New("the release is not on this host")
	p.wants(request(t, "objects"))
	if _, err := p.step(t.Context()); err == nil || p.PartFailed().Why != p.u.err.Error() {
		t.Errorf("%v, %+v", err, p.PartFailed())
	}
}

// TestARunOfAnotherPartOrReleaseSaysNothing: systemd may run what the unit's file said before, and a
// person may run the program by hand. The agent would take it for what it asked for.
func TestARunOfAnotherPartOrReleaseSaysNothing(t *testing.T) {
	for _, c := range []struct {
		request, digest, part string
		want                  bool
	}{
		{request(t, "objects"), newer, "objects", true},
		{strings.Replace(request(t, "objects"), newer, "registry.example/release@"+newer, 1), newer, "objects", true},
		{request(t, "objects"), older, "objects", false},
		{request(t, "objects"), newer, "operator", false},
		{request(t, "objects"), "", "objects", false}, // a program that is of no release
		{"", newer, "objects", false},
		{`{"format":9}`, newer, "objects", true}, // of a later agent
	} {
		if got := asks(c.request, c.digest, c.part); got != c.want {
			t.Errorf("%s of %q says how it ended to %s: %v", c.part, c.digest, c.request, got)
		}
	}
}

func TestTheUnitRunsTheProgramOfTheReleaseThatIsBrought(t *testing.T) {
	hex := strings.TrimPrefix(newer, "sha256:")
	f := renderhost.Bring(newer, "objects")
	if want := "ExecStart=/opt/holdfast/releases/" + hex + "/usr/local/bin/holdfast-agent bring --part objects\n"; f.Path != "/etc/systemd/system/holdfast-bring.service" || !strings.Contains(string(f.Data), want) || !strings.Contains(string(f.Data), "\nTimeoutStartSec=5min\n") {
		t.Errorf("%s:\n%s", f.Path, f.Data)
	}
	if got, err := OwnRelease("/opt/holdfast/releases/" + hex + "/usr/local/bin/holdfast-agent"); err != nil || got != newer {
		t.Errorf("%s, %v", got, err)
	}
	for _, program := range []string{"/usr/local/bin/holdfast-agent", "/opt/holdfast/releases/current/usr/local/bin/holdfast-agent", "/opt/holdfast/releases/" + hex[1:] + "/x", "/tmp/" + hex + "/x"} {
		if got, err := OwnRelease(program); err == nil || got != "" {
			t.Errorf("%s: %s", program, got)
		}
	}
}
