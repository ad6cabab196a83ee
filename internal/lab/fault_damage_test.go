package lab

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func TestDamageNeedsADiskOfEtcdsOwn(t *testing.T) {
	dir := t.TempDir()
	if err := damageEtcd(dir, damageDisk); err == nil {
		t.Error("damaged a directory that is no disk")
	}
}

func TestTheNewestLogIsDamagedBehindItsFirstEntries(t *testing.T) {
	dir := t.TempDir()
	whole := bytes.Repeat([]byte{1}, 64<<10)
	for _, name := range []string{"0000-0.wal", "0001-9.wal"} {
		if err := os.WriteFile(filepath.Join(dir, name), whole, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := damageNewestLog(dir); err != nil {
		t.Fatal(err)
	}
	old, err := os.ReadFile(filepath.Join(dir, "0000-0.wal"))
	if err != nil || !bytes.Equal(old, whole) {
		t.Errorf("the older log has changed (%v)", err)
	}
	now, err := os.ReadFile(filepath.Join(dir, "0001-9.wal"))
	if err != nil || len(now) != len(whole) || bytes.Equal(now, whole) {
		t.Errorf("the newest log is whole, or of another size (%v)", err)
	}
	if !bytes.Equal(now[:1<<10], whole[:1<<10]) || !bytes.Equal(now[32<<10:], whole[32<<10:]) {
		t.Error("more was damaged than meant")
	}
}

func TestNoLogIsNoDamage(t *testing.T) {
	if err := damageNewestLog(t.TempDir()); err == nil {
		t.Error("damaged nothing, and was content")
	}
}
