package keeper

import (
	"os"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/keeper/keeperclient"
)

// TestADaemonWhoseSocketIsGoneListensAnew lets somebody clean /run: the daemon
// would go on, and nobody could ever reach it again.
func TestADaemonWhoseSocketIsGoneListensAnew(t *testing.T) {
	t.Parallel()
	s := begin(t, nil)
	answers := func() bool {
		for end := time.Now().Add(10 * socketLook); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			if _, err := keeperclient.Report(t.Context(), s.socket); err == nil {
				return true
			}
		}
		return false
	}
	if !answers() {
		t.Fatal("the daemon does not answer")
	}
	for what, harm := range map[string]func() error{
		"removed": func() error { return os.Remove(s.socket) },
		"replaced": func() error {
			if err := os.Remove(s.socket); err != nil {
				return err
			}
			return os.WriteFile(s.socket, nil, 0o600)
		},
	} {
		if err := harm(); err != nil {
			t.Fatal(err)
		}
		if !answers() {
			t.Errorf("nobody reaches the daemon after its socket was %s", what)
		}
	}
}
