package command

import (
	"strings"
	"testing"
	"time"
)

func TestALiveViewIsRedrawnInPlace(t *testing.T) {
	var out strings.Builder
	v := &View{out: &out, live: true}
	v.Show([]ViewLine{{Host: "cp-1", Doing: "fails:\n  in\x1btwo lines"}, {Host: "cp-2", Doing: strings.Repeat("x", 200)}}, time.Second)
	v.Show([]ViewLine{{Host: "cp-1", Doing: "is ready"}}, 2*time.Second)
	first := "\r\x1b[K   1.0s cp-1       fails: in two lines\n\r\x1b[K   1.0s cp-2       " + strings.Repeat("x", 57) + "\n"
	second := "\x1b[2A\r\x1b[K   2.0s cp-1       is ready\n\r\x1b[K\n"
	if got := out.String(); got != first+second {
		t.Errorf("got %q", got)
	}
}
