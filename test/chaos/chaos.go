// Package chaos breaks a site of two control planes at random, round after round, while
// clients outside its hosts write through the API's virtual address and both API servers. It
// needs root and a lab. test/chaos/plan draws the faults, from a seed alone.
package chaos

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/lab"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/test/chaos/plan"
	"github.com/holdfast/holdfast/test/labsite"
	"github.com/holdfast/holdfast/test/twonode/client"
	"github.com/holdfast/holdfast/test/twonode/evidence"
)

// atVIP is the name of the target for the API's virtual address.
const atVIP = "vip"

// result holds the cost of a round, one line of results.jsonl.
type result struct {
	Seed   uint64    `json:"seed"`
	Round  int       `json:"round"`
	Time   time.Time `json:"time"`
	Faults []string  `json:"faults"`
	Single bool      `json:"single,omitempty"`
	// Held is the time from the first fault to the mend. VIP and Any are the
	// longest times in it without an acknowledged write, at the VIP and by any
	// way. Whole is the time from the mend until all was whole.
	Held  evidence.Seconds `json:"held"`
	VIP   evidence.Seconds `json:"vip"`
	Any   evidence.Seconds `json:"any"`
	Whole evidence.Seconds `json:"whole"`
	// Writes is the number of acknowledged writes.
	Writes int      `json:"writes"`
	Fenced []string `json:"fenced,omitempty"`
	// Asked is the site's request to an administrator, if it waited for one.
	Asked string `json:"asked,omitempty"`
	// Notes lists steps that could not be done, for example because their host
	// was off.
	Notes  []string `json:"notes,omitempty"`
	Failed []string `json:"failed,omitempty"`
}

// Options say how a site is broken, and what is asked of it.
type Options struct {
	Seed uint64
	// Outage is how long nobody may be able to write at the API VIP while a single fault of
	// one host is held; 0 to report it alone.
	Outage time.Duration
	// WholeIn is how long the site may take to be whole again after the last mend, without a
	// person.
	WholeIn time.Duration
	// Output is the folder of results and artefacts.
	Output string
	// Again is the command that plays a round again by its number, in the form of fmt.
	Again string
}

// Chaos is the site to break.
type Chaos struct {
	*labsite.Site
	Options
	api  *rest.Config
	done []result
}

// New returns a site to break.
func New(s *labsite.Site, o Options) (*Chaos, error) {
	config, err := s.Access()
	if err != nil {
		return nil, err
	}
	return &Chaos{Site: s, Options: o, api: config}, nil
}

// Round plays a round, and waits until the site is whole.
func (c *Chaos) Round(t *testing.T, number int) {
	t.Helper()
	round := plan.Draw(c.Seed, number, c.shape())
	t.Logf("%s", round)
	c.done = append(c.done, c.play(t, round))
	// A check at one moment is not enough: an API server that has just started may become slow
	// once more.
	if err := c.wholeWithin(t.Context(), c.WholeIn); err != nil {
		t.Fatalf("round %d of seed %d left a site that is not whole, and nothing more is broken: %v", number, c.Seed, err)
	}
}

func (c *Chaos) shape() plan.Shape {
	s := plan.Shape{ControlPlanes: c.ControlPlanes()}
	for _, h := range c.Lab.Layout.Hosts {
		if !h.Role.ControlPlane() {
			s.Workers = append(s.Workers, h.Name)
		}
	}
	return s
}

// play plays one round on a whole site, and returns its cost.
func (c *Chaos) play(t *testing.T, round plan.Round) result {
	out := result{Seed: round.Seed, Round: round.Number, Time: time.Now().UTC(), Single: round.Single() && !c.worker(round)}
	for _, s := range round.Steps {
		out.Faults = append(out.Faults, s.String())
	}
	fail := func(format string, args ...any) {
		t.Helper()
		out.Failed = append(out.Failed, fmt.Sprintf(format, args...))
		t.Errorf(format, args...)
	}
	if err := c.wholeWithin(t.Context(), c.WholeIn); err != nil {
		fail("the site is not whole before the round: %v", err)
		return out
	}
	rec, load := c.startLoad(t)
	at := time.Now()
	out.Notes = c.breakIt(t.Context(), round)
	mended := time.Now()
	history := rec.Copy()
	out.Held = evidence.In(mended.Sub(at))
	out.VIP = evidence.In(history.Gap(atVIP, rec.At(at), rec.At(mended)).Length)
	out.Any = evidence.In(history.Gap("", rec.At(at), rec.At(mended)).Length)
	out.Notes = append(out.Notes, c.mend(t.Context(), round)...)
	err := c.wholeWithin(t.Context(), c.WholeIn)
	out.Whole = evidence.In(time.Since(mended))
	if err != nil {
		if out.Asked = c.asked(t.Context()); out.Asked == "" {
			fail("not whole %s after the mend, and nobody is asked for anything: %v", c.WholeIn, err)
		} else if err := c.help(t.Context()); err != nil {
			fail("a person was asked (%s), did it, and the site is not whole: %v", out.Asked, err)
		}
	}
	if err := load.Stop(t.Context()); err != nil {
		fail("%v", err)
	}
	history = rec.Copy()
	if err := client.Check(history); err != nil {
		fail("the cluster broke its word: %v", err)
	}
	out.Writes = acknowledged(history)
	if out.Fenced, err = c.Fenced(t.Context(), at); err != nil {
		fail("%v", err)
	}
	if limit := evidence.In(c.Outage); out.Single && limit > 0 && out.VIP > limit {
		fail("nobody could write at the VIP for %.1f s while a single fault was held, want at most %s", float64(out.VIP), c.Outage)
	}
	c.note(t, round, out, history, at)
	return out
}

// worker reports whether a round concerns only workers.
func (c *Chaos) worker(round plan.Round) bool {
	return !slices.ContainsFunc(round.Steps, func(s plan.Step) bool { return slices.Contains(c.ControlPlanes(), s.Host) })
}

func (c *Chaos) startLoad(t *testing.T) (*client.Recorder, *client.Load) {
	t.Helper()
	targets := []client.Target{{Name: atVIP, Address: net.JoinHostPort(c.Lab.Layout.APIVIPs[0].String(), "6443")}}
	for _, h := range c.Lab.Layout.ControlPlanes() {
		targets = append(targets, client.Target{Name: h.Name, Address: net.JoinHostPort(h.Machine.Addresses[0].Addr().String(), "6443")})
	}
	rec := client.NewRecorder()
	run := fmt.Sprintf("c%d", time.Now().UnixMilli())
	load, err := client.StartAPI(t.Context(), rec, client.Shape{Targets: targets, Writers: 2, Pause: 100 * time.Millisecond}, run, c.Lab.Dial, c.api)
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(30 * time.Second); rec.Last(atVIP) == 0; _ = host.Sleep(t.Context(), 100*time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("nobody could write before anything was broken")
		}
	}
	return rec, load
}

// breakIt does the steps of a round and holds them. Each begins when it is due,
// even if an earlier one is not done yet. It returns notes on steps that could
// not be done, because their host may be off.
func (c *Chaos) breakIt(ctx context.Context, round plan.Round) []string {
	began := time.Now()
	done := make(chan string, len(round.Steps))
	for _, s := range round.Steps {
		_ = host.Sleep(ctx, time.Until(began.Add(s.After)))
		go func() {
			text := ""
			if err := c.do(ctx, s, s.Script); err != nil {
				text = fmt.Sprintf("%s: %v", s, err)
			}
			done <- text
		}()
	}
	_ = host.Sleep(ctx, round.Hold)
	var notes []string
	for range round.Steps {
		select {
		case text := <-done:
			if text != "" {
				notes = append(notes, text)
			}
		default:
			notes = append(notes, "a step had not ended before the mend")
		}
	}
	return notes
}

// scriptWithin bounds a script on a host.
const scriptWithin = 2 * time.Minute

func (c *Chaos) do(ctx context.Context, s plan.Step, script string) error {
	if s.Fault != nil {
		return c.Power.Inject(ctx, *s.Fault)
	}
	ctx, cancel := context.WithTimeout(ctx, scriptWithin)
	defer cancel()
	_, err := c.Sh(ctx, s.Host, "HOST="+s.Host+"; PEER="+c.peer(s.Host)+"; "+script)
	return err
}

func (c *Chaos) peer(of string) string {
	for _, h := range c.ControlPlanes() {
		if h != of {
			return h
		}
	}
	return ""
}

// mend undoes all faults.
func (c *Chaos) mend(ctx context.Context, round plan.Round) []string {
	var notes []string
	if err := c.Clear(ctx, lab.ClearRequest{}); err != nil {
		notes = append(notes, err.Error())
	}
	for _, s := range round.Steps {
		if s.Undo == "" {
			continue
		}
		var err error
		for end := time.Now().Add(scriptWithin); ; _ = host.Sleep(ctx, time.Second) {
			if err = c.do(ctx, s, s.Undo); err == nil || time.Now().After(end) {
				break
			}
		}
		if err != nil {
			notes = append(notes, fmt.Sprintf("%s: %v", s.Undo, err))
		}
	}
	return notes
}

func (c *Chaos) wholeWithin(ctx context.Context, d time.Duration) error {
	for end := time.Now().Add(d); ; _ = host.Sleep(ctx, time.Second) {
		if err := c.Whole(ctx); err == nil || time.Now().After(end) || ctx.Err() != nil {
			return err
		}
	}
}

// asked returns a host's request to an administrator, in the host's own words.
// It is empty if there is none, or if the request is wrong: a host may ask only
// while its peer's etcd does not run.
func (c *Chaos) asked(ctx context.Context) string {
	for _, h := range c.ControlPlanes() {
		r, err := c.Etcd(ctx, h)
		if err != nil || r.Verdict.Action != state.EtcdAskHuman || r.Verdict.Next == "" {
			continue
		}
		peer, _ := c.Lab.Layout.Host(c.peer(h))
		if running, err := c.Lab.Processes(ctx, peer, "etcd"); err == nil && len(running) == 0 {
			return fmt.Sprintf("%s: %s; %s", h, r.Verdict.Reason, r.Verdict.Next)
		}
	}
	return ""
}

// help plays an administrator who switches on the hosts that are off.
func (c *Chaos) help(ctx context.Context) error {
	for _, h := range c.Lab.Layout.Hosts {
		if st, err := c.PowerOf(ctx, h.Name); err == nil && st.Power == lab.PowerOff && !h.Spare {
			if err := c.Power.Power(ctx, lab.PowerRequest{Host: h.Name, Action: lab.ActionOn}); err != nil {
				return err
			}
		}
	}
	return c.wholeWithin(ctx, c.WholeIn)
}

func acknowledged(h client.History) int {
	n := 0
	for _, o := range h.Ops {
		if o.Kind == client.Write && o.Outcome == client.OK {
			n++
		}
	}
	return n
}

// note records the figures of a round, and for a failed round the evidence of
// the reason.
func (c *Chaos) note(t *testing.T, round plan.Round, out result, history client.History, at time.Time) {
	t.Helper()
	if err := evidence.Append(filepath.Join(c.Output, "results.jsonl"), out); err != nil {
		t.Error(err)
	}
	t.Logf("held %.1f s; no write at the VIP for %.1f s, by no way for %.1f s; whole %.1f s after the mend; fenced %v; %d writes %s",
		float64(out.Held), float64(out.VIP), float64(out.Any), float64(out.Whole), out.Fenced, out.Writes, strings.Join(out.Notes, "; "))
	if len(out.Failed) == 0 {
		return
	}
	dir := filepath.Join(c.Output, fmt.Sprintf("seed-%d-round-%d", round.Seed, round.Number))
	err := client.Save(dir, history)
	since := at.Add(-30 * time.Second).UTC().Format("2006-01-02 15:04:05")
	for _, h := range c.ControlPlanes() {
		for name, script := range map[string]string{
			"journal": "journalctl --no-pager -o short-precise --utc --since '" + since + "'", "pacemaker": "pcs status --full", "explain": "holdfast explain etcd",
		} {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			text, shErr := c.Sh(ctx, h, script+" 2>&1")
			cancel()
			if shErr != nil {
				text += "\n" + shErr.Error()
			}
			err = errors.Join(err, os.WriteFile(filepath.Join(dir, h+"-"+name+".txt"), []byte(text), 0o600))
		}
	}
	t.Logf("artefacts: %s; play it again: %s (%v)", dir, fmt.Sprintf(c.Again, round.Seed, round.Number), err)
}

// Summary describes in one paragraph what all rounds cost.
func (c *Chaos) Summary() string {
	all := c.done
	var single, anywhere, whole evidence.Seconds
	writes, fences, failed, asked := 0, 0, 0, 0
	for _, r := range all {
		if r.Single {
			single = max(single, r.VIP)
		}
		anywhere, whole = max(anywhere, r.Any), max(whole, r.Whole)
		writes, fences = writes+r.Writes, fences+len(r.Fenced)
		if len(r.Failed) > 0 {
			failed++
		}
		if r.Asked != "" {
			asked++
		}
	}
	return fmt.Sprintf("%d rounds of seed %d: %d failed, %d asked a person, %d fences, %d acknowledged writes; "+
		"longest time without a write at the VIP under a single fault %.1f s, by any way under any %.1f s; longest time until whole %.1f s",
		len(all), c.Seed, failed, asked, fences, writes, float64(single), float64(anywhere), float64(whole))
}
