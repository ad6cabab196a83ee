package controlplane

import (
	"context"
	"net/netip"

	"github.com/holdfast/holdfast/internal/adapter/replacement"
	"github.com/holdfast/holdfast/internal/agent/replace"
	"github.com/holdfast/holdfast/internal/agent/widen"
	decidegrow "github.com/holdfast/holdfast/internal/decide/grow"
	"github.com/holdfast/holdfast/internal/install/configserver"
	"github.com/holdfast/holdfast/internal/model/jointoken"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/manifests"
)

// enter answers a control plane that asks to take the place of a lost one, or to be the third one.
func (r *Agent) enter(ctx context.Context, own jointoken.Claims, request []byte) (configserver.Entry, error) {
	third := &widen.Door{
		Store: replacement.ThisStore(), Host: r.facts.NodeName, Relay: r.relay, Now: r.Now,
		Pod: EtcdOf(r.Site).Joining,
	}
	if entry, mine, err := third.Ask(ctx, own, request); mine || err != nil {
		return entry, err
	}
	if !r.Site.Topology().Fencing {
		return configserver.Entry{}, nil
	}
	door := &replace.Door{
		Store: replacement.ThisStore(), Cluster: manifests.InfrastructureName(r.Site.Config), Manifest: EtcdOf(r.Site).OfPair, Now: r.Now,
	}
	return door.Ask(ctx, own.Host, request)
}

// relay asks the host that carries the plan for a third control plane, in the name of a host that
// asked here: the virtual IP may be on either of the two.
func (r *Agent) relay(ctx context.Context, carrier netip.Addr, own jointoken.Claims, request []byte) (configserver.Entry, error) {
	key, err := r.giver().Key.Current(ctx)
	if err != nil {
		return configserver.Entry{}, err
	}
	token, err := jointoken.Mint(key, own)
	if err != nil {
		return configserver.Entry{}, err
	}
	c := &configserver.Client{
		Addresses: []string{site.HostPort(carrier.String(), site.ConfigServerPort)}, ServerName: r.Site.APIName(), CA: r.Site.Identity.ConfigCA.Cert, Now: r.Now,
	}
	defer c.Close()
	return c.Enter(ctx, own.Host, token, request)
}

// third returns the name of the third control plane that a plan brings, and the site for which it is
// installed. What cannot be read brings none.
func (r *Agent) third() (string, *site.Site) {
	if !r.Site.Topology().Fencing {
		return "", nil
	}
	plan, err := replacement.ThisStore().WidenPlan()
	if err != nil || plan.Brings() == "" {
		return "", nil
	}
	of, err := decidegrow.ThreeOf(r.Site)
	if err != nil {
		r.Log.Error("the site of three control planes cannot be made", "err", err)
		return "", nil
	}
	return plan.Brings(), of
}

// out says that another machine has the place of a machine of a host.
func (r *Agent) out(name string, machine state.Machine) (string, error) {
	return (&replace.Door{Store: replacement.ThisStore()}).Out(name, machine)
}
