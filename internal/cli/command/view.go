package command

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/decide/page"
)

// View shows the activity of hosts. On a terminal it redraws one line per host;
// elsewhere it prints a line for each change.
type View struct {
	out   io.Writer
	live  bool
	lines int
	last  map[string]string
}

// ViewLine is one host and its activity in a few words.
type ViewLine struct{ Host, Doing string }

// NewView returns an empty view.
func NewView(out io.Writer) *View {
	return &View{out: out, live: IsTerminal(out), last: map[string]string{}}
}

// Show shows the activity of the hosts, at a time since the begin.
func (v *View) Show(hosts []ViewLine, since time.Duration) {
	if v.live {
		v.redraw(hosts, since)
		return
	}
	for _, h := range hosts {
		if v.last[h.Host] != h.Doing {
			v.last[h.Host] = h.Doing
			_, _ = io.WriteString(v.out, page.Printable(fmt.Sprintf("%6.1fs %-10s %s\n", since.Seconds(), h.Host, h.Doing)))
		}
	}
}

// maxLine keeps the lines of the live view from wrapping, which would break the
// redrawing.
const maxLine = 76

func (v *View) redraw(hosts []ViewLine, since time.Duration) {
	var text strings.Builder
	if v.lines > 0 {
		fmt.Fprintf(&text, "\x1b[%dA", v.lines)
	}
	for _, h := range hosts {
		doing := strings.Join(strings.Fields(h.Doing), " ") // an error may have several lines
		line := []rune(page.Printable(fmt.Sprintf("%6.1fs %-10s %s", since.Seconds(), h.Host, doing)))
		fmt.Fprintf(&text, "\r\x1b[K%s\n", string(line[:min(len(line), maxLine)]))
	}
	for range v.lines - len(hosts) {
		text.WriteString("\r\x1b[K\n")
	}
	v.lines = max(v.lines, len(hosts))
	_, _ = io.WriteString(v.out, text.String())
}

// End keeps the shown lines on the terminal.
func (v *View) End() { v.lines = 0 }
