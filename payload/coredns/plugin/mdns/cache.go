package mdns

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// Bounds for what neighbours, or one that floods, can store here.
const (
	maxEntries        = 4096
	maxEntriesPerAddr = 8
)

// challengeTime is the time in which the owner of a host's name must answer
// after another neighbour has claimed it.
const challengeTime = 2500 * time.Millisecond

// entry is a service of a neighbour.
type entry struct {
	service, instance, host string
	port                    uint16
	addr                    netip.Addr
	// learned is the time of its last packet, expires the time at which it is
	// forgotten.
	learned, expires time.Time
	// challenged is the time at which another neighbour claimed its host's
	// name, zero if none has since learned.
	challenged time.Time
}

// cache holds everything that was received. It belongs to one goroutine.
type cache struct {
	conf    config
	entries []entry
}

// outcome is the effect of a claim.
type outcome int

const (
	ignored   outcome = iota
	changed           // the known neighbours have changed
	contested         // another host has the claimed name, and must be asked
)

// take stores a neighbour's claim.
func (c *cache) take(cl claim, now time.Time) outcome {
	if cl.ttl == 0 {
		return c.remove(cl)
	}
	if cl.instance == "" {
		return c.renew(cl, now)
	}
	if !c.wanted(cl) {
		return ignored
	}
	if contest := c.contest(cl, now); contest != changed {
		return contest
	}
	e := entry{cl.service, cl.instance, cl.host, cl.port, cl.addr, now, now.Add(cl.ttl), time.Time{}}
	if i := c.find(cl); i >= 0 {
		c.entries[i] = e
		return changed
	}
	if len(c.entries) >= maxEntries || c.of(cl.addr) >= maxEntriesPerAddr {
		return ignored
	}
	c.entries = append(c.entries, e)
	return changed
}

// wanted reports whether a claim is for a service and a group that are browsed.
func (c *cache) wanted(cl claim) bool {
	_, further := c.conf.services[cl.service]
	if cl.service != workstation && !further || slices.Contains(c.conf.except, cl.host) {
		return false
	}
	return c.conf.filter == "" || c.ofGroup(cl)
}

// clusterText begins the string of a TXT record that names an instance's group.
const clusterText = "cluster="

// ofGroup reports whether a claim belongs to the group that the filter names.
// Its whole text decides: an instance's label may be shortened, and the name of
// one group may be a part of another's. A publisher without such a text is
// recognized by its label, which begins with the group's name and a space.
func (c *cache) ofGroup(cl claim) bool {
	told := false
	for _, s := range cl.text {
		if len(s) < len(clusterText) || !strings.EqualFold(s[:len(clusterText)], clusterText) {
			continue
		}
		if told = true; strings.EqualFold(s[len(clusterText):], c.conf.filter) {
			return true
		}
	}
	return !told && strings.HasPrefix(cl.instance, c.conf.filter+" ")
}

// contest checks whether a host's name belongs to another neighbour, of the
// same family, that is still there. A neighbour that does not answer loses the
// name. The result changed means that the claim may be taken.
func (c *cache) contest(cl claim, now time.Time) outcome {
	mine := func(e entry) bool { return e.addr == cl.addr && e.host == cl.host && now.Before(e.expires) }
	if slices.ContainsFunc(c.entries, mine) {
		return changed
	}
	for i := range c.entries {
		e := &c.entries[i]
		if e.host != cl.host || e.addr == cl.addr || e.addr.Is4() != cl.addr.Is4() || !now.Before(e.expires) {
			continue
		}
		if e.challenged.IsZero() {
			e.challenged = now
			return contested
		}
		if now.Sub(e.challenged) < challengeTime {
			return contested
		}
	}
	c.entries = slices.DeleteFunc(c.entries, func(e entry) bool {
		return e.host == cl.host && e.addr.Is4() == cl.addr.Is4() && !e.challenged.IsZero()
	})
	return changed
}

// renew takes an address without a service as a sign of life.
func (c *cache) renew(cl claim, now time.Time) outcome {
	out := ignored
	for i := range c.entries {
		if e := &c.entries[i]; e.host == cl.host && e.addr == cl.addr && now.Before(e.expires) {
			e.learned, e.expires, e.challenged = now, now.Add(cl.ttl), time.Time{}
			out = changed
		}
	}
	return out
}

// remove deletes what a neighbour itself takes back.
func (c *cache) remove(cl claim) outcome {
	before := len(c.entries)
	c.entries = slices.DeleteFunc(c.entries, func(e entry) bool {
		if e.addr != cl.addr {
			return false
		}
		if cl.instance == "" {
			return e.host == cl.host
		}
		return e.instance == cl.instance && e.service == cl.service
	})
	if len(c.entries) == before {
		return ignored
	}
	return changed
}

func (c *cache) find(cl claim) int {
	return slices.IndexFunc(c.entries, func(e entry) bool {
		return e.addr == cl.addr && e.instance == cl.instance && e.service == cl.service
	})
}

// of counts the entries of one address.
func (c *cache) of(a netip.Addr) int {
	n := 0
	for _, e := range c.entries {
		if e.addr == a {
			n++
		}
	}
	return n
}

// expire forgets entries that nobody has renewed in time, and reports whether
// there were any.
func (c *cache) expire(now time.Time) bool {
	before := len(c.entries)
	c.entries = slices.DeleteFunc(c.entries, func(e entry) bool { return !now.Before(e.expires) })
	return len(c.entries) != before
}

// known returns the neighbours to serve.
func (c *cache) known() neighbours {
	out := neighbours{}
	for _, e := range c.entries {
		out[e.host] = append(out[e.host], e)
	}
	for _, entries := range out {
		slices.SortFunc(entries, func(a, b entry) int { return a.addr.Compare(b.addr) })
	}
	return out
}

// fresh returns the instances of a service that need not answer again: more
// than half of their time is left.
func (c *cache) fresh(service string, now time.Time) []dns.RR {
	var out []dns.RR
	for _, e := range c.entries {
		left := e.expires.Sub(now)
		if e.service != service || left <= e.expires.Sub(e.learned)/2 {
			continue
		}
		out = append(out, &dns.PTR{
			Hdr: dns.RR_Header{Name: service + local, Rrtype: dns.TypePTR, Class: dns.ClassINET, Ttl: uint32(left / time.Second)}, //nolint:gosec // less than the TTL that came, which had 32 bits
			Ptr: escape(e.instance) + "." + service + local,
		})
	}
	return out
}

// escape writes a label's bytes in the form that the library reads.
func escape(label string) string {
	return strings.NewReplacer(`\`, `\\`, ".", `\.`, " ", `\ `, `"`, `\"`, "(", `\(`, ")", `\)`, ";", `\;`, "@", `\@`, "$", `\$`).Replace(label)
}
