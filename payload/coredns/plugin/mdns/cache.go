package mdns

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// Bounds of what neighbours, or one that floods, can make this one keep.
const (
	maxEntries        = 4096
	maxEntriesPerAddr = 8
)

// challengeTime is how long the one who has a host's name may take to say so
// after another has claimed it.
const challengeTime = 2500 * time.Millisecond

// entry is a service of a neighbour.
type entry struct {
	service, instance, host string
	port                    uint16
	addr                    netip.Addr
	// learned is when it was last heard of, expires when it is forgotten.
	learned, expires time.Time
	// challenged is when somebody else claimed its host's name, zero if nobody
	// has since it was last heard of.
	challenged time.Time
}

// cache is all that was heard. It belongs to one goroutine.
type cache struct {
	conf    config
	entries []entry
}

// outcome is what a claim led to.
type outcome int

const (
	ignored   outcome = iota
	changed           // what is known is another than before
	contested         // the host has the name that another claims, and is to be asked
)

// take keeps what a neighbour says of itself.
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

// wanted reports whether a claim is of a service and a group that is browsed.
func (c *cache) wanted(cl claim) bool {
	_, further := c.conf.services[cl.service]
	if cl.service != workstation && !further || slices.Contains(c.conf.except, cl.host) {
		return false
	}
	return c.conf.filter == "" || c.ofGroup(cl)
}

// clusterText begins the string of a TXT record that names an instance's group.
const clusterText = "cluster="

// ofGroup reports whether a claim is of the group that the filter names. What
// its text says counts, whole: an instance's label may be shortened, and the name
// of one group may be a part of another's. A publisher that tells no text is
// known by its label, which begins with the group's name and a space.
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

// contest sees whether a host's name is that of another neighbour, of the
// same family, who is still there. One that does not answer loses it; changed
// says that the claim may be taken.
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

// renew takes an address that was told alone for a sign of life.
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

// remove takes back what a neighbour has said itself.
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

// expire forgets what nobody has told again in time.
func (c *cache) expire(now time.Time) bool {
	before := len(c.entries)
	c.entries = slices.DeleteFunc(c.entries, func(e entry) bool { return !now.Before(e.expires) })
	return len(c.entries) != before
}

// known returns what serves.
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

// fresh are the instances of a service that need not be told again: more than
// half of their time is left.
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
