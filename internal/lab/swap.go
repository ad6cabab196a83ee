package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
)

// Swap is the replacement of a control plane's machine by another one.
type Swap struct {
	Host string `json:"host"`
	// NewAddress gives the new machine other addresses than the old one had.
	NewAddress bool `json:"newAddress,omitempty"`
}

// place is what tells one machine of a host from another: its own id, and the numbers
// with which the addresses of its NICs, and its MACs and the address of its BMC end.
type place struct {
	name, id         string
	address, machine int
}

func original(name string, number int) place {
	return place{name: name, id: name, address: number, machine: number}
}

// Numbers of the machines that replace control planes, above those of all workers. There
// are five control planes at most, so there are five numbers for each swap.
const (
	firstSwapped = 60
	swappedStep  = 5
	maxSwaps     = 8
)

// current is the machine that stands for a host now.
func (s Spec) current(name string, number int) place { return s.after(name, number, len(s.Swaps)) }

// after is the machine that stood for a host after a number of swaps of the lab.
func (s Spec) after(name string, number, swaps int) place {
	p, times := original(name, number), 0
	for i, swap := range s.Swaps[:swaps] {
		if swap.Host != name {
			continue
		}
		times++
		p.id = fmt.Sprintf("%s-m%d", name, times+1)
		p.machine = firstSwapped + i*swappedStep + number - firstMaster
		if swap.NewAddress {
			p.address = p.machine
		}
	}
	return p
}

// former returns the machines that others have replaced, the oldest first.
func (l Layout) former() []Host {
	var out []Host
	times := map[string]int{}
	for i, swap := range l.Spec.Swaps {
		at := slices.IndexFunc(l.Hosts, func(h Host) bool { return h.Name == swap.Host })
		if at < 0 {
			continue // Validate refuses it
		}
		h := l.host(l.Spec.after(swap.Host, firstMaster+at, i), l.Hosts[at].Role, false)
		times[swap.Host]++
		h.Name, h.Spare, h.Former = fmt.Sprintf("%s-old%d", swap.Host, times[swap.Host]), true, true
		out = append(out, h)
	}
	return out
}

func (s Spec) validateSwaps() error {
	err := check(len(s.Swaps) <= maxSwaps, "swaps: %d: must be at most %d", len(s.Swaps), maxSwaps)
	for _, swap := range s.Swaps {
		known := false
		for i := range s.ControlPlanes + s.SpareControlPlanes {
			known = known || swap.Host == fmt.Sprintf("cp-%d", i+1)
		}
		err = errors.Join(err, check(known, "swaps: %q: must be a control plane", swap.Host))
	}
	return err
}

// Swap puts another machine in the place of a host that is off: with empty disks, another
// UUID, serial number, BMC and account. The old machine stays in the lab as <host>-old1,
// off, with its disks and its faults. The lab's daemon ends and begins anew; running hosts
// keep running.
func (u *Builder) Swap(ctx context.Context, name string, swap Swap) (*Lab, error) {
	old, err := Open(u.Root, name)
	if err != nil {
		return nil, err
	}
	release, err := lockLab(ctx, old.Dir, name)
	if err != nil {
		return nil, err
	}
	defer release()
	o := old.Options
	o.Spec.Swaps = append(slices.Clone(o.Spec.Swaps), swap)
	b, err := New(u.Root, o)
	if err != nil {
		return nil, err
	}
	if err := u.endForSwap(ctx, old, swap.Host); err != nil {
		return nil, err
	}
	former := b.Layout.Hosts[len(b.Layout.Hosts)-1]
	if err := errors.Join(b.moveFaults(swap.Host, former.Name), b.save()); err != nil {
		return nil, err
	}
	u.say("wiring another machine as %s", swap.Host)
	if err := errors.Join(createNetwork(ctx, b.Layout), u.createHosts(ctx, b)); err != nil {
		return nil, err
	}
	_, err = b.EnsureDaemon(ctx, u.Launch)
	return b, err
}

// endForSwap ends the lab's daemon if the host is off.
func (u *Builder) endForSwap(ctx context.Context, b *Lab, name string) error {
	c, err := b.EnsureDaemon(ctx, u.Launch)
	if err != nil {
		return err
	}
	st, err := c.Status(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(st.Hosts, func(h HostStatus) bool { return h.Name == name })
	if i < 0 || st.Hosts[i].Power != PowerOff {
		return fmt.Errorf("host %s is not off: run 'holdfast lab power --name %s %[1]s cut' first", name, b.Layout.Spec.Name)
	}
	if err := c.Stop(ctx); err != nil {
		return err
	}
	_, err = b.awaitEnd(ctx, c)
	return err
}

// moveFaults gives the faults of a host to the machine that was replaced, because the name
// means another machine from now on.
func (b *Lab) moveFaults(from, to string) error {
	var list []Fault
	err := readJSON(b.file(faultsFile), &list)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for i := range list {
		if list[i].Host == from {
			list[i].Host = to
		}
	}
	return writeJSON(b.file(faultsFile), list)
}

// GiveIgnition gives a host that was never installed the Ignition config that its first
// boot reads, in place of the one that it has.
func (b *Lab) GiveIgnition(name string, data []byte) error {
	h, ok := b.Layout.Host(name)
	if !ok {
		return fmt.Errorf("host %q: lab %s has no such host", name, b.Layout.Spec.Name)
	}
	return b.giveIgnition(h, data)
}
