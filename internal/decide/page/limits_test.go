package page

import (
	"strings"
	"testing"
	"time"
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
