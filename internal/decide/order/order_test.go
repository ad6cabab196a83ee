package order

import (
	"slices"
	"testing"
)

func TestWhatIsTrueComesFirst(t *testing.T) {
	list := []bool{false, true, false, true}
	slices.SortFunc(list, First)
	if !slices.Equal(list, []bool{true, true, false, false}) {
		t.Error(list)
	}
}
