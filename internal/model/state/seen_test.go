package state

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"
)

func TestAFactKeepsItsSourceItsTimeAndWhyItIsUnknown(t *testing.T) {
	at := time.Date(2026, 11, 23, 4, 0, 0, 0, time.UTC)
	for name, want := range map[string]Seen[[]string]{
		"known":                 See([]string{"cp-1"}, "cp-2", at),
		"known, and empty":      See([]string{}, "cp-2", at),
		"known, and without it": See([]string(nil), "cp-2", at),
		"unknown":               {},
		"unknown with a reason": {Why: "only root may read this", Lack: LackDenied, From: "cp-2"},
	} {
		text, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var got Seen[[]string]
		if err := json.Unmarshal(text, &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %s became %+v, %v", name, text, got, err)
		}
	}
}

func TestAnUnknownFactHasNoValueInItsText(t *testing.T) {
	text, err := json.Marshal(Seen[string]{Value: "left over", Why: "torn"})
	if err != nil || string(text) != `{"known":false,"why":"torn"}` {
		t.Errorf("%s, %v", text, err)
	}
}
