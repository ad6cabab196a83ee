package redirect

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// watchBuffer is the kernel's buffer for what we have not read yet, in bytes. A
// proxy of a large cluster writes megabytes at a time; what does not fit is
// lost, and that too is told.
const watchBuffer = 1 << 20

// Watch calls changed whenever somebody has touched the table, us included, and
// once at the start; a burst of changes may be one call. It returns with the
// context, or when it cannot go on; the caller then looks for itself and calls
// it again.
func (t Table) Watch(ctx context.Context, changed func()) error {
	conn, err := netlink.Dial(unix.NETLINK_NETFILTER, &netlink.Config{NetNS: t.NetNS})
	if err != nil {
		return fmt.Errorf("watch nftables: %w", err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetReadBuffer(watchBuffer); err != nil {
		return fmt.Errorf("watch nftables: %w", err)
	}
	if err := conn.JoinGroup(unix.NFNLGRP_NFTABLES); err != nil {
		return fmt.Errorf("watch nftables: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	changed()
	for {
		messages, err := conn.Receive()
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, unix.ENOBUFS):
			changed() // events were lost, one of them may have been about us
		case err != nil:
			return fmt.Errorf("watch nftables: %w", err)
		case slices.ContainsFunc(messages, ours):
			changed()
		}
	}
}

// nfgenSize is the size of the header that stands before the attributes.
const nfgenSize = 4

// ours reports whether an event is about our table. Every kind of event but
// that of a new generation has the table's name as its attribute 1.
func ours(m netlink.Message) bool {
	kind := int(m.Header.Type)
	if kind>>8 != unix.NFNL_SUBSYS_NFTABLES || kind&0xff == unix.NFT_MSG_NEWGEN || len(m.Data) < nfgenSize {
		return false
	}
	attributes, err := netlink.NewAttributeDecoder(m.Data[nfgenSize:])
	if err != nil {
		return false
	}
	for attributes.Next() {
		if attributes.Type() == unix.NFTA_TABLE_NAME {
			return attributes.String() == TableName
		}
	}
	return false
}
