package client

import "time"

// Gap is a time without an acknowledged write.
type Gap struct {
	// Length is the time from one acknowledgement to the next.
	Length time.Duration `json:"length"`
	// From and Until are these two, in the time of the history.
	From  time.Duration `json:"from"`
	Until time.Duration `json:"until"`
	// Open is true if no further write was acknowledged.
	Open bool `json:"open,omitempty"`
}

// Gap returns the longest time without an acknowledged write that lasts beyond
// a moment, through an endpoint or, if that is empty, through any. A history
// that ends without another acknowledgement has an open gap.
func (h History) Gap(endpoint string, from, end time.Duration) Gap {
	longest := Gap{}
	last := time.Duration(0)
	for _, at := range append(h.acks(endpoint), end) {
		if at > from && at-last > longest.Length {
			longest = Gap{Length: at - last, From: last, Until: at}
		}
		last = at
	}
	longest.Open = longest.Until == end && longest.Length > 0
	return longest
}

// Outage returns the first time without an acknowledged write that has at least
// a length and lasts beyond a moment. It is the cost of the fault at that
// moment, whatever came later. Without one the result is zero.
func (h History) Outage(endpoint string, from, end, least time.Duration) Gap {
	last := time.Duration(0)
	for _, at := range append(h.acks(endpoint), end) {
		if at > from && at-last >= least {
			return Gap{Length: at - last, From: last, Until: at, Open: at == end}
		}
		last = at
	}
	return Gap{}
}
