// Package promise says how long a test of the network waits for what is promised
// of a host that has time for its work.
//
// The promises themselves are measured, twenty times each, by hack/bench on a
// machine that does nothing else. A test shares its processors
// with other tests and tells something else: that it was the mechanism under
// test that acted, and not the slower one behind it. Those are far slower: the
// usual keepalived follows after 3.6 s, the usual haproxy after 13 s, a piece of
// the agent looks again after 30 s.
package promise

import "time"

// Allowed is how long a test waits for what is promised within a time: twice
// that, and two seconds for processes that wait for their turn.
func Allowed(promised time.Duration) time.Duration { return 2*promised + 2*time.Second }
