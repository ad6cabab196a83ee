package replace

import (
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/decide/drain"
	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/decide/upgrade/parachute"
	"github.com/holdfast/holdfast/internal/model/state"
)

// TestU17_APlanReadsHowFarTheHostThatStaysIs from the record and from what that host says.
func TestU17_APlanReadsHowFarTheHostThatStaysIs(t *testing.T) {
	record, err := annotation.Encode(annotation.Record{Upgrade: "u", From: "r1", To: "r2", Started: true})
	if err != nil {
		t.Fatal(err)
	}
	l, job := newLab(t)
	if f := l.look(t.Context(), job); !f.Upgrade.Known || f.Upgrade.Value.Retire+f.Upgrade.Value.Install != "" {
		t.Fatalf("no upgrade: %+v", f.Upgrade)
	}
	l.api.Maps[annotation.RecordNamespace+"/"+annotation.RecordName] = map[string]string{annotation.RecordKey: record}
	if f := l.look(t.Context(), job); !strings.Contains(f.Upgrade.Value.Retire, "nobody knows") {
		t.Errorf("it says nothing: %+v", f.Upgrade)
	}
	l.api.said = &annotation.Host{Journal: parachute.Journal{Step: parachute.Accepted}, Raised: state.Known(true)}
	l.api.said.Facts.Release = state.Known("r2")
	if f := l.look(t.Context(), job); !f.Upgrade.Known || f.Upgrade.Value.Retire+f.Upgrade.Value.Install != "" || f.Work.Value == "" {
		t.Errorf("it is there: %+v", f.Upgrade)
	}
	l.api.said.Journal.Step = parachute.Switched
	if f := l.look(t.Context(), job); !strings.Contains(f.Upgrade.Value.Retire, "(switched)") {
		t.Errorf("it is on its way: %+v", f.Upgrade)
	}
}

func TestAPlanReadsWhichControlPlaneIsAwayForWorkBesidesTheLostOne(t *testing.T) {
	l, job := newLab(t)
	for _, name := range []string{"cp-1", "cp-2"} {
		l.api.All = append(l.api.All, state.Node{Name: name, Labels: map[string]string{state.LabelControlPlane: ""}, Annotations: map[string]string{drain.CordonedBy: "drain-rendered-b"}})
	}
	if f := l.look(t.Context(), job); !state.Is(f.Work, "cp-1 is drained") {
		t.Errorf("%+v", f.Work)
	}
}

func TestAPlanReadsWhetherAMoveOfTheSiteIsAnnounced(t *testing.T) {
	l, job := newLab(t)
	if f := l.look(t.Context(), job); !state.Is(f.Moves, "") {
		t.Fatalf("no move: %+v", f.Moves)
	}
	l.api.Infra.Readdress = `{"id":"m1","by":"ada"}`
	if f := l.look(t.Context(), job); !strings.Contains(f.Moves.Value, "the move m1 of ada is announced") {
		t.Errorf("announced: %+v", f.Moves)
	}
}
