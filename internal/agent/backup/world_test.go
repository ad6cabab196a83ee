package backup

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	configv1alpha1 "github.com/openshift/api/config/v1alpha1"
	"golang.org/x/sys/unix"

	decide "github.com/holdfast/holdfast/internal/decide/backup"
	model "github.com/holdfast/holdfast/internal/model/backup"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/powercut"
)

const (
	recipient  = "age1e5m0yl3l2duek29zelehdfrjtp2txzp02mm40n0h8m2u02yg0ussgrwkl4"
	secretText = "recipients: [" + recipient + "]\ntargets:\n- name: nas\n  s3: {endpoint: \"https://s3.example.com\", bucket: backups, accessKey: AK, secretKey: S3cr3t-x}\n"
)

var dawn = time.Date(2026, 3, 10, 0, 0, 0, 0, time.UTC)

// world is a host with a unit that takes a minute for a backup, and an API.
type world struct {
	t    *testing.T
	now  time.Time
	dir  string
	cut  powercut.Cut
	etcd state.Fact[decide.Etcd]
	free uint64
	line uint64 // what must stay free
	full bool   // to the last byte: nothing can be written until a run of the unit has ended
	rest bool   // of a run that was cut off, which each run removes

	// The API.
	away        bool
	unread      bool // it does not give the wish of the site
	spec        *configv1alpha1.EtcdBackupSpec
	secret      string
	annotations map[string]string
	others      []state.Node
	writes      int

	// The unit: the request that it carries out, the time of its end, and how it ends.
	request   *model.Request
	works     bool
	until     time.Time
	state     model.State
	left      []string // copies that a target does not let the unit remove
	fails     string   // it ends with this
	bad       string   // it makes a backup with a check that fails
	dies      bool     // it ends without a word
	noRoute   bool     // the target does not answer
	started   []string
	stopped   int
	catalogue []model.Entry
	looks     func() // called in the middle of a step
	a         *Agent
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, now: dawn, dir: t.TempDir(), etcd: state.Known(decide.Etcd{Writes: true, Members: "1, 2"}), free: 100 << 30, annotations: map[string]string{}, looks: func() {}}
	w.boot()
	return w
}

// boot starts the agent anew, as after a power cut: what is below /run is gone, and the
// unit with it.
func (w *world) boot() {
	w.cut = powercut.Cut{}
	w.request, w.works, w.state = nil, false, model.State{}
	w.restart()
}

// restart starts the agent anew while the host goes on.
func (w *world) restart() {
	w.a = New(Options{
		Unit: Unit{
			Start: func(_ context.Context, text []byte) error { return w.cut.Effect(func() error { return w.start(text) }) },
			Stop: func(context.Context) error {
				return w.cut.Effect(func() error { w.stopped++; w.works = false; return nil })
			},
			Works:  func(context.Context) (bool, error) { w.looks(); return w.works, nil },
			State:  func() (model.State, error) { return w.state, nil },
			Forget: func() error { return w.cut.Effect(func() error { w.request = nil; return nil }) },
		},
		Store: Store{
			Read: func(name string) ([]byte, error) { return os.ReadFile(filepath.Join(w.dir, name)) },
			Write: func(name string, data []byte) error {
				if w.full {
					return unix.ENOSPC
				}
				return w.cut.Effect(func() error { return powercut.WriteFile(filepath.Join(w.dir, name), data, 0o600) })
			},
		},
		Site: "shop.example.com", Open: func() (API, error) { return w, nil },
		Etcd:      func(context.Context) state.Fact[decide.Etcd] { return w.etcd },
		Catalogue: func() ([]model.Entry, error) { return slices.Clone(w.catalogue), nil },
		Remains:   func() (bool, error) { return w.rest, nil },
		Free:      func() (uint64, error) { return w.free, nil }, Line: func() uint64 { return w.line },
		Synchronised: func() (bool, error) { return true, nil }, Up: func() (time.Duration, error) { return time.Hour, nil },
		Node: func() string { return "cp-1" }, Zones: time.LoadLocation, Now: func() time.Time { return w.now },
	})
	if !w.away {
		w.hear()
	}
}

func (w *world) start(text []byte) error {
	r, err := model.DecodeRequest(text)
	if err != nil {
		w.t.Errorf("the unit cannot read its request: %v", err)
		return err
	}
	w.request, w.works, w.until = &r, true, w.now.Add(time.Minute)
	w.state = model.State{Request: r.ID, Phase: model.PhaseSnapshot}
	w.started = append(w.started, r.ID+" "+r.Reason)
	return nil
}

// ends has the unit end, once its time is up.
func (w *world) ends() {
	if !w.works || w.now.Before(w.until) || w.request == nil {
		return
	}
	r := *w.request
	w.works, w.rest, w.full = false, false, false
	w.state.Ended, w.state.Phase = true, model.PhaseDone
	if w.dies {
		w.state = model.State{}
		return
	}
	if w.fails != "" {
		w.state.Failed = w.fails
		return
	}
	i := slices.IndexFunc(w.catalogue, func(e model.Entry) bool { return e.ID == r.ID })
	if i < 0 && r.ID != "" {
		e := model.Entry{Format: model.Format, ID: r.ID, Host: r.Host, Site: r.Site, Taken: w.now, Reason: r.Reason, Checks: []model.Check{{Name: "restore", OK: w.bad == "", Says: w.bad}}}
		w.catalogue = append(w.catalogue, e.Judge())
		i = len(w.catalogue) - 1
	}
	if i >= 0 {
		for _, t := range r.Targets {
			c := model.Copy{Target: t.Name, Verified: w.now}
			if w.noRoute {
				c = model.Copy{Target: t.Name, Failed: "no route", Tried: w.now}
			}
			w.catalogue[i] = w.catalogue[i].WithCopy(c)
		}
	}
	if len(r.Remove) > 0 {
		w.state.Left = w.left
	}
	w.catalogue = slices.DeleteFunc(w.catalogue, func(e model.Entry) bool { return slices.Contains(r.Remove, e.ID) })
}

// hear gives the agent the nodes as the API has them.
func (w *world) hear() {
	control := map[string]string{state.LabelControlPlane: ""}
	w.a.Nodes(append([]state.Node{{Name: "cp-1", Labels: control, Annotations: maps.Clone(w.annotations)}, {Name: "cp-2", Labels: control}}, w.others...))
}

// run lets a time pass, with a step whenever the loop makes one.
func (w *world) run(d time.Duration) {
	w.t.Helper()
	for end := w.now.Add(d); w.now.Before(end) && !w.cut.Dead; {
		w.ends()
		if !w.away {
			w.hear()
		}
		r, err := w.a.step(w.t.Context())
		if err != nil && !w.away && !w.unread && !w.full && !w.cut.Dead {
			w.t.Fatalf("%s: %v", w.now, err)
		}
		w.now = w.now.Add(max(r.Again, time.Second))
	}
}

var errAway = errors.New("connection refused")

func (w *world) Backup(context.Context, string) (*configv1alpha1.Backup, error) {
	if w.away || w.unread {
		return nil, errAway
	}
	if w.spec == nil {
		return nil, nil
	}
	return &configv1alpha1.Backup{Spec: configv1alpha1.BackupSpec{EtcdBackupSpec: *w.spec}}, nil
}

func (w *world) Secret(_ context.Context, namespace, name string) (map[string][]byte, error) {
	switch {
	case w.away:
		return nil, errAway
	case namespace != decide.SecretNamespace || name != decide.SecretName || w.secret == "":
		return nil, nil
	}
	return map[string][]byte{decide.SecretKey: []byte(w.secret)}, nil
}

func (w *world) Annotate(_ context.Context, node, name, value string) error {
	switch {
	case w.away:
		return errAway
	case node != "cp-1" || name != decide.Annotation:
		w.t.Errorf("%s is written to %s", name, node)
	}
	w.writes++
	return w.cut.Effect(func() error {
		w.annotations = map[string]string{name: value, decide.WantedOf: w.annotations[decide.WantedOf]}
		return nil
	})
}

func (w *world) summary() decide.Summary {
	w.t.Helper()
	s, err := decide.ReadSummary(w.annotations[decide.Annotation])
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// good lists the ids of good backups.
func (w *world) good() []string {
	var out []string
	for _, e := range w.catalogue {
		if e.Good {
			out = append(out, e.ID)
		}
	}
	return out
}

func (w *world) file(name string) string {
	text, err := os.ReadFile(filepath.Join(w.dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return string(text)
}
