package twonode

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/holdfast/holdfast/internal/adapter/pacemaker"
	"github.com/holdfast/holdfast/internal/decide/twonode"
	"github.com/holdfast/holdfast/internal/model/corosync"
)

// PutBack restores Corosync's files from the copies on this host, after somebody removed a
// host from the list or destroyed the cluster on this host, and lets the two hosts meet again.
// It runs only on a person's command. It changes no data of etcd: the record still counts,
// and the keepers decide between the two hosts.
func (h *Host) PutBack(ctx context.Context) error {
	h = h.withoutSecrets()
	conf, key, err := h.keptFiles()
	if err != nil {
		return err
	}
	have, err := h.read(corosyncConf)
	if err != nil {
		return err
	}
	haveKey, err := h.read(CorosyncKey)
	if err != nil {
		return err
	}
	changed := !bytes.Equal(have, conf) || !bytes.Equal(haveKey, key)
	if err := errors.Join(h.write(CorosyncKey, key, 0o400), h.write(corosyncConf, conf, 0o644)); err != nil { // corosync.conf comes last, since it says that the host is in the cluster
		return err
	}
	if changed && slices.Contains(h.running(ctx), units[0]) {
		if err := h.do(ctx, "Corosync reads the files again", pacemaker.Reload()); err != nil {
			return err
		}
	}
	return h.run(ctx)
}

// keptFiles returns the copies, or an error if they do not make a cluster of two hosts.
func (h *Host) keptFiles() (conf, key []byte, err error) {
	conf, err = h.read(keptCorosync)
	if err != nil {
		return nil, nil, err
	}
	key, err = h.read(keptKey)
	if err != nil {
		return nil, nil, err
	}
	if len(conf) == 0 || len(key) == 0 {
		return nil, nil, fmt.Errorf("this host has no copy of %s and %s: copy both from the other host with their modes, then: sudo systemctl enable --now corosync pacemaker", corosyncConf, CorosyncKey)
	}
	parsed, err := corosync.Parse(conf)
	if err != nil {
		return nil, nil, fmt.Errorf("the copy of %s cannot be used: %w", corosyncConf, err)
	}
	c := twonode.CorosyncOf(parsed)
	switch {
	case len(c.Nodes) != twoNodes || !c.TwoNode:
		return nil, nil, fmt.Errorf("the copy of %s is not that of two hosts; nothing was changed", corosyncConf)
	case c.Plain() != "":
		return nil, nil, fmt.Errorf("the copy of %s has no %s; nothing was changed", corosyncConf, c.Plain())
	}
	return conf, key, nil
}
