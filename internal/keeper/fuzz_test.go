package keeper

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/model/state"
)

// FuzzWordOfThePeer lets the daemon of the other host answer anything.
func FuzzWordOfThePeer(f *testing.F) {
	good, err := json.Marshal(state.RaceAnswer{})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(good))
	f.Add(`{"givesWay":"yes"}`)
	f.Add(`{"addresses":["x"]}`)
	f.Add(`[]{`)
	f.Fuzz(func(t *testing.T, text string) {
		out, err := readWord(strings.NewReader(text))
		if err == nil {
			if _, err := json.Marshal(out); err != nil {
				t.Errorf("%q is read as what cannot be told again: %v", text, err)
			}
		}
	})
}
