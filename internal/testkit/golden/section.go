package golden

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Section compares got with the part of a page between the lines <!-- begin
// NAME --> and <!-- end NAME -->. A test writes that part; the rest of the page
// is written by hand.
func Section(t *testing.T, page, name, got string) {
	t.Helper()
	before, want, after := parts(t, page, name)
	if *update {
		want = got
		if err := os.WriteFile(page, []byte(before+got+after), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s says something else of %s (-want +got; run the test with -update):\n%s", page, name, diff)
	}
}

// ReadSection returns that part of the page.
func ReadSection(t *testing.T, page, name string) string {
	t.Helper()
	_, text, _ := parts(t, page, name)
	return text
}

// Updating reports whether tests should write their output as approved.
func Updating() bool { return *update }

func parts(t *testing.T, page, name string) (before, text, after string) {
	t.Helper()
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := "<!-- begin "+name+" -->\n", "<!-- end "+name+" -->\n"
	before, rest, found := strings.Cut(string(data), begin)
	text, after, ends := strings.Cut(rest, end)
	if !found || !ends {
		t.Fatalf("%s has no lines %q and %q", page, begin, end)
	}
	return before + begin, text, end + after
}
