package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/etcdmember"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/report/explain"
	"github.com/holdfast/holdfast/internal/testkit/golden"
)

// lonely simulates a host under the real protocol: each report shows one more
// completed step. So the protocol, not the test, decides the effect of a
// confirmation.
type lonely struct {
	snap     state.EtcdSnapshot
	since    time.Duration
	clock    time.Time
	power    string // the answer of the peer's BMC; empty for no answer
	stuck    string // its answer although it was asked to cut the power
	mutes    bool   // it stops answering once it was asked to cut the power
	frozen   bool   // the keeper carries nothing out
	noAgent  bool
	replaced string // who took the host's place, and when
	asked    int    // how often that was asked
	pending  int    // the number of times that Pacemaker still refuses to count the peer as down
	offs     int
	told     int
	words    []state.Confirmation
	audits   []state.ConfirmationEntry
	auditErr error
	// onConfirm changes the site once the confirmation was given.
	onConfirm func()
}

// lone returns a host of a pair that booted alone; its peer's BMC does not
// answer.
func lone(changes ...func(*lonely)) *lonely {
	two := []state.EtcdMember{{ID: 0xa, Name: "cp-1"}, {ID: 0xb, Name: "cp-2"}}
	written := time.Date(2026, 11, 20, 8, 30, 0, 0, time.UTC)
	s := &lonely{
		since: 3 * time.Minute, clock: time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC),
		snap: state.EtcdSnapshot{
			Host: "cp-1", Peer: "cp-2", Nonce: "n0nce", Boot: "boot-2", Uptime: 5 * time.Minute,
			Record:    state.Known(state.EtcdRecord{State: state.EtcdPair, Seq: 4, Cluster: 0xc, Member: 0xa, Written: written}),
			Data:      state.Known(state.EtcdData{Copy: state.CopyWhole, Cluster: 0xc, Member: 0xa, Members: two}),
			Local:     state.EtcdLocal{Running: state.Known(false), StandIn: state.Known(state.MemberID(0))},
			Pacemaker: state.EtcdPacemaker{Inert: state.Known(true), Contact: state.Known(false), Ring: 3},
		},
	}
	for _, c := range changes {
		c(s)
	}
	return s
}

func was(st state.EtcdState) func(*lonely) {
	return func(s *lonely) {
		r := &s.snap.Record.Value
		r.State = st
		if st == state.EtcdSole {
			r.TakeOver = state.EtcdTakeOver{ID: "t1", Counter: 1}
			s.snap.Data.Value.Members = s.snap.Data.Value.Members[:1]
		}
	}
}

func says(power string) func(*lonely) { return func(s *lonely) { s.power = power } }

// survivor makes it a host that lost its peer while running, without proof that
// the peer is off.
func survivor(s *lonely) {
	p := &s.snap.Pacemaker
	p.Inert, p.Joined = state.Known(false), time.Minute
	s.snap.Proofs.Heard = s.snap.Boot
	s.snap.Local.Running, s.snap.Local.Leader = state.Known(true), state.Known(state.MemberID(0))
	s.snap.Local.Members = state.Known(s.snap.Data.Value.Members)
}

// verified adds the proof that the etcd keeper needs.
func verified(s *lonely) {
	s.snap.Proofs.Fenced = state.Known(state.EtcdFenced{Target: "cp-2", State: "Off", Boot: "boot-2", At: time.Minute})
	s.snap.Proofs.Power = state.Known("Off")
}

// overtaken makes it a host whose place another machine has.
func overtaken(s *lonely) {
	s.replaced = "another machine takes the place of cp-1 since 2026-11-19T16:00:00Z, by ada"
}

// histories makes it two hosts in contact that both went on alone.
func histories(s *lonely) {
	survivor(s)
	was(state.EtcdSole)(s)
	s.snap.Local.Members, s.snap.Local.Leader = state.Known(s.snap.Data.Value.Members), state.Known(state.MemberID(0xa))
	s.snap.Pacemaker.Contact = state.Known(true)
	s.snap.Statement = state.Known(state.EtcdStatement{
		Boot: "b", Ring: 3, Record: state.EtcdRecord{State: state.EtcdSole, Seq: 9, Cluster: 0xc, Member: 0xb}, Running: state.Known(true),
	})
}

// emptyPeer makes it a host of a pair that booted and met a peer with a new
// disk.
func emptyPeer(s *lonely) {
	p := &s.snap.Pacemaker
	p.Inert, p.Contact, p.Joined = state.Known(false), state.Known(true), time.Minute
	s.snap.Statement = state.Known(state.EtcdStatement{
		Boot: "b", Ring: 3, Record: state.EtcdRecord{State: state.EtcdNone}, Running: state.Known(false),
		Data: state.Known(state.EtcdData{Copy: state.CopyNone}),
	})
}

func (s *lonely) report(context.Context) (state.EtcdReport, error) {
	if s.noAgent {
		return state.EtcdReport{}, explain.ErrNoAgent
	}
	r := state.EtcdReport{Wish: state.EtcdStarted, Snapshot: s.snap, Verdict: etcdmember.Decide(s.snap), At: s.clock, Since: s.since}
	if !s.frozen {
		s.step(r.Verdict)
	}
	return r, nil
}

// step carries out an action on values, as package act does on a host.
func (s *lonely) step(v state.EtcdVerdict) {
	l := &s.snap.Local
	switch v.Action {
	case state.EtcdGrantQuorum:
		s.snap.Pacemaker.Inert = state.Known(false)
	case state.EtcdWriteRecord:
		s.snap.Record = state.Known(*v.Record)
	case state.EtcdStart:
		l.Running, l.Leader, l.Members = state.Known(true), state.Known(state.MemberID(0)), state.Known(s.snap.Data.Value.Members)
		if len(l.Members.Value) == 1 {
			l.Leader = state.Known(l.Members.Value[0].ID)
		}
	case state.EtcdStartStandIn:
		l.StandIn, l.Leader = state.Known(v.Member), state.Known(s.snap.Record.Value.Member)
	case state.EtcdRemove:
		l.Members = state.Known(l.Members.Value[:1])
	case state.EtcdStopStandIn:
		l.StandIn = state.Known(state.MemberID(0))
	default:
	}
}

func (s *lonely) host() quorumHost {
	return quorumHost{
		report: s.report,
		power: func(context.Context, string) (string, error) {
			if s.power == "" {
				return "", errors.New("no answer within 10s: check that the BMC is alive")
			}
			return s.power, nil
		},
		replaced: func(context.Context) string { s.asked++; return s.replaced },
		off:      s.off,
		boot:     func() (string, time.Duration, error) { return s.snap.Boot, s.snap.Uptime + time.Second, nil },
		confirm:  s.confirm,
		audit: func(l state.ConfirmationEntry) error {
			if s.auditErr == nil {
				s.audits = append(s.audits, l)
			}
			return s.auditErr
		},
		tellPacemaker: func(context.Context, string) error {
			s.told++
			if s.told <= s.pending {
				return errors.New("not quorate yet")
			}
			return nil
		},
		now:   func() time.Time { return s.clock },
		sleep: func(_ context.Context, d time.Duration) error { s.clock = s.clock.Add(d); s.since += d; return nil },
	}
}

func (s *lonely) off(context.Context, string) error {
	s.offs++
	switch {
	case s.mutes:
		s.power = ""
		return errors.New("no answer")
	case s.stuck != "":
		s.power = s.stuck
		return errors.New("it is not proven to be off")
	}
	s.power = "Off"
	s.snap.Pacemaker.Contact, s.snap.Pacemaker.Ring = state.Known(false), 4
	return nil
}

func (s *lonely) confirm(c state.Confirmation) error {
	if len(s.audits) == 0 {
		return errors.New("a word had an effect before it was recorded")
	}
	s.words = append(s.words, c)
	s.snap.Proofs.Human = state.Known(c)
	if s.onConfirm != nil {
		s.onConfirm()
	}
	return nil
}

// typed runs the command on the site with typed input.
func (s *lonely) typed(t *testing.T, input string, flags confirmFlags) (code int, out, errs string) {
	t.Helper()
	if flags.reason == "" {
		flags.reason = "rack B burnt"
	}
	flags.by, flags.watchLimit = "ops", time.Minute
	var o, e bytes.Buffer
	c := confirmation{confirmFlags: flags, streams: Streams{In: strings.NewReader(input), Out: &o, Err: &e}, host: s.host()}
	err := c.run(t.Context())
	if err != nil {
		e.WriteString(err.Error())
	}
	return command.ExitCode(err), o.String(), e.String()
}

// TestAConfirmation has one case for each rule of the command.
func TestAConfirmation(t *testing.T) {
	yes, phrase := confirmFlags{yes: true}, func(p string) confirmFlags { return confirmFlags{phrase: p} }
	for name, c := range map[string]struct {
		site  *lonely
		input string
		flags confirmFlags
		code  int
		want  string // expected somewhere in the output
		words int
		offs  int
	}{
		"a survivor that proved it itself needs nothing":  {lone(was(state.EtcdSole), says("Off"), verified), "", yes, 0, "goes on by itself", 0, 0},
		"a survivor whose peer is Off, a yes":             {lone(was(state.EtcdSole), says("Off")), "", yes, 0, "takes writes", 1, 0},
		"a survivor whose peer runs is switched off":      {lone(was(state.EtcdSole), says("On")), "", yes, 0, "takes writes", 1, 1},
		"a yes can be typed":                              {lone(was(state.EtcdSole), says("On")), "yes\n", confirmFlags{}, 0, "takes writes", 1, 1},
		"anything else is no yes":                         {lone(was(state.EtcdSole), says("On")), "y\n", confirmFlags{}, command.ExitNotConfirmed, "nothing was changed", 0, 0},
		"nobody answers":                                  {lone(was(state.EtcdSole), says("On")), "", confirmFlags{}, command.ExitNotConfirmed, "no answer on standard input", 0, 0},
		"nothing is proved: a yes is not enough":          {lone(was(state.EtcdSole)), "", yes, command.ExitNotConfirmed, "--phrase 'cp-2 is off'", 0, 0},
		"nothing is proved: the phrase":                   {lone(was(state.EtcdSole)), "", phrase("cp-2 is off"), 0, "takes writes", 1, 0},
		"the phrase can be typed":                         {lone(was(state.EtcdSole)), "cp-2 is off\n", confirmFlags{}, 0, "takes writes", 1, 0},
		"another phrase is none":                          {lone(was(state.EtcdSole)), "", phrase("cp-2 is Off"), command.ExitNotConfirmed, `the phrase must be "cp-2 is off"`, 0, 0},
		"the phrase of a lesser case does not force":      {lone(), "", phrase("cp-2 is off"), command.ExitNotConfirmed, "lose what only cp-2 has", 0, 0},
		"a stale pair is forced":                          {lone(), "", phrase("cp-2 is off, lose what only cp-2 has"), 0, "takes writes", 1, 0},
		"a stale pair whose peer runs":                    {lone(says("On")), "", phrase("crash cp-2, lose what only cp-2 has"), 0, "takes writes", 1, 1},
		"a survivor that waits for a fence in vain":       {lone(survivor), "", phrase("cp-2 is off"), 0, "takes writes", 1, 0},
		"a fence gets its time before anybody is asked":   {lone(survivor, func(s *lonely) { s.since = time.Second }), "", phrase("cp-2 is off"), 0, "Pacemaker is fencing cp-2", 1, 0},
		"the BMC says On and does not obey":               {lone(was(state.EtcdSole), says("On"), func(s *lonely) { s.stuck = "PoweringOff" }), "", yes, command.ExitRefused, "PoweringOff", 0, 1},
		"the BMC says On and falls silent":                {lone(was(state.EtcdSole), says("On"), func(s *lonely) { s.mutes = true }), "", yes, command.ExitRefused, "counts as running", 0, 1},
		"a peer that lost its disk is crashed first":      {lone(emptyPeer, says("On")), "", phrase("crash cp-2, lose what only cp-2 has"), 0, "takes writes", 1, 1},
		"a peer that is there and claims to be off":       {lone(emptyPeer, says("Off")), "", phrase("crash cp-2"), command.ExitRefused, "belongs to another machine", 0, 0},
		"two histories: a word does not choose":           {lone(histories, says("On")), "", yes, command.ExitRefused, "mv /var/lib/etcd/holdfast-record.json", 0, 0},
		"a learner's copy never leads":                    {lone(was(state.EtcdLearner)), "", phrase("cp-2 is off"), command.ExitRefused, "a learner's may lack writes", 0, 0},
		"a host that was replaced":                        {lone(says("On"), overtaken), "", phrase("crash cp-2, lose what only cp-2 has"), command.ExitRefused, "since 2026-11-19T16:00:00Z", 0, 0},
		"a host that was replaced, and nothing is proved": {lone(overtaken), "", phrase("cp-2 is off, lose what only cp-2 has"), command.ExitRefused, "out of the cluster", 0, 0},
		"without the agent":                               {lone(func(s *lonely) { s.noAgent = true }), "", yes, command.ExitRefused, "systemctl start podman-etcd", 0, 0},
		"the agent is stuck":                              {lone(was(state.EtcdSole), func(s *lonely) { s.frozen = true }), "", phrase("cp-2 is off"), command.ExitRecovers, "takes no writes after 1m0s", 1, 0},
		"a word that cannot be recorded has no effect":    {lone(was(state.EtcdSole), func(s *lonely) { s.auditErr = errors.New("disk full") }), "", phrase("cp-2 is off"), 1, "disk full", 0, 0},
		"a dry run changes nothing":                       {lone(says("On")), "", confirmFlags{dryRun: true}, 0, "--phrase 'crash cp-2, lose what only cp-2 has'", 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errs := c.site.typed(t, c.input, c.flags)
			all := strings.Join(strings.Fields(out+" "+errs), " ")
			if code != c.code || !strings.Contains(all, c.want) {
				t.Errorf("exit code %d, want %d and %q\n%s\n%s", code, c.code, c.want, out, errs)
			}
			if len(c.site.words) != c.words || c.site.offs != c.offs || len(c.site.audits) != len(c.site.words) {
				t.Errorf("%d confirmations, %d recorded, switched off %d times; want %d, %d", len(c.site.words), len(c.site.audits), c.site.offs, c.words, c.offs)
			}
		})
	}
}

func TestAForcedCopySaysWhoForcedIt(t *testing.T) {
	s := lone()
	if code, out, errs := s.typed(t, "", confirmFlags{phrase: "cp-2 is off, lose what only cp-2 has"}); code != 0 {
		t.Fatalf("%d\n%s\n%s", code, out, errs)
	}
	want := state.Confirmation{Who: "ops", Why: "rack B burnt", Boot: "boot-2", At: s.words[0].At, Force: true}
	if s.words[0] != want || s.words[0].At <= s.snap.Uptime {
		t.Errorf("%+v", s.words[0])
	}
	if f := s.snap.Record.Value.Forced; f.Who != "ops" || f.Why != "rack B burnt" {
		t.Errorf("the record says %+v", f)
	}
	if l := s.audits[0]; !l.Force || l.Rule != "alone.wait" || !strings.Contains(l.Power, "no answer") || l.Phrase == "" {
		t.Errorf("recorded as %+v", l)
	}
}

// TestWhetherAHostWasReplacedIsAskedOnceInARun: each question to hosts that are off takes seconds,
// and a fence is waited for in steps.
func TestWhetherAHostWasReplacedIsAskedOnceInARun(t *testing.T) {
	s := lone(survivor, func(s *lonely) { s.since = time.Second })
	if code, out, errs := s.typed(t, "", confirmFlags{phrase: "cp-2 is off"}); code != 0 || s.asked != 1 {
		t.Errorf("%d, asked %d times\n%s\n%s", code, s.asked, out, errs)
	}
}

func TestPacemakerIsToldOnlyWhereItCannotKnow(t *testing.T) {
	mute := lone(was(state.EtcdSole), func(s *lonely) { s.pending = 1 })
	mute.typed(t, "", confirmFlags{phrase: "cp-2 is off"})
	if mute.told != 2 {
		t.Errorf("told %d times, want once more after it refused", mute.told)
	}
	proved := lone(was(state.EtcdSole), says("On"))
	proved.typed(t, "", confirmFlags{yes: true})
	if proved.told != 0 {
		t.Errorf("told %d times although its BMC says Off", proved.told)
	}
}

// TestAPersonStillTellsPacemakerWhereItRefuses: etcd takes writes, and nobody else tells it.
func TestAPersonStillTellsPacemakerWhereItRefuses(t *testing.T) {
	s := lone(was(state.EtcdSole), func(s *lonely) { s.pending = 1000 })
	code, out, errs := s.typed(t, "", confirmFlags{phrase: "cp-2 is off"})
	if code != command.ExitAttention || !strings.Contains(out+errs, "sudo stonith_admin --confirm cp-2") {
		t.Errorf("%d\n%s\n%s", code, out, errs)
	}
}

func TestPacemakerIsNotToldOfAPeerThatIsBack(t *testing.T) {
	s := lone(was(state.EtcdSole), func(s *lonely) { s.frozen = true })
	s.onConfirm = func() { s.snap.Pacemaker.Contact, s.snap.Pacemaker.Inert = state.Known(true), state.Known(false) }
	if code, _, _ := s.typed(t, "", confirmFlags{phrase: "cp-2 is off"}); code != command.ExitRecovers || s.told != 0 {
		t.Errorf("exit code %d, told %d times", code, s.told)
	}
	s = lone(was(state.EtcdSole), func(s *lonely) { s.frozen = true })
	s.onConfirm = func() { s.snap.Pacemaker.Inert = state.Known(false) }
	if s.typed(t, "", confirmFlags{phrase: "cp-2 is off"}); s.told < 5 || s.told > 7 {
		t.Errorf("told %d times within a minute, want once in 10 s", s.told)
	}
}

func TestTheOutcomeCanBeReadByAProgram(t *testing.T) {
	s := lone(was(state.EtcdSole))
	code, out, _ := s.typed(t, "", confirmFlags{phrase: "cp-2 is off", output: "json"})
	var got outcome
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 {
		t.Fatalf("%d, %v\n%s", code, err, out)
	}
	if !got.GoesOn || got.Wrote == nil || got.Decision.Rule != "unproved" {
		t.Errorf("%+v", got)
	}
}

func TestWhatAPersonReadsIsTheApprovedText(t *testing.T) {
	var out strings.Builder
	for _, c := range []struct {
		title string
		site  *lonely
	}{
		{"the record allows, the peer runs", lone(was(state.EtcdSole), says("On"))},
		{"the peer may have gone on, its BMC says Off", lone(says("Off"))},
		{"the peer may have gone on, and runs", lone(says("On"))},
		{"nothing is proved", lone()},
		{"two histories", lone(histories, says("On"))},
		{"the peer lost its disk", lone(emptyPeer, says("On"))},
		{"a learner", lone(was(state.EtcdLearner), says("Off"))},
		{"a host that was replaced", lone(overtaken)},
	} {
		_, text, errs := c.site.typed(t, "", confirmFlags{dryRun: true})
		out.WriteString("== " + c.title + "\n" + text + errs + "\n")
	}
	golden.Check(t, "quorum.txt", []byte(out.String()))
}

func TestTheCommandLineIsCheckedAtOnce(t *testing.T) {
	for _, name := range []string{"SUDO_USER", "LOGNAME", "USER"} {
		t.Setenv(name, "")
	}
	f := confirmFlags{watchLimit: -time.Second}
	err := f.check()
	if err == nil || !strings.Contains(err.Error(), "--reason") || !strings.Contains(err.Error(), "--timeout") {
		t.Errorf("%v", err)
	}
	t.Setenv("SUDO_USER", "ann")
	f = confirmFlags{reason: "x"}
	if err := f.check(); err != nil || f.by != "ann" {
		t.Errorf("by %q, %v", f.by, err)
	}
}
