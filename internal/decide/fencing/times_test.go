package fencing

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/model/bmc"
	"github.com/holdfast/holdfast/internal/model/state"
)

func TestWhatABMCReadsIsSaidInWords(t *testing.T) {
	for want, r := range map[string]Reading{
		`the power state cannot be read from the BMC (timeout)`:        fails("timeout"),
		"the BMC reports no power state":                               says(""),
		"the BMC reads Off, but the host still answers on the network": heard,
		"the BMC reads Off, but nothing confirms it yet":               says("Off"),
		`the BMC reads "On"`:                                           says("On"),
		`the BMC reads "off"`:                                          {Power: state.Known("off"), Heard: state.Known(true)},
	} {
		if got := said(r); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for want, r := range map[string]Reading{
		`the BMC reads "Off"`: says("Off"), `the BMC reads ""`: says(""), "the power state cannot be read from the BMC (timeout)": fails("timeout"),
	} {
		if got := saidOn(r); got != want {
			t.Errorf("on the way to the power: %q, want %q", got, want)
		}
	}
}

func TestWhyAFenceIsProved(t *testing.T) {
	asked := Progress{Requests: 1, OffFor: OffLasts}
	early := asked
	early.OffFor--
	for name, c := range map[string]struct {
		p    Progress
		r    Reading
		want string
	}{
		"a silent host":                      {Progress{}, silent, "the BMC reads Off, and the host does not answer on the network"},
		"a confirmation":                     {Progress{Confirmed: true}, says("Off"), "the BMC reads Off, and an administrator confirmed it"},
		"a confirmation of what is heard":    {Progress{Confirmed: true}, heard, "the BMC reads Off, and an administrator confirmed it"},
		"an Off that lasts":                  {asked, says("Off"), "the BMC has read Off for 7s since the power cut was requested"},
		"an Off that does not yet":           {early, says("Off"), ""},
		"an Off that lasts of what is heard": {asked, heard, ""},
		"a confirmation without an Off":      {Progress{Confirmed: true}, says("On"), ""},
		"no answer":                          {asked, fails("timeout"), ""},
	} {
		if got := proves(c.p, c.r); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestTheTimesOfAFence(t *testing.T) {
	const s = time.Second
	for name, c := range map[string]struct {
		p          Progress
		hold, most time.Duration
	}{
		"the first by name":                    {Progress{Budget: budget}, 0, budget},
		"the second":                           {Progress{Budget: budget, Delay: 20 * s}, 20 * s, 20*s + budget},
		"the peer gives way":                   {Progress{Budget: budget, Delay: 20 * s, Readable: 5 * s, Turn: state.RaceFirst}, 0, budget},
		"the BMC could be read later":          {Progress{Budget: budget, Delay: 20 * s, Readable: 5 * s}, 25 * s, 25*s + budget},
		"this host gave way for longer":        {Progress{Budget: budget, Delay: 20 * s, Readable: 5 * s, GaveWay: 9 * s}, 29 * s, 29*s + budget},
		"it gave way before":                   {Progress{Budget: budget, Readable: 9 * s, GaveWay: 5 * s}, 9 * s, 9*s + budget},
		"a BMC that is not slow yet":           {Progress{Budget: s, Answer: slowAnswer - 1}, 0, s},
		"a slow BMC":                           {Progress{Budget: s, Answer: slowAnswer}, 0, 3*s + slack},
		"a slow BMC with a long budget":        {Progress{Budget: budget, Answer: slowAnswer}, 0, budget},
		"no BMC is slower than the limit":      {Progress{Budget: s, Answer: time.Hour}, 0, 3*LongestAnswer + slack},
		"a slow BMC makes the delay longer":    {Progress{Budget: budget, Delay: s, Answer: 10 * s}, 30 * s, 30*s + budget},
		"but not beyond the limit":             {Progress{Budget: budget, Delay: s, Answer: time.Hour}, 3 * LongestAnswer, 3*LongestAnswer + 3*LongestAnswer + slack},
		"a slow BMC makes none where none was": {Progress{Budget: budget, Answer: 10 * s}, 0, budget},
	} {
		if got := c.p.hold(); got != c.hold {
			t.Errorf("%s: it waits %s, want %s", name, got, c.hold)
		}
		if got := c.p.Limit(); got != c.most {
			t.Errorf("%s: it lasts %s, want %s", name, got, c.most)
		}
	}
}

func TestAHostGetsTimeToComeOnAgain(t *testing.T) {
	for _, c := range []struct{ least, answer, want time.Duration }{
		{0, 0, slack}, {time.Minute, 0, time.Minute}, {0, 5 * time.Second, 15 * time.Second}, {0, time.Hour, LongestAnswer + slack},
	} {
		if got := OnBudget(c.least, c.answer); got != c.want {
			t.Errorf("%s, %s: %s, want %s", c.least, c.answer, got, c.want)
		}
	}
}

func TestARefusedAccountIsTriedSeldom(t *testing.T) {
	for refused, want := range map[int]time.Duration{0: RefusedOnce, 1: RefusedOnce, 2: RefusedAgain, 9: RefusedAgain} {
		if got := pace(Progress{Refused: refused}, fails("credentials"), time.Second); got != want {
			t.Errorf("refused %d times: %s", refused, got)
		}
		if got := pace(Progress{Refused: refused}, fails("timeout"), time.Second); got != time.Second {
			t.Errorf("another reason: %s", got)
		}
	}
}

func TestAHostThatCanBeAskedIsJudgedByItself(t *testing.T) {
	a, b := pair(), pair()
	a.Snapshot.Local.Leader.Known = false
	if got := healthOf(&a, &b).Problems(); !slices.Equal(got, []string{"cp-1: etcd knows no leader"}) {
		t.Errorf("%q", got)
	}
	if got := healthOf(nil, nil).Problems(); !slices.Equal(got, []string{"no host's etcd keeper answers"}) {
		t.Errorf("%q", got)
	}
	h := healthOf(&b, &b)
	h.Online = state.Fact[map[string]bool]{}
	if got := h.Problems(); !slices.Equal(got, []string{"Pacemaker does not answer"}) {
		t.Errorf("%q", got)
	}
	h.Online = state.Known(map[string]bool{"cp-1": true})
	if got := h.Problems(); !slices.Equal(got, []string{"cp-2 is not online in Pacemaker"}) {
		t.Errorf("%q", got)
	}
}

func TestAHostThatCannotBeAskedIsKnownByItsStatement(t *testing.T) {
	for want, change := range map[string]func(*state.Fact[state.EtcdStatement]){
		"": func(*state.Fact[state.EtcdStatement]) {},
		"cp-2: no statement from it was received": func(f *state.Fact[state.EtcdStatement]) { f.Known = false },
		"cp-2: its record is sole, not pair":      func(f *state.Fact[state.EtcdStatement]) { f.Value.Record.State = state.EtcdSole },
		"cp-2: etcd is not running":               func(f *state.Fact[state.EtcdStatement]) { f.Value.Running = state.Known(false) },
	} {
		a := pair()
		change(&a.Snapshot.Statement)
		if got := strings.Join(healthOf(&a, nil).Problems(), "; "); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestWhatAnotherAttemptMeetsAgainEndsAFence(t *testing.T) {
	for reason, want := range map[bmc.Reason]Step{ //nolint:exhaustive // one of each kind
		bmc.Certificate: Refuse, bmc.Pin: Refuse, bmc.Unpinned: Refuse, bmc.Unsupported: Refuse, bmc.NoSystem: Refuse, bmc.WrongServer: Refuse,
		bmc.Timeout: Again, bmc.Credentials: Again,
	} {
		if got := Next(Progress{Budget: budget}, fails(reason)); got.Step != want {
			t.Errorf("%s: %+v", reason, got)
		}
		if got := NextOn(OnProgress{Budget: budget}, fails(reason)); got.Step != want {
			t.Errorf("%s, on the way to the power: %+v", reason, got)
		}
	}
}

func TestASurvivorIsOneByAllOfItsFacts(t *testing.T) {
	sole := func(change func(*state.EtcdSnapshot)) state.EtcdReport {
		r := pair()
		r.Snapshot.Record.Value.State = state.EtcdSole
		change(&r.Snapshot)
		return r
	}
	for name, c := range map[string]struct {
		change func(*state.EtcdSnapshot)
		want   bool
	}{
		"it leads":             {func(*state.EtcdSnapshot) {}, true},
		"an unreadable record": {func(s *state.EtcdSnapshot) { s.Record.Known = false }, false},
		"a pair":               {func(s *state.EtcdSnapshot) { s.Record.Value.State = state.EtcdPair }, false},
		"etcd is down":         {func(s *state.EtcdSnapshot) { s.Local.Running = state.Known(false) }, false},
		"no leader":            {func(s *state.EtcdSnapshot) { s.Local.Leader.Value = 0 }, false},
		"no answer":            {func(s *state.EtcdSnapshot) { s.Local.Leader.Known = false }, false},
	} {
		if got := GoesOnAlone(sole(c.change)); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
