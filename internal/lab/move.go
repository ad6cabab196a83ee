package lab

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/adapter/host"
)

// Numbers of the two machine networks between which a lab moves: 10.98.0.0/24 and
// fd98::/64, with which it is made, and 10.77.0.0/24 and fd77::/64.
const (
	firstMachineNetwork = 98
	otherMachineNetwork = 77
)

// Moved reports whether the lab is in its other machine network.
func (s Spec) Moved() bool { return s.Moves%2 == 1 }

// In returns the spec of the lab in its other machine network, or in the first one, and
// every reason why it cannot be there.
func (s Spec) In(other bool) (Spec, error) {
	if s.Moved() != other {
		s.Moves++
	}
	return s, s.Validate()
}

func (s Spec) validateMoves() error {
	stays := s.Moves == 0
	return errors.Join(
		check(s.Moves >= 0, "moves: %d: must not be negative", s.Moves),
		check(stays || s.FarWorkers == 0, "move: %d far workers: a lab with a second machine network stays where it is", s.FarWorkers),
		check(stays || !s.RouterAdvertisements, "move: a lab with router advertisements stays where it is: its hosts make addresses of what the router says"),
	)
}

func (s Spec) machineNumber() int {
	if s.Moved() {
		return otherMachineNetwork
	}
	return firstMachineNetwork
}

// elsewhere is the machine network in which the lab is not.
func (l Layout) elsewhere() Network {
	return network(machineBridge, firstMachineNetwork+otherMachineNetwork-l.Spec.machineNumber(), l.Spec.Families)
}

// Move is what somebody wants moved.
type Move struct {
	// Back moves the lab to the network with which it was made.
	Back bool
	// Live gives running hosts their new addresses at once.
	Live bool
}

// Move makes another network the machine network of a lab, as if its hosts had been carried
// to another place. It returns the hosts that run. The lab's daemon ends and begins anew;
// running hosts keep running. After an interruption it is run again, and does the rest.
func (u *Builder) Move(ctx context.Context, name string, m Move) (*Lab, []Host, error) {
	old, err := Open(u.Root, name)
	if err != nil {
		return nil, nil, err
	}
	release, err := lockLab(ctx, old.Dir, name)
	if err != nil {
		return nil, nil, err
	}
	defer release()
	if old, err = Open(u.Root, name); err != nil { // another command may have changed it before
		return nil, nil, err
	}
	o := old.Options
	if o.Spec, err = o.Spec.In(!m.Back); err != nil {
		return nil, nil, err
	}
	b, err := New(u.Root, o)
	if err != nil {
		return nil, nil, err
	}
	if err := old.noneInSelfTest(ctx); err != nil {
		return nil, nil, err
	}
	running, err := u.rewire(ctx, b, m.Live)
	return b, running, err
}

// rewire moves a lab to the network of its layout. The spec is saved first, so that
// every daemon that begins from now on is one of the new network.
func (u *Builder) rewire(ctx context.Context, b *Lab, live bool) ([]Host, error) {
	if err := b.save(); err != nil {
		return nil, err
	}
	u.say("plugging %d hosts into another machine network", len(b.Layout.Hosts))
	if err := errors.Join(createNetwork(ctx, b.Layout), b.endDaemon(ctx)); err != nil {
		return nil, err
	}
	hosts, err := b.moveHosts(ctx, live)
	_, daemonErr := b.EnsureDaemon(ctx, u.Launch)
	return hosts, errors.Join(err, daemonErr)
}

// moveHosts returns the hosts that run, and gives them their new addresses if they are to
// have them at once.
func (b *Lab) moveHosts(ctx context.Context, live bool) ([]Host, error) {
	var running []Host
	var errs []error
	for _, h := range b.Layout.Hosts {
		pid, err := runningInit(ctx, h)
		if err == nil && pid != 0 {
			running = append(running, h)
		}
		if err == nil && pid != 0 && live {
			err = errors.Join(moveNICs(b.Layout, h), b.Layout.giveResolvConf(h, fmt.Sprintf("/proc/%d/root", pid)))
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("move host %s: %w", h.Name, err))
		}
	}
	return running, errors.Join(errs...)
}

// noneInSelfTest refuses a move while a host is in its power-on self-test: with the daemon
// its boot would be gone, and the host would stay off.
func (b *Lab) noneInSelfTest(ctx context.Context) error {
	st, err := NewClient(b).Status(ctx)
	if err != nil {
		return nil //nolint:nilerr // no daemon runs, so no host is about to boot
	}
	for _, h := range st.Hosts {
		if h.Power == PowerPOST {
			return fmt.Errorf("host %s is in its power-on self-test: wait until 'holdfast lab status --name %s' says that it is on", h.Name, b.Layout.Spec.Name)
		}
	}
	return nil
}

// runningInit returns the pid of a host's init, and 0 if the host is off or was never made.
func runningInit(ctx context.Context, h Host) (int, error) {
	if !containerExists(ctx, h) {
		return 0, nil
	}
	st, err := inspect(ctx, h)
	if err != nil || !st.Running || !runsIn(h, st.Pid) {
		return 0, err
	}
	return st.Pid, nil
}

// unplug takes the gateway, and whatever else the switch has of a network, off its bridge.
func unplug(nl *netlink.Handle, n Network) error {
	link, err := nl.LinkByName(n.Bridge)
	if err != nil {
		return err
	}
	list, err := nl.AddrList(link, netlink.FAMILY_ALL)
	if err != nil {
		return err
	}
	for _, a := range list {
		ip, _ := netip.AddrFromSlice(a.IP)
		if !slices.ContainsFunc(n.Prefixes, func(p netip.Prefix) bool { return p.Contains(ip.Unmap()) }) {
			continue
		}
		// A secondary address disappears with its primary one.
		if delErr := nl.AddrDel(link, &a); !errors.Is(delErr, unix.EADDRNOTAVAIL) {
			err = errors.Join(err, delErr)
		}
	}
	return err
}

// moveNICs gives the NICs of a running host their addresses and default routes in place of
// those that it had in the other network, as a DHCP server would. It leaves alone what the
// host has put there itself, such as virtual IPs.
func moveNICs(l Layout, h Host) error {
	nl, err := namespace(h.Namespace).handle()
	if err != nil {
		return err
	}
	defer nl.Close()
	before, after := l.beforeMove(h).nics(), h.nics()
	for i := range after {
		if err := changeAddresses(nl, after[i], before[i].Addresses, addAddress); err != nil {
			return err
		}
	}
	if err := addDefaultRoutes(nl, l, h); err != nil { // they replace those by the other gateway
		return err
	}
	for i := range after {
		if err := changeAddresses(nl, before[i], after[i].Addresses, dropAddress); err != nil {
			return err
		}
	}
	return nil
}

// changeAddresses does something with each address of a NIC that is not among others.
func changeAddresses(nl *netlink.Handle, nic NIC, others []netip.Prefix, do func(*netlink.Handle, netlink.Link, netip.Prefix) error) error {
	link, err := nl.LinkByName(nic.Name)
	if err != nil {
		return err
	}
	for _, a := range nic.Addresses {
		if slices.Contains(others, a) {
			continue // the fencing network stays
		}
		if err := do(nl, link, a); err != nil {
			return fmt.Errorf("address %s of %s: %w", a, nic.Name, err)
		}
	}
	return nil
}

// beforeMove returns a host as it is in the network in which the lab is not.
func (l Layout) beforeMove(h Host) Host {
	s := l.Spec
	s.Moves++
	for _, other := range NewLayout(s).Hosts {
		if other.ID == h.ID {
			return other
		}
	}
	return h
}

// resolvConf is the resolv.conf that the site's DHCP server would have a host write.
func (l Layout) resolvConf(h Host) string {
	var text strings.Builder
	for _, gw := range l.networkOf(h).Gateways {
		fmt.Fprintf(&text, "nameserver %s\n", gw)
	}
	return text.String()
}

// asksElsewhere reports whether a resolv.conf names a server of the network in which the
// lab is not.
func (l Layout) asksElsewhere(resolvConf string) bool {
	gone := texts(l.elsewhere().Gateways)
	return slices.ContainsFunc(strings.Fields(resolvConf), func(word string) bool { return slices.Contains(gone, word) })
}

// giveResolvConf writes the resolv.conf of a host whose files are below root.
func (l Layout) giveResolvConf(h Host, root string) error {
	return host.WriteFileAtomic(filepath.Join(root, "etc/resolv.conf"), []byte(l.resolvConf(h)), 0o644)
}

// renewNameServers gives a host that is about to boot the name servers of the network in
// which the lab is. While the lab has never been moved, the host has them.
func (b *Lab) renewNameServers(ctx context.Context, h Host) error {
	if b.Options.Spec.Moves == 0 {
		return nil
	}
	return withFiles(ctx, h, func(root string) error {
		text, err := os.ReadFile(filepath.Join(root, "etc/resolv.conf"))
		if err != nil || !b.Layout.asksElsewhere(string(text)) {
			return err
		}
		return b.Layout.giveResolvConf(h, root)
	})
}

// MovedConfig returns an install-config of the site with the machine network, the virtual
// IPs and the rendezvous host's address of the layout. All else stays as it is.
func (l Layout) MovedConfig(own []byte) ([]byte, error) {
	site, err := l.readConfig(own, "networking", "platform")
	if err != nil {
		return nil, err
	}
	site["networking"].(document)["machineNetwork"] = l.networking()["machineNetwork"]
	if metal, ok := site["platform"].(document)["baremetal"].(document); ok {
		metal["apiVIPs"], metal["ingressVIPs"] = texts(l.APIVIPs), texts(l.IngressVIPs)
	}
	site["rendezvousIP"] = l.Hosts[0].Machine.addrs()[0].String()
	return yaml.Marshal(site)
}
