package state_test

import (
	"encoding/json"
	"testing"

	"github.com/holdfast/holdfast/internal/model/state"
)

func TestAListThatIsKnownToBeEmptyIsReadAsThat(t *testing.T) {
	type facts struct {
		List, Unknown state.Fact[[]string]
		Map           state.Fact[map[string]int]
	}
	text, err := json.Marshal(facts{List: state.Known[[]string](nil), Map: state.Known[map[string]int](nil)})
	if want := `{"List":[],"Unknown":null,"Map":{}}`; err != nil || string(text) != want {
		t.Fatalf("%s (%v), want %s", text, err, want)
	}
	var got facts
	if err := json.Unmarshal(text, &got); err != nil || !got.List.Known || !got.Map.Known || got.Unknown.Known {
		t.Errorf("%+v (%v)", got, err)
	}
}
