package loop

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/pace"
)

var errEnded = errors.New("it ended by itself")

// entry is a task and how it is doing.
type entry struct {
	Task
	state state.Loop // guarded by Loops.mu
	hung  bool       // that it hangs was told; guarded by Loops.mu

	telling sync.Mutex // a watch may call works from anywhere
	trouble pace.Trouble
}

// register takes in a task. A name that is taken is a fault in the program.
func (l *Loops) register(t Task) *entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := t.Part + "/" + t.Name
	if l.entries[key] != nil {
		panic("two loops are called " + key)
	}
	e := &entry{Task: t, state: state.Loop{Name: t.Name}}
	e.trouble = pace.Trouble{Log: l.Log.With("loop", t.Name), Now: l.Now}
	l.entries[key] = e
	return e
}

func (l *Loops) begin(e *entry, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.state.Since = at
}

// interrupted takes in that the agent ended a run: that is neither good nor bad.
func (l *Loops) interrupted(e *entry, changed string) {
	l.begin(e, time.Time{})
	if changed != "" {
		l.Log.Info(changed, "loop", e.Name)
	}
}

// ended takes in how a run went, and tells what is new.
func (l *Loops) ended(e *entry, began time.Time, changed string, err error) {
	notYet := err != nil && e.NotYet != nil && e.NotYet(err)
	l.mu.Lock()
	before := e.state
	e.state.Ran(began, l.Now(), changed)
	if !notYet {
		e.state.Met(l.Now(), err)
	}
	e.hung = false
	followers := l.followers[e.Part]
	if e.silent || changed == "" && e.state.Error == before.Error {
		followers = nil
	}
	l.mu.Unlock()
	if changed != "" {
		l.Log.Info(changed, "loop", e.Name)
	}
	if !notYet {
		e.hear(err)
	}
	for _, f := range followers {
		f.Kick()
	}
}

func (e *entry) hear(err error) {
	e.telling.Lock()
	defer e.telling.Unlock()
	e.trouble.Hear(err)
}

// Follow returns a kick that is given whenever a task of a part changed
// something, failed or recovered.
func (l *Loops) Follow(part string) Kick {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := NewKick()
	l.followers[part] = append(l.followers[part], k)
	return k
}

// States returns how each task of a part is doing, by name.
func (l *Loops) States(part string) []state.Loop {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := []state.Loop{}
	for _, e := range l.entries {
		if e.Part == part {
			s := e.state
			s.Hangs = l.hangs(e)
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b state.Loop) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// hangs reports whether a run lasts longer than it may and has not heeded its
// context either.
func (l *Loops) hangs(e *entry) bool {
	return e.Limit > 0 && !e.state.Since.IsZero() && l.Now().Sub(e.state.Since) > e.Limit+e.Limit/2
}

// Hung returns the name of a task that hangs and for which the process is to be
// started anew, empty where there is none. It tells of others.
func (l *Loops) Hung() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	found := ""
	for _, e := range l.entries {
		switch {
		case !l.hangs(e):
		case !e.Spared:
			found = e.Name
		case !e.hung:
			e.hung = true
			l.Log.Error("hangs; the others go on", "loop", e.Name, "since", e.state.Since)
		}
	}
	return found
}

// File is the task that keeps a file of how all loops are doing that are of no
// part.
func (l *Loops) File(path string) Task {
	return File("status of the loops", l.Follow(""), func() error {
		data, err := json.Marshal(state.LoopsStatus{At: l.Now(), Loops: l.States("")})
		if err != nil {
			return err
		}
		return host.WriteFileAtomic(path, append(data, '\n'), state.DefaultFileMode)
	})
}

// File is the task that keeps a file below /run as it is now: whenever it is
// woken, and every now and then, so that who reads it sees that the agent lives.
func File(name string, wake Kick, write func() error) Task {
	return Task{
		Name: name, Wake: wake, Apart: filePause, Every: FileEvery, Limit: fileLimit, silent: true,
		Step: func(context.Context) (Result, error) { return Result{}, write() },
	}
}

const (
	// filePause makes many changes one file.
	filePause = 100 * time.Millisecond
	// FileEvery is the greatest age of a file while the agent works.
	FileEvery = 30 * time.Second
	fileLimit = time.Minute
)
