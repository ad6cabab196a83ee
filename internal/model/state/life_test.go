package state

import (
	"testing"
	"time"
)

func TestALifeBeginsAfterTheOneThatItsBackupIsOf(t *testing.T) {
	now := time.Date(2026, 11, 28, 10, 0, 0, 5, time.UTC)
	first := Life{}.Next("a", now)
	if want := (Life{ID: "a", Began: now.Truncate(time.Second)}); first != want {
		t.Errorf("%+v, want %+v", first, want)
	}
	// the second restore is prepared on a machine whose clock is a year behind
	if second := first.Next("b", now.AddDate(-1, 0, 0)); second.ID != "b" || !second.Began.After(first.Began) {
		t.Errorf("%+v does not follow %+v", second, first)
	}
}
