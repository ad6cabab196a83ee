package command

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestALineOfTheJournalHasNoTimeOfItsOwn(t *testing.T) {
	var out strings.Builder
	JournalLogger(&out).Warn("a round failed", "rule", "gone.unproved", "err", errors.New("two\nlines"), "after", time.Second)
	if want := `level=WARN msg="a round failed" rule=gone.unproved err="two\nlines" after=1s` + "\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}
