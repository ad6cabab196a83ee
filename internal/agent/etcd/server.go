package etcd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast/holdfast/internal/decide/mayhold"
	"github.com/holdfast/holdfast/internal/decide/podmanetcd"
	"github.com/holdfast/holdfast/internal/etcdagent"
	"github.com/holdfast/holdfast/internal/state"
)

// StopLimit is how long a stop waits for etcd's end. It is below the action's
// own limit, so that Pacemaker reads the reason.
const StopLimit = 80 * time.Second

// stuckAfter is how old a report may be before a monitor says so.
const stuckAfter = 90 * time.Second

// handler answers on the daemon's socket.
func (d *daemon) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /report", func(w http.ResponseWriter, q *http.Request) {
		if marks := q.URL.Query()[etcdagent.Unless]; len(marks) > 0 {
			reply(w, d.next(q.Context(), marks[0]))
			return
		}
		r := d.report()
		if d.keeper() != nil {
			r = d.keeper().Manifest(r)
		}
		reply(w, r)
	})
	mux.HandleFunc("POST /monitor", func(w http.ResponseWriter, _ *http.Request) { reply(w, d.monitor()) })
	mux.HandleFunc("POST /notify", func(w http.ResponseWriter, _ *http.Request) {
		if d.keeper() != nil {
			d.keeper().Wake()
		}
		reply(w, podmanetcd.Answer{})
	})
	mux.HandleFunc("POST /start", d.start)
	mux.HandleFunc("POST /stop", d.stop)
	return mux
}

// listenFor is how long a question waits for another answer.
const listenFor = 10 * time.Second

// next is the first report for which another mark stands, or the present one
// after a while. It only reads what rounds have left.
func (d *daemon) next(ctx context.Context, mark string) state.EtcdReport {
	ctx, cancel := context.WithTimeout(ctx, listenFor)
	defer cancel()
	if d.keeper() == nil {
		if r := d.report(); mayhold.Mark(r) != mark {
			return r
		}
		select {
		case <-ctx.Done():
			return d.report()
		case <-d.set:
		}
	}
	r, _ := d.keeper().await(ctx, func(r state.EtcdReport) bool { return mayhold.Mark(r) != mark })
	return r
}

func reply(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value) // the asker is gone
}

func (d *daemon) report() state.EtcdReport {
	if d.keeper() == nil {
		return state.EtcdReport{Wish: state.EtcdNotAsked, At: d.Now(), Verdict: state.EtcdVerdict{
			Action: state.EtcdIdle, Rule: "not-set-up", Reason: "Pacemaker has never asked for etcd on this host",
		}}
	}
	r, _ := d.keeper().Report()
	return r
}

func (d *daemon) monitor() podmanetcd.Answer {
	r := d.report()
	if d.keeper() != nil {
		r.Wish = d.keeper().Wish().Wish // it may be newer than the last look
	}
	if age := d.Now().Sub(r.At); d.keeper() != nil && r.Wish == state.EtcdStarted && age > stuckAfter {
		// A healthy etcd is not restarted because its keeper hangs.
		return podmanetcd.Answer{Code: podmanetcd.Success, Reason: fmt.Sprintf("the daemon has not looked for %s", age.Round(time.Second))}
	}
	code, reason := podmanetcd.Monitor(r)
	return podmanetcd.Answer{Code: code, Reason: reason}
}

// start notes the parameters and the wish, and returns at once: who waits in a
// start holds up what the other host needs.
func (d *daemon) start(w http.ResponseWriter, r *http.Request) {
	var p podmanetcd.Parameters
	if err := json.NewDecoder(r.Body).Decode(&p); err != nil {
		reply(w, podmanetcd.Answer{Code: podmanetcd.Misconfigured, Reason: err.Error()})
		return
	}
	if err := d.use(p); err != nil {
		reply(w, podmanetcd.Answer{Code: podmanetcd.Misconfigured, Reason: err.Error()})
		return
	}
	if err := d.keeper().Ask(state.EtcdStarted); err != nil {
		reply(w, podmanetcd.Answer{Code: podmanetcd.Generic, Reason: err.Error()})
		return
	}
	reply(w, podmanetcd.Answer{})
}

// stop returns when etcd has ended.
func (d *daemon) stop(w http.ResponseWriter, r *http.Request) {
	if d.keeper() == nil || d.keeper().Process.Foreign() { // nothing of ours runs
		if d.keeper() != nil {
			if err := d.keeper().Ask(state.EtcdStopped); err != nil {
				reply(w, podmanetcd.Answer{Code: podmanetcd.Generic, Reason: err.Error()})
				return
			}
		}
		reply(w, podmanetcd.Answer{})
		return
	}
	if err := d.keeper().Ask(state.EtcdStopped); err != nil {
		reply(w, podmanetcd.Answer{Code: podmanetcd.Generic, Reason: err.Error()})
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), StopLimit)
	defer cancel()
	last, ok := d.keeper().await(ctx, func(r state.EtcdReport) bool {
		return r.Wish == state.EtcdStopped && state.Is(r.Snapshot.Local.Running, false) && state.Is(r.Snapshot.Local.StandIn, 0)
	})
	if !ok {
		reply(w, podmanetcd.Answer{Code: podmanetcd.Generic, Reason: "etcd does not end: " + last.Verdict.Reason + " " + last.Problem})
		return
	}
	reply(w, podmanetcd.Answer{})
}

// await waits for a report that fits.
func (k *Keeper) await(ctx context.Context, fits func(state.EtcdReport) bool) (state.EtcdReport, bool) {
	for {
		r, changed := k.Report()
		if fits(r) {
			return r, true
		}
		select {
		case <-ctx.Done():
			return r, false
		case <-changed:
		}
	}
}

// serve answers on the socket until the context ends.
func (d *daemon) serve(ctx context.Context, path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("socket of the daemon: %w", err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("socket of the daemon: %w", err)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", path)
	if err != nil {
		return fmt.Errorf("socket of the daemon: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return fmt.Errorf("socket of the daemon: %w", err)
	}
	server := &http.Server{Handler: d.handler(), ReadHeaderTimeout: 5 * time.Second}
	go func() {
		<-ctx.Done()
		_ = server.Close()
	}()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("socket of the daemon: %w", err)
	}
	return nil
}
