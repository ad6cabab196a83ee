package lab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// Parts that FaultEtcdDamage can damage.
const (
	damageDB     = "db"
	damageWAL    = "wal"
	damageMember = "member"
	damageDisk   = "disk"
)

// DamageParts lists what FaultEtcdDamage can damage.
func DamageParts() []string { return []string{damageDB, damageWAL, damageMember, damageDisk} }

// DamageDoc explains the parts.
const DamageDoc = "the first pages of the database, the middle of the newest log, all of etcd's data, or everything on etcd's disk"

// damageEtcd damages files in etcd's directory, as a broken disk would. A
// process that has them open goes on.
func damageEtcd(dir, part string) error {
	if !mounted(dir) {
		return errNoEtcdDisk
	}
	switch part {
	case damageDB:
		return scribble(filepath.Join(dir, "member", "snap", "db"), 0)
	case damageWAL:
		return damageNewestLog(filepath.Join(dir, "member", "wal"))
	case damageMember:
		return os.RemoveAll(filepath.Join(dir, "member"))
	default:
		return removeChildren(dir)
	}
}

// scribbled is the number of bytes to overwrite: both of the database's first
// pages, or many entries of a log.
const scribbled = 16 << 10

// scribble overwrites a part of a file with bytes that are no valid page or
// entry.
func scribble(path string, at int64) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(slices.Repeat([]byte{0xa5}, scribbled), at)
	return errors.Join(err, f.Sync(), f.Close())
}

// damageNewestLog overwrites the beginning of the newest log behind its first
// entries. It spares the end, because etcd takes a torn end for a power cut and
// cuts it off.
func damageNewestLog(dir string) error {
	logs, err := filepath.Glob(filepath.Join(dir, "*.wal"))
	if err != nil || len(logs) == 0 {
		return fmt.Errorf("no log in %s: %w", dir, errors.Join(err, os.ErrNotExist))
	}
	return scribble(slices.Max(logs), 1<<10)
}

func removeChildren(dir string) error {
	list, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range list {
		errs = append(errs, os.RemoveAll(filepath.Join(dir, e.Name())))
	}
	return errors.Join(errs...)
}
