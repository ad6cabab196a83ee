package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/holdfast/holdfast/internal/lab/bmc"
)

// daemon is the only process of a lab that owns the hosts' power, their BMCs,
// the way in from the loopback address, the lab's DNS and registry, and the
// faults.
type daemon struct {
	lab      *Lab
	log      *slog.Logger
	machines []*machine
	bmcs     []*bmc.Server // by the index of their machine
	faults   *faults
	doors    doors
	// registries are the addresses on which the release is served.
	registries []string
	stop       context.CancelFunc
}

// RunDaemon runs the daemon of a lab until the context ends or the daemon is
// asked to stop, and a boot that goes on has ended. It takes over running hosts as they are. Only one daemon of a
// lab runs at a time; a second one returns at once with an error.
func RunDaemon(ctx context.Context, b *Lab, log *slog.Logger) error {
	release, err := lock(b.file(daemonLock))
	if err != nil {
		return fmt.Errorf("daemon of lab %s: %w", b.Layout.Spec.Name, err)
	}
	defer release()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	d := &daemon{lab: b, log: log, stop: stop}
	if err := d.start(ctx); err != nil {
		return err
	}
	defer d.close()
	return d.serve(ctx)
}

func (d *daemon) start(ctx context.Context) error {
	d.faults = newFaults(d)
	for _, h := range d.lab.Layout.Hosts {
		m := &machine{ctx: ctx, lab: d.lab, host: h, log: d.log, cutPorts: d.faults.cutPorts, holdsDisk: d.faults.holdDisk}
		if err := m.adopt(ctx); err != nil {
			return fmt.Errorf("take over host %s: %w", h.Name, err)
		}
		d.machines = append(d.machines, m)
		d.lab.thaw(h)
	}
	if err := d.startBMCs(ctx); err != nil {
		return err
	}
	if err := d.faults.load(ctx); err != nil {
		return err
	}
	if err := d.openDoors(ctx); err != nil {
		return err
	}
	if err := d.startDNS(ctx); err != nil {
		return err
	}
	if err := d.startRouters(ctx); err != nil {
		return err
	}
	return d.startRegistry(ctx)
}

func (d *daemon) close() {
	d.faults.close()
	d.closeBMCs()
	for _, m := range d.machines {
		m.close()
	}
}

func (d *daemon) serve(ctx context.Context) error {
	path := d.lab.file(socketFile)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", path)
	if err != nil {
		return err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return errors.Join(err, l.Close())
	}
	me, err := self()
	if err != nil {
		return errors.Join(err, l.Close())
	}
	if err := writeJSON(d.lab.file(daemonFile), me); err != nil {
		return errors.Join(err, l.Close())
	}
	server := &http.Server{Handler: d.routes(), ReadHeaderTimeout: 5 * time.Second}
	go func() {
		<-ctx.Done()
		_ = server.Close()
	}()
	d.log.Info("ready", "lab", d.lab.Layout.Spec.Name, "pid", me.PID)
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func (d *daemon) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", answer(func(ctx context.Context, _ struct{}) (DaemonStatus, error) { return d.status(ctx), nil }))
	mux.HandleFunc("POST /power", answer(func(ctx context.Context, r PowerRequest) (struct{}, error) { return struct{}{}, d.power(ctx, r) }))
	mux.HandleFunc("POST /fault", answer(func(ctx context.Context, f Fault) (struct{}, error) { return struct{}{}, d.faults.inject(ctx, f) }))
	mux.HandleFunc("POST /fault/clear", answer(func(ctx context.Context, r ClearRequest) ([]Fault, error) { return d.faults.clear(ctx, r) }))
	mux.HandleFunc("POST /stop", answer(func(context.Context, struct{}) (struct{}, error) {
		time.AfterFunc(50*time.Millisecond, d.stop) // after the answer is out
		return struct{}{}, nil
	}))
	return mux
}

// answer turns a function into a handler. A request's context ends when its
// client goes away, which must not leave a host half switched. The work
// therefore goes on without that context.
func answer[In, Out any](fn func(context.Context, In) (Out, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var in In
		if r.Method != http.MethodGet {
			if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxAnswer)).Decode(&in); err != nil {
				http.Error(w, "request: "+err.Error(), http.StatusBadRequest)
				return
			}
		}
		out, err := fn(context.WithoutCancel(r.Context()), in)
		if err != nil {
			http.Error(w, err.Error(), http.StatusUnprocessableEntity)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(out)
	}
}

func (d *daemon) machine(name string) (*machine, error) {
	for _, m := range d.machines {
		if m.host.Name == name {
			return m, nil
		}
	}
	return nil, fmt.Errorf("host %q: this lab has no such host", name)
}

func (d *daemon) status(ctx context.Context) DaemonStatus {
	st := DaemonStatus{PID: os.Getpid(), API: d.doors.api(), ConfigServer: d.doors.config(), Registries: d.registries, Faults: d.faults.list()}
	for i, m := range d.machines {
		power, pid, since := m.state()
		controller := d.bmcState(ctx, i)
		if power == PowerOff && controller == string(bmc.PhasePOST) {
			power = PowerPOST
		}
		st.Hosts = append(st.Hosts, HostStatus{
			Name: m.host.Name, Role: string(m.host.Role), Power: power, BMC: controller, PID: pid, Since: since,
			MachineLink: portUp(d.lab.Layout, m.host.Machine), FencingLink: portUp(d.lab.Layout, m.host.Fencing),
		})
	}
	return st
}

// power acts on a host without its BMC, as a hand at the machine would.
func (d *daemon) power(ctx context.Context, r PowerRequest) error {
	m, err := d.machine(r.Host)
	if err != nil {
		return err
	}
	switch r.Action {
	case ActionOn:
		return m.press(ctx)
	case ActionCut:
		return d.cut(ctx, m)
	case ActionReset:
		return errors.Join(d.cut(ctx, m), m.press(ctx))
	case ActionShutdown:
		return m.Shutdown(ctx)
	case ActionACLoss, ActionACBack:
		return d.mains(ctx, m, r.Action == ActionACBack)
	}
	return fmt.Errorf("power action %q: must be on, cut, reset, shutdown, ac-loss or ac-back", r.Action)
}
