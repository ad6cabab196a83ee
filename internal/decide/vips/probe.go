package vips

import (
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// The times of a probe. A host needs some 2 s to find out that nobody answers.
const (
	// probeEnough is how long Probe waits for all hosts that were asked before one
	// answer that an address is free is enough.
	probeEnough = 3 * time.Second
	// probeAgain is the time after which Probe asks anew where no host has
	// answered.
	probeAgain = 15 * time.Second
	// probeValid is how long an answer counts. After this time the hosts are asked
	// anew about a refused address: whoever has it may have released it.
	probeValid = time.Minute
)

// Probing says what to do to learn who answers for addresses.
type Probing struct {
	// Ask names the hosts that must get the Request.
	Ask     []string
	Request state.VIPProbe
	// Clear names the hosts whose request must be removed.
	Clear []string
	// Found maps an address to whoever answers for it; the zero Holder means
	// nobody. An address that is missing is not known yet.
	Found map[netip.Addr]Holder
	// Silent names the hosts that were asked and have not answered.
	Silent []string
}

// Probe decides which hosts to ask whether anybody answers for the wanted
// addresses, from the requests and answers that the hosts have. It asks all control
// planes that are ready, because each sees only its own part of the network; where
// there are none, it asks every host that is ready.
func Probe(wanted []netip.Addr, hosts []Host, now time.Time) Probing {
	if len(wanted) == 0 {
		return Probing{Clear: withRequest(hosts)}
	}
	asked := current(wanted, hosts, now)
	if len(asked) == 0 {
		out := ask(wanted, hosts, now)
		out.Found = remembered(wanted, hosts)
		return out
	}
	out := Probing{Found: map[netip.Addr]Holder{}}
	for _, h := range asked {
		if !answered(h) {
			out.Silent = append(out.Silent, h.Name)
		}
	}
	since := now.Sub(asked[0].Probe.Value.At)
	if len(out.Silent) == len(asked) && since >= probeAgain {
		again := ask(wanted, hosts, now)
		again.Silent = out.Silent
		return again
	}
	if since < probeEnough {
		out.Found = remembered(wanted, hosts)
	}
	for _, a := range wanted {
		by, known := found(a, asked, len(out.Silent) == 0 || since >= probeEnough)
		if !known {
			continue
		}
		if by.Hardware != "" {
			by.Ours = lingering(a, by.Hardware, hosts)
		}
		out.Found[a] = by
	}
	return out
}

// remembered returns the holders that the answers to an earlier question name. They
// count until the next answers arrive, so that a refusal stands meanwhile.
func remembered(wanted []netip.Addr, hosts []Host) map[netip.Addr]Holder {
	out := map[netip.Addr]Holder{}
	for _, a := range wanted {
		for _, h := range hosts {
			if hardware, held := h.Answer.Value.Held[a]; held && h.Probe.Known {
				out[a] = Holder{Hardware: hardware, Seen: h.Name, Ours: lingering(a, hardware, hosts)}
			}
		}
	}
	return out
}

func ask(wanted []netip.Addr, hosts []Host, now time.Time) Probing {
	out := Probing{Request: state.VIPProbe{
		ID: strconv.FormatInt(now.UnixNano(), 36), At: now.UTC().Truncate(time.Millisecond), Addresses: slices.Clone(wanted),
	}}
	for _, controlPlane := range []bool{true, false} {
		for _, h := range hosts {
			if h.Ready && h.ControlPlane == controlPlane {
				out.Ask = append(out.Ask, h.Name)
			}
		}
		if len(out.Ask) > 0 {
			break
		}
	}
	return out
}

// withRequest returns the hosts that have a request.
func withRequest(hosts []Host) []string {
	var out []string
	for _, h := range hosts {
		if h.Probe.Known {
			out = append(out, h.Name)
		}
	}
	return out
}

// current returns the hosts that were asked the newest question, if that question
// is about the wanted addresses and still young. A clock that was set back makes it
// old.
func current(wanted []netip.Addr, hosts []Host, now time.Time) []Host {
	var newest state.VIPProbe
	for _, h := range hosts {
		if h.Probe.Known && h.Probe.Value.At.After(newest.At) {
			newest = h.Probe.Value
		}
	}
	age := now.Sub(newest.At)
	if !slices.Equal(newest.Addresses, wanted) || age >= probeValid || age < -probeEnough {
		return nil
	}
	var out []Host
	for _, h := range hosts {
		if h.Probe.Known && h.Probe.Value.ID == newest.ID {
			out = append(out, h)
		}
	}
	return out
}

func answered(h Host) bool { return h.Answer.Known && h.Answer.Value.ID == h.Probe.Value.ID }

// found returns whoever answers for an address. One host that sees somebody is
// enough. That nobody answers is known once one host has said so, and all hosts
// have answered or had the time to.
func found(a netip.Addr, asked []Host, complete bool) (by Holder, known bool) {
	for _, h := range asked {
		if !answered(h) {
			continue
		}
		if hardware, held := h.Answer.Value.Held[a]; held {
			return Holder{Hardware: hardware, Seen: h.Name}, true
		}
		if slices.Contains(h.Answer.Value.Free, a) {
			known = complete
		}
	}
	return Holder{}, known
}

// lingering returns the host of this cluster that still has an address from
// earlier: one that was off when the address was removed, or one that has just come
// back. The report of a host that is gone for good stays. So a host whose hardware
// does not answer is not the one: a stranger has the address, and keeps it.
func lingering(a netip.Addr, hardware string, hosts []Host) string {
	for _, h := range hosts {
		if (slices.Contains(h.Report.Value.Holds, a) || slices.Contains(h.Report.Value.VIPs, a)) && h.answersAt(hardware) {
			return h.Name
		}
	}
	return ""
}

// answersAt reports whether a host may be the one that answers with a hardware
// address. Where it reports none, as one of an older version, it may.
func (h Host) answersAt(hardware string) bool {
	reported := h.Report.Value.Hardware
	return len(reported) == 0 || strings.HasPrefix(hardware, h.Name+itself) ||
		slices.ContainsFunc(slices.Collect(maps.Values(reported)), func(list []string) bool { return slices.Contains(list, hardware) })
}

// itself is in an answer of a host about an address that it has itself.
const itself = " itself, on "

// Itself is the answer of a host about an address that one of its interfaces has.
func Itself(host, nic string) string { return host + itself + nic }
