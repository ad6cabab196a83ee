package incident

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/observe"
	"github.com/holdfast/holdfast/internal/adapter/records"
	"github.com/holdfast/holdfast/internal/agent/network"
	decide "github.com/holdfast/holdfast/internal/decide/incident"
	"github.com/holdfast/holdfast/internal/decide/redact"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
)

// sources holds where a host's records come from.
type sources struct {
	boot    func() (id string, uptime time.Duration, err error)
	now     func() time.Time
	files   records.Files
	network string
	redact  func(string) string
}

func thisHost(s *site.Site) sources {
	return sources{
		boot: observe.Boot, now: time.Now,
		network: network.StatusPath, redact: redact.New(secrets(s)...).Text,
	}
}

// secrets returns the secrets that this host knows. Nothing is meant to put them
// into a record, and none may be in one.
func secrets(s *site.Site) []string {
	id := s.Identity
	out := []string{id.AdmissionToken, id.ProgressToken, string(id.JoinKey), string(id.EncryptionRoot), s.Config.PullSecret.Reveal()}
	files := records.Files{}
	targets, err := files.Targets()
	if err != nil {
		return out
	}
	for _, t := range targets {
		if dev, err := files.Device(t); err == nil {
			out = append(out, dev.Password)
		}
	}
	return out
}

// gather returns the memory with what is new. A source that fails keeps no other
// from being read.
func (s sources) gather(ctx context.Context, self string, m memory) (memory, error) {
	id, up, err := s.boot()
	if err != nil {
		return m, err
	}
	boot, _ := bootOf(id)
	now := decide.Record{Host: self, Boot: boot, Up: up, At: s.now().UTC()}
	next := memory{Told: m.Told, Records: slices.Clone(m.Records)}
	var errs []error
	for _, read := range []func(context.Context, decide.Record, *memory) error{s.addBoot, s.addEvents, s.addRecord, s.addFences, s.addWords, s.addNetwork} {
		errs = append(errs, read(ctx, now, &next))
	}
	for i := len(m.Records); i < len(next.Records); i++ {
		r := &next.Records[i]
		r.Why, r.Who = short(s.redact(r.Why)), short(s.redact(r.Who))
	}
	return next, errors.Join(errs...)
}

// maxWords bounds each text in a record, in bytes.
const maxWords = 400

func short(text string) string {
	if len(text) <= maxWords {
		return text
	}
	return strings.ToValidUTF8(text[:maxWords], "") + " ..."
}

// tick is the unit in which the kernel gives the start time of a process.
const tick = 10 * time.Millisecond

// bootOf returns the name of a boot as records have it, and when the boot began
// by the kernel's clock. Hosts may share a kernel, as containers do; then each
// boot of a host begins with a new first process.
func bootOf(id string) (name string, began time.Duration) {
	kernel, started, found := cutLast(strings.TrimSpace(id), "-")
	n, err := strconv.ParseInt(started, 10, 64)
	if !found || err != nil {
		return strings.ReplaceAll(id, "-", ""), 0
	}
	return strings.ReplaceAll(kernel, "-", "") + "-" + started, time.Duration(n) * tick
}

func cutLast(text, at string) (before, after string, found bool) {
	i := strings.LastIndex(text, at)
	if i < 0 {
		return text, "", false
	}
	return text[:i], text[i+len(at):], true
}

// addBoot records, once a boot, when the boot began.
func (s sources) addBoot(_ context.Context, now decide.Record, m *memory) error {
	if _, known := m.last(decide.Booted, now.Boot); known {
		return nil
	}
	id, _, err := s.boot()
	if err != nil {
		return err
	}
	_, up := bootOf(id)
	began := now
	began.Kind, began.Up, began.From = decide.Booted, max(up, time.Millisecond), "the kernel"
	began.At = now.At.Add(began.Up - now.Up)
	m.Records = append(m.Records, began)
	return nil
}

// addEvents records the events of this host's programs. Known events give the
// same records again.
func (s sources) addEvents(_ context.Context, now decide.Record, m *memory) error {
	var errs []error
	for _, program := range state.EventPrograms() {
		events, err := s.files.Events(program)
		errs = append(errs, err)
		for _, e := range events {
			if r, ok := decide.FromEvent(now.Host, program, e); ok {
				r.Boot, _ = bootOf(r.Boot)
				m.Records = append(m.Records, r)
			}
		}
	}
	return errors.Join(errs...)
}

// eventIsLate is the longest time from a record to its event in the file: the
// event is written once the record is durable.
const eventIsLate = 10 * time.Second

// addRecord records what etcd's record says if no event tells it: before the
// first event, and after one was lost.
func (s sources) addRecord(_ context.Context, now decide.Record, m *memory) error {
	rec, err := s.files.Record()
	if err != nil || rec.State == state.EtcdNone {
		return err
	}
	if now.At.Sub(rec.Written).Abs() < eventIsLate {
		return nil
	}
	for _, r := range m.Records {
		if r.Kind == decide.Recorded && r.Seq >= rec.Seq {
			return nil
		}
	}
	m.Records = append(m.Records, decide.Record{
		Host: now.Host, At: rec.Written.UTC(), Kind: decide.Recorded, State: rec.State, Seq: rec.Seq, Why: "found in its file", From: s.files.Path(state.EtcdRecordPath),
	})
	return nil
}

// addFences records the fences by this host, each at the moment when its target
// was known to be off.
func (s sources) addFences(_ context.Context, now decide.Record, m *memory) error {
	all, err := s.files.Fences()
	if err != nil {
		return err
	}
	for _, f := range all[max(0, len(all)-maxRecords/4):] {
		m.Records = append(m.Records, decide.Record{
			Host: now.Host, At: f.Time.Add(-f.Phases.PowerOn).UTC(), Kind: decide.Fenced, Target: f.Target, OK: f.Off,
			Took: f.Phases.Total - f.Phases.PowerOn, Why: f.Detail, From: "history of fences",
		})
	}
	return nil
}

// addWords records what administrators confirmed on this host.
func (s sources) addWords(_ context.Context, now decide.Record, m *memory) error {
	words, err := s.files.Confirmations()
	for _, w := range words {
		boot, _ := bootOf(w.Boot)
		m.Records = append(m.Records, decide.Record{
			Host: now.Host, Boot: boot, Up: w.At, At: w.Time.UTC(), Kind: decide.Confirmed, Target: w.Peer, Who: w.Who, Why: w.Why,
			OK: w.Force, From: "record of confirmations",
		})
	}
	return err
}

// addNetwork records changes of the VIPs that this host holds, and of whether its
// API server is ready.
func (s sources) addNetwork(_ context.Context, now decide.Record, m *memory) error {
	b, err := os.ReadFile(s.network)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("state of the network: %w", err)
	}
	var st state.NetworkStatus
	if err := json.Unmarshal(b, &st); err != nil {
		return fmt.Errorf("state of the network: %w", err)
	}
	at := now // now, minus the age of the file's facts
	if ago := now.At.Sub(st.At); ago > 0 && ago < min(now.Up, time.Minute) {
		at.At, at.Up = now.At.Add(-ago), now.Up-ago
	}
	at.From = s.network
	holds := at
	holds.Kind, holds.VIPs = decide.Holds, addresses(st.Holds)
	if was, known := m.last(decide.Holds, now.Boot); !known || !slices.Equal(was.VIPs, holds.VIPs) {
		m.Records = append(m.Records, holds)
	}
	api := at
	api.Kind, api.OK = decide.API, st.View.LocalAPI.Value
	was, known := m.last(decide.API, now.Boot)
	if st.View.LocalAPI.Known && (!known || was.OK != api.OK) {
		m.Records = append(m.Records, api)
	}
	return nil
}

func addresses(list []netip.Addr) []string {
	var out []string
	for _, a := range list {
		out = append(out, a.String())
	}
	slices.Sort(out)
	return out
}
