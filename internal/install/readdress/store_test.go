package readdress

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/holdfast/holdfast/internal/adapter/host"
	decide "github.com/holdfast/holdfast/internal/decide/readdress"
)

// leaves puts a copy of a file, which may hold a key, where a plan leaves it.
func (s Store) leaves(t *testing.T) {
	t.Helper()
	must(t, os.MkdirAll(s.path(copies), 0o700))
	must(t, os.WriteFile(filepath.Join(s.path(copies), "admin.conf"), []byte("key"), 0o600))
}

// TestAPlanIsTakenBackWhileNothingHasBegun, with the copies that a host has which was carried back.
func TestAPlanIsTakenBackWhileNothingHasBegun(t *testing.T) {
	p := move(t)
	announced := decide.Announced(p.From.Hosts["cp-1"])
	for sentence, c := range map[string]struct {
		journal decide.Journal
		begun   bool
	}{
		"it is announced":  {announced, false},
		"it is over":       {announced.Begun(decide.To, nil).Arrived().Ended(), false},
		"the host moves":   {announced.Begun(decide.To, nil), true},
		"the host arrived": {announced.Begun(decide.To, nil).Arrived(), true},
		"etcd was told":    {announced.ToldAt(decide.To), true},
	} {
		next := p
		next.ID = "m2"
		for what, do := range map[string]func(Store) error{
			"dropped": Store.Drop, "replaced": func(s Store) error { return s.Replace(next, announced) },
		} {
			s := Store{Root: t.TempDir()}
			must(t, s.Put(p, c.journal))
			s.leaves(t)
			err := do(s)
			if errors.Is(err, ErrBegun) != c.begun || err != nil && !c.begun {
				t.Errorf("%s, %s: %v", sentence, what, err)
			}
			plan, j, err := s.Load()
			if must(t, err); (plan != nil && plan.ID == p.ID) != c.begun || c.begun && j.Free() || what == "replaced" && plan == nil {
				t.Errorf("%s, %s: the plan is %+v, %+v", sentence, what, plan, j)
			}
			if left := host.Exists(s.path(copies)); left != c.begun {
				t.Errorf("%s, %s: its copies are there: %t", sentence, what, left)
			}
		}
	}
	s := Store{Root: t.TempDir()}
	s.leaves(t)
	if err := s.Drop(); !errors.Is(err, fs.ErrNotExist) || host.Exists(s.path(copies)) {
		t.Errorf("without a plan: %v", err)
	}
}

// TestAPlanThatHasBegunIsThereAtEveryMoment while somebody tries to take it back: a power cut would
// leave a host without it between two places.
func TestAPlanThatHasBegunIsThereAtEveryMoment(t *testing.T) {
	p := move(t)
	s := Store{Root: t.TempDir()}
	must(t, s.Put(p, decide.Announced(nil).Begun(decide.To, nil)))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 300 {
			if err := s.Drop(); !errors.Is(err, ErrBegun) {
				t.Errorf("it is taken back: %v", err)
			}
		}
	}()
	for looks := true; looks; {
		select {
		case <-done:
			looks = false
		default:
		}
		if plan, _, err := s.Load(); err != nil || plan == nil {
			t.Fatalf("the plan is %v, %v", plan, err)
		}
	}
}

// TestAPlanThatBeginsWhileItIsTakenBackIsGoneOrBegun, and nothing in between.
func TestAPlanThatBeginsWhileItIsTakenBackIsGoneOrBegun(t *testing.T) {
	p := move(t)
	announced := decide.Announced(nil)
	for range 50 {
		s := Store{Root: t.TempDir()}
		must(t, s.Put(p, announced))
		begun := make(chan error)
		go func() { begun <- s.PutJournal(announced.Begun(decide.To, nil)) }()
		dropped := s.Drop()
		err := <-begun
		plan, j, unread := s.Load()
		must(t, unread)
		switch {
		case dropped == nil && errors.Is(err, ErrGone) && plan == nil:
		case errors.Is(dropped, ErrBegun) && err == nil && plan != nil && !j.Free():
		default:
			t.Fatalf("taken back: %v, begun: %v, the plan is %v", dropped, err, plan)
		}
		list, err := os.ReadDir(s.path(Dir))
		if must(t, err); len(list) > 1 {
			t.Fatalf("left are %v", list)
		}
	}
}
