// Package nic reads and changes the kernel's settings of a host's interfaces,
// and asks for router advertisements.
package nic

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv6"

	"github.com/holdfast/holdfast/internal/decide/uplink"
	"github.com/holdfast/holdfast/internal/model/state"
)

// The paths of the kernel's interfaces and their settings.
const (
	classDir    = "/sys/class/net"
	arpIgnore   = "/proc/sys/net/ipv4/conf/all/arp_ignore"
	arpAnnounce = "/proc/sys/net/ipv4/conf/all/arp_announce"
)

// Kernel gives access to the kernel's files below Root, which is "/" on a host.
type Kernel struct{ Root string }

func (k Kernel) path(p string) string { return filepath.Join(k.Root, p) }

// Links returns the host's interfaces. It leaves out one that disappears
// meanwhile.
func (k Kernel) Links() ([]uplink.Link, error) {
	list, err := os.ReadDir(k.path(classDir))
	if err != nil {
		return nil, fmt.Errorf("list interfaces: %w", err)
	}
	var out []uplink.Link
	for _, e := range list {
		l, err := k.link(e.Name())
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("interface %s: %w", e.Name(), err)
		}
		out = append(out, l)
	}
	return out, nil
}

func (k Kernel) link(name string) (uplink.Link, error) {
	dir := k.path(filepath.Join(classDir, name))
	about, err := os.ReadFile(filepath.Join(dir, "uevent"))
	if err != nil {
		return uplink.Link{}, err
	}
	l := uplink.Link{Name: name, Physical: exists(filepath.Join(dir, "device")), Member: exists(filepath.Join(dir, "master"))}
	for line := range strings.Lines(string(about)) {
		if kind, ok := strings.CutPrefix(strings.TrimSpace(line), "DEVTYPE="); ok {
			l.Kind = kind
		}
	}
	lower, err := filepath.Glob(filepath.Join(dir, "lower_*"))
	for _, path := range lower {
		l.Lower = append(l.Lower, strings.TrimPrefix(filepath.Base(path), "lower_"))
	}
	if err != nil {
		return l, err
	}
	l.AcceptRA, err = k.number(acceptRA(name))
	return l, err
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func acceptRA(name string) string { return filepath.Join("/proc/sys/net/ipv6/conf", name, "accept_ra") }

// number reads a setting; it is unknown if the kernel has none of that name.
func (k Kernel) number(path string) (state.Fact[int], error) {
	data, err := os.ReadFile(k.path(path))
	if errors.Is(err, fs.ErrNotExist) {
		return state.Fact[int]{}, nil
	}
	if err != nil {
		return state.Fact[int]{}, err
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		return state.Fact[int]{}, fmt.Errorf("%s: %w", path, err)
	}
	return state.Known(n), nil
}

// Settings returns the settings of all interfaces.
func (k Kernel) Settings() (s uplink.Settings, err error) {
	if s.ARPIgnore, err = k.number(arpIgnore); err != nil {
		return s, err
	}
	s.ARPAnnounce, err = k.number(arpAnnounce)
	return s, err
}

// SetARP makes each interface answer ARP only for its own addresses, and ask
// from them.
func (k Kernel) SetARP() error {
	return errors.Join(k.set(arpIgnore, uplink.ARPIgnore), k.set(arpAnnounce, uplink.ARPAnnounce))
}

// set raises a setting to a number; it keeps a higher one, which somebody set.
func (k Kernel) set(path string, n int) error {
	now, err := k.number(path)
	if err != nil || !now.Known || now.Value >= n {
		return err
	}
	return os.WriteFile(k.path(path), strconv.AppendInt(nil, int64(n), 10), 0)
}

// Hear makes the kernel accept router advertisements on an interface although
// the host forwards.
func (k Kernel) Hear(name string) error { return k.set(acceptRA(name), uplink.Always) }

// allRouters is the group of a network's routers, and farthest is the hop limit
// that they require: RFC 4861, section 6.1.1.
var (
	allRouters = net.ParseIP("ff02::2")
	farthest   = 255
)

// Solicit asks the routers on an interface's network to announce themselves.
// They do so within a second; without the question it may take half an hour.
func Solicit(ctx context.Context, name string) error {
	link, err := net.InterfaceByName(name)
	if err != nil {
		return fmt.Errorf("interface %s: %w", name, err)
	}
	raw, err := (&net.ListenConfig{}).ListenPacket(ctx, "ip6:ipv6-icmp", "::")
	if err != nil {
		return fmt.Errorf("ask for routers: %w", err)
	}
	defer func() { _ = raw.Close() }()
	conn := ipv6.NewPacketConn(raw)
	if err := errors.Join(conn.SetMulticastInterface(link), conn.SetMulticastHopLimit(farthest)); err != nil {
		return fmt.Errorf("ask for routers: %w", err)
	}
	question := icmp.Message{Type: ipv6.ICMPTypeRouterSolicitation, Body: &icmp.RawBody{Data: make([]byte, 4)}}
	data, err := question.Marshal(nil) // the kernel fills in the checksum
	if err != nil {
		return err
	}
	// Use the number: Go caches the number of a name for a minute.
	if _, err := conn.WriteTo(data, nil, &net.IPAddr{IP: allRouters, Zone: strconv.Itoa(link.Index)}); err != nil {
		return fmt.Errorf("ask for routers on %s: %w", name, err)
	}
	return nil
}
