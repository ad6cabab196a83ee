// Package nftwatch tells of what anybody does to one nftables table of a host.
// It changes nothing.
package nftwatch

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Table is a table that is watched, by its name in any family.
type Table struct {
	Name string
	// NetNS is a descriptor of its network namespace, 0 for this process's own.
	NetNS int
}

// buffer is the kernel's buffer for what we have not read yet, in bytes. A
// proxy of a large cluster writes megabytes at a time; what does not fit is
// lost, and that too is told.
const buffer = 1 << 20

// Follow calls listening once nothing is missed any more, and told whenever
// something happened to the table, this process's own changes included; a burst
// of changes may be one call. It returns with the context, or when it cannot go
// on; the caller then looks for itself and calls it again.
func (t Table) Follow(ctx context.Context, listening, told func()) error {
	conn, err := netlink.Dial(unix.NETLINK_NETFILTER, &netlink.Config{NetNS: t.NetNS})
	if err != nil {
		return fmt.Errorf("watch nftables: %w", err)
	}
	defer func() { _ = conn.Close() }()
	if err := errors.Join(conn.SetReadBuffer(buffer), conn.JoinGroup(unix.NFNLGRP_NFTABLES)); err != nil {
		return fmt.Errorf("watch nftables: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	listening()
	for {
		messages, err := conn.Receive()
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, unix.ENOBUFS):
			told() // events were lost, one of them may have been about the table
		case err != nil:
			return fmt.Errorf("watch nftables: %w", err)
		case slices.ContainsFunc(messages, t.concerns):
			told()
		}
	}
}

// headerSize is the size of the header that stands before the attributes.
const headerSize = 4

// concerns reports whether an event is about the table. Every kind of event but
// that of a new generation has the table's name as its attribute 1.
func (t Table) concerns(m netlink.Message) bool {
	kind := int(m.Header.Type)
	if kind>>8 != unix.NFNL_SUBSYS_NFTABLES || len(m.Data) < headerSize || kind&0xff == unix.NFT_MSG_NEWGEN {
		return false
	}
	attributes, err := netlink.NewAttributeDecoder(m.Data[headerSize:])
	if err != nil {
		return false
	}
	for attributes.Next() {
		if attributes.Type() == unix.NFTA_TABLE_NAME {
			return attributes.String() == t.Name
		}
	}
	return false
}
