package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/replacement"
	"github.com/holdfast/holdfast/internal/agent/loop"
	"github.com/holdfast/holdfast/internal/decide/replace"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/report/ownplace"
)

// place has this host find out that another machine has taken its place (docs/adr/0083), or that the
// site was restored without it (docs/adr/0105). Then it writes that down, and switches itself off.
// From the next boot on systemd starts nothing of the cluster here, and the agent does nothing else
// than to ask again.
type place struct {
	log *slog.Logger
	// self asks about the host; while etcd runs here, only if serving is true.
	self func(ctx context.Context, serving bool) replace.Self
	// note writes down why the host is out, before it goes off.
	note func(why string) error
	off  func(ctx context.Context) error
	// arm has later boots ask before anything starts, and reports whether they will.
	arm   func(ctx context.Context) (bool, error)
	armed bool
	// seen is why the last look said that the host is out. Two looks in a row have to agree.
	seen string
	// looks counts the looks. overtaken is what the last one said that asked while etcd ran.
	looks     int
	overtaken string
}

const (
	// placeEvery is the pause between two looks.
	placeEvery = 5 * time.Second
	// placeAgain is that after a look that says that the host is out. Until the second one an old
	// host holds the address of the new one, which is fenced for that again and again.
	placeAgain = time.Second
)

// eachServing is how many looks there are for one that asks while etcd runs here: once a minute.
const eachServing = 12

// newPlace returns it for a control plane.
func newPlace(s *site.Site, log *slog.Logger) (*place, error) {
	name, err := host.Name()
	if err != nil {
		return nil, err
	}
	return &place{
		log:  log,
		self: func(ctx context.Context, serving bool) replace.Self { return ownplace.Look(ctx, s, name, serving) },
		note: replacement.ThisStore().PutOusted,
		off:  switchOff,
		arm:  arm,
	}, nil
}

// withPlace runs the parts of the agent, and beside them what finds out whether another machine
// has this host's place. Where that is known since an earlier boot, no part runs.
func withPlace(ctx context.Context, s *site.Site, log *slog.Logger, loops *loop.Loops, parts func(context.Context) error) error {
	if !s.Role.ControlPlane() {
		return parts(ctx)
	}
	own, err := newPlace(s, log)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { loops.Run(ctx, own.task()); return nil })
	if why, err := replacement.ThisStore().Ousted(); why != "" || err != nil {
		log.Error("this host is out of its site: the agent does nothing but ask for its place", "why", why, "err", err, "file", replacement.OustedPath)
		group.Go(func() error { return rest(ctx, loops, log) })
	} else {
		group.Go(func() error { return parts(ctx) })
	}
	return group.Wait()
}

// rest tells systemd that the agent works, although no part of it runs: systemd ends a service that is
// never ready, and starts it again and again.
func rest(ctx context.Context, loops *loop.Loops, log *slog.Logger) error {
	if err := host.Notify("READY=1"); err != nil {
		log.Warn("systemd is not told that the agent works", "err", err)
	}
	every, watched := host.WatchdogInterval()
	if !watched {
		return nil
	}
	err := host.Watchdog(ctx, every, loops.Hung, func() error { return host.Notify("WATCHDOG=1") }, log)
	if ctx.Err() == nil {
		return err
	}
	return nil // it was asked to end
}

func (p *place) task() loop.Task {
	return loop.Task{Name: "own place", Every: placeEvery, Retry: placeEvery, Limit: time.Minute, Step: p.step}
}

func (p *place) step(ctx context.Context) (loop.Result, error) {
	serving := p.looks%eachServing == 0
	p.looks++
	unarmed := p.prepare(ctx) // it keeps nobody from going off
	self := p.self(ctx, serving)
	if err := p.beside(self, serving); err != nil {
		p.seen = ""
		return loop.Result{}, errors.Join(err, unarmed)
	}
	why := replace.Ousted(self)
	before := p.seen
	p.seen = why
	switch {
	case why == "":
		return loop.Result{}, unarmed
	case before == "":
		return loop.Result{Again: placeAgain}, unarmed
	}
	p.log.Error("this host is out of the cluster and switches itself off; to use the machine again, install it anew", "why", why)
	if err := p.note(why); err != nil {
		return loop.Result{}, fmt.Errorf("write down that this host is out: %w", err)
	}
	return loop.Result{Changed: "switches itself off: " + why}, p.off(ctx)
}

// prepare has later boots ask, until it has succeeded once.
func (p *place) prepare(ctx context.Context) error {
	if p.armed {
		return nil
	}
	var err error
	if p.armed, err = p.arm(ctx); err != nil {
		return fmt.Errorf("have the next boot ask for the place of this host: %w", err)
	}
	return nil
}

// beside tells that etcd runs here although another machine has the place of this host: somebody
// confirmed where nobody could know of the replacement. It ends nothing, because the data here
// may be those that count. The error stays until a look says otherwise.
func (p *place) beside(self replace.Self, asked bool) error {
	switch {
	case !state.Is(self.Etcd, true):
		p.overtaken = ""
	case asked:
		p.overtaken = replace.Overtaken(self)
	}
	if p.overtaken == "" {
		return nil
	}
	return fmt.Errorf("%s, but etcd runs here with data of before: the site has two clusters; shut down the host whose writes are given up (docs/runbook/replace-host.md, restore.md)", p.overtaken)
}
