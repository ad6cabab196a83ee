package annotation_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/decide/upgrade/cluster"
	"github.com/holdfast/holdfast/internal/decide/upgrade/gate"
	"github.com/holdfast/holdfast/internal/decide/upgrade/parachute"
	"github.com/holdfast/holdfast/internal/model/state"
)

func TestWhatAHostTellsOfItselfIsReadAsItWasWritten(t *testing.T) {
	at := time.Date(2026, 11, 24, 20, 0, 0, 0, time.UTC)
	want := annotation.Host{
		Format: 1, At: at,
		Facts: gate.Host{
			Name: "cp-1", Release: state.Known("sha256:1"), APIServer: state.Known(gate.Version{Major: 1, Minor: 36, Patch: 3}),
			Written: state.Known(map[string]int{"record": 1}), Offset: state.Known(3 * time.Millisecond),
			Disks: state.Known([]gate.Disk{{Path: "/opt", Free: 1 << 30, Need: 1 << 29, Line: 1 << 20}}),
		},
		Release: gate.Release{Name: "Holdfast 0.1.0", Digest: "sha256:1", Version: gate.Version{Minor: 1}, Steps: gate.Range{Min: 1, Max: 1}},
		Journal: parachute.Journal{Upgrade: "u", Step: parachute.Proving, Since: at},
		Held:    "waits",
	}
	text, err := annotation.Encode(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := annotation.Decode[annotation.Host](text)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}

func TestAReaderIgnoresNewFieldsAndTakesANewFormatForNothing(t *testing.T) {
	turn, err := annotation.Decode[annotation.Turn](`{"format":1,"wish":"go","to":"sha256:2","colour":"blue"}`)
	if err != nil || turn.Wish != parachute.Go || turn.To != "sha256:2" {
		t.Errorf("%+v, %v", turn, err)
	}
	turn, err = annotation.Decode[annotation.Turn](`{"format":2,"wish":"go","only":"if"}`)
	if !errors.Is(err, annotation.ErrNewer) || turn != (annotation.Turn{}) {
		t.Errorf("%+v, %v", turn, err)
	}
}

func TestWhatIsNoAnnotationIsRefusedAndNothingIsTheZeroValue(t *testing.T) {
	for _, text := range []string{"{", `{"wish":"go"}`, `{"format":0}`, `{"format":1,"wish":7}`, `[]`} {
		if turn, err := annotation.Decode[annotation.Turn](text); err == nil || !strings.HasPrefix(err.Error(), "not readable") || turn != (annotation.Turn{}) {
			t.Errorf("%s: %+v, %v", text, turn, err)
		}
	}
	if turn, err := annotation.Decode[annotation.Turn](""); err != nil || turn != (annotation.Turn{}) {
		t.Errorf("%+v, %v", turn, err)
	}
}

// TestAListThatIsKnownToBeEmptyStaysKnown: JSON has one null for nil and for unknown.
func TestAListThatIsKnownToBeEmptyStaysKnown(t *testing.T) {
	none := state.Known([]string(nil))
	text, err := annotation.Encode(annotation.Host{Facts: gate.Host{
		Whole: none, Marked: none, Failed: none, Stack: none, Loose: none, Edited: none,
		Disks: state.Known([]gate.Disk(nil)), Certificates: state.Known([]gate.Certificate(nil)), Written: state.Known(map[string]int(nil)),
	}})
	if err != nil {
		t.Fatal(err)
	}
	said, err := annotation.Decode[annotation.Host](text)
	f := said.Facts
	for i, known := range []bool{f.Whole.Known, f.Marked.Known, f.Failed.Known, f.Stack.Known, f.Loose.Known, f.Edited.Known, f.Disks.Known, f.Certificates.Known, f.Written.Known} {
		if !known || err != nil {
			t.Errorf("list %d is unknown, %v", i, err)
		}
	}
	if f.Proxy.Known {
		t.Error("what is unknown became known")
	}
}

// TestARecordIsReadAsItWasWritten by the operator alone.
func TestARecordIsReadAsItWasWritten(t *testing.T) {
	want := cluster.Record{Upgrade: "u", From: "a", To: "b", Started: true, Returning: true, NoWayBack: true, Turns: []string{"cp-1"}, Attempts: map[string]int{"cp-1": 2}, Healthy: 90 * time.Minute, Seen: time.Date(2026, 11, 24, 20, 0, 0, 0, time.UTC), Backup: cluster.BackupWish{Host: "cp-1", Text: "2026-11-24T20:00:00Z before-upgrade"}, Rollout: cluster.Rollout{Part: "objects", Since: time.Date(2026, 11, 24, 19, 0, 0, 0, time.UTC), Seen: time.Date(2026, 11, 24, 19, 1, 0, 0, time.UTC), Runs: time.Date(2026, 11, 24, 19, 2, 0, 0, time.UTC)}, Settled: true, Failed: "the pods of objects did not all run"}
	text, err := annotation.Encode(annotation.RecordOf(want))
	if err != nil {
		t.Fatal(err)
	}
	got, err := annotation.Decode[annotation.Record](text)
	if diff := cmp.Diff(want, got.Of()); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}

// TestAHostDecidesFromTheTurnThatWasWritten.
func TestAHostDecidesFromTheTurnThatWasWritten(t *testing.T) {
	text, err := annotation.Encode(annotation.Turn{Wish: parachute.Go, Upgrade: "u", From: "b", To: "a", Closed: true, Raise: true, Kubelet: true, Attempt: 2, Back: true})
	if err != nil {
		t.Fatal(err)
	}
	got, err := annotation.Decode[annotation.Turn](text)
	want := parachute.Turn{Wish: parachute.Go, Upgrade: "u", From: "b", To: "a", Raise: true, Kubelet: true, Attempt: 2, Back: true}
	if err != nil || got.Of() != want {
		t.Errorf("%+v, %v", got.Of(), err)
	}
}
