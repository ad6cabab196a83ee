package upgrade

import "github.com/holdfast/holdfast/internal/testkit/apitest"

// writesKilled kills the operator around each write in turn: once before it, once right
// after it, and then it lives to the next.
func writesKilled(w *world) apitest.Writes {
	kill := func(n, at int) error {
		if n%3 == at {
			w.restart()
			return errKilled
		}
		return nil
	}
	return apitest.Writes{
		Before: func(n int) error { return kill(n, 1) },
		After:  func(n int) error { return kill(n, 2) },
	}
}
