package host

import (
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/decide/twonode"
)

// TestTheFirstCIBIsAsTheSetUpWantsIt: the setup must find the value that it
// would write, and count everything else as missing.
func TestTheFirstCIBIsAsTheSetUpWantsIt(t *testing.T) {
	have, err := twonode.ParseCIB([]byte(firstCIB))
	if err != nil {
		t.Fatal(err)
	}
	steps, err := twonode.Steps(have, twonode.Wanted(twonode.Input{}))
	if err != nil {
		t.Fatal(err)
	}
	if len(steps) == 0 {
		t.Fatal("nothing is left to set up")
	}
	for _, s := range steps {
		if words := strings.Join(s.Args, " "); strings.Contains(words, "dc-deadtime") {
			t.Errorf("the first CIB has another dc-deadtime than the set-up wants: pcs %s", words)
		}
	}
}
