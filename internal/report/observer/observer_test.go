package observer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/pacemaker"
	"github.com/holdfast/holdfast/internal/adapter/replacement"
	"github.com/holdfast/holdfast/internal/decide/doctor"
	"github.com/holdfast/holdfast/internal/decide/explain"
	"github.com/holdfast/holdfast/internal/decide/hostreport"
	"github.com/holdfast/holdfast/internal/decide/page"
	"github.com/holdfast/holdfast/internal/model/state"
)

// newHost returns one of two hosts in a folder: a survivor that was asked to
// confirm, and that fenced its peer in this boot.
func newHost(t *testing.T) Host {
	t.Helper()
	dir, err := os.MkdirTemp("", "ob") //nolint:usetesting // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	h := Below(dir, "cp-1")
	h.Boot = func() (string, time.Duration, error) { return "b", time.Hour, nil }
	h.Held = func(string) (bool, error) { return false, nil }
	h.Inspect = func(context.Context, string) (state.EtcdData, error) {
		return state.EtcdData{Copy: state.CopyWhole, Cluster: 0xc, Member: 0xa}, nil
	}
	h.Now = func() time.Time { return time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC) }
	for _, err := range []error{
		h.Files.WriteRecord(state.EtcdRecord{State: state.EtcdSole, Seq: 3, Cluster: 0xc, Member: 0xa}),
		h.Files.WriteConfirmation(state.Confirmation{Who: "ops", Why: "burnt", Boot: "b", At: 5}),
		h.Files.WriteFenced(state.EtcdFenced{Target: "cp-2", State: "Off", Boot: "b", At: 7}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	put(t, h.Files.Path(state.FencingDir+"/cp-2.json"), `{"target":"cp-2","address":"https://10.97.0.12","username":"admin","password":"hunter2"}`)
	return h
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// serve answers on a socket like the etcd keeper.
func serve(t *testing.T, h Host, answer http.HandlerFunc) {
	t.Helper()
	socket := h.Files.Path(state.EtcdSocketPath)
	if err := os.MkdirAll(filepath.Dir(socket), 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := new(net.ListenConfig).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /report", answer)
	s := &http.Server{Handler: mux, ReadHeaderTimeout: time.Second}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close() })
}

// reported returns parts of a host's report.
func reported(t *testing.T, h Host, parts ...hostreport.Part) hostreport.Report {
	t.Helper()
	r, err := h.Report(t.Context(), parts...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// gathered returns the input of an explanation.
func gathered(t *testing.T, h Host) explain.Input {
	t.Helper()
	in, err := reported(t, h, hostreport.ForExplanation()...).Explained()
	if err != nil {
		t.Fatal(err)
	}
	return in
}

func TestTheAgentIsAskedFirst(t *testing.T) {
	h := newHost(t)
	want := state.EtcdReport{Wish: state.EtcdStarted, Since: 3 * time.Second, Snapshot: state.EtcdSnapshot{Host: "cp-1", Peer: "cp-2"}}
	serve(t, h, func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(want) })
	in := gathered(t, h)
	if in.Source != explain.FromAgent || in.Report.Since != want.Since || in.BMC != "https://10.97.0.12" || in.Unmanaged {
		t.Errorf("%+v", in)
	}
}

func TestWithoutTheAgentTheFilesSpeak(t *testing.T) {
	h := newHost(t)
	in := gathered(t, h)
	s := in.Report.Snapshot
	if in.Source != explain.FromFiles || s.Peer != "cp-2" || s.Record.Value.State != state.EtcdSole ||
		s.Proofs.Human.Value.Who != "ops" || s.Proofs.Fenced.Value.At != 7 {
		t.Errorf("%+v", in)
	}
	if !state.Is(s.Local.Running, false) || s.Data.Value.Copy != state.CopyWhole {
		t.Errorf("what the disk says was not read: %+v", s)
	}
	if s.Pacemaker.Contact.Known || len(in.Limits) == 0 {
		t.Errorf("what only the agent knows was guessed: %+v", s)
	}
	e := explain.Etcd(in)
	if e.Status != explain.Unknown || !strings.Contains(e.Summary, "which would start it, does not answer") || !strings.Contains(explain.Text(e, page.Style{}), "systemctl start podman-etcd") {
		t.Errorf("%s", explain.Text(e, page.Style{}))
	}
	for _, style := range []page.Style{{}, {Wide: true}} {
		if strings.Contains(explain.Text(e, style), "hunter2") {
			t.Error("the password of a BMC was printed")
		}
	}
}

func TestWhatCannotBeReadStaysUnknown(t *testing.T) {
	h := newHost(t)
	h.Held = func(string) (bool, error) { return false, errors.New("lock: input/output error") }
	in := gathered(t, h)
	if s := in.Report.Snapshot; s.Local.Running.Known || s.Data.Known || explain.Etcd(in).Status != explain.Unknown {
		t.Errorf("%+v", s)
	}
	h = newHost(t)
	h.Inspect = func(context.Context, string) (state.EtcdData, error) {
		return state.EtcdData{}, errors.New("no such program")
	}
	in = gathered(t, h)
	if s := in.Report.Snapshot; s.Data.Known || !slices.ContainsFunc(in.Limits, func(l string) bool { return strings.Contains(l, "no such program") }) {
		t.Errorf("%+v, %q", s, in.Limits)
	}
}

func TestAHostOfAnotherKindIsNotExplained(t *testing.T) {
	h := newHost(t)
	for _, path := range []string{h.Files.Path(state.FencingDir), filepath.Dir(h.Files.Path(state.EtcdRecordPath))} {
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
	}
	if in := gathered(t, h); !in.Unmanaged {
		t.Errorf("%+v", in)
	}
	serve(t, h, func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(state.EtcdReport{}) })
	if in := gathered(t, h); !in.Unmanaged {
		t.Error("an agent that was never asked for anything is not one of two")
	}
}

func TestATornRecordIsUnknownAndSaidSo(t *testing.T) {
	h := newHost(t)
	put(t, h.Files.Path(state.EtcdRecordPath), `{"version":1,"sha`)
	in := gathered(t, h)
	if in.Report.Snapshot.Record.Known || in.Report.Verdict.Rule != "unknown.record" ||
		!slices.ContainsFunc(in.Limits, func(l string) bool { return strings.Contains(l, "torn") }) {
		t.Errorf("%+v", in)
	}
}

func TestAKeeperThatFailsLeavesItToTheFiles(t *testing.T) {
	h := newHost(t)
	serve(t, h, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "broken", http.StatusInternalServerError) })
	if in := gathered(t, h); in.Source != explain.FromFiles || in.Limits[0] == "" {
		t.Errorf("%+v", in)
	}
}

func TestEachFactHasItsSourceItsTimeOrWhyItIsUnknown(t *testing.T) {
	h := newHost(t)
	h.Pacemaker = func(context.Context) (pacemaker.Status, error) {
		return pacemaker.Status{}, errors.New("crm_mon: not connected")
	}
	h.Identity = func() (string, string, error) { return "4c4c", "", fs.ErrPermission }
	put(t, h.Files.Path(state.LoopsStatusPath), `{"at":`)
	r := reported(t, h, hostreport.Parts()...)
	if f := r.Record; !f.Known || f.From != "cp-1" || f.At.IsZero() {
		t.Errorf("the record: %+v", f)
	}
	if f := r.Confirmation; !f.Known || f.From != "cp-1" || !f.At.Equal(r.At) {
		t.Errorf("the confirmation: %+v", f)
	}
	if f := r.Keeper; f.Known || f.Lack != state.LackAbsent || !strings.Contains(f.Why, "does not answer") {
		t.Errorf("the keeper: %+v", f)
	}
	if f := r.Network; f.Known || f.Lack != state.LackAbsent {
		t.Errorf("the network: %+v", f)
	}
	if f := r.Loops; f.Known || !strings.Contains(f.Why, "cannot be parsed") {
		t.Errorf("the loops: %+v", f)
	}
	if f := r.Pacemaker; f.Known || f.Why != "crm_mon: not connected" {
		t.Errorf("Pacemaker: %+v", f)
	}
	if f := r.Identity; f.Known || f.Lack != state.LackDenied || f.Why != hostreport.Sudo {
		t.Errorf("the SMBIOS: %+v", f)
	}
}

// docs/facts/loss.md#hard-cases-of-loss, L4.
func TestL4AHostKnowsWhatItWroteDownAboutItsPlace(t *testing.T) {
	h := newHost(t)
	if f := reported(t, h, hostreport.Etcd).Ousted; f.Known || f.Lack != state.LackAbsent {
		t.Errorf("without a file: %+v", f)
	}
	store := replacement.Store{Root: h.Files.Root, Write: host.WriteFileAtomic}
	if err := store.PutOusted("another machine is cp-1 now"); err != nil {
		t.Fatal(err)
	}
	if in := gathered(t, h); in.Replaced != "another machine is cp-1 now" {
		t.Errorf("it says %q", in.Replaced)
	}
	put(t, store.Path(replacement.OustedPath), `{"wh`)
	if in := gathered(t, h); in.Replaced == "" {
		t.Error("a damaged file counts for the agent, and says nothing here")
	}
}

func TestAPartThatNobodyAskedForIsUnknown(t *testing.T) {
	h := newHost(t)
	h.Pacemaker = func(context.Context) (pacemaker.Status, error) {
		t.Error("Pacemaker was asked")
		return pacemaker.Status{}, nil
	}
	r := reported(t, h, hostreport.History)
	if r.Record.Known || r.Record.Why != "" || !r.Fences.Known {
		t.Errorf("%+v", r)
	}
}

func TestTheDiskIsMeasuredOnlyForWhoNamesIt(t *testing.T) {
	h := newHost(t)
	h.Checks = func(_ context.Context, disk bool) doctor.Host {
		return doctor.Host{Name: "cp-1", Disk: state.Fact[doctor.Disk]{Known: disk}}
	}
	if r := reported(t, h, hostreport.Parts()...); !r.Doctor.Known || r.Doctor.Value.Disk.Known {
		t.Errorf("without the disk: %+v", r.Doctor)
	}
	if r := reported(t, h, hostreport.Checks, hostreport.Disk); !r.Doctor.Value.Disk.Known {
		t.Errorf("with the disk: %+v", r.Doctor)
	}
}

// sameAddress compares addresses, of which cmp does not see the parts.
var sameAddress = cmpopts.EquateComparable(netip.Addr{})

func TestAReportGoesThroughTextAsItIs(t *testing.T) {
	h := newHost(t)
	r := reported(t, h, hostreport.Parts()...)
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "hunter2") {
		t.Error("the password of a BMC is in the report")
	}
	var line []string
	run := func(_ context.Context, args ...string) ([]byte, error) { line = args; return text, nil }
	got, err := Ask(t.Context(), "CP-1", run, hostreport.Etcd, hostreport.Devices)
	if err != nil || !cmp.Equal(got, r, sameAddress) {
		t.Errorf("%v: %s", err, cmp.Diff(r, got, sameAddress))
	}
	if want := "holdfast-agent report -o json --only etcd,devices"; strings.Join(line, " ") != want {
		t.Errorf("asked by %q, want %q", line, want)
	}
}

func TestAnAnswerThatIsNoReportOfTheHostIsAnError(t *testing.T) {
	for text, want := range map[string]string{
		`{"host":"cp-2"}`: "another host answers there: cp-2", "unknown command": "another version of holdfast, or none", `{}`: "it names no host",
	} {
		_, err := Ask(t.Context(), "cp-1", func(context.Context, ...string) ([]byte, error) { return []byte(text), nil })
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	gone := errors.New("no route to host")
	if _, err := Ask(t.Context(), "cp-1", func(context.Context, ...string) ([]byte, error) { return nil, gone }); !errors.Is(err, gone) {
		t.Errorf("%v", err)
	}
}

func TestWhatOnlyRootMayReadIsSaidBeforeAnythingIsExplained(t *testing.T) {
	h := newHost(t)
	h.Ask = func(context.Context, string) (state.EtcdReport, error) {
		return state.EtcdReport{}, fmt.Errorf("ask the etcd keeper: %w", fs.ErrPermission)
	}
	if _, err := reported(t, h, hostreport.ForExplanation()...).Explained(); !errors.Is(err, hostreport.ErrDenied) || !strings.Contains(err.Error(), "sudo") {
		t.Errorf("%v", err)
	}
}
