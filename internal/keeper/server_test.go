package keeper

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/mayhold"
	"github.com/holdfast/holdfast/internal/keeper/keeperclient"
	"github.com/holdfast/holdfast/internal/model/state"
)

// reportOf returns a report that says whether the host is inert.
func reportOf(inert bool) state.EtcdReport {
	r := state.EtcdReport{Snapshot: state.EtcdSnapshot{Peer: "cp-2"}}
	r.Snapshot.Pacemaker.Inert = state.Known(inert)
	return r
}

// leave stores a report as a round of the keeper does.
func (k *Keeper) leave(r state.EtcdReport) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.report = r
	close(k.changed)
	k.changed = make(chan struct{})
}

// hear asks a daemon for a report with another mark.
func hear(t *testing.T, d *daemon, mark string) <-chan state.EtcdReport {
	t.Helper()
	server := httptest.NewServer(d.handler())
	t.Cleanup(server.Close)
	out := make(chan state.EtcdReport, 1)
	go func() {
		defer close(out)
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/report?"+url.Values{keeperclient.MarkParameter: {mark}}.Encode(), nil)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = resp.Body.Close() }()
		var r state.EtcdReport
		if err := json.NewDecoder(resp.Body).Decode(&r); err != nil {
			t.Error(err)
		}
		out <- r
	}()
	return out
}

func TestWhoListensIsToldWhenAnotherVerdictMayFollowAndNotBefore(t *testing.T) {
	k := &Keeper{}
	k.Start(state.EtcdWishNote{})
	k.leave(reportOf(false))
	d := &daemon{}
	d.kept.Store(k)
	if r := <-hear(t, d, "nothing is known"); !state.Is(r.Snapshot.Pacemaker.Inert, false) {
		t.Errorf("who knows nothing is told %+v", r)
	}
	told := hear(t, d, mayhold.Mark(reportOf(false)))
	for range 20 { // rounds with the same report
		k.leave(reportOf(false))
	}
	select {
	case r := <-told:
		t.Fatalf("told without a change: %+v", r)
	case <-time.After(200 * time.Millisecond):
	}
	k.leave(reportOf(true))
	select {
	case r := <-told:
		if !state.Is(r.Snapshot.Pacemaker.Inert, true) {
			t.Errorf("told %+v", r)
		}
	case <-time.After(5 * time.Second):
		t.Error("not told")
	}
}

func TestWhoListensToADaemonWithoutAPairIsToldOnceThereIsOne(t *testing.T) {
	d := &daemon{Options: Options{Now: time.Now}, set: make(chan struct{})}
	done := make(chan state.EtcdReport)
	go func() { done <- d.next(t.Context(), mayhold.Mark(d.report())) }()
	k := &Keeper{}
	k.Start(state.EtcdWishNote{})
	k.leave(reportOf(true))
	time.AfterFunc(50*time.Millisecond, func() { d.kept.Store(k); close(d.set) })
	if r := <-done; !state.Is(r.Snapshot.Pacemaker.Inert, true) {
		t.Errorf("%+v", r)
	}
}

func TestWhoListensIsAnsweredWhenItGoes(t *testing.T) {
	k := &Keeper{}
	k.Start(state.EtcdWishNote{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	d := &daemon{}
	d.kept.Store(k)
	if r := d.next(ctx, mayhold.Mark(state.EtcdReport{})); mayhold.Mark(r) != mayhold.Mark(state.EtcdReport{}) {
		t.Errorf("%+v", r)
	}
}
