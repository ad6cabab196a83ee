// Package linger lets a host answer what was sent to a virtual IP that it has just
// lost.
package linger

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/keepalived"
	"github.com/holdfast/holdfast/internal/decide/vrrp"
	"github.com/holdfast/holdfast/internal/model/state"
)

// renewEvery is the least time between two writes for a VIP that the host holds.
const renewEvery = 25 * time.Second

// Kernel writes VIPs on the loopback interface.
type Kernel struct {
	// Linger keeps a VIP there for a while from now on, End removes it.
	Linger func(vip netip.Addr, d time.Duration) error
	End    func(vip netip.Addr) error
}

// OfHost returns this host's.
func OfHost() Kernel { return Kernel{Linger: keepalived.Linger, End: keepalived.EndLinger} }

// Reconciler is the one writer of VIPs on the loopback interface.
type Reconciler struct {
	Kernel
	Now func() time.Time

	memory vrrp.Lingering
	// renewed is when a VIP that the host holds was last written.
	renewed map[netip.Addr]time.Time
}

// Name returns the name for people.
func (*Reconciler) Name() string { return "linger" }

// Withdraw leaves the VIPs: the kernel removes them in time.
func (*Reconciler) Withdraw(context.Context) error { return nil }

// Reconcile writes what has changed, and renews what would end.
func (r *Reconciler) Reconcile(_ context.Context, v state.NetworkView) (string, error) {
	after, todo := vrrp.Lingers(r.memory, v)
	if r.renewed == nil {
		r.renewed = map[netip.Addr]time.Time{}
	}
	var said []string
	var errs []error
	for _, l := range todo {
		told, err := r.do(l)
		if err != nil {
			errs = append(errs, err)
		} else if told != "" {
			said = append(said, told)
		}
	}
	if len(errs) == 0 {
		r.memory = after // else all is decided, and tried, once more
	}
	return strings.Join(said, "; "), errors.Join(errs...)
}

func (r *Reconciler) do(l vrrp.Linger) (string, error) {
	switch l.For {
	case 0:
		delete(r.renewed, l.VIP)
		return "", r.End(l.VIP)
	case vrrp.LingerHeld:
		if now := r.Now(); now.Sub(r.renewed[l.VIP]) >= renewEvery || now.Before(r.renewed[l.VIP]) {
			err := r.Linger(l.VIP, l.For)
			if err == nil {
				r.renewed[l.VIP] = now
			}
			return "", err
		}
		return "", nil
	default:
		delete(r.renewed, l.VIP)
		return fmt.Sprintf("%s has left this host, which answers what is on its way for %s", l.VIP, l.For), r.Linger(l.VIP, l.For)
	}
}
