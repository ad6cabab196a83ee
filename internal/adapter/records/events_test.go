package records

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast/holdfast/internal/model/state"
)

const program = state.EtcdEvents

func appendOne(t *testing.T, files Files, seq int) {
	t.Helper()
	e := state.Event{Boot: "b", Up: time.Duration(seq) * time.Second, At: time.Unix(1000, 0).UTC(), Kind: state.EventRecord, Seq: uint64(seq), Why: strings.Repeat("why ", 250)}
	if err := files.AppendEvents(program, []state.Event{e}); err != nil {
		t.Error(err)
	}
}

func seqs(t *testing.T, files Files) (out []int) {
	t.Helper()
	events, err := files.Events(program)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		out = append(out, int(e.Seq))
	}
	return out
}

// TestEventsAreBoundedAndOnlyTheOldestAreLost writes four times as much as is kept.
func TestEventsAreBoundedAndOnlyTheOldestAreLost(t *testing.T) {
	files := Files{Root: t.TempDir()}
	const times = 1000
	for seq := 1; seq <= times; seq++ {
		appendOne(t, files, seq)
		if seq%97 != 0 && seq != times {
			continue
		}
		got := seqs(t, files)
		if got[len(got)-1] != seq || len(got) < min(seq, 200) {
			t.Fatalf("after %d there are %d, the last is %d", seq, len(got), got[len(got)-1])
		}
		for i, s := range got {
			if s != got[0]+i {
				t.Fatalf("after %d: %d follows %d", seq, s, got[i-1])
			}
		}
	}
	entries, err := os.ReadDir(files.Path(state.EventsDir))
	if err != nil || len(entries) != 2 {
		t.Fatalf("%v, %v", entries, err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err != nil || info.Size() > maxEvents+8<<10 || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", e.Name(), info, err)
		}
	}
}

// TestAReaderLacksNoEventWhileAFileIsRenewed reads while a writer appends.
func TestAReaderLacksNoEventWhileAFileIsRenewed(t *testing.T) {
	files := Files{Root: t.TempDir()}
	const times = 1000
	appendOne(t, files, 1)
	var written atomic.Int64
	var writer sync.WaitGroup
	defer writer.Wait()
	writer.Go(func() {
		for seq := 2; seq <= times; seq++ {
			appendOne(t, files, seq)
			written.Store(int64(seq))
		}
	})
	for last := 0; last < times; {
		known := map[int]bool{}
		least, most := 0, 0
		before := written.Load()
		found := seqs(t, files)
		if written.Load()-before > 200 {
			continue // on a busy machine a file may be renewed twice within one look, which no host does
		}
		for _, s := range found {
			known[s] = true
			if least == 0 || s < least {
				least = s
			}
			most = max(most, s)
		}
		if most < last || most-least+1 != len(known) {
			t.Errorf("%d events from %d to %d, after %d had been there", len(known), least, most, last)
			return
		}
		last = most
	}
}

func TestALineThatAPowerCutLeftDoesNotSpoilTheEvents(t *testing.T) {
	for name, left := range map[string]string{"a part of a line": `{"kind":"rec`, "zeros": "\x00\x00\x00", "another form": "7\n", "an empty line": "\n"} {
		files := Files{Root: t.TempDir()}
		for seq := 1; seq <= 3; seq++ {
			appendOne(t, files, seq)
			f, err := os.OpenFile(files.eventsPath(program), os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			_, err = f.WriteString(left)
			if err := errors.Join(err, f.Close()); err != nil {
				t.Fatal(err)
			}
		}
		if got := fmt.Sprint(seqs(t, files)); got != "[1 2 3]" {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// TestAFullDiskTakesNoPartOfAnEvent lets the kernel's limit on file sizes end a write in its
// middle.
func TestAFullDiskTakesNoPartOfAnEvent(t *testing.T) {
	if path := os.Getenv("HOLDFAST_FULL_DISK"); path != "" {
		fillUp(t, Files{Root: path})
		return
	}
	files := Files{Root: t.TempDir()}
	appendOne(t, files, 1)
	before, err := os.ReadFile(files.eventsPath(program))
	if err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+t.Name()+"$") // the limit applies to the whole process
	child.Env = append(os.Environ(), "HOLDFAST_FULL_DISK="+files.Root)
	if out, err := child.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if after, err := os.ReadFile(files.eventsPath(program)); err != nil || string(after) != string(before) {
		t.Errorf("%d bytes became %d, %v", len(before), len(after), err)
	}
	appendOne(t, files, 2)
	if got := fmt.Sprint(seqs(t, files)); got != "[1 2]" {
		t.Errorf("%s", got)
	}
}

// fillUp appends an event where only a part of its line fits.
func fillUp(t *testing.T, files Files) {
	info, err := os.Stat(files.eventsPath(program))
	if err != nil {
		t.Fatal(err)
	}
	signal.Ignore(unix.SIGXFSZ)
	room := uint64(info.Size()) + 10
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: room, Max: room}); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if err := files.AppendEvents(program, []state.Event{{Kind: state.EventWish, Wish: state.EtcdStopped}}); err == nil {
			t.Error("it is said to be written")
		}
	}
}

func TestNoEventsAreNoMistake(t *testing.T) {
	files := Files{Root: t.TempDir()}
	if got := seqs(t, files); got != nil {
		t.Errorf("%v", got)
	}
	if err := os.MkdirAll(files.eventsPath(program), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := files.Events(program); err == nil || !strings.Contains(err.Error(), "events of podman-etcd") {
		t.Errorf("a folder in their place: %v", err)
	}
}
