package keepalived

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// watchBuffer is the kernel's buffer for what we have not read yet, in bytes:
// other programs write large tables at a time.
const watchBuffer = 1 << 20

// WatchFilter calls removed whenever somebody has taken the filter's table or a
// rule of it away, and where that may have been missed. It returns with the
// context, or when it cannot go on.
func WatchFilter(ctx context.Context, removed func()) error {
	conn, err := netlink.Dial(unix.NETLINK_NETFILTER, nil)
	if err != nil {
		return fmt.Errorf("watch nftables: %w", err)
	}
	defer func() { _ = conn.Close() }()
	if err := errors.Join(conn.SetReadBuffer(watchBuffer), conn.JoinGroup(unix.NFNLGRP_NFTABLES)); err != nil {
		return fmt.Errorf("watch nftables: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	for {
		messages, err := conn.Receive()
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, unix.ENOBUFS):
			removed()
		case err != nil:
			return fmt.Errorf("watch nftables: %w", err)
		}
		if slices.ContainsFunc(messages, removes) {
			removed()
		}
	}
}

// removes reports whether an event is the end of the filter's table or of one
// of its rules. What it is about stands first among its attributes, after a
// header of four bytes.
func removes(m netlink.Message) bool {
	kind := int(m.Header.Type)
	if kind>>8 != unix.NFNL_SUBSYS_NFTABLES || len(m.Data) < 4 {
		return false
	}
	if k := kind & 0xff; k != unix.NFT_MSG_DELTABLE && k != unix.NFT_MSG_DELRULE {
		return false
	}
	attributes, err := netlink.NewAttributeDecoder(m.Data[4:])
	if err != nil {
		return false
	}
	for attributes.Next() {
		if attributes.Type() == unix.NFTA_TABLE_NAME {
			return attributes.String() == filterTable
		}
	}
	return false
}
