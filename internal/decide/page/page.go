// Package page lays out text for a person at a terminal: titles, wrapped
// paragraphs, labels with text beside them, tables, colours, durations. Status,
// doctor, explain, incidents and quorum write with it. Much of what they show was
// written by other hosts, so nothing but the Style itself manipulates the terminal.
package page

import (
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Style says how text is printed. Its zero value is plain. Plain text loses
// nothing: no meaning is in a colour alone.
type Style struct {
	// Colour marks what matters with the terminal's escape sequences.
	Colour bool
	// Wide leaves long lines as they are and adds details that few readers need.
	Wide bool
}

// Colour is an escape sequence of the terminal. The empty one changes nothing.
type Colour string

// The colours and weights in use.
const (
	None   Colour = ""
	Bold   Colour = "\x1b[1m"
	Red    Colour = "\x1b[31m"
	Green  Colour = "\x1b[32m"
	Yellow Colour = "\x1b[33m"
	Cyan   Colour = "\x1b[36m"
	plain  Colour = "\x1b[0m"
)

// Paint gives a text a colour, if the style has colours.
func (s Style) Paint(c Colour, text string) string {
	text = Printable(text)
	if !s.Colour || c == None {
		return text
	}
	return string(c) + text + string(plain)
}

// Printable puts a blank in the place of each character of a text that could manipulate the
// terminal of a reader. It keeps line breaks and tabs.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) || r == '\n' || r == '\t' {
			return r
		}
		return ' '
	}, text)
}

// sequences matches what Paint writes.
var sequences = regexp.MustCompile(`\x1b\[(?:0|1|31|32|33|36)m`)

// clean is Printable, and leaves colours.
func clean(text string) string {
	var out strings.Builder
	at := 0
	for _, c := range sequences.FindAllStringIndex(text, -1) {
		out.WriteString(Printable(text[at:c[0]]) + text[c[0]:c[1]])
		at = c[1]
	}
	return out.String() + Printable(text[at:])
}

var breaks = strings.NewReplacer("\n", " ", "\t", " ")

// oneLine is clean, and breaks no line.
func oneLine(text string) string { return breaks.Replace(clean(text)) }

// The widths of pages, in columns.
const (
	Narrow = 80
	Broad  = 100
)

// Writer builds a page.
type Writer struct {
	strings.Builder
	Style
	// Width is the column at which lines are broken; zero breaks none.
	Width int
}

// Printf writes text without adding a line break.
func (w *Writer) Printf(format string, args ...any) {
	w.WriteString(clean(fmt.Sprintf(format, args...)))
}

// Line writes one line, without blanks at its end.
func (w *Writer) Line(format string, args ...any) {
	w.WriteString(strings.TrimRight(oneLine(fmt.Sprintf(format, args...)), " ") + "\n")
}

// Title begins a section, after an empty line.
func (w *Writer) Title(text string) { w.Printf("\n%s\n", w.Paint(Bold, text)) }

// Wrapped writes a paragraph behind an indent; its further lines are indented
// by two columns more.
func (w *Writer) Wrapped(indent, text string) { w.WriteString(Wrap(indent, text, w.Width)) }

// Beside writes a label and a paragraph to the right of it.
func (w *Writer) Beside(label, text string) {
	w.WriteString(wrap(label, strings.Repeat(" ", width(label)), text, w.Width))
}

// Table writes rows in columns as wide as their cells. Cells of a table that
// does not fit are cut, unless the style is wide.
func (w *Writer) Table(rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, r := range rows {
		for i, c := range r {
			widths[i] = max(widths[i], utf8.RuneCountInString(c))
		}
	}
	if !w.Wide {
		w.narrow(widths)
	}
	for _, r := range rows {
		var line strings.Builder
		for i, c := range r {
			line.WriteString("  " + fit(c, widths[i]))
		}
		w.Line("%s", line.String())
	}
}

// narrow takes from the widest column until a row fits.
func (w *Writer) narrow(widths []int) {
	for {
		sum, widest := 0, 0
		for i, n := range widths {
			sum += n + 2
			if n > widths[widest] {
				widest = i
			}
		}
		if sum <= w.Width {
			return
		}
		widths[widest]--
	}
}

// fit makes a text as wide as a column.
func fit(s string, columns int) string {
	n := utf8.RuneCountInString(s)
	if n <= columns {
		return s + strings.Repeat(" ", columns-n)
	}
	return string([]rune(s)[:max(columns-3, 0)]) + "..."
}

// Wrap breaks a text at blanks so that no line is wider than the given columns,
// except for a single longer word; zero columns break nothing. Further lines are
// indented by two columns more.
func Wrap(indent, text string, columns int) string {
	if columns == 0 {
		return indent + oneLine(text) + "\n"
	}
	return wrap(indent, indent+"  ", text, columns)
}

func wrap(first, further, text string, columns int) string {
	var out strings.Builder
	line, empty := oneLine(first), true
	for word := range strings.FieldsSeq(clean(text)) {
		if !empty && width(line)+1+width(word) > columns {
			out.WriteString(strings.TrimRight(line, " ") + "\n")
			line, empty = further, true
		}
		if !empty {
			line += " "
		}
		line += word
		empty = false
	}
	return out.String() + strings.TrimRight(line, " ") + "\n"
}

// width returns the columns that a text takes on a terminal.
func width(s string) int { return utf8.RuneCountInString(sequences.ReplaceAllString(s, "")) }

// Capital makes the first letter of a sentence a capital.
func Capital(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// Duration formats a duration for people, with two units at most.
func Duration(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < 10*time.Second:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", d.Seconds()), ".0") + "s"
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%dd%dh", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
}

// Count says how many there are of something, whose plural ends with an s.
func Count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// OneLine makes one line of a text, with at most so many bytes, four or more.
func OneLine(text string, most int) string {
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "?")), " ")
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most-4], "") + " ..."
}
