package twonode

import (
	"context"

	"github.com/holdfast/holdfast/internal/decide/twonode"
	"github.com/holdfast/holdfast/internal/host"
)

// finish leaves the start of kubelet and etcd at boot to Pacemaker, which
// waits for the peer first. Nothing that runs is touched.
func (h *Host) finish(ctx context.Context, _ twonode.Input) error {
	if err := h.do(ctx, "Pacemaker starts kubelet, once it has seen the peer",
		host.Command("systemctl", "disable", "--quiet", "kubelet.service")); err != nil {
		return err
	}
	return h.do(ctx, "Corosync and Pacemaker start at boot",
		host.Command("systemctl", "enable", "--quiet", "corosync.service", "pacemaker.service"))
}
