package operator

import (
	"bytes"
	"io"
	"strings"
	"sync"
)

// cleaner passes on whole lines without the secrets in them. A step itself shows
// none, but it does not control what a BMC answers.
type cleaner struct {
	to   io.Writer
	hide *strings.Replacer
	rest []byte
}

func (c *cleaner) Write(p []byte) (int, error) {
	c.rest = append(c.rest, p...)
	end := bytes.LastIndexByte(c.rest, '\n') + 1
	if end == 0 {
		return len(p), nil
	}
	lines := c.hide.Replace(string(c.rest[:end]))
	c.rest = append(c.rest[:0], c.rest[end:]...)
	if _, err := io.WriteString(c.to, lines); err != nil {
		return 0, err
	}
	return len(p), nil
}

// flush passes on a last line that lacks its end.
func (c *cleaner) flush() {
	if len(c.rest) > 0 {
		_, _ = io.WriteString(c.to, c.hide.Replace(string(c.rest))+"\n") // nobody is left to tell
	}
}

// shared lets both streams of a process write to one place.
type shared struct {
	mu sync.Mutex
	to io.Writer
}

func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.to.Write(p)
}
