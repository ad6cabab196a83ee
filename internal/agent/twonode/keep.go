package twonode

import (
	"context"
	"errors"
	"os"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/pacemaker"
	"github.com/holdfast/holdfast/internal/adapter/records"
	"github.com/holdfast/holdfast/internal/decide/deleted"
	"github.com/holdfast/holdfast/internal/decide/twonode"
)

// CIBFile is the configuration that Pacemaker last wrote to its disk, without the status. The
// agent keeps copies of it and of Corosync's files below KeptDir, which it renews only while
// they are whole.
const (
	CIBFile      = "/var/lib/pacemaker/cib/cib.xml"
	KeptDir      = deleted.KeptDir
	KeptCIB      = KeptDir + CIBFile
	keptCorosync = KeptDir + corosyncConf
	keptKey      = KeptDir + CorosyncKey
)

// Taken reports whether Pacemaker runs etcd of this host. It looks for the record, which only the
// etcd keeper writes.
func (h *Host) Taken() bool { return records.Files{Root: h.Root}.HasRecord() }

// Settings reads the configuration of Corosync and Pacemaker on this host, and
// returns it with what is wanted of two hosts of these names and addresses. It
// reads files only. An error means that there is no configuration of two hosts.
func (h *Host) Settings() (have, want twonode.Config, err error) {
	text, err := os.ReadFile(h.path(CIBFile))
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
	if !have.SetUp() {
		if !h.Taken() { // the operator will set it up
			return nil
		}
		restored, err := h.restore(ctx, cib)
		if err != nil || restored {
			return err
		}
	}
	steps, refused := twonode.Steps(have, want.Of(have))
	if len(steps) > 0 {
		refused = errors.Join(refused, h.push(ctx, setBackWork, steps, cib))
	}
	return errors.Join(refused, h.setBackTotem(ctx, want.Corosync))
}

// restore gives Pacemaker the configuration of the last copy on this host, including the
// settings that people added. It needs one command, because Pacemaker has begun to stop etcd,
// which takes seconds. If there is no copy it does nothing and returns false; the caller then
// makes the table of settings anew.
func (h *Host) restore(ctx context.Context, cib []byte) (done bool, err error) {
	kept, err := h.read(KeptCIB)
	if err != nil || len(kept) == 0 {
		return false, err
	}
	var last error
	for range pushes { // Pacemaker lists its nodes anew at the same time, and refuses a difference from before that
		after, err := twonode.Restored(cib, kept)
		if err != nil {
			h.say("%v: the table of settings is made anew instead", err)
			return false, nil
		}
		if last = h.apply(ctx, setBackWork, cib, func(path string) error { return host.WriteFileAtomic(path, after, 0o600) }); last == nil || ctx.Err() != nil {
			return true, last
		}
		if cib, err = h.Run(ctx, pacemaker.Configuration()); err != nil {
			return true, errors.Join(last, err)
		}
		if have, err := twonode.ParseCIB(cib); err == nil && have.SetUp() {
			return true, nil // the try that seemed to fail succeeded, or somebody else's did
		}
	}
	return true, last
}

// WholeCIB reports whether a file holds a configuration of Pacemaker that is complete enough
// to be kept as a copy.
func WholeCIB(text []byte) bool {
	c, err := twonode.ParseCIB(text)
	return err == nil && c.Whole()
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
