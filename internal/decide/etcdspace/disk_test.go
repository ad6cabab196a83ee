package etcdspace

import (
	"testing"

	"github.com/holdfast/holdfast/internal/model/etcdpod"
	"github.com/holdfast/holdfast/internal/model/state"
)

func TestADiskHasRoomForTheDatabaseAndABackupOfIt(t *testing.T) {
	for q, want := range map[etcdpod.Quota]uint64{0: 0, etcdpod.OwnQuota: 0, 3: 14 << 30, 4: 18 << 30, etcdpod.LargestQuota: 34 << 30} {
		got := Disk(q)
		if got != want {
			t.Errorf("%d GiB: %d bytes, want %d", q, got, want)
		}
		database := uint64(q.Bytes())
		if backup, defragmented := database/10*22, database; got > 0 && got < database+max(backup, defragmented)+state.KeptFree {
			t.Errorf("%d GiB: no room for a backup or a defragmentation", q)
		}
	}
}
