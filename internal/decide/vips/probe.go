package vips

import (
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// The times of a probe. A host takes some 2 s to find out that nobody answers.
const (
	// probeEnough is how long all hosts that were asked are waited for, once
	// one of them has found an address free.
	probeEnough = 3 * time.Second
	// probeAgain is when hosts are asked anew that did not say a word.
	probeAgain = 15 * time.Second
	// probeValid is how long an answer counts. A refused address is looked for
	// anew after this time: whoever has it may have let go.
	probeValid = time.Minute
)

// Probing is what is to be done to learn who answers for addresses.
type Probing struct {
	// Ask are the hosts that are to be given the Request.
	Ask     []string
	Request state.VIPProbe
	// Clear are the hosts whose request is to be taken back.
	Clear []string
	// Found is who answers, by address, nobody included; what is not in it is
	// not known yet.
	Found map[netip.Addr]Holder
	// Silent are the hosts that were asked and have not answered.
	Silent []string
}

// Probe decides whom to ask about addresses that nobody may answer for, from
// the requests and answers that the hosts have. All control planes that are
// ready are asked, since each sees its own part of the network only; without
// any, every host that is ready.
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
			by.Ours = lingering(a, hosts)
		}
		out.Found[a] = by
	}
	return out
}

// remembered are those of whom the answers to an earlier question tell. They
// count until the next answers are there, so that a refusal stands meanwhile.
func remembered(wanted []netip.Addr, hosts []Host) map[netip.Addr]Holder {
	out := map[netip.Addr]Holder{}
	for _, a := range wanted {
		for _, h := range hosts {
			if hardware, held := h.Answer.Value.Held[a]; held && h.Probe.Known {
				out[a] = Holder{Hardware: hardware, Seen: h.Name, Ours: lingering(a, hosts)}
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

// withRequest are the hosts that have a request.
func withRequest(hosts []Host) []string {
	var out []string
	for _, h := range hosts {
		if h.Probe.Known {
			out = append(out, h.Name)
		}
	}
	return out
}

// current are the hosts that were asked the newest question, if that is the
// one to ask and is still young. A clock that was set back makes it old.
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

// found is who answers for an address. One host that sees somebody is enough;
// that nobody does, somebody has to say, and all have to have had the time.
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

// lingering is the host of this cluster that has an address from an earlier
// time: one that was off when the address was removed, or has just come back.
func lingering(a netip.Addr, hosts []Host) string {
	for _, h := range hosts {
		if slices.Contains(h.Report.Value.Holds, a) || slices.Contains(h.Report.Value.VIPs, a) {
			return h.Name
		}
	}
	return ""
}
