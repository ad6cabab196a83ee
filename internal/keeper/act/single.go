package act

import "sync"

// single runs one function at a time beside its caller.
type single struct {
	mu   sync.Mutex
	busy bool
	err  error
}

// begin starts do unless one still runs, and returns the error of the last run.
func (s *single) begin(do func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy {
		return nil
	}
	last := s.err
	s.busy, s.err = true, nil
	go func() {
		err := do()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.busy, s.err = false, err
	}()
	return last
}
