package page

import (
	"strings"
	"testing"
	"time"
)

// One whole plain page shows what each part looks like.
func TestAPageLooksLikeThis(t *testing.T) {
	w := &Writer{Width: 30}
	w.Line("%s   ", "a line without blanks at its end")
	w.Title("Title")
	w.Wrapped("  ", "a paragraph that is wider than the page is")
	w.Beside("  label  ", "a text that stays to the right of it")
	w.Beside("  none  ", "")
	w.Table([][]string{{"NAME", "STATE"}, {"cp-1", "a state that is too long"}, {"cp-2", "übel"}})
	want := `a line without blanks at its end

Title
  a paragraph that is wider
    than the page is
  label  a text that stays to
         the right of it
  none
  NAME  STATE
  cp-1  a state that is too...
  cp-2  übel
`
	if got := w.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestColoursTakeNoRoomAndAreThereOnRequestAlone(t *testing.T) {
	text := strings.Repeat("word ", 5) + "end"
	for _, colour := range []Colour{Bold, Red, Green, Yellow, Cyan} {
		painted := Style{Colour: true}.Paint(colour, "word")
		if !strings.HasPrefix(painted, string(colour)) || !strings.HasSuffix(painted, "\x1b[0m") {
			t.Errorf("%q", painted)
		}
		got := Wrap("", strings.ReplaceAll(text, "word", painted), 28)
		if plainText := Wrap("", text, 28); strings.Count(got, "\n") != 1 || strings.Count(plainText, "\n") != 1 {
			t.Errorf("%q and %q", got, plainText)
		}
		if got := (Style{}).Paint(colour, "word"); got != "word" {
			t.Errorf("%q", got)
		}
	}
	if got := (Style{Colour: true}).Paint(None, "word"); got != "word" {
		t.Errorf("%q", got)
	}
}

func TestAWidePageBreaksNothing(t *testing.T) {
	long := strings.Repeat("word ", 60) + "end"
	if got := Wrap("  ", long, 0); got != "  "+long+"\n" {
		t.Errorf("%q", got)
	}
	w := &Writer{Style: Style{Wide: true}, Width: 10}
	w.Table([][]string{{long}})
	if got := w.String(); got != "  "+long+"\n" {
		t.Errorf("%q", got)
	}
}

func TestADurationHasTwoUnitsAtMost(t *testing.T) {
	for _, c := range []struct {
		d    time.Duration
		want string
	}{
		{-time.Second, "0s"},
		{1500 * time.Millisecond, "1.5s"},
		{3 * time.Second, "3s"},
		{59*time.Second + 900*time.Millisecond, "59s"},
		{61 * time.Second, "1m01s"},
		{47*time.Hour + 5*time.Minute, "47h05m"},
		{75 * time.Hour, "3d3h"},
	} {
		if got := Duration(c.d); got != c.want {
			t.Errorf("%d: %s, want %s", c.d, got, c.want)
		}
	}
}
