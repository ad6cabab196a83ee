// Package promise tells how long a test of the network waits for something that
// is promised of a host with enough processor time.
//
// hack/bench measures the promises themselves, twenty times each, on a machine
// that does nothing else. A test shares its processors with other tests and
// shows something else: that the mechanism under test acted, and not the slower
// one behind it. Those are far slower: the usual keepalived follows after 3.6
// s, the usual haproxy after 13 s, and a reconciler of the agent looks again
// after 30 s.
package promise

import "time"

// Allowed returns how long a test waits for something that is promised within a
// time: twice that, plus two seconds for processes that wait for a processor.
func Allowed(promised time.Duration) time.Duration { return 2*promised + 2*time.Second }
