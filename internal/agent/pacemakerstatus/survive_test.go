package pacemakerstatus

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	decide "github.com/holdfast/holdfast/internal/decide/pacemakerstatus"
	"github.com/holdfast/holdfast/internal/model/corosync"
	"github.com/holdfast/holdfast/internal/model/state"
)

// TestPacemakerMayBeInstalledLater looks with the host's own tools: none at
// first, then one that answers.
func TestPacemakerMayBeInstalledLater(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	c := newCluster(t)
	n := New(Options{Log: slog.New(slog.DiscardHandler), Now: time.Now})
	n.api = func(ctx context.Context, do func(context.Context, api) error) error {
		return do(ctx, asHost{c.api, "cp-1"})
	}
	n.files = files{filepath.Join(dir, "live"), filepath.Join(dir, "kept")}
	n.pubbed.moved = time.Now()
	if _, err := n.step(t.Context(), "cp-1"); err != nil {
		t.Fatal(err)
	}
	if r := n.Report(); r.Writes || len(*r.Status.Nodes) != 0 || decide.Holds(r.Status.Conditions, "Healthy") {
		t.Errorf("without Pacemaker: %+v", r)
	}
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(n); err != nil {
		t.Fatal(err)
	}
	if _, err := registry.Gather(); err != nil {
		t.Errorf("metrics without Pacemaker: %v", err)
	}
	answer, err := filepath.Abs("../../../test/corpus/pacemaker/cases/healthy/cp-1/crm_mon.xml")
	if err != nil {
		t.Fatal(err)
	}
	must(t, os.WriteFile(filepath.Join(dir, "crm_mon"), []byte("#!/bin/sh\nexec /bin/cat "+answer+"\n"), 0o700))
	if changed, err := n.step(t.Context(), "cp-1"); err != nil || !changed {
		t.Fatalf("changed %v, %v", changed, err)
	}
	if r := n.Report(); !r.Writes || !decide.Holds(r.Status.Conditions, "InService") {
		t.Errorf("once it answers: %+v", r)
	}
}

func TestAFileThatACrashLeftTornIsPassedOver(t *testing.T) {
	dir := t.TempDir()
	f := files{filepath.Join(dir, "live"), filepath.Join(dir, "kept")}
	kept := decide.Report{Host: "cp-1", Why: "the last that was whole", Lost: time.Unix(7, 0).UTC(), TakeOver: decide.TakeOver{ID: "a", Alone: time.Unix(9, 0).UTC()}}
	must(t, f.write(kept, true))
	whole, err := os.ReadFile(f.live)
	must(t, err)
	for _, torn := range []string{"", "{", string(whole[:len(whole)/2]), strings.Repeat("\x00", 100), `{"host":"cp-2"}`} {
		must(t, os.WriteFile(f.live, []byte(torn), 0o600))
		if r := f.read("cp-1"); r.Why != kept.Why || r.TakeOver != kept.TakeOver || !r.Lost.Equal(kept.Lost) {
			t.Errorf("%.20q: %+v", torn, r)
		}
	}
	must(t, os.WriteFile(f.kept, []byte("{"), 0o600))
	if r := f.read("cp-1"); r.Why != "" || r.Host != "cp-1" {
		t.Errorf("nothing is whole: %+v", r)
	}
}

// TestALostHostIsNotAsked plays a take-over: this host's API server hangs until
// etcd goes on, and its peer's addresses answer nothing.
func TestALostHostIsNotAsked(t *testing.T) {
	e := &observer{name: "cp-1", corosync: state.Known(corosync.Conf{Nodes: []corosync.Node{
		{Name: "cp-1", Addresses: []string{"10.0.0.11", "10.1.0.11"}}, {Name: "cp-2", Addresses: []string{"10.0.0.12", "cp-2.example", "10.1.0.12"}},
	}})}
	both := []string{"10.0.0.12", "10.1.0.12"}
	for _, c := range []struct {
		m    state.Fact[state.Membership]
		want []string
	}{
		{state.Fact[state.Membership]{}, both}, // Corosync does not answer
		{state.Known(state.Membership{Members: []string{"cp-1", "cp-2"}}), both},
		{state.Known(state.Membership{Members: []string{"cp-1"}}), nil},
	} {
		e.join(c.m)
		if got := e.peers(); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %q, want %q", c.m, got, c.want)
		}
	}
}
