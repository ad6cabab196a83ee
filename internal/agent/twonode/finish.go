package twonode

import (
	"context"
	"errors"
	"io/fs"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/twonode"
)

// For each unit that it starts, Pacemaker makes a file of this name, which orders
// the unit before Pacemaker, and removes it before it stops the unit. The kubelet
// of a host's first boot started without Pacemaker. Without the file systemd
// stops both at once in a shutdown, and Pacemaker notes that kubelet failed. In
// the unit itself the order would stay, and each would wait for the end of the
// other: when this was tried, such a host hung for 120 s and was fenced.
const (
	kubeletOrder = "/run/systemd/system/kubelet.service.d/50-pacemaker.conf"
	kubeletFirst = "[Unit]\nBefore=pacemaker.service\n"
)

// wants are the folders in which systemd keeps what starts at boot.
var wants = []string{"/etc/systemd/system/multi-user.target.wants", "/etc/systemd/system"}

// finish leaves the start of kubelet and etcd at boot to Pacemaker, which waits
// for the peer first. It touches nothing that runs. It first makes Pacemaker's
// own start durable: a host that started neither would be lost.
func (h *Host) finish(ctx context.Context, _ twonode.Input) error {
	if err := h.meet(ctx); err != nil {
		return err
	}
	if err := h.do(ctx, "Pacemaker starts kubelet, once it has seen the peer",
		host.Command("systemctl", "disable", "--quiet", "kubelet.service")); err != nil {
		return err
	}
	if err := h.settle(wants); err != nil {
		return err
	}
	return h.order(ctx)
}

// meet makes this host meet its peer after each boot, even after a power cut that
// comes next.
func (h *Host) meet(ctx context.Context) error {
	err := h.do(ctx, "Corosync and Pacemaker start at boot",
		host.Command("systemctl", append([]string{"enable", "--quiet"}, units...)...))
	if err != nil {
		return err
	}
	return h.settle(wants)
}

// settle makes what was written in folders durable.
func (h *Host) settle(folders []string) error {
	if h.DryRun {
		return nil
	}
	for _, dir := range folders {
		if err := host.SyncDir(h.path(dir)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// order puts kubelet before Pacemaker. It keeps a file that Pacemaker wrote,
// which says more.
func (h *Host) order(ctx context.Context) error {
	there, err := h.exists(kubeletOrder)
	if err == nil && !there {
		err = h.write(kubeletOrder, []byte(kubeletFirst), 0o644)
	}
	if err != nil {
		return err
	}
	return h.do(ctx, "in a shutdown Pacemaker stops kubelet, not systemd", host.Command("systemctl", "daemon-reload"))
}
