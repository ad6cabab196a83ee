package mdns

import (
	"errors"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
)

// The times of browsing. A neighbour announces itself when it comes, so queries
// are for neighbours that were there before or were not heard; known answers
// keep the replies few.
const (
	firstQuery   = 50 * time.Millisecond
	lastInterval = 30 * time.Second
	placesCheck  = time.Second
	// askAgain is the least time between two queries for one contested host.
	askAgain = time.Second
	// received bounds the packets that wait to be read.
	received = 256
)

// browser listens to the neighbours. All fields but known belong to run.
type browser struct {
	known atomic.Pointer[neighbours]
	conf  config
	cache cache
	links map[place]*link
	// heard holds packets with the link on which they arrived.
	heard chan heard
	asked map[string]time.Time
	// interval is the pause to the next query.
	interval time.Duration
	saidWhy  string
}

type heard struct {
	packet
	on *link
}

func newBrowser(conf config) *browser {
	b := &browser{
		conf: conf, cache: cache{conf: conf}, links: map[place]*link{},
		heard: make(chan heard, received), asked: map[string]time.Time{},
	}
	b.known.Store(&neighbours{})
	return b
}

// follow takes over the neighbours of another browser, if that is for the same
// names.
func (b *browser) follow(before *browser) {
	if before == nil || before.conf.zone != b.conf.zone || before.conf.filter != b.conf.filter {
		return
	}
	for _, entries := range *before.known.Load() {
		b.cache.entries = append(b.cache.entries, entries...)
	}
	b.publish()
}

// run browses until stop is closed.
func (b *browser) run(stop <-chan struct{}) {
	defer b.close()
	check := time.NewTicker(placesCheck)
	defer check.Stop()
	query := time.NewTimer(firstQuery)
	defer query.Stop()
	b.move()
	for {
		select {
		case <-stop:
			return
		case <-check.C:
			if b.move() {
				query.Reset(firstQuery)
			}
			b.forget(time.Now())
		case <-query.C:
			b.query(time.Now())
			query.Reset(b.interval)
		case h := <-b.heard:
			b.hear(h)
		}
	}
}

func (b *browser) close() {
	for _, l := range b.links {
		_ = l.conn.Close()
	}
}

// move listens at the places of the current own addresses. It reports whether a
// place is new, where all neighbours must be asked.
func (b *browser) move() bool {
	want, err := places(b.conf.bind, b.links)
	if err != nil {
		b.complain(err)
		return false
	}
	moved := false
	for at, l := range b.links {
		if _, ok := want[at]; !ok {
			_ = l.conn.Close()
			delete(b.links, at)
		}
	}
	for at, networks := range want {
		if b.links[at] != nil {
			continue
		}
		l, err := open(at, networks)
		if err != nil {
			b.complain(err)
			continue
		}
		b.links[at], moved = l, true
		go b.listen(l)
	}
	if moved {
		b.interval, b.saidWhy = time.Second, ""
	}
	metricLinks.Set(float64(len(b.links)))
	return moved
}

// complain logs each error once, because it occurs again every second.
func (b *browser) complain(err error) {
	if why := err.Error(); why != b.saidWhy {
		log.Warning(why)
		b.saidWhy = why
	}
}

// listen passes on packets until the link is closed. It drops packets that come
// too fast, because they are sent again.
func (b *browser) listen(l *link) {
	buffer := make([]byte, maxMessage+1)
	for {
		p, err := l.receive(buffer)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(firstQuery) // an interface that goes down fails at once and again
			continue
		}
		select {
		case b.heard <- heard{p, l}:
		default:
			metricDropped.Inc()
		}
	}
}

// hear takes in the packets that have arrived.
func (b *browser) hear(h heard) {
	now, publish := time.Now(), false
	for range received {
		publish = b.take(h, now) || publish
		select {
		case h = <-b.heard:
			continue
		default:
		}
		break
	}
	if publish {
		b.publish()
	}
}

// take takes in a packet and reports whether it changed the known neighbours.
func (b *browser) take(h heard, now time.Time) bool {
	claims, err := read(h.packet, h.on.networks)
	if err != nil {
		metricIgnored.Inc()
		return false
	}
	did := false
	for _, c := range claims {
		switch b.cache.take(c, now) {
		case changed:
			did = true
		case contested:
			b.ask(c, now)
		case ignored:
		}
	}
	return did
}

func (b *browser) publish() {
	known := b.cache.known()
	b.known.Store(&known)
	metricHosts.Set(float64(len(known)))
}

func (b *browser) forget(now time.Time) {
	if b.cache.expire(now) {
		b.publish()
	}
	for host, at := range b.asked {
		if now.Sub(at) > askAgain {
			delete(b.asked, host)
		}
	}
}

// ask asks for the address of a host whose name is claimed, so that the owner of the
// name answers. It logs the claim only as it asks: nobody fills a log by claims.
func (b *browser) ask(c claim, now time.Time) {
	if _, lately := b.asked[c.host]; lately {
		return
	}
	b.asked[c.host] = now
	log.Warningf("%s claims the name %s, which has another address: asking its owner", c.addr, c.host)
	m := new(dns.Msg)
	for _, qtype := range []uint16{dns.TypeA, dns.TypeAAAA} {
		m.Question = append(m.Question, dns.Question{Name: c.host + local, Qtype: qtype, Qclass: dns.ClassINET})
	}
	b.send(m)
}

// query asks for everything that is not known or expires soon.
func (b *browser) query(now time.Time) {
	services := []string{workstation}
	for s := range b.conf.services {
		services = append(services, s)
	}
	for _, s := range services {
		for _, m := range questions(s, b.cache.fresh(s, now)) {
			b.send(m)
		}
	}
	b.interval = min(2*b.interval, lastInterval)
}

// answersPerPacket keeps a packet smaller than any link allows.
const answersPerPacket = 12

// questions returns the query for a service, with the answers that are already
// known, in as many packets as these need. All but the last announce more.
func questions(service string, known []dns.RR) []*dns.Msg {
	m := &dns.Msg{Compress: true, Question: []dns.Question{{Name: service + local, Qtype: dns.TypePTR, Qclass: dns.ClassINET}}}
	out := []*dns.Msg{m}
	for len(known) > answersPerPacket {
		m.Answer, known, m.Truncated = known[:answersPerPacket], known[answersPerPacket:], true
		m = &dns.Msg{Compress: true}
		out = append(out, m)
	}
	m.Answer = known
	return out
}

func (b *browser) send(m *dns.Msg) {
	data, err := m.Pack()
	if err != nil {
		b.complain(err)
		return
	}
	for _, l := range b.links {
		if err := l.send(data); err != nil {
			b.complain(err)
		}
	}
}

// parseAddrs reads the addresses to bind to.
func parseAddrs(words []string) ([]netip.Addr, error) {
	var out []netip.Addr
	for _, w := range words {
		a, err := netip.ParseAddr(w)
		if err != nil {
			return nil, err
		}
		out = append(out, a.Unmap())
	}
	return out, nil
}
