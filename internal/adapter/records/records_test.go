package records

import (
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/model/state"
)

var (
	moment     = time.Unix(1000, 0).UTC()
	etcdRecord = state.EtcdRecord{State: state.EtcdSole, Seq: 7, Cluster: 0xc, Member: 0xa, Written: moment}
	parameters = state.EtcdParameters{
		Nodes:       map[string]netip.Addr{"cp-1": netip.MustParseAddr("10.0.0.1"), "cp-2": netip.MustParseAddr("fd00::2")},
		PodManifest: "/m", BackupDir: "/b", Backups: 3, OOM: -997,
	}
	wish    = state.EtcdWishNote{Wish: state.EtcdStarted, At: time.Second, Boot: "b"}
	proof   = state.EtcdFenced{Target: "cp-2", State: "Off", Boot: "b", At: 5}
	word    = state.Confirmation{Who: "ops", Why: "burnt", Boot: "b", At: 7}
	fence   = state.FenceEntry{Time: moment, Target: "cp-2", By: "cp-1", Action: "reboot", Off: true, Detail: "the BMC says Off", Requests: 1}
	confirm = state.ConfirmationEntry{Time: moment, Host: "cp-1", Peer: "cp-2", Who: "ops", Why: "burnt", Power: "unknown: mute", Rule: "lead.ask", Record: state.EtcdPair, Boot: "b", At: 7}
)

// known returns the value of a fact that must be known.
func known[T any](f state.Fact[T], err error) (any, error) {
	if err == nil && !f.Known {
		err = fs.ErrNotExist
	}
	return f.Value, err
}

// kind is one file of the protocol.
type kind struct {
	path string
	// mode is the mode of the file, and folder is the mode of the folder in
	// which it is first written.
	mode, folder os.FileMode
	// text is the content that hosts have: files of earlier releases must stay
	// readable as long as hosts are upgraded.
	text  string
	write func(Files) error
	read  func(Files) (any, error)
	want  any
}

var kinds = map[string]kind{
	"record": {
		state.EtcdRecordPath, 0o600, 0o755,
		`{"version":1,"sha256":"dfd98ce3e70f596014c494b2f764b9d4ff4a95bf6e7ede8a418db4df860368db","record":{"state":"sole","seq":7,"cluster":"c","member":"a","written":"1970-01-01T00:16:40Z"}}` + "\n",
		func(f Files) error { return f.WriteRecord(etcdRecord) }, func(f Files) (any, error) { return f.Record() }, etcdRecord,
	},
	"parameters": {
		state.EtcdParametersPath, 0o644, 0o755,
		"{\n  \"nodes\": {\n    \"cp-1\": \"10.0.0.1\",\n    \"cp-2\": \"fd00::2\"\n  },\n  \"podManifest\": \"/m\",\n  \"backupDir\": \"/b\",\n  \"backups\": 3,\n  \"oom\": -997\n}\n",
		func(f Files) error { return f.WriteParameters(parameters) }, func(f Files) (any, error) { return known(f.Parameters()) }, parameters,
	},
	"wish": {
		state.EtcdWishPath, 0o600, 0o700, `{"wish":"started","at":1000000000,"boot":"b"}`,
		func(f Files) error { return f.WriteWish(wish) }, func(f Files) (any, error) { return f.Wish("b"), nil }, wish,
	},
	"proof": {
		state.FencedDir + "/cp-2.json", 0o600, 0o755, `{"target":"cp-2","state":"Off","boot":"b","at":5}` + "\n",
		func(f Files) error { return f.WriteFenced(proof) }, func(f Files) (any, error) { return known(f.Fenced("cp-2")) }, proof,
	},
	"confirmation": {
		state.EtcdConfirmationPath, 0o600, 0o755, `{"who":"ops","why":"burnt","boot":"b","at":7}` + "\n",
		func(f Files) error { return f.WriteConfirmation(word) }, func(f Files) (any, error) { return known(f.Confirmation()) }, word,
	},
	"device": {
		state.FencingDir + "/cp-1.json", 0o600, 0o700,
		"{\n  \"target\": \"cp-1\",\n  \"address\": \"https://10.99.0.111/redfish/v1/Systems/1\",\n  \"username\": \"admin\",\n  \"password\": \"hush\"\n}\n",
		func(f Files) error { _, err := f.WriteDevice(device); return err }, func(f Files) (any, error) { return f.Device("cp-1") }, device,
	},
	"history of fences": {
		state.FencingHistoryPath, 0o600, 0o700,
		`{"time":"1970-01-01T00:16:40Z","target":"cp-2","by":"cp-1","action":"reboot","off":true,"detail":"the BMC says Off","requests":1,"phases":{"identify":0,"total":0}}` + "\n",
		func(f Files) error { return f.AppendFence(fence) }, func(f Files) (any, error) { return f.Fences() },
		[]state.FenceEntry{fence},
	},
	"record of confirmations": {
		state.ConfirmationsPath, 0o600, 0o700,
		`{"time":"1970-01-01T00:16:40Z","host":"cp-1","peer":"cp-2","who":"ops","why":"burnt","force":false,"power":"unknown: mute","rule":"lead.ask","record":"pair","boot":"b","at":7}` + "\n",
		func(f Files) error { return f.AppendConfirmation(confirm) }, func(f Files) (any, error) { return f.Confirmations() },
		[]state.ConfirmationEntry{confirm},
	},
}

func put(t *testing.T, files Files, path, text string) {
	t.Helper()
	if err := host.WriteFileAtomic(files.Path(path), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

var sameAddress = cmp.Comparer(func(a, b netip.Addr) bool { return a == b })

func TestAFileHasItsPlaceItsFormAndItsReaders(t *testing.T) {
	for name, k := range kinds {
		files := Files{Root: t.TempDir()}
		if err := k.write(files); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		path := files.Path(k.path)
		if data, err := os.ReadFile(path); err != nil || string(data) != k.text {
			t.Errorf("%s: %q, %v", name, data, err)
		}
		for p, want := range map[string]os.FileMode{path: k.mode, filepath.Dir(path): k.folder} {
			if info, err := os.Stat(p); err != nil || info.Mode().Perm() != want {
				t.Errorf("%s: %s has mode %v, %v", name, p, info.Mode(), err)
			}
		}
		if got, err := k.read(files); err != nil || !cmp.Equal(got, k.want, sameAddress) {
			t.Errorf("%s: read %+v, %v", name, got, err)
		}
	}
}

func TestAFileOfBeforeIsRead(t *testing.T) {
	for name, k := range kinds {
		files := Files{Root: t.TempDir()}
		put(t, files, k.path, k.text)
		if got, err := k.read(files); err != nil || !cmp.Equal(got, k.want, sameAddress) {
			t.Errorf("%s: read %+v, %v", name, got, err)
		}
	}
	files := Files{Root: t.TempDir()}
	put(t, files, state.EtcdParametersPath, `{"nodes":{"cp-1":"10.0.0.1","cp-2":"10.0.0.2"}}`)
	if p, err := files.Parameters(); err != nil || p.Value.OOM != -997 || p.Value.Backups != 3 || p.Value.PodManifest == "" {
		t.Errorf("what an older release did not know has no default: %+v, %v", p, err)
	}
}

// replaced reports whether the file of a kind is replaced as a whole; others
// grow.
func replaced(k kind) bool { return !strings.HasSuffix(k.path, ".jsonl") }

func TestAFileThatIsHalfWrittenIsAnErrorThatNamesIt(t *testing.T) {
	for name, k := range kinds {
		if !replaced(k) || name == "wish" {
			continue
		}
		for _, text := range []string{"", k.text[:len(k.text)/2], "\x00\x00\x00"} {
			files := Files{Root: t.TempDir()}
			put(t, files, k.path, text)
			if got, err := k.read(files); err == nil || !strings.Contains(err.Error(), files.Path(k.path)) || strings.Contains(err.Error(), "hush") {
				t.Errorf("%s of %q: %+v, %v", name, text, got, err)
			}
		}
	}
}

func TestAWishThatIsHalfWrittenOrOfAnotherBootIsNone(t *testing.T) {
	for _, text := range []string{"", `{"wish":"star`, `{"wish":"started","at":1,"boot":"a"}`} {
		files := Files{Root: t.TempDir()}
		put(t, files, state.EtcdWishPath, text)
		if got := files.Wish("b"); got != (state.EtcdWishNote{Wish: state.EtcdNotAsked, Boot: "b"}) {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

func TestARecordOfAnotherVersionIsNotUnderstood(t *testing.T) {
	for text, want := range map[string]string{
		strings.Replace(kinds["record"].text, `"version":1`, `"version":2`, 1): "install the version that wrote it",
		strings.Replace(kinds["record"].text, `"seq":7`, `"seq":8`, 1):         "checksum",
	} {
		files := Files{Root: t.TempDir()}
		put(t, files, state.EtcdRecordPath, text)
		if r, err := files.Record(); err == nil || !strings.Contains(err.Error(), want) || !files.HasRecord() {
			t.Errorf("%+v, %v", r, err)
		}
	}
}

// A write that fails leaves what was there, here a folder, and no other file
// beside it.
func TestAWriteThatFailsLeavesNothingBehind(t *testing.T) {
	for name, k := range kinds {
		if !replaced(k) {
			continue
		}
		files := Files{Root: t.TempDir()}
		path := files.Path(k.path)
		if err := os.MkdirAll(filepath.Join(path, "in the way"), 0o700); err != nil { // no file can be renamed over it
			t.Fatal(err)
		}
		if err := k.write(files); err == nil {
			t.Errorf("%s: it was written", name)
		}
		entries, err := os.ReadDir(filepath.Dir(path))
		if err != nil || len(entries) != 1 || !entries[0].IsDir() {
			t.Errorf("%s: %v, %v", name, entries, err)
		}
	}
}

func TestWhatIsNotThereIsNotKnown(t *testing.T) {
	files := Files{Root: t.TempDir()}
	for name, k := range kinds {
		got, err := k.read(files)
		missing := name == "device" || name == "parameters" || name == "proof" || name == "confirmation"
		if cmp.Equal(got, k.want, sameAddress) || (err != nil) != missing {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	if r, err := files.Record(); err != nil || r.State != state.EtcdNone {
		t.Errorf("%+v, %v", r, err)
	}
	if proofs, err := files.AllFenced(); proofs != nil || err != nil || files.HasRecord() {
		t.Errorf("%v, %v", proofs, err)
	}
	if targets, err := files.Targets(); targets != nil || err != nil {
		t.Errorf("%v, %v", targets, err)
	}
}

func TestEvidenceIsReadFromItsFiles(t *testing.T) {
	files := Files{Root: t.TempDir()}
	for name, text := range map[string]string{
		"cp-2.json":  kinds["proof"].text,
		"cp-3.json":  `{"tar`,
		".cp-2.tmp1": `{`,
	} {
		put(t, files, state.FencedDir+"/"+name, text)
	}
	all, err := files.AllFenced()
	if len(all) != 1 || all[0] != proof || err == nil || !strings.Contains(err.Error(), "cp-3.json") {
		t.Errorf("%+v, %v", all, err)
	}
	if one, err := files.Fenced("cp-2"); err != nil || one.Value != all[0] {
		t.Errorf("who asks for one proof is told another: %+v, %v", one, err)
	}
}

func TestBothReadersOfTheHistoryCountTheSame(t *testing.T) {
	files := Files{Root: t.TempDir()}
	for _, off := range []bool{true, false, true} {
		e := fence
		e.Off = off
		if err := files.AppendFence(e); err != nil {
			t.Fatal(err)
		}
	}
	var sums FenceSums
	watched, errWatched := sums.Of(files)
	totals, err := files.FenceTotals()
	if got := totals["cp-2"]; err != nil || errWatched != nil || got.Proven != 2 || got.Failed != 1 || !cmp.Equal(totals, watched) {
		t.Errorf("%+v, %+v, %v, %v", totals, watched, err, errWatched)
	}
}
