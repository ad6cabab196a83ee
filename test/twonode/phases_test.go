package twonode_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/test/labsite"
	"github.com/holdfast/holdfast/test/twonode/client"
	"github.com/holdfast/holdfast/test/twonode/evidence"
)

// sampleEvery is the interval at which decisions are read.
const sampleEvery = 25 * time.Millisecond

// decision is the decision of a host's etcd keeper, from a moment on.
type decision struct {
	at     time.Time
	host   string
	record state.EtcdState
	action state.EtcdAction
	rule   string
	rest   string
}

func (d decision) same(e decision) bool {
	return d.record == e.record && d.action == e.action && d.rule == e.rule && d.rest == e.rest
}

func (d decision) String() string {
	return fmt.Sprintf("%s %s %-11s %-14s %s %s", d.at.UTC().Format("15:04:05.000"), d.host, d.record, d.action, d.rule, d.rest)
}

// noAnswer stands for the decision of an etcd keeper that does not answer.
const noAnswer = "no answer"

// sampler keeps asking the etcd keepers of both hosts.
type sampler struct {
	end  context.CancelFunc
	done sync.WaitGroup
	mu   sync.Mutex
	list []decision
}

func startSampler(ctx context.Context, s *site) *sampler {
	ctx, end := context.WithCancel(ctx)
	p := &sampler{end: end}
	for _, h := range s.hosts() {
		p.done.Go(func() { p.follow(ctx, s, h) })
	}
	return p
}

func (p *sampler) follow(ctx context.Context, s *site, host string) {
	var last decision
	socket := ""
	for ; ctx.Err() == nil; pause(ctx, sampleEvery) {
		if socket == "" {
			root, err := s.Lab.Root(ctx, s.Power, host)
			if err != nil {
				pause(ctx, 20*sampleEvery)
				continue
			}
			socket = root + state.EtcdSocketPath
		}
		now := decision{at: time.Now(), host: host}
		if r, err := labsite.AskKeeper(ctx, socket); err != nil {
			now.rest, socket = noAnswer, ""
		} else {
			now.record, now.action, now.rule = r.Snapshot.Record.Value.State, r.Verdict.Action, r.Verdict.Rule
			now.rest = strings.TrimSpace(r.Verdict.Reason + " " + r.Problem)
		}
		if !now.same(last) {
			p.add(now)
			last = now
		}
	}
}

func (p *sampler) add(d decision) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.list = append(p.list, d)
}

func (p *sampler) stop() {
	p.end()
	p.done.Wait()
}

// first returns the time of a host's first fitting decision after a moment;
// zero if there is none.
func (p *sampler) first(host string, after time.Time, fits func(decision) bool) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range p.list {
		if d.host == host && d.at.After(after) && fits(d) {
			return d.at
		}
	}
	return time.Time{}
}

// silence returns for how long a host had given no answer at a moment.
func (p *sampler) silence(host string, at time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	var last decision
	for _, d := range p.list {
		if d.host == host && d.at.Before(at) {
			last = d
		}
	}
	if last.rest != noAnswer {
		return 0
	}
	return at.Sub(last.at)
}

func (p *sampler) save(path string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var text strings.Builder
	for _, d := range p.list {
		text.WriteString(d.String() + "\n")
	}
	return os.WriteFile(path, []byte(text.String()), 0o600)
}

// takeOver measures the parts of a survivor's take-over. It must be called
// while the survivor still runs with the evidence of this fence.
func (tr *trial) takeOver(survivor string) {
	tr.Helper()
	m := evidence.Moments{Fault: tr.at}
	m.Membership = tr.membership(survivor)
	m.Fenced = tr.evidenceTime(survivor)
	m.Decided = tr.sampler.first(survivor, tr.at, func(d decision) bool { return d.record.Leads() })
	m.Etcd = backAt(tr.rec, survivor, tr.at)
	m.API = backAt(tr.apiRec, survivor, tr.at)
	if !m.API.IsZero() && m.API.Before(m.Etcd) {
		m.Etcd = m.API // a write to the API is a write to etcd that our own clients had not yet made
	}
	tr.result.Split(m)
}

// outage is the time without an acknowledgement from which on it counts:
// clients of the API pause for 100 ms, and the machine is small.
const outage = 400 * time.Millisecond

// atOnce is the longest time between a fault and the beginning of an outage
// that the fault caused.
const atOnce = 5 * time.Second

// backAt returns the end of the outage that the fault caused. It is the time of
// the fault if there was none, and zero if the outage did not end.
func backAt(rec *client.Recorder, endpoint string, fault time.Time) time.Time {
	h := rec.Copy()
	gap := h.Outage(endpoint, rec.At(fault), h.End(), outage)
	switch {
	case gap.Length == 0, gap.From > rec.At(fault)+atOnce:
		return fault
	case gap.Open:
		return time.Time{}
	}
	return h.Began.Add(gap.Until)
}

// evidenceTime returns the time at which the proof of the peer's fence was
// written.
func (tr *trial) evidenceTime(survivor string) time.Time {
	root, err := tr.Lab.Root(tr.Context(), tr.Power, survivor)
	if err != nil {
		return time.Time{}
	}
	st, err := os.Stat(filepath.Join(root, state.FencedDir, tr.other(survivor)+".json"))
	if err != nil || st.ModTime().Before(tr.at) {
		return time.Time{}
	}
	return st.ModTime()
}

// alone matches Corosync's message when a host is the only member left.
var alone = regexp.MustCompile(`Members\[1\]`)

// membership returns the time at which Corosync on a host found itself alone
// after the fault.
func (tr *trial) membership(host string) time.Time {
	since := tr.at.UTC().Format("2006-01-02 15:04:05")
	out, err := tr.Sh(tr.Context(), host, "journalctl --no-pager -o json --output-fields=MESSAGE -u corosync --utc --since '"+since+"'")
	if err != nil {
		tr.Logf("journal of %s: %v", host, err)
		return time.Time{}
	}
	return firstMessage([]byte(out), alone, tr.at)
}

// firstMessage returns the time of the first message of a journal in JSON that
// fits and is not older than a moment.
func firstMessage(journal []byte, fits *regexp.Regexp, after time.Time) time.Time {
	for line := range bytes.Lines(journal) {
		var entry struct {
			At      string `json:"__REALTIME_TIMESTAMP"`
			Message string `json:"MESSAGE"`
		}
		if json.Unmarshal(line, &entry) != nil || !fits.MatchString(entry.Message) {
			continue
		}
		micros, err := strconv.ParseInt(entry.At, 10, 64)
		if at := time.UnixMicro(micros); err == nil && !at.Before(after) {
			return at
		}
	}
	return time.Time{}
}

// measure fills in the times without writes.
func (tr *trial) measure() {
	if tr.at.IsZero() {
		return
	}
	survivor := tr.survivor
	if list, err := tr.fences(tr.Context(), tr.began); err == nil {
		tr.result.Fences = len(list)
	}
	tr.result.EtcdGap = gapOf(tr.rec, "", tr.at)
	tr.result.APIGap = gapOf(tr.apiRec, "", tr.at)
	tr.result.VIPGap = gapOf(tr.apiRec, apiVIP, tr.at)
	tr.result.EtcdBack = backAfter(tr.rec, survivor, tr.at)
	tr.result.APIBack = backAfter(tr.apiRec, survivor, tr.at)
	tr.result.VIPBack = backAfter(tr.apiRec, apiVIP, tr.at)
	tr.Logf("%s", figures(tr.result))
}

func gapOf(rec *client.Recorder, endpoint string, fault time.Time) *evidence.Seconds {
	h := rec.Copy()
	return new(evidence.In(h.Gap(endpoint, rec.At(fault), h.End()).Length))
}

func backAfter(rec *client.Recorder, endpoint string, fault time.Time) *evidence.Seconds {
	at := backAt(rec, endpoint, fault)
	if at.IsZero() {
		return nil
	}
	return new(evidence.In(at.Sub(fault)))
}

// figures prints a trial on one line.
func figures(t evidence.Trial) string {
	data, err := json.Marshal(t)
	if err != nil {
		return err.Error()
	}
	return string(data)
}
