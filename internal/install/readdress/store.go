package readdress

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/holdfast/holdfast/internal/adapter/host"
	decide "github.com/holdfast/holdfast/internal/decide/readdress"
	"github.com/holdfast/holdfast/internal/model/state"
)

// The files of a plan on a host.
const (
	PlanPath = Dir + "/plan.json"
	// DoingPath says what the agent does, or waits for, for people and commands.
	DoingPath = "/run/holdfast/readdress.json"
)

// Store reads and writes the files of one host.
type Store struct{ Root string }

func (s Store) path(name string) string { return filepath.Join("/", s.Root, name) }

// kept is a plan with its journal: one file, so that no journal is ever beside another plan.
type kept struct {
	Plan    *decide.Plan   `json:"plan"`
	Journal decide.Journal `json:"journal"`
}

// Load returns the plan of the host and how far it is, nil for none.
func (s Store) Load() (*decide.Plan, decide.Journal, error) { return load(s.path(PlanPath)) }

func load(path string) (*decide.Plan, decide.Journal, error) {
	var k kept
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, k.Journal, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &k)
	}
	if err != nil {
		return nil, k.Journal, fmt.Errorf("%s: %w", PlanPath, err)
	}
	return k.Plan, k.Journal, nil
}

// Put keeps a plan. The caller must know that the one before is over, or has changed nothing.
func (s Store) Put(p decide.Plan, j decide.Journal) error {
	return s.alone(func() error { return s.put(p, j) })
}

func (s Store) put(p decide.Plan, j decide.Journal) error {
	data, err := json.MarshalIndent(kept{&p, j}, "", "  ")
	if err != nil {
		return err
	}
	return host.WriteFileAtomic(s.path(PlanPath), append(data, '\n'), 0o600)
}

// PutJournal writes how far the plan is.
func (s Store) PutJournal(j decide.Journal) error {
	return s.alone(func() error {
		p, _, err := s.Load()
		if err == nil && p == nil {
			err = ErrGone
		}
		if err != nil {
			return err
		}
		return s.put(*p, j)
	})
}

// ErrGone is the error of a journal whose plan was taken back.
var ErrGone = errors.New("the plan is gone")

// ErrBegun is the error of a plan that has changed something.
var ErrBegun = errors.New("this host has begun to move")

// Replace keeps a plan in place of one that has changed nothing, or is over.
func (s Store) Replace(p decide.Plan, j decide.Journal) error {
	return s.alone(func() error {
		if err := s.forget(); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return s.put(p, j)
	})
}

// Drop removes a plan that has changed nothing, or is over. The agent may begin it in this
// moment: then it stays, and the error is ErrBegun.
func (s Store) Drop() error {
	return s.alone(func() error {
		if err := s.forget(); err != nil {
			return err
		}
		return host.RemoveFile(s.path(PlanPath))
	})
}

// forget removes the copies that a plan has left which is no more: some of them hold keys.
func (s Store) forget() error {
	p, j, err := s.Load()
	switch {
	case err != nil:
		return err
	case p != nil && !j.Free():
		return ErrBegun
	}
	err = os.RemoveAll(s.path(copies))
	if err == nil && p == nil {
		err = fs.ErrNotExist
	}
	return err
}

// alone does what no other program may see half done. The kernel ends it with the program.
func (s Store) alone(do func() error) error {
	dir := s.path(Dir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // it was opened for the lock alone
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", Dir, err)
	}
	return do()
}

// Annotation is the annotation of a node with what its host says of a plan, as Doing.
const Annotation = state.AnnotationDomain + "readdress"

// Doing is what the agent does, or waits for.
type Doing struct {
	Plan string     `json:"plan"`
	Act  decide.Act `json:"act"`
	// Words explain it, Problem is the error of the last act.
	Words   string `json:"words"`
	Problem string `json:"problem,omitempty"`
	// Lacks says why the host cannot begin, empty if it can.
	Lacks string `json:"lacks,omitempty"`
	// Local is that of the plan.
	Local bool `json:"local,omitempty"`
	// At is the place whose addresses the host has, Over true once the move has ended here.
	At   decide.Side `json:"at"`
	Over bool        `json:"over,omitempty"`
}

// PutDoing writes what the agent does.
func (s Store) PutDoing(d Doing) error {
	data, err := json.Marshal(d)
	if err != nil {
		return err
	}
	return host.WriteFileAtomic(s.path(DoingPath), append(data, '\n'), 0o644)
}
