package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
	"sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/page"
	"github.com/holdfast/holdfast/internal/decide/standing"
)

// watching shows views as they arrive. It redraws a terminal; elsewhere, and
// for programs, it appends the changes.
type watching struct {
	out    io.Writer
	format string
	// size returns the size of the terminal; nil if there is none.
	size func() (width, height int, err error)
	last *standing.View
}

func newWatching(out io.Writer, format string) *watching {
	w := &watching{out: out, format: format}
	if f, ok := out.(*os.File); ok && command.IsTerminal(out) && (format == "text" || format == "wide") {
		w.size = func() (int, int, error) { return term.GetSize(int(f.Fd())) }
	}
	return w
}

// Escape sequences of terminals: the alternate screen without a cursor, and
// back; the top; the rest of a line; the rest of the screen.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l"
	leaveScreen = "\x1b[?25h\x1b[?1049l"
	toTop       = "\x1b[H"
	endOfLine   = "\x1b[K"
	endOfScreen = "\x1b[J"
)

// run watches until it is interrupted, which is the normal end. The last view
// stays on the terminal.
func (w *watching) run(ctx context.Context, look viewReader, every time.Duration) error {
	if w.size != nil {
		w.print(enterScreen)
		defer func() {
			w.print(leaveScreen)
			if w.last != nil {
				_ = printView(w.out, w.format, *w.last) // nobody is left to read an error
			}
		}()
	}
	for {
		v, err := look(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		if err := w.show(v); err != nil {
			return err
		}
		if host.Sleep(ctx, every) != nil {
			return nil
		}
	}
}

func (w *watching) print(text string) { _, _ = io.WriteString(w.out, text) }

func (w *watching) show(v standing.View) error {
	before := w.last
	w.last = &v
	if w.size != nil {
		return w.redraw(v)
	}
	if before == nil {
		return w.whole(v)
	}
	changes := standing.Changes(*before, v)
	if len(changes) == 0 {
		return nil
	}
	if w.format == "json" || w.format == "yaml" {
		return w.whole(v)
	}
	for _, c := range changes {
		if _, err := fmt.Fprintf(w.out, "%s %s\n", v.At.UTC().Format("15:04:05Z"), page.Printable(c)); err != nil {
			return err
		}
	}
	return nil
}

// whole writes a view as one line of JSON, one document of YAML, or the text.
func (w *watching) whole(v standing.View) error {
	switch w.format {
	case "json":
		return json.NewEncoder(w.out).Encode(v)
	case "yaml":
		b, err := yaml.Marshal(v)
		if err == nil {
			_, err = w.out.Write(append([]byte("---\n"), b...))
		}
		return err
	}
	return printView(w.out, w.format, v)
}

// redraw overwrites the shown view. It leaves out the lines that do not fit on
// the terminal, and prints their number.
func (w *watching) redraw(v standing.View) error {
	lines := strings.Split(strings.TrimRight(standing.Text(v, page.Style{Colour: true, Wide: w.format == "wide"}), "\n"), "\n")
	if _, height, err := w.size(); err == nil && height > 1 && len(lines) >= height {
		more := len(lines) - height + 2
		lines = append(lines[:height-2], fmt.Sprintf("(%d more lines: holdfast status)", more))
	}
	_, err := io.WriteString(w.out, toTop+strings.Join(lines, endOfLine+"\n")+endOfLine+"\n"+endOfScreen)
	return err
}
