package plans

import (
	"testing"

	"github.com/holdfast/holdfast/internal/decide/replace"
)

// A plan that waits for a person, or is over, takes no control plane away: configurations and boots go on.
func TestAPlanKeepsControlPlanesThereWhileItTakesSomethingAway(t *testing.T) {
	lock := func(stage, words string) map[string]string {
		return map[string]string{
			replace.LockKey: "p1", replace.LockWords: words,
			replace.LockCopy: `{"id": "p1", "by": "ada", "survivor": "cp-1", "new": {"name": "cp-3"}, "widens": true, "stage": "` + stage + `"}`,
		}
	}
	for stage, held := range map[string]bool{
		"planned": false, "coming": false, "waiting": false, "whole": false, "aborted": false,
		"letting-in": true, "handing": true, "parting": true, "taking-back": true, "": true,
		"retired": true, "widening": true, "joining": true, "narrowing": true, // of decide/replace
	} {
		if got := Changes(lock(stage, "")); (got != "") != held {
			t.Errorf("%q: %q", stage, got)
		}
	}
	if got := Changes(lock("handing", "the site gets a second family")); got != "" {
		t.Errorf("a plan that needs boots: %q", got)
	}
	if got := Changes(map[string]string{replace.LockKey: "p1", replace.LockCopy: "{"}); got == "" {
		t.Error("a copy that cannot be read holds nothing")
	}
}
