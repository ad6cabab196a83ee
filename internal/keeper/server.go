package keeper

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/etcdmember"
	"github.com/holdfast/holdfast/internal/decide/mayhold"
	"github.com/holdfast/holdfast/internal/decide/podmanetcd"
	"github.com/holdfast/holdfast/internal/keeper/keeperclient"
	"github.com/holdfast/holdfast/internal/model/state"
)

// StopLimit bounds how long a stop waits for etcd's end. It is below the limit
// of Pacemaker's action, so that Pacemaker still reads the reason.
const StopLimit = 80 * time.Second

// handler returns the handler for requests on the daemon's socket.
func (d *daemon) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /report", func(w http.ResponseWriter, q *http.Request) {
		if marks := q.URL.Query()[keeperclient.MarkParameter]; len(marks) > 0 {
			reply(w, d.next(q.Context(), marks[0]))
			return
		}
		r := d.report()
		if d.keeper() != nil {
			r = d.keeper().Manifest(r)
		}
		reply(w, r)
	})
	mux.HandleFunc("GET /"+keeperclient.MembershipPath, d.membership)
	mux.HandleFunc("POST /monitor", func(w http.ResponseWriter, _ *http.Request) { reply(w, d.monitor()) })
	mux.HandleFunc("POST /notify", func(w http.ResponseWriter, _ *http.Request) {
		if d.keeper() != nil {
			d.keeper().Wake()
		}
		reply(w, podmanetcd.Answer{})
	})
	mux.HandleFunc("POST /"+state.RaceRequestPath, d.raceOf)
	mux.HandleFunc("POST /"+state.HeardRequestPath, d.heardOf)
	mux.HandleFunc("POST /start", d.start)
	mux.HandleFunc("POST /stop", d.stop)
	mux.HandleFunc("POST /reload-agent", d.reload)
	return mux
}

// listenFor bounds how long a request waits for a different answer.
const listenFor = 10 * time.Second

// next returns the first report with another mark, or the present one after
// listenFor. It only reads reports that rounds have left.
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
	_ = json.NewEncoder(w).Encode(value) // if it fails, the asker is gone
}

func (d *daemon) report() state.EtcdReport {
	if d.keeper() == nil {
		return d.unkept()
	}
	r, _ := d.keeper().Report()
	return r
}

// unkept returns the report of a daemon that does not know the pair, or cannot
// keep etcd.
func (d *daemon) unkept() state.EtcdReport {
	r := state.EtcdReport{Wish: state.EtcdNotAsked, At: d.Now(), Verdict: state.EtcdVerdict{
		Action: state.EtcdIdle, Rule: "not-set-up", Reason: "Pacemaker has never asked for etcd on this host",
	}}
	t := d.cannot.Load()
	if t == nil {
		return r
	}
	r.Problem, r.Since = t.why, r.At.Sub(t.since)
	r.Verdict = state.EtcdVerdict{
		Action: state.EtcdAskHuman, Rule: "unknown.keeper", Reason: "the etcd keeper cannot work on this host",
		Next: "journalctl --unit podman-etcd",
	}
	if boot, _, err := d.boot(); err == nil {
		r.Wish = d.files.Wish(boot).Wish
	}
	s := d.alone.See()
	r.Snapshot.Now, r.Snapshot.Local.Running = r.At, s.Held
	if state.Is(s.Held, false) && state.Is(s.Lives, true) {
		r.Snapshot.Local.Running = state.Fact[bool]{} // it may hold its data at any moment
	}
	if state.Is(r.Snapshot.Local.Running, false) {
		r.Down = r.Since
	}
	return r
}

// monitor answers Pacemaker with the state of etcd. If the last look is too
// old, it looks itself.
func (d *daemon) monitor() podmanetcd.Answer {
	r := d.report()
	if d.keeper() != nil {
		r.Wish = d.keeper().Wish().Wish // it may be newer than that of the last look
	}
	if age := d.Now().Sub(r.At); d.keeper() != nil && r.Wish == state.EtcdStarted && age > podmanetcd.Overdue {
		code, reason := podmanetcd.Stale(age, d.alone.See())
		return podmanetcd.Answer{Code: code, Reason: reason}
	}
	code, reason := podmanetcd.Monitor(r)
	if t := d.cannot.Load(); t != nil && reason == "" {
		reason = "the etcd keeper cannot work: " + t.why
	}
	return podmanetcd.Answer{Code: code, Reason: reason}
}

// start stores the parameters and the wish, and returns at once: a start that
// waits holds up what the other host needs.
func (d *daemon) start(w http.ResponseWriter, r *http.Request) {
	again, err := d.take(r)
	if err == nil {
		err = d.keeper().Ask(state.EtcdStarted)
	}
	reply(w, answer(err))
	if again {
		d.beginAnew()
	}
}

// reload takes new parameters and does nothing else.
func (d *daemon) reload(w http.ResponseWriter, r *http.Request) {
	again, err := d.take(r)
	reply(w, answer(err))
	if again {
		d.beginAnew()
	}
}

// take reads the parameters from a request and adopts them.
func (d *daemon) take(r *http.Request) (again bool, err error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		return false, err
	}
	p, err := state.DecodeEtcdParameters(body)
	if err != nil {
		return false, err
	}
	return d.use(p)
}

// maxBody bounds how much of a request is read, in bytes.
const maxBody = 1 << 20

// answer turns the outcome of a request into an answer for Pacemaker. It never
// calls an error one of configuration: Pacemaker would assume the same on the
// other host, and stop etcd there.
func answer(err error) podmanetcd.Answer {
	if err == nil {
		return podmanetcd.Answer{}
	}
	return podmanetcd.Answer{Code: podmanetcd.Generic, Reason: strings.ReplaceAll(err.Error(), "\n", "; ")}
}

// stop answers once etcd has ended, and the peer knows what it needs to know. A loop that hangs says nothing about etcd: if it is not
// about to start anything, what this host sees counts then, as without a keeper. A failure has
// the host fenced.
func (d *daemon) stop(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), StopLimit)
	defer cancel()
	d.using.Lock() // so that no keeper comes up that does not know of this stop
	k := d.keeper()
	if k == nil {
		defer d.using.Unlock()
		reply(w, d.alone.Stop(ctx))
		return
	}
	d.using.Unlock()
	if err := k.Ask(state.EtcdStopped); err != nil {
		reply(w, answer(err))
		return
	}
	if k.Process.Foreign() { // then nothing of ours runs
		reply(w, podmanetcd.Answer{})
		return
	}
	last, ok := k.await(ctx, func(r state.EtcdReport) bool {
		return r.Wish == state.EtcdStopped && state.Is(r.Snapshot.Local.Running, false) && state.Is(r.Snapshot.Local.StandIn, 0)
	})
	if !ok && (k.mayStart() || !d.alone.See().Nothing()) {
		reply(w, podmanetcd.Answer{Code: podmanetcd.Generic, Reason: "etcd did not stop: " + last.Verdict.Reason + " " + last.Problem})
		return
	}
	told, end := context.WithTimeout(ctx, etcdmember.ToldLimit)
	defer end()
	_, _ = k.await(told, func(r state.EtcdReport) bool {
		return r.Wish != state.EtcdStopped || !etcdmember.Unread(r.Snapshot)
	})
	reply(w, podmanetcd.Answer{})
}

// await waits for a report for which fits returns true.
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

// serve answers requests on the socket until the context ends.
func (d *daemon) serve(ctx context.Context, path string) error {
	for {
		err := d.listen(ctx, path)
		if !errors.Is(err, errSocketGone) {
			return err
		}
		d.Log.Warn("reopening the daemon's socket", "err", err)
	}
}

// errSocketGone reports that somebody removed or replaced the socket, so that
// nobody can reach the daemon any more.
var errSocketGone = errors.New("the daemon's socket is gone")

// socketLook is the interval at which the daemon checks that its socket is
// still there.
const socketLook = 2 * time.Second

func (d *daemon) listen(ctx context.Context, path string) error {
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
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	go func() {
		if lost(ctx, path) {
			end(errSocketGone)
		}
	}()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		<-ctx.Done()
		farewell, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWords)
		defer cancel()
		_ = server.Shutdown(farewell)
		_ = server.Close() // a request that takes longer has to be repeated by the client
	}()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("socket of the daemon: %w", err)
	}
	<-ended
	if cause := context.Cause(ctx); errors.Is(cause, errSocketGone) {
		return cause
	}
	return nil
}

// lost waits until the socket at path is removed or replaced, or until the
// context ends. It returns false in the second case.
func lost(ctx context.Context, path string) bool {
	mine, err := os.Lstat(path)
	for err == nil {
		if host.Sleep(ctx, socketLook) != nil {
			return false
		}
		var now fs.FileInfo
		if now, err = os.Lstat(path); err == nil && !os.SameFile(mine, now) {
			return true
		}
	}
	return true
}

// lastWords is the time that requests under way get to finish when the daemon
// ends.
const lastWords = 300 * time.Millisecond
