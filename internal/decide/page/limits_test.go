package page

import (
	"strings"
	"testing"
	"time"
	"unicode"
)

func TestADurationChangesItsUnitsAtRoundTimes(t *testing.T) {
	for _, c := range []struct {
		d    time.Duration
		want string
	}{
		{0, "0s"},
		{-1, "0s"},
		{10*time.Second - 100*time.Millisecond, "9.9s"},
		{10 * time.Second, "10s"},
		{10*time.Second + 500*time.Millisecond, "10s"},
		{time.Minute - 1, "59s"},
		{time.Minute, "1m00s"},
		{time.Hour - 1, "59m59s"},
		{time.Hour, "1h00m"},
		{48*time.Hour - 1, "47h59m"},
		{48 * time.Hour, "2d0h"},
	} {
		if got := Duration(c.d); got != c.want {
			t.Errorf("%d: %s, want %s", c.d, got, c.want)
		}
	}
}

// Root on a worker writes what hosts say of themselves.
func TestNoTextManipulatesTheTerminal(t *testing.T) {
	const evil = "a\x1b[2J\x1b]0;x\a\rb\u202e\u009b2K\xff"
	for what, text := range map[string]string{"a text": evil, "one in colour": Style{Colour: true}.Paint(Red, evil)} {
		w := &Writer{Style: Style{Colour: true}, Width: 200}
		w.Line("%s\n%s", text, text)
		w.Title(evil)
		w.Printf("%s\n", text)
		w.Wrapped(evil, text)
		w.Beside(evil, text)
		w.Table([][]string{{evil, "a\nb"}})
		w.Width, w.Wide = 0, true
		w.Wrapped("  ", text+"\n"+text)
		got := w.String()
		if n := strings.Count(got, "\n"); n != 8 {
			t.Errorf("%s: %d lines", what, n)
		}
		for _, ours := range []Colour{Red, Bold, plain} {
			got = strings.ReplaceAll(got, string(ours), "")
		}
		if i := strings.IndexFunc(got, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }); i >= 0 {
			t.Errorf("%s: %q", what, got[i:])
		}
	}
}

func TestASentenceBeginsWithACapital(t *testing.T) {
	for text, want := range map[string]string{"": "", "a": "A", "both hosts": "Both hosts", "Both": "Both"} {
		if got := Capital(text); got != want {
			t.Errorf("%q becomes %q", text, got)
		}
	}
}

func TestALineIsBrokenOnlyWhereItIsTooLong(t *testing.T) {
	for columns, want := range map[int]string{
		13: "  abc def ghi\n",
		12: "  abc def\n    ghi\n",
		3:  "  abc\n    def\n    ghi\n",
	} {
		if got := Wrap("  ", "abc def ghi", columns); got != want {
			t.Errorf("%d columns: %q, want %q", columns, got, want)
		}
	}
	if got := Wrap("  ", strings.Repeat("x", 9), 5); got != "  xxxxxxxxx\n" {
		t.Errorf("a long word has a line of its own, and none is empty: %q", got)
	}
}

func TestOfTwoWideColumnsTheFirstIsCutFirst(t *testing.T) {
	w := &Writer{Width: 15}
	w.Table([][]string{{"abcdefg", "hijklmn"}})
	if got := w.String(); got != "  ab...  hij...\n" {
		t.Errorf("%q", got)
	}
	w = &Writer{Width: 17}
	w.Table([][]string{{"abcdefg", "hijklmn"}})
	if got := w.String(); got != "  abc...  hijklmn\n" {
		t.Errorf("%q", got)
	}
	w = &Writer{Width: 18}
	w.Table([][]string{{"abcdefg", "hijklmn"}})
	if got := w.String(); got != "  abcdefg  hijklmn\n" {
		t.Errorf("a row that just fits is cut: %q", got)
	}
}

func TestAColumnOfNextToNothingHoldsDots(t *testing.T) {
	if got := fit("abcdef", 2); got != "..." {
		t.Errorf("%q", got)
	}
	if got := fit("abc", 3) + fit("ab", 3); got != "abcab " {
		t.Errorf("%q", got)
	}
}
