// Package nftwatch reports every change to one nftables table of a host,
// whoever makes it. It changes nothing itself.
package nftwatch

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Table identifies a table to watch, by its name in any family.
type Table struct {
	Name string
	// NetNS is a descriptor of its network namespace, 0 for this process's own.
	NetNS int
}

// buffer is the size of the kernel's buffer for unread messages, in bytes. A
// proxy of a large cluster writes megabytes at a time; what does not fit is
// lost, and that is reported too.
const buffer = 1 << 20

// Follow calls listening once it will miss nothing any more, and told whenever
// something happened to the table, including changes by this process; one call
// may stand for a burst of changes. It returns with the context, or when it
// cannot go on; the caller then reads the table itself and calls Follow again.
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
			told() // events were lost, and one may have been about the table
		case err != nil:
			return fmt.Errorf("watch nftables: %w", err)
		case slices.ContainsFunc(messages, t.concerns):
			told()
		}
	}
}

// headerSize is the size of the header before the attributes.
const headerSize = 4

// concerns reports whether an event is about the table. Every kind of event,
// except that of a new generation, has the table's name as its attribute 1.
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
