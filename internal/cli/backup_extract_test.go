package cli

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/holdfast/holdfast/internal/adapter/backup/archive"
	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/backup/objects"
	model "github.com/holdfast/holdfast/internal/model/backup"
)

func TestEveryMistakeOfALookIntoABackupIsToldAtOnce(t *testing.T) {
	plain, sent, _ := backupFiles(t)
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "mine"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		line []string
		code int
		says []string
	}{
		"extract":             {[]string{"extract", plain}, command.ExitUsage, []string{"--output: name a folder", "name a namespace with -n"}},
		"extract, arguments":  {[]string{"extract", plain, "cm/a", "b", "-o", full}, command.ExitUsage, []string{`"b": must be TYPE/NAME`, "is not empty: name a folder that does not exist"}},
		"inspect, arguments":  {[]string{"inspect", plain, "cm/a", "b", "c"}, command.ExitUsage, []string{`"b": must be`, `"c": must be`}},
		"inspect, no key":     {[]string{"inspect", sent}, command.ExitUsage, []string{"--identity FILE"}},
		"diff, resources":     {[]string{"diff", plain, plain, "--resources", "cm/,/x"}, command.ExitUsage, []string{`--resources: "cm/"`, `"/x": must be`}},
		"no database of etcd": {[]string{"inspect", plain}, command.ExitFailed, []string{"open the snapshot"}},
	} {
		code, out, errs := runLine(t, append([]string{"backup"}, c.line...)...)
		if code != c.code || out != "" {
			t.Errorf("%s: exit code %d, want %d: %s%s", name, code, c.code, out, errs)
		}
		for _, says := range c.says {
			if !strings.Contains(errs, says) {
				t.Errorf("%s does not say %q: %s", name, says, errs)
			}
		}
	}
}

func TestALookIntoABackupLeavesNothingBehind(t *testing.T) {
	plain, _, _ := backupFiles(t)
	scratch := t.TempDir()
	for _, verb := range []string{"inspect", "diff"} {
		_, _, _ = runLine(t, "backup", verb, plain, "--scratch", scratch)
	}
	if left, err := os.ReadDir(scratch); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
}

// backupOfShop returns the file of a backup with files of a host, whose database has one ConfigMap.
func backupOfShop(t *testing.T, files ...archive.File) string {
	t.Helper()
	dir := t.TempDir()
	snapshot := filepath.Join(dir, "snapshot")
	db, err := bbolt.Open(snapshot, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		_, none := tx.CreateBucket([]byte("meta"))
		keys, err := tx.CreateBucket([]byte("key"))
		if err := errors.Join(none, err); err != nil {
			return err
		}
		kv := mvccpb.KeyValue{
			Key: []byte("/registry/configmaps/shop/prices"), CreateRevision: 5, ModRevision: 5, Version: 1,
			Value: []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"prices","namespace":"shop"},"data":{"tea":"2"}}`),
		}
		data, err := kv.Marshal()
		revision := binary.BigEndian.AppendUint64(append(binary.BigEndian.AppendUint64(nil, 5), '_'), 0)
		return errors.Join(err, keys.Put(revision, data))
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	taken := time.Date(2026, 11, 25, 3, 17, 0, 0, time.UTC)
	e := model.Entry{Format: model.Format, ID: model.NewID("cp-1", taken), Site: "shop.example.com", Host: "cp-1", Taken: taken, Database: model.Database{Revision: 5}}
	var tar bytes.Buffer
	if err := archive.Write(t.Context(), &tar, e, snapshot, files); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, e.ID+model.ArchiveSuffix)
	if err := os.WriteFile(file, tar.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// looksBehind is an output that looks, at its first write, what is in a folder.
type looksBehind struct {
	bytes.Buffer
	dir  string
	left []os.DirEntry
	err  error
}

func (l *looksBehind) Write(data []byte) (int, error) {
	if l.Len() == 0 {
		l.left, l.err = os.ReadDir(l.dir)
	}
	return l.Buffer.Write(data)
}

// Whoever reads the output may end the program by it, or keep it waiting for hours.
func TestTheDatabaseOfABackupIsGoneBeforeAnythingOfItIsPrinted(t *testing.T) {
	file := backupOfShop(t)
	for _, line := range []string{"inspect", "inspect configmap/prices", "inspect -o json", "extract configmap/prices -o -", "diff " + file} {
		scratch := t.TempDir()
		out, errs := &looksBehind{dir: scratch}, &bytes.Buffer{}
		verb, args, _ := strings.Cut(line, " ")
		code := Run(t.Context(), Streams{In: strings.NewReader(""), Out: out, Err: errs}, append([]string{"backup", verb, file, "--scratch", scratch}, strings.Fields(args)...))
		if code != ExitOK || out.Len() == 0 || out.err != nil || len(out.left) > 0 {
			t.Errorf("%s: exit code %d, %v lies there, %v: %s%s", line, code, out.left, out.err, out.String(), errs)
		}
	}
}

func TestTheFolderOfManifestsAppearsWholeAndForItsOwnerAlone(t *testing.T) {
	above := t.TempDir()
	dir := filepath.Join(above, "shop-objects")
	if err := os.Mkdir(dir, 0o755); err != nil { // an empty one may be there
		t.Fatal(err)
	}
	name := "till:" + strings.Repeat("x", 300)
	o := objects.Object{Kind: objects.Kind{Resource: "roles"}, Name: name, Content: map[string]any{"kind": "Role"}}
	if err := writeManifests(dir+"/", []objects.Object{o, o}); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]os.FileMode{dir: 0o700, filepath.Join(dir, "0001-"+("roles-till_" + name[5:])[:200]+".yaml"): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v", path, err)
		}
	}
	if err := writeManifests(dir, []objects.Object{o}); err == nil {
		t.Error("a folder with manifests was overwritten")
	}
	if left, err := os.ReadDir(above); err != nil || len(left) != 1 {
		t.Errorf("beside it lies %v, %v", left, err)
	}
}
