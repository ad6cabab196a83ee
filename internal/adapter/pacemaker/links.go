package pacemaker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// linksTimeout bounds corosync-cfgtool, which asks the daemon of this host alone.
const linksTimeout = 5 * time.Second

// LinksWork reports whether each link of this host's Corosync reaches each other host.
func LinksWork(ctx context.Context) (bool, error) {
	out, err := ask(ctx, linksTimeout, []string{"corosync-cfgtool", "-s"})
	works, read := linksWork(string(out))
	switch {
	case read == nil:
		return works, nil // it fails where a link is down, and says which
	case err != nil:
		return false, fmt.Errorf("ask Corosync for its links: %w", err)
	}
	return false, fmt.Errorf("ask Corosync for its links: %w", read)
}

var (
	errNoLinks   = errors.New("corosync-cfgtool -s names no link")
	errLinkAlone = errors.New("corosync-cfgtool -s names a link without another host")
)

// linksWork reads what `corosync-cfgtool -s` prints. One host that is not reached over one
// link is enough for no. A word that is not known makes the rest unknown.
func linksWork(said string) (bool, error) {
	links, others, broken := 0, 0, false
	var odd error
	alone := func() {
		if links > 0 && others == 0 && odd == nil {
			odd = errLinkAlone
		}
		others = 0
	}
	for line := range strings.Lines(said) {
		words := strings.Fields(line)
		switch {
		case len(words) > 2 && words[0] == "LINK" && words[1] == "ID":
			alone()
			links++
		case links > 0 && len(words) > 1 && words[0] == "nodeid:":
			switch state := strings.Join(words[2:], " "); state {
			case "localhost":
			case "connected":
				others++
			case "disconnected":
				others, broken = others+1, true
			default:
				others, odd = others+1, fmt.Errorf("corosync-cfgtool -s says %q of a link", state)
			}
		}
	}
	alone()
	switch {
	case broken:
		return false, nil
	case links == 0:
		return false, errNoLinks
	}
	return odd == nil, odd
}
