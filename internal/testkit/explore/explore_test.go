package explore

import (
	"slices"
	"testing"
)

// walk goes from 0 up to 9; 5 leads into 20, from which nothing leads anywhere.
func walk(n int) (out []int, wrong []string) {
	switch {
	case n == 5:
		return []int{6, 20}, nil
	case n < 9:
		return []int{n + 1}, nil
	}
	return nil, nil
}

func TestEachStateIsVisitedAndOneWithoutAWayToAnEndIsFound(t *testing.T) {
	before, _, wrong := Visit(0, walk, nil)
	if len(before) != 11 || wrong != nil {
		t.Errorf("%d states, %v", len(before), wrong)
	}
	if got := Stuck(before, func(n int) bool { return n == 9 }); !slices.Equal(got, []int{20}) {
		t.Errorf("stuck: %v", got)
	}
}

func TestAStepThatDoesNotCountIsNoWay(t *testing.T) {
	before, _, _ := Visit(0, walk, func(from, _ int) bool { return from != 8 })
	if got := Stuck(before, func(n int) bool { return n == 9 }); len(before) != 11 || len(got) != 10 {
		t.Errorf("%d states, stuck: %v", len(before), got)
	}
}

func TestAMistakeEndsTheVisitWithItsState(t *testing.T) {
	_, bad, wrong := Visit(0, func(n int) ([]int, []string) {
		if n == 3 {
			return nil, []string{"three"}
		}
		return walk(n)
	}, nil)
	if bad != 3 || !slices.Equal(wrong, []string{"three"}) {
		t.Errorf("%d, %v", bad, wrong)
	}
}
