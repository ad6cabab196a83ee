package operator

import (
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
)

// logOf returns a log that a test shows. What a manager says after the test's end is dropped: one
// that stops may still do so, and a test's own log would end the program for it.
func logOf(t *testing.T) logr.Logger {
	t.Helper()
	var mu sync.Mutex
	over := false
	t.Cleanup(func() {
		mu.Lock()
		defer mu.Unlock()
		over = true
	})
	return funcr.New(func(prefix, args string) {
		mu.Lock()
		defer mu.Unlock()
		if !over {
			t.Log(prefix, args)
		}
	}, funcr.Options{})
}
