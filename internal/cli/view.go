package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
)

// view shows what hosts are doing: on a terminal a line per host that is
// redrawn, elsewhere a line for each change.
type view struct {
	out   io.Writer
	live  bool
	lines int
	last  map[string]string
}

// viewLine is one host and what it does, in a few words.
type viewLine struct{ host, doing string }

func newView(out io.Writer) *view {
	f, ok := out.(*os.File)
	return &view{out: out, live: ok && term.IsTerminal(int(f.Fd())), last: map[string]string{}}
}

func (v *view) show(hosts []viewLine, since time.Duration) {
	if v.live {
		v.redraw(hosts, since)
		return
	}
	for _, h := range hosts {
		if v.last[h.host] != h.doing {
			v.last[h.host] = h.doing
			_, _ = fmt.Fprintf(v.out, "%6.1fs %-10s %s\n", since.Seconds(), h.host, h.doing)
		}
	}
}

// maxLine keeps a line of the live view from wrapping, which would break the
// redrawing.
const maxLine = 76

func (v *view) redraw(hosts []viewLine, since time.Duration) {
	var text strings.Builder
	if v.lines > 0 {
		fmt.Fprintf(&text, "\x1b[%dA", v.lines)
	}
	for _, h := range hosts {
		doing := strings.Join(strings.Fields(h.doing), " ") // an error may have several lines
		line := []rune(fmt.Sprintf("%6.1fs %-10s %s", since.Seconds(), h.host, doing))
		fmt.Fprintf(&text, "\r\x1b[K%s\n", string(line[:min(len(line), maxLine)]))
	}
	for range v.lines - len(hosts) {
		text.WriteString("\r\x1b[K\n")
	}
	v.lines = max(v.lines, len(hosts))
	_, _ = io.WriteString(v.out, text.String())
}

func (v *view) end() { v.lines = 0 }
