package act

import "sync"

// single runs one thing at a time beside its caller.
type single struct {
	mu   sync.Mutex
	busy bool
	err  error
}

// begin starts do unless it runs already, and returns how it ended last time.
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
