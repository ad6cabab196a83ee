package twonode

import (
	"context"

	"github.com/holdfast/holdfast/internal/decide/twonode"
	"github.com/holdfast/holdfast/internal/model/corosync"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Enter puts a host that takes the place of a lost one into the cluster of the two. It gets the
// corosync.conf of the host that stays, because only that file has the number of each host. etcd's
// manifest is written first, since Pacemaker starts etcd once the hosts have met. A host
// that was cut off on the way begins again.
func (h *Host) Enter(ctx context.Context, in twonode.Input, conf []byte) error {
	discreet := *h
	discreet.hide = hiding(in)
	if err := discreet.enterWith(ctx, in, conf); err != nil {
		return &hidden{err, discreet.hide}
	}
	return nil
}

func (h *Host) enterWith(ctx context.Context, in twonode.Input, conf []byte) error {
	if err := h.checkAccount(); err != nil {
		return err
	}
	read, err := corosync.Parse(conf)
	if err != nil {
		return err
	}
	if err := twonode.CorosyncOf(read).Is(in); err != nil {
		return err
	}
	have, err := h.corosync()
	if err != nil {
		return err
	}
	if err := h.silencePCSD(ctx, in.Token); err != nil {
		return err
	}
	if have.Name == "" || have.Example() {
		if err := h.clean(ctx, have.Example()); err != nil {
			return err
		}
	}
	if err := h.write(state.EtcdPodManifest, []byte(in.Manifest), 0o600); err != nil {
		return err
	}
	if err := h.write(CorosyncKey, twonode.CorosyncKey(in), 0o400); err != nil {
		return err
	}
	if err := h.write(corosyncConf, conf, 0o644); err != nil {
		return err
	}
	return h.run(ctx)
}
