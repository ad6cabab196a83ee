// Package mdns makes a host known to its neighbours by multicast DNS (RFC
// 6762) as a workstation (RFC 6763): on the interfaces of its own addresses
// and on no others.
package mdns

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/holdfast/holdfast/internal/decide/names"
)

// Publisher publishes one host. Its zero value publishes nothing.
type Publisher struct {
	// Logf logs errors of sending and receiving; nil drops them.
	Logf func(format string, args ...any)

	advert names.Advert
	at     []place
	links  []*speaker
	wait   sync.WaitGroup
}

// speaker is the responder of one link.
type speaker struct {
	*link
	*responder
}

// Set publishes an advert in place of the former, and reports whether anything
// changed. If the host's interfaces were created anew, it begins again.
func (p *Publisher) Set(a names.Advert) (changed bool, err error) {
	at, onLink, err := places(a.Addresses)
	if err != nil {
		return false, fmt.Errorf("find the interfaces of %v: %w", a.Addresses, err)
	}
	if len(at) == 0 {
		return false, fmt.Errorf("no interface has any of %v", a.Addresses)
	}
	if reflect.DeepEqual(a, p.advert) && slices.Equal(at, p.at) {
		return false, nil
	}
	farewell := p.leave(func(s *speaker) bool { return stays(a, s) })
	for _, where := range at {
		l, err := open(where)
		if err != nil {
			return true, errors.Join(err, p.Close())
		}
		r := newResponder(a, on(at, where.index), onLink[where.index], rand.N[time.Duration], time.Now())
		p.links = append(p.links, &speaker{l, r})
	}
	p.advert, p.at = a, at
	for _, s := range p.links {
		p.wait.Go(func() { p.speak(s) })
	}
	return true, farewell
}

// on returns the addresses on one interface.
func on(at []place, index int) []netip.Addr {
	var out []netip.Addr
	for _, p := range at {
		if p.index == index {
			out = append(out, p.addr)
		}
	}
	return out
}

// farewells is the number of goodbyes that are sent: nobody acknowledges them.
const farewells = 2

// stays reports whether the statements of a link remain true, perhaps on
// another interface: a goodbye would make the host unknown for a moment.
func stays(next names.Advert, s *speaker) bool {
	return s.advert.Instance == next.Instance && s.advert.Host == next.Host && slices.Contains(next.Addresses, s.addr)
}

// Close withdraws what was published, and stops.
func (p *Publisher) Close() error {
	return p.leave(func(*speaker) bool { return false })
}

// leave closes all links, and sends a goodbye on those for which stays returns
// false.
func (p *Publisher) leave(stays func(*speaker) bool) error {
	var errs []error
	for range farewells {
		for _, s := range p.links {
			if stays(s) {
				continue
			}
			if err := s.transmit(outgoing{msg: s.all(0)}); err != nil && !gone(err) {
				errs = append(errs, err)
			}
		}
	}
	for _, s := range p.links {
		errs = append(errs, s.conn.Close())
	}
	p.wait.Wait()
	p.links, p.at, p.advert = nil, nil, names.Advert{}
	return errors.Join(errs...)
}

// speak serves one link until the link is closed.
func (p *Publisher) speak(s *speaker) {
	buffer := make([]byte, maxMessage+1)
	for {
		data, from, err := s.receive(buffer, s.next())
		var say []outgoing
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err == nil:
			say = s.hear(data, from, time.Now())
		case !errors.Is(err, os.ErrDeadlineExceeded):
			p.logf("mdns: receive on %s: %v", s.name, err)
			if !s.pause() {
				return
			}
		}
		for _, o := range append(say, s.tick(time.Now())...) {
			if err := s.transmit(o); errors.Is(err, net.ErrClosed) {
				return
			} else if err != nil {
				p.logf("mdns: %v", err)
			}
		}
	}
}

// errorPause slows down a link that only fails.
const errorPause = time.Second

// pause waits a while, and reports whether the link is still open then.
func (s *speaker) pause() bool {
	timer := time.NewTimer(errorPause)
	defer timer.Stop()
	<-timer.C
	return s.conn.SetReadDeadline(time.Time{}) == nil
}

func (s *speaker) transmit(o outgoing) error {
	data, err := o.msg.Pack()
	if err != nil {
		return err
	}
	return s.send(data, o.to)
}

func (p *Publisher) logf(format string, args ...any) {
	if p.Logf != nil {
		p.Logf(format, args...)
	}
}
