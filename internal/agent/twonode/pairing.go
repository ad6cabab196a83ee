package twonode

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/pacemaker"
	"github.com/holdfast/holdfast/internal/decide/podmanetcd"
	"github.com/holdfast/holdfast/internal/decide/twonode"
	"github.com/holdfast/holdfast/internal/keeper/keeperclient"
	"github.com/holdfast/holdfast/internal/model/state"
	renderhost "github.com/holdfast/holdfast/internal/render/host"
)

// Two hosts of three are set up as two (docs/adr/0102) by these steps, while kubelet has etcd on all three.
// Each can be done again.

// EnterPair writes the file from which the etcd keeper runs etcd, starts the keeper, and puts this host
// into the cluster of Corosync, as the step auth does. The keeper does nothing until it is asked.
func (h *Host) EnterPair(ctx context.Context, in twonode.Input) error {
	if err := errors.Join(in.Validate(twonode.Manifest), in.Validate(twonode.Auth)); err != nil {
		return err
	}
	if err := h.WriteManifest([]byte(in.Manifest)); err != nil {
		return err
	}
	quiet := h.withoutSecrets()
	if err := quiet.do(ctx, "it starts etcd once it is asked", host.Command("systemctl", "enable", "--now", "--quiet", renderhost.EtcdUnit)); err != nil {
		return err
	}
	if err := quiet.settle(wants); err != nil {
		return err
	}
	return h.Do(ctx, twonode.Auth, in)
}

// InPair reports whether this host is in the cluster of these two hosts: Corosync and Pacemaker run, and
// start at boot.
func (h *Host) InPair(ctx context.Context, in twonode.Input) (bool, error) {
	have, err := h.corosync()
	if err != nil {
		return false, err
	}
	these := have.Is(in) == nil
	return these && len(h.running(ctx)) == len(units) && !slices.ContainsFunc(units, func(u string) bool { return !h.enabled(ctx, u) }), nil
}

// ConfigureMaintained gives Pacemaker its whole configuration at once, in maintenance: it starts, stops and
// fences nothing.
func (h *Host) ConfigureMaintained(ctx context.Context, in twonode.Input) error {
	return h.withoutSecrets().configure(ctx, twonode.Maintained(in))
}

// Maintain begins Pacemaker's maintenance again, after somebody ended it too early.
func (h *Host) Maintain(ctx context.Context) error {
	return h.withoutSecrets().do(ctx, "kubelet has etcd, so Pacemaker may not act on it", pacemaker.Maintain())
}

// Manage ends Pacemaker's maintenance.
func (h *Host) Manage(ctx context.Context) error {
	return h.withoutSecrets().do(ctx, "it watches kubelet and etcd, and fences a lost host", pacemaker.Manage())
}

// askToStart tells the etcd keeper what Pacemaker would tell it outside of maintenance.
func askToStart(ctx context.Context, p state.EtcdParameters) error {
	body, err := json.Marshal(p)
	if err != nil {
		return err
	}
	var answer podmanetcd.Answer
	if err := keeperclient.Send(ctx, state.EtcdSocketPath, "start", body, &answer); err != nil {
		return fmt.Errorf("ask the etcd keeper to run etcd: %w", err)
	}
	if answer.Code != 0 {
		return errors.New("the etcd keeper does not run etcd: " + answer.Reason)
	}
	return nil
}

// AskEtcd asks the etcd keeper to run etcd of one of two hosts.
func (h *Host) AskEtcd(ctx context.Context, in twonode.Input) error {
	p, err := twonode.Parameters(in)
	if err != nil {
		return err
	}
	return h.Start(ctx, p)
}
