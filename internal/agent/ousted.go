package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/replacement"
	"github.com/holdfast/holdfast/internal/agent/install"
	"github.com/holdfast/holdfast/internal/agent/loop"
	"github.com/holdfast/holdfast/internal/decide/replace"
	"github.com/holdfast/holdfast/internal/fence"
	"github.com/holdfast/holdfast/internal/install/configserver"
	"github.com/holdfast/holdfast/internal/keeper/keeperclient"
	"github.com/holdfast/holdfast/internal/model/corosync"
	"github.com/holdfast/holdfast/internal/model/retired"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
)

// place has this host find out that another machine has taken its place (docs/adr/0083). Then
// it writes that down, and switches itself off. From the next boot on the agent does nothing
// else than to ask again.
type place struct {
	log  *slog.Logger
	self func(ctx context.Context) replace.Self
	// note writes down why the host is out, before it goes off.
	note func(why string) error
	off  func(ctx context.Context) error
	// seen is why the last look said that the host is out. Two looks in a row have to agree.
	seen string
}

// placeEvery is the pause between two looks. Two looks must agree, so an old host holds the
// address of the new one for this long after it reached the API.
const placeEvery = 5 * time.Second

// newPlace returns it for a control plane of two.
func newPlace(s *site.Site, log *slog.Logger) (*place, error) {
	name, err := host.Name()
	if err != nil {
		return nil, err
	}
	return &place{
		log:  log,
		self: func(ctx context.Context) replace.Self { return selfOf(ctx, s, name) },
		note: func(why string) error {
			data, err := json.Marshal(map[string]string{"why": why})
			if err != nil {
				return err
			}
			return host.WriteFileAtomic(replacement.OustedPath, append(data, '\n'), state.DefaultFileMode)
		},
		off: func(ctx context.Context) error {
			_, err := host.Run(ctx, host.Command("systemctl", "poweroff"))
			return err
		},
	}, nil
}

// withPlace runs the parts of the agent, and beside them what finds out whether another machine
// has this host's place. Where that is known since an earlier boot, no part runs.
func withPlace(ctx context.Context, s *site.Site, log *slog.Logger, loops *loop.Loops, parts func(context.Context) error) error {
	if !s.Role.ControlPlane() || !s.Topology().Fencing {
		return parts(ctx)
	}
	own, err := newPlace(s, log)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { loops.Run(ctx, own.task()); return nil })
	if host.Exists(replacement.OustedPath) {
		log.Error("another machine has the place of this host: the agent does nothing but ask for it", "file", replacement.OustedPath)
	} else {
		group.Go(func() error { return parts(ctx) })
	}
	return group.Wait()
}

func (p *place) task() loop.Task {
	return loop.Task{Name: "own place", Every: placeEvery, Retry: placeEvery, Limit: time.Minute, Step: p.step}
}

func (p *place) step(ctx context.Context) (loop.Result, error) {
	why := replace.Ousted(p.self(ctx))
	before := p.seen
	if p.seen = why; why == "" || before == "" {
		return loop.Result{}, nil
	}
	p.log.Error("this host is out of the cluster and switches itself off; to use the machine again, install it anew", "why", why)
	if err := p.note(why); err != nil {
		return loop.Result{}, fmt.Errorf("write down that this host is out: %w", err)
	}
	return loop.Result{Changed: "switches itself off: " + why}, p.off(ctx)
}

// askTime bounds each of the questions about this host's place.
const askTime = 5 * time.Second

// selfOf asks the cluster about this host. What it does not learn stays unknown. While etcd runs
// here it asks nobody.
func selfOf(ctx context.Context, of *site.Site, name string) replace.Self {
	s := replace.Self{Installed: host.Exists(install.CompletePath), MachineID: ownMachine()}
	if report, err := keeperclient.Report(ctx, state.EtcdSocketPath); err == nil {
		s.Etcd = report.Snapshot.Local.Running
	}
	if !state.Is(s.Etcd, false) {
		return s
	}
	s.Told = toldOut(ctx, of, name)
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	api, err := wipeAPI()
	if err != nil {
		return s
	}
	if list, err := api.Retired(ctx, name); err == nil {
		s.Entry = state.Known[*retired.Host](nil)
		if entry, listed := list.Of(name); listed {
			s.Entry = state.Known(&entry)
		}
	}
	if n, err := api.Node(ctx, name); err == nil {
		s.Node = state.Known("")
		if n != nil {
			s.Node = state.Known(n.Status.NodeInfo.MachineID)
		}
	}
	return s
}

// toldOut asks the other control plane whether another machine has the place of this one. It
// is empty if that one does not say so, or does not answer.
func toldOut(ctx context.Context, s *site.Site, name string) string {
	uuid, serial, err := fence.OwnIdentity()
	if err != nil {
		return ""
	}
	text, err := os.ReadFile(corosync.Path)
	if err != nil {
		return ""
	}
	conf, err := corosync.Parse(text)
	if err != nil {
		return ""
	}
	client := &configserver.Client{ServerName: s.APIName(), CA: s.Identity.ConfigCA.Cert}
	for _, n := range conf.Nodes {
		if n.Name != name && len(n.Addresses) > 0 {
			client.Addresses = append(client.Addresses, site.HostPort(n.Addresses[0], site.ConfigServerPort))
		}
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	out, err := client.OutOf(ctx, name, state.Machine{UUID: uuid, Serial: serial})
	if err != nil {
		return "" // the API may still say it
	}
	return out
}
