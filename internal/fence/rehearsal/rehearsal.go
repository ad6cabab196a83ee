package rehearsal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/pacemaker"
	"github.com/holdfast/holdfast/internal/decide/fencing"
	"github.com/holdfast/holdfast/internal/decide/hostreport"
	"github.com/holdfast/holdfast/internal/model/state"
)

const (
	// lookInterval is the time between two readings of the cluster.
	lookInterval = 500 * time.Millisecond
	// lookTimeout bounds one question to a host, which may be off.
	lookTimeout = 15 * time.Second
	// fenceTimeout is the time that Pacemaker may spend on one fence. It is the
	// same as in production; with less, a slow BMC would fail only here.
	fenceTimeout = fencing.StonithTimeout
	// DefaultReturn is the longest time until a host is a voter again.
	DefaultReturn = 15 * time.Minute
)

// Run is one rehearsal.
type Run struct {
	Hosts []Host
	// Targets are the hosts to crash, in this order. Each needs a peer that can be
	// asked.
	Targets []string
	// Return bounds the wait for full health; zero means DefaultReturn.
	Return time.Duration
	// Progress reports each step.
	Progress func(format string, args ...any)
	// Now returns the time.
	Now func() time.Time
}

// Times holds the phases of one host's crash and recovery, each counted from
// the order to fence.
type Times struct {
	Target string `json:"target"`
	By     string `json:"by"`
	// Fenced is the time until Pacemaker had fenced the target, GoesOn until the
	// peer went on alone, Answers until the target answered again, and Healthy
	// until both were voters again. Readings are half a second apart.
	Fenced  time.Duration `json:"fenced"`
	GoesOn  time.Duration `json:"goesOn,omitempty"`
	Answers time.Duration `json:"answers,omitempty"`
	Healthy time.Duration `json:"healthy"`
	// Fence holds the phases of the fence itself, as the agent recorded them.
	Fence *state.FenceEntry `json:"fence,omitempty"`
	// Cuts holds how long the last fences of the target by that host took that cut its
	// power, this one among them.
	Cuts []time.Duration `json:"cuts,omitempty"`
	// before is the time of the target's previous fence: a record with that time
	// does not belong to this crash.
	before time.Time
	// boot is the id of the target's boot that is to end.
	boot string
}

// ErrUnhealthy reports a rehearsal that did not begin, or stopped, because the
// cluster was not in full health.
var ErrUnhealthy = errors.New("the cluster is not in full health")

// Crash crashes each target in turn. It returns the times of those that came
// back, even if a later one did not.
func (r Run) Crash(ctx context.Context) ([]Times, error) {
	r.Return = cmp.Or(r.Return, DefaultReturn)
	var all []Times
	for _, target := range r.Targets {
		by, err := r.peerOf(target)
		if err != nil {
			return all, err
		}
		if problems := r.problems(ctx); len(problems) > 0 {
			return all, fmt.Errorf("%s was not crashed: %w: %s", target, ErrUnhealthy, strings.Join(problems, "; "))
		}
		times, err := r.crash(ctx, target, by)
		if err != nil {
			return all, err
		}
		all = append(all, times)
	}
	return all, nil
}

func (r Run) peerOf(target string) (Host, error) {
	i := slices.IndexFunc(r.Hosts, func(h Host) bool { return h.Name != target && h.Run != nil })
	if i < 0 || !slices.ContainsFunc(r.Hosts, func(h Host) bool { return h.Name == target }) {
		return Host{}, fmt.Errorf("crash %s: it has no reachable peer", target)
	}
	return r.Hosts[i], nil
}

func (r Run) crash(ctx context.Context, target string, by Host) (Times, error) {
	t := Times{Target: target, By: by.Name}
	before := r.ask(ctx)
	if last := lastFence(before[by.Name].Fences.Value, target); last != nil {
		t.before = last.Time
	}
	if t.boot = r.bootOf(before, target); t.boot == "" {
		return t, fmt.Errorf("crash %s: its boot id is unknown, so its return could not be detected", target)
	}
	begin := r.Now()
	r.Progress("%s asks Pacemaker to fence %s", by.Name, target)
	fenced := make(chan error, 1)
	go func() { fenced <- order(ctx, by, target) }()
	if err := r.watch(ctx, begin, by, &t, fenced); err != nil {
		return t, err
	}
	return t, r.waitHealthy(ctx, begin, target, &t)
}

// order makes Pacemaker on one host fence another. It goes through Pacemaker on
// purpose: that tries the device, its delay and its constraints too.
func order(ctx context.Context, by Host, target string) error {
	ctx, cancel := context.WithTimeout(ctx, fenceTimeout+lookTimeout)
	defer cancel()
	return pacemaker.FenceFrom(ctx, by.Run, target, fenceTimeout)
}

// watch observes the survivor until the fence is done and the survivor goes on
// alone. It also ends if the cluster is in full health again: a host may be
// back before the next reading.
func (r Run) watch(ctx context.Context, begin time.Time, by Host, t *Times, fenced <-chan error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, r.Return, errors.New("not within "+r.Return.String()))
	defer cancel()
	isFenced, alone := false, false
	for !isFenced || !alone {
		select {
		case err := <-fenced:
			if err != nil {
				return err
			}
			t.Fenced, isFenced = r.Now().Sub(begin), true
			r.Progress("%s is fenced after %s", t.Target, t.Fenced.Round(time.Millisecond))
		default:
		}
		f, err := by.look(ctx)
		if err == nil && !alone && f.Keeper.Known && fencing.GoesOnAlone(f.Keeper.Value) {
			t.GoesOn, alone = r.Now().Sub(begin), true
			r.Progress("%s goes on alone after %s", by.Name, t.GoesOn.Round(time.Millisecond))
		}
		if err == nil && isFenced && len(r.missing(r.ask(ctx), *t)) == 0 {
			return nil
		}
		if errSleep := host.Sleep(ctx, lookInterval); errSleep != nil {
			return fmt.Errorf("wait for %s to take over: %w; run 'holdfast explain' on %s", by.Name, errSleep, by.Name)
		}
	}
	return nil
}

// look asks a host that may be off, with a time limit.
func (h Host) look(ctx context.Context) (hostreport.Report, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	return h.report(ctx)
}

func (r Run) waitHealthy(ctx context.Context, begin time.Time, target string, t *Times) error {
	ctx, cancel := context.WithTimeoutCause(ctx, r.Return, errors.New("not within "+r.Return.String()))
	defer cancel()
	said := ""
	for {
		facts := r.ask(ctx)
		if f, ok := facts[target]; ok && t.Answers == 0 && f.Boot.Known && f.Boot.Value.ID != t.boot {
			t.Answers = r.Now().Sub(begin)
			r.Progress("%s answers again after %s (boot %s)", target, t.Answers.Round(time.Millisecond), f.Boot.Value.ID)
		}
		problems := r.missing(facts, *t)
		if len(problems) == 0 {
			t.Healthy = r.Now().Sub(begin)
			if last := lastFence(facts[t.By].Fences.Value, target); last != nil && !last.Time.Equal(t.before) {
				t.Fence, t.Cuts = last, cuts(facts[t.By].Fences.Value, target)
			}
			r.Progress("both hosts are voters again after %s", t.Healthy.Round(time.Millisecond))
			return nil
		}
		if now := strings.Join(problems, "; "); now != said {
			r.Progress("waiting: %s", now)
			said = now
		}
		if err := host.Sleep(ctx, lookInterval); err != nil {
			return fmt.Errorf("full health after the crash of %s: %w: %s", target, err, said)
		}
	}
}

// lastFence returns the last record of a proven fence of a target.
func lastFence(history []state.FenceEntry, target string) *state.FenceEntry {
	for _, r := range slices.Backward(history) {
		if r.Target == target && r.Off {
			return &r
		}
	}
	return nil
}

// cuts returns how long the last fences of a target took that cut its power.
func cuts(history []state.FenceEntry, target string) []time.Duration {
	all := state.FenceTotals{}
	for _, e := range history {
		all.Add(e)
	}
	return all[target].Cuts
}

// ask asks all hosts at once.
func (r Run) ask(ctx context.Context) map[string]hostreport.Report {
	type answer struct {
		host  string
		facts hostreport.Report
		err   error
	}
	answers := make(chan answer, len(r.Hosts))
	asked := 0
	for _, h := range r.Hosts {
		if h.Run == nil {
			continue
		}
		asked++
		go func() {
			f, err := h.look(ctx)
			answers <- answer{h.Name, f, err}
		}()
	}
	facts := map[string]hostreport.Report{}
	for range asked {
		if a := <-answers; a.err == nil {
			facts[a.host] = a.facts
		}
	}
	return facts
}

func (r Run) judge(facts map[string]hostreport.Report) []string {
	var out []string
	for _, h := range r.Hosts {
		if _, ok := facts[h.Name]; h.Run != nil && !ok {
			out = append(out, h.Name+" does not answer")
		}
	}
	return append(out, health(r.Hosts, facts).Problems()...)
}

// missing returns what full health lacks after a crash. A report from before
// the crash does not count: the target must have booted.
func (r Run) missing(facts map[string]hostreport.Report, t Times) []string {
	if now := r.bootOf(facts, t.Target); now == "" || now == t.boot {
		return append([]string{t.Target + " has not booted yet"}, r.judge(facts)...)
	}
	return r.judge(facts)
}

// bootOf returns the id of a host's boot: from the host itself or, if it cannot
// be asked, from the statement that its peer got.
func (r Run) bootOf(facts map[string]hostreport.Report, name string) string {
	for _, h := range r.Hosts {
		if h.Name == name && h.Run != nil {
			return facts[name].Boot.Value.ID
		}
	}
	for other, f := range facts {
		if s := f.Keeper.Value.Snapshot.Statement; other != name && f.Keeper.Known && s.Known {
			return s.Value.Boot
		}
	}
	return ""
}

func (r Run) problems(ctx context.Context) []string { return r.judge(r.ask(ctx)) }

// Measured returns the times from the begin of each fence to its proof, without
// the delay, of the crashes and of the last fences before them: the delay is judged by all
// of these. It leaves out hosts that were off before.
func Measured(all []Times) map[string][]time.Duration {
	out := map[string][]time.Duration{}
	for _, t := range all {
		if t.Fence != nil && t.Fence.Requests > 0 {
			out[t.Target] = append(out[t.Target], t.Cuts...)
		}
	}
	return out
}
