package bmc

import (
	"crypto/rand"
	"slices"
	"strconv"
	"sync"
	"time"
)

const (
	// sessionLimit is the number of sessions that may be open at once, as on
	// common controllers.
	sessionLimit = 8
	// defaultSessionTimeout is the time after which an unused session is
	// closed.
	defaultSessionTimeout = 30 * time.Minute
)

type session struct {
	id, token string
	used      time.Time
}

// sessions holds the open sessions.
type sessions struct {
	mu   sync.Mutex
	next int
	open []session
}

// create opens a session unless limit of them are open.
func (s *sessions) create(now time.Time, timeout time.Duration, limit int) (session, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire(now, timeout)
	if len(s.open) >= limit {
		return session{}, false
	}
	s.next++
	opened := session{id: strconv.Itoa(s.next), token: rand.Text(), used: now}
	s.open = append(s.open, opened)
	return opened, true
}

// use reports whether a token belongs to an open session, and keeps that
// session open.
func (s *sessions) use(token string, now time.Time, timeout time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire(now, timeout)
	i := slices.IndexFunc(s.open, func(o session) bool { return o.token == token })
	if i < 0 {
		return false
	}
	s.open[i].used = now
	return true
}

// remove closes a session and reports whether it was open.
func (s *sessions) remove(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := len(s.open)
	s.open = slices.DeleteFunc(s.open, func(o session) bool { return o.id == id })
	return len(s.open) < before
}

// ids lists the open sessions.
func (s *sessions) ids(now time.Time, timeout time.Duration) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire(now, timeout)
	ids := make([]string, 0, len(s.open))
	for _, o := range s.open {
		ids = append(ids, o.id)
	}
	return ids
}

func (s *sessions) expire(now time.Time, timeout time.Duration) {
	s.open = slices.DeleteFunc(s.open, func(o session) bool { return now.Sub(o.used) >= timeout })
}
