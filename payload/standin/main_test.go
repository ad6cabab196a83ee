package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/holdfast/holdfast/payload/standin/takeover"
)

// withoutLog returns a data directory whose database has an entry that no log
// holds.
func withoutLog(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(dir, "member/snap"), 0o700))
	db, err := bbolt.Open(filepath.Join(dir, "member/snap/db"), 0o600, nil)
	must(t, err)
	must(t, db.Update(func(tx *bbolt.Tx) error {
		meta, err := tx.CreateBucket([]byte("meta"))
		if err != nil {
			return err
		}
		return meta.Put([]byte("consistent_index"), binary.BigEndian.AppendUint64(nil, 8))
	}))
	must(t, db.Close())
	return dir
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestCommandLine(t *testing.T) {
	unreachable := `{"evidence": "e", "cluster": "1", "target": "2", "survivor": "3",
		"peerURL": "http://127.0.0.1:1", "clientURL": "http://127.0.0.1:1", "deadlineMS": 50}`
	for name, c := range map[string]struct {
		args     []string
		in       string
		code     int
		out, err string
	}{
		"help":                {[]string{"-help"}, "", takeover.ExitDone, "", "Usage:"},
		"version":             {[]string{"-version"}, "", takeover.ExitDone, "3.6.", ""},
		"an unknown flag":     {[]string{"-force"}, "", takeover.ExitUsage, "", "-help"},
		"an argument":         {[]string{"now"}, "", takeover.ExitUsage, "", "-help"},
		"settle without dir":  {[]string{"settle"}, "", takeover.ExitUsage, "", "-help"},
		"settle nothing":      {[]string{"settle", "-data-dir", "/nowhere"}, "", takeover.ExitDone, `"settled":false`, ""},
		"settle a short log":  {[]string{"settle", "-data-dir", withoutLog(t)}, "", takeover.ExitLogShort, "", "index 8"},
		"settle a file":       {[]string{"settle", "-data-dir", "/dev/null"}, "", takeover.ExitRefused, "", "/dev/null"},
		"inspect nothing":     {[]string{"inspect", "-data-dir", "/nowhere"}, "", takeover.ExitDone, `"copy":"none"`, ""},
		"inspect a file":      {[]string{"inspect", "-data-dir", "/dev/null"}, "", takeover.ExitFailed, "", "/dev/null"},
		"inspect without dir": {[]string{"inspect"}, "", takeover.ExitUsage, "", "-help"},
		"a wrong request":     {nil, "{}", takeover.ExitUsage, "", "evidence: name the fence"},
		"no etcd":             {nil, unreachable, takeover.ExitUnfinished, `"reason":"survivor-unreachable"`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			code := run(context.Background(), c.args, strings.NewReader(c.in), &out, &errs)
			if code != c.code || !strings.Contains(out.String(), c.out) || !strings.Contains(errs.String(), c.err) {
				t.Errorf("code %d, stdout %q, stderr %q", code, &out, &errs)
			}
		})
	}
}
