package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"filippo.io/age"

	"github.com/holdfast/holdfast/internal/adapter/backup/archive"
	"github.com/holdfast/holdfast/internal/adapter/etcd"
	"github.com/holdfast/holdfast/internal/cli/command"
	model "github.com/holdfast/holdfast/internal/model/backup"
)

// etcdutlPlayed answers as etcdutl does about a database with 42 keys at revision 4711.
const etcdutlPlayed = `#!/bin/sh
case "$*" in
"snapshot status "*) echo '{"revision":4711,"totalKey":42,"totalSize":9}' ;;
"snapshot restore "*) for a; do last=$a; done; while [ "$1" != --data-dir ]; do shift; done; mkdir -p "$2/member/snap" && printf HASH > "$2/member/snap/db" ;;
version) echo played ;;
*) exit 9 ;;
esac
`

// backupFiles writes a backup as it lies on a host and as it lies at a target, and the key.
func backupFiles(t *testing.T) (plain, sent, key string) {
	t.Helper()
	dir := t.TempDir()
	write := func(name string, data []byte, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	taken := time.Date(2026, 11, 25, 3, 17, 0, 0, time.UTC)
	e := model.Entry{
		Format: model.Format, ID: model.NewID("cp-1", taken), Site: "shop.example.com", Host: "cp-1", Taken: taken, Reason: model.BySchedule,
		Release:  model.Release{Version: "v0.1.0", Kubernetes: "v1.36.0", Etcd: "v3.6.14"},
		Database: model.Database{Revision: 4711, Read: 4700, Hash: 77, HashRevision: 4700, CompactRevision: 4000},
	}
	var tar, crypt bytes.Buffer
	files := []archive.File{{Path: "/etc/kubernetes/pki/ca.key", Mode: 0o600, Data: []byte("S3cr3t-key")}}
	if err := archive.Write(t.Context(), &tar, e, write("snapshot", []byte("a database"), 0o600), files); err != nil {
		t.Fatal(err)
	}
	plain = write(e.ID+model.ArchiveSuffix, tar.Bytes(), 0o600)
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := archive.Encrypt(t.Context(), &crypt, bytes.NewReader(tar.Bytes()), []string{id.Recipient().String()}); err != nil {
		t.Fatal(err)
	}
	return plain, write(e.ID+model.SentSuffix, crypt.Bytes(), 0o600), write("owner.key", []byte(id.String()+"\n"), 0o600)
}

// A person copies etcdutl alone to the machine with the key. etcd hashes what etcdutl restored.
func TestABackupIsNotCalledBadWhereOnlyEtcdIsMissing(t *testing.T) {
	plain, _, _ := backupFiles(t)
	alone := filepath.Join(t.TempDir(), "etcdutl")
	if err := os.WriteFile(alone, []byte(strings.ReplaceAll(etcdutlPlayed, "HASH", "77")), 0o700); err != nil {
		t.Fatal(err)
	}
	code, out, errs := runLine(t, "backup", "verify", "--scratch", t.TempDir(), plain, "--etcdutl", alone)
	if code != command.ExitAttention || !strings.Contains(out, filepath.Join(filepath.Dir(alone), "etcd")+", which has to lie beside etcdutl, does not run here") || strings.Contains(out+errs, "is not good") {
		t.Errorf("exit code %d, want %d: %s%s", code, command.ExitAttention, out, errs)
	}
}

func TestABackupFileIsOpenedComparedAndRestoredWithoutASite(t *testing.T) {
	plain, sent, key := backupFiles(t)
	scratch := t.TempDir()
	hashRestored = func(_ context.Context, dataDir string, revision int64) (etcd.KVHash, error) {
		data, err := os.ReadFile(filepath.Join(dataDir, "member/snap/db"))
		if err != nil {
			return etcd.KVHash{}, err
		}
		hash, err := strconv.ParseUint(string(data), 10, 32)
		return etcd.KVHash{Hash: uint32(hash), HashRevision: revision, CompactRevision: 4000}, err
	}
	t.Cleanup(func() { hashRestored = nil })
	program := func(hash string) string {
		t.Helper()
		path := filepath.Join(t.TempDir(), "etcdutl")
		if err := os.WriteFile(path, []byte(strings.ReplaceAll(etcdutlPlayed, "HASH", hash)), 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	other, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	stranger := filepath.Join(t.TempDir(), "stranger.key")
	cut, flipped := filepath.Join(t.TempDir(), "cut.tar.age"), filepath.Join(t.TempDir(), "flipped.tar")
	data, err := os.ReadFile(sent)
	if err != nil {
		t.Fatal(err)
	}
	bad, err := os.ReadFile(plain)
	if err != nil {
		t.Fatal(err)
	}
	bad[bytes.Index(bad, []byte("a database"))] ^= 1
	for path, text := range map[string][]byte{stranger: []byte(other.String()), cut: data[:len(data)-9], flipped: bad} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		line []string
		code int
		says string
	}{
		"of a target, with the key": {[]string{sent, "--identity", key, "--etcdutl", program("77")}, command.ExitOK, "holdfast backup prove 20261125T031700Z-cp-1"},
		"of a host":                 {[]string{plain, "--etcdutl", program("77")}, command.ExitOK, "proves nothing about the private key"},
		"for a program":             {[]string{plain, "--etcdutl", program("77"), "-o", "json"}, command.ExitOK, `"name": "hash"`},
		"the keys are others":       {[]string{plain, "--etcdutl", program("78")}, command.ExitFailed, "is not good: hash"},
		"no etcdutl":                {[]string{sent, "--identity", key, "--etcdutl", "/none/etcdutl"}, command.ExitAttention, "was not restored here"},
		"no key":                    {[]string{sent, "--etcdutl", program("77")}, command.ExitUsage, "--identity"},
		"the key of somebody else":  {[]string{sent, "--identity", stranger, "--etcdutl", program("77")}, command.ExitFailed, "none of the private keys"},
		"a key that is no key":      {[]string{sent, "--identity", plain, "--etcdutl", program("77")}, command.ExitFailed, "no private keys"},
		"cut":                       {[]string{cut, "--identity", key, "--etcdutl", program("77")}, command.ExitFailed, "damaged"},
		"a bit is another":          {[]string{flipped, "--etcdutl", program("77")}, command.ExitFailed, "snapshot.db has the digest"},
		"a file that is not there":  {[]string{"/none", "--etcdutl", program("77")}, command.ExitFailed, "/none"},
	} {
		code, out, errs := runLine(t, append([]string{"backup", "verify", "--scratch", scratch}, c.line...)...)
		if code != c.code || !strings.Contains(out+errs, c.says) {
			t.Errorf("%s: exit code %d, want %d and %q: %s%s", name, code, c.code, c.says, out, errs)
		}
		if strings.Contains(out+errs, "S3cr3t") || strings.Contains(out+errs, "AGE-SECRET") {
			t.Errorf("%s: it prints a secret", name)
		}
		if left, err := os.ReadDir(scratch); err != nil || len(left) > 0 {
			t.Errorf("%s: %v is left, %v", name, left, err)
		}
	}
}
