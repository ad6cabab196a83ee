package twonode

import (
	"context"
	"errors"
	"os"

	"github.com/holdfast/holdfast/internal/adapter/pacemaker"
	"github.com/holdfast/holdfast/internal/decide/twonode"
)

// cibFile is the configuration that Pacemaker last wrote to its disk, whole and
// without the status.
const cibFile = "/var/lib/pacemaker/cib/cib.xml"

// Settings reads the configuration of Corosync and Pacemaker on this host, and
// returns it with what is wanted of two hosts of these names and addresses. It
// reads files only. An error means that there is no configuration of two hosts.
func (h *Host) Settings() (have, want twonode.Config, err error) {
	text, err := os.ReadFile(h.path(cibFile))
	if err != nil {
		return have, want, err
	}
	if have, err = twonode.ParseCIB(text); err != nil {
		return have, want, err
	}
	want, err = h.wanted()
	if err != nil {
		return have, want, err
	}
	have.Corosync, err = h.corosync()
	return have, want, err
}

// wanted returns the table of settings for the hosts that corosync.conf names.
func (h *Host) wanted() (twonode.Config, error) {
	corosync, err := h.corosync()
	if err != nil {
		return twonode.Config{}, err
	}
	if len(corosync.Nodes) != twoNodes {
		return twonode.Config{}, errors.New("corosync.conf names no two hosts")
	}
	return twonode.Wanted(twonode.Input{Cluster: corosync.Name, Nodes: corosync.Nodes}), nil
}

// setBackWork lies beside the set-up's folder, because the set-up's Job may run
// at the same time.
const setBackWork = "/run/holdfast/two-node-settings"

// twoNodes is the number of hosts that all of this is for.
const twoNodes = 2

// SetBack sets settings back to what the table says: those of this host's
// corosync.conf and, on the host that decides for Pacemaker, those of Pacemaker.
// It needs neither the API nor the peer. A setting that cannot be set back does
// not keep it from the others.
func (h *Host) SetBack(ctx context.Context, decides bool) error {
	alone := h.withoutSecrets()
	want, err := h.wanted()
	if err != nil {
		return err
	}
	if decides {
		return alone.setBack(ctx, want)
	}
	return alone.setBackTotem(ctx, want.Corosync)
}

func (h *Host) setBack(ctx context.Context, want twonode.Config) error {
	cib, err := h.Run(ctx, pacemaker.Configuration())
	if err != nil {
		return err
	}
	have, err := twonode.ParseCIB(cib)
	if err != nil {
		return err
	}
	if !have.SetUp() { // the operator will set it up, or an administrator has taken it apart
		return nil
	}
	steps, refused := twonode.Steps(have, want.Of(have))
	if len(steps) > 0 {
		refused = errors.Join(refused, h.push(ctx, setBackWork, steps, cib))
	}
	return errors.Join(refused, h.setBackTotem(ctx, want.Corosync))
}

func (h *Host) setBackTotem(ctx context.Context, want twonode.Corosync) error {
	have, err := h.corosync()
	if err != nil {
		return err
	}
	want.Name = have.Name
	steps, err := twonode.CorosyncSteps(have, want)
	if err != nil {
		return err
	}
	return h.change(ctx, steps)
}
