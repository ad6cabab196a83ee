package retired

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var when = time.Date(2026, 11, 25, 8, 0, 0, 0, time.UTC)

func removed() Host {
	return Host{Name: "w-1", UID: "u-1", Machine: "m-1", When: when, By: "kim", Why: "holdfast host remove"}
}

func TestAnEntryIsReadAsItWasWritten(t *testing.T) {
	text, err := removed().Marshal()
	if err != nil {
		t.Fatal(err)
	}
	got, err := Read(map[string]string{"w-1": text})
	if diff := cmp.Diff(List{removed()}, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if want := `{"name":"w-1","uid":"u-1","machine":"m-1","when":"2026-11-25T08:00:00Z","by":"kim","why":"holdfast host remove"}`; text != want {
		t.Errorf("another release cannot read %s", text)
	}
}

func TestAnEntryWithFieldsOfALaterReleaseIsRead(t *testing.T) {
	got, err := Read(map[string]string{"w-1": `{"name":"w-1","when":"2026-11-25T08:00:00Z","moon":"full"}`})
	if err != nil || len(got) != 1 {
		t.Errorf("%v, %v", got, err)
	}
}

func TestEveryEntryThatCannotBeReadIsNamedAndTheOthersCount(t *testing.T) {
	text, err := removed().Marshal()
	if err != nil {
		t.Fatal(err)
	}
	got, err := Read(map[string]string{"w-1": text, "w-2": "{", "w-3": text, "w-4": `{"name":"w-4"}`})
	if len(got) != 1 || err == nil {
		t.Fatalf("%v, %v", got, err)
	}
	for _, name := range []string{"w-2", "w-3", "w-4"} {
		if !strings.Contains(err.Error(), "key "+name+" ") {
			t.Errorf("%s is not named: %v", name, err)
		}
	}
}

func TestAnEntryWithoutANameOrATimeIsNotWritten(t *testing.T) {
	for _, h := range []Host{{When: when}, {Name: "w-1"}} {
		if text, err := h.Marshal(); err == nil {
			t.Errorf("%+v: %s", h, text)
		}
	}
}

func TestANameIsOutUntilItIsGivenAgainAndThenOnlyTheOldNodeIs(t *testing.T) {
	open, again := removed(), removed()
	again.Again = when.Add(time.Hour)
	for _, c := range []struct {
		sentence           string
		list               List
		name, uid, machine string
		out                bool
	}{
		{"nobody took it out", nil, "w-1", "u-1", "m-1", false},
		{"another host was taken out", List{open}, "w-2", "u-1", "m-1", false},
		{"it was taken out", List{open}, "w-1", "u-1", "m-1", true},
		{"the name is out, whoever has it", List{open}, "w-1", "u-2", "m-2", true},
		{"the old Node, after the name was given again", List{again}, "w-1", "u-1", "m-1", true},
		{"the Node of the new host, also on the same machine", List{again}, "w-1", "u-2", "m-1", false},
		{"the old machine, of which no Node is known", List{again}, "w-1", "", "m-1", true},
		{"a new machine, of which no Node is known", List{again}, "w-1", "", "m-2", false},
		{"nothing is known but the name", List{again}, "w-1", "", "", false},
	} {
		if got := c.list.Out(c.name, c.uid, c.machine); (got != "") != c.out {
			t.Errorf("%s: %q", c.sentence, got)
		}
	}
	if got, want := open.String(), "taken out of the cluster at 2026-11-25T08:00:00Z by kim (holdfast host remove)"; got != want {
		t.Errorf("got %q", got)
	}
}
