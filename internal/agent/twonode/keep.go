package twonode

import (
	"context"
	"errors"
	"os"
	"strings"

	"github.com/holdfast/holdfast/internal/adapter/pacemaker"
	"github.com/holdfast/holdfast/internal/decide/twonode"
)

// cibFile is the configuration that Pacemaker last wrote to its disk: all of
// it, and nothing of the status.
const cibFile = "/var/lib/pacemaker/cib/cib.xml"

// Settings reads what Corosync and Pacemaker of this host are configured as,
// with what is wanted of two hosts of these names and addresses. It asks
// nobody. An error is no configuration of two hosts.
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

// wanted is the table for the hosts that corosync.conf names.
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

// setBackWork is beside the set-up's folder: its Job may run at the same time.
const setBackWork = "/run/holdfast/two-node-settings"

// twoNodes is the number of hosts that all of this is for.
const twoNodes = 2

// SetBack brings what is in the table of settings back to what it says: the
// settings of this host's corosync.conf and, on the host that decides for
// Pacemaker, those of Pacemaker. It needs neither the API nor the peer. What
// cannot be set back is no reason to leave the rest.
func (h *Host) SetBack(ctx context.Context, decides bool) error {
	alone := *h
	alone.hide = strings.NewReplacer() // no secret is near
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
	if !have.SetUp() { // the operator has it set up, or a person has taken it apart
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
