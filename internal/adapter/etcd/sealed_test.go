package etcd

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// TestAnEtcdThatIsSealedGoesOnWithItsDataAndNeverStartsFromNothing plays the flags of staticpod.Seal on
// real members: that of the first host, which would else begin a cluster of the same ids, and one that
// joined, while the others serve (docs/adr/0109).
func TestAnEtcdThatIsSealedGoesOnWithItsDataAndNeverStartsFromNothing(t *testing.T) {
	n, first := founded(t, newAuthority(t, t.TempDir()))
	other, id := joined(t, n)
	for _, m := range []struct {
		*node
		id state.MemberID
	}{{other, id}, {n, first.Member}} {
		sealed := []string{"--initial-cluster", m.name + "=" + m.peerURL(), "--initial-cluster-state", "existing"}
		m.kill()
		m.start(t, sealed...)
		if got := m.looks(t, "goes on with its data", serving); got.Member != m.id {
			t.Errorf("%s goes on as %s, and was %s", m.name, got.Member, m.id)
		}
		m.kill()
		must(t, os.Rename(m.dir, m.dir+"-away"))
		for range 2 { // the first try leaves a database without a log
			m.start(t, sealed...)
			select {
			case <-m.ended:
			case <-time.After(30 * time.Second):
				t.Fatalf("%s runs without its data", m.name)
			}
			if logs, _ := filepath.Glob(filepath.Join(m.dir, "member", "wal", "*.wal")); len(logs) > 0 {
				t.Fatalf("%s began from nothing: %v", m.name, logs)
			}
		}
		must(t, os.RemoveAll(m.dir))
		must(t, os.Rename(m.dir+"-away", m.dir)) // the disk is mounted
		m.start(t, sealed...)
		m.looks(t, "goes on once the disk is mounted", func(l MemberStatus) bool { return serving(l) && l.Member == m.id })
	}
}
