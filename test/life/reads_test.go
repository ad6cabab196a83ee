package life_test

import (
	"net/netip"
	"time"

	"github.com/holdfast/holdfast/test/labsite/load"
)

// answeredWithin is how long a request of a client may take that needs no etcd.
const answeredWithin = 2 * time.Second

// readRate is how many reads a second are enough: each needs etcd, and half of them a
// connection of their own, on two processors that also do all else.
const readRate = 20

// readsOf describes the reads of a ConfigMap, with a token, at an address of the API. They show
// what requests that anybody may make do not: that a client's token, its rights and etcd are
// there. A read that begins when etcd takes no writes waits until it does, and then takes as
// long as any other request. restartGap is the longest time without a write where reads are
// counted against a bound; noReadGapAbove knows the one of its own test.
func (tr *trial) readsOf(at netip.Addr) load.Shape {
	tr.Helper()
	shape := tr.ReadsOf(tr.T, at, tr.access.BearerToken)
	shape.Rate, shape.Deadline = min(readRate, *rate), restartGap+answeredWithin
	return shape
}

// readsGoOn checks that the client that reads noticed since a moment no more than the API's
// other one may.
func (tr *trial) readsGoOn(since time.Time) {
	tr.Helper()
	loss := tr.Loss(apiReads, since)
	tr.within(apiReads, loss, mostOfAPI(loss, apiLoses))
}

// noReadGapAbove checks the longest time in which no read was answered, where nobody may be
// without a write for longer than most: once etcd takes writes, the next read is answered as any
// other request.
func (tr *trial) noReadGapAbove(most time.Duration) {
	tr.Helper()
	if loss := tr.Loss(apiReads, tr.began); loss.Gap > most+answeredWithin {
		tr.Errorf("%s: no answer for %.1f s, want at most %s: %s", apiReads, loss.Gap.Seconds(), most+answeredWithin, loss)
	}
}
