package resolver

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/holdfast/holdfast/internal/decide/resolver"
	"github.com/holdfast/holdfast/internal/render/resolvconf"
)

// Servers lists the name servers that the host was given, in order, as known to
// whoever writes the resolver's configuration. This host itself may be among
// them: see resolver.Upstreams of package decide.
func (h *Host) Servers() ([]netip.AddrPort, error) {
	l, err := h.look()
	if err != nil {
		return nil, err
	}
	found, err := h.serversOf(resolver.Who(l.facts), l)
	if err != nil || len(found) > 0 {
		return found, err
	}
	state, err := read(h.path(networkdState))
	return networkdServers(string(state)), err
}

func (h *Host) serversOf(who resolver.Writer, l look) ([]netip.AddrPort, error) {
	switch who {
	case resolver.Resolved:
		return h.firstOf(l, resolvedCopy)
	case resolver.NetworkManager:
		// The first file leaves out a stub that NetworkManager runs itself.
		return h.firstOf(l, networkManagerNoStub, networkManagerCopy)
	case resolver.Resolvconf:
		more, err := h.recorded()
		return unique(append(resolvconf.Servers(l.text), more...)), err
	case resolver.Nobody, resolver.Locked:
	}
	return resolvconf.Servers(l.text), nil
}

// firstOf returns the name servers of the first file that has any, and
// otherwise those of the resolver's configuration itself.
func (h *Host) firstOf(l look, paths ...string) ([]netip.AddrPort, error) {
	for _, p := range paths {
		data, err := read(h.path(p))
		if err != nil {
			return nil, err
		}
		if found := resolvconf.Servers(data); len(found) > 0 {
			return found, nil
		}
	}
	return resolvconf.Servers(l.text), nil
}

// recorded lists the name servers that others gave to resolvconf: its own file
// holds at most three.
func (h *Host) recorded() ([]netip.AddrPort, error) {
	entries, err := os.ReadDir(h.path(records))
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	var out []netip.AddrPort
	for _, e := range entries {
		if e.Name() == record || !e.Type().IsRegular() {
			continue
		}
		data, err := read(filepath.Join(h.path(records), e.Name()))
		if err != nil {
			return nil, err
		}
		out = append(out, resolvconf.Servers(data)...)
	}
	return out, nil
}

// networkdServers reads the name servers that systemd-networkd was given, for a
// host on which nobody writes them into resolv.conf.
func networkdServers(state string) []netip.AddrPort {
	var out []netip.AddrPort
	for line := range strings.Lines(state) {
		list, found := strings.CutPrefix(strings.TrimSpace(line), "DNS=")
		if !found {
			continue
		}
		for word := range strings.FieldsSeq(list) {
			word, _, _ = strings.Cut(word, "#")
			at, err := netip.ParseAddrPort(word)
			if addr, errAddr := netip.ParseAddr(word); errAddr == nil {
				at, err = netip.AddrPortFrom(addr.Unmap(), 53), nil
			}
			if err == nil && at.Port() != 0 {
				out = append(out, at)
			}
		}
	}
	return unique(out)
}

func unique(list []netip.AddrPort) []netip.AddrPort {
	var out []netip.AddrPort
	for _, s := range list {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}
