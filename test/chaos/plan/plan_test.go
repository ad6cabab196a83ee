package plan

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/holdfast/holdfast/internal/lab"
)

var (
	two   = Shape{ControlPlanes: []string{"cp-1", "cp-2"}}
	three = Shape{ControlPlanes: two.ControlPlanes, Workers: []string{"worker-1"}}
)

// drawn is the number of rounds to check.
const drawn = 5000

func TestASeedDrawsTheSameRoundsAgain(t *testing.T) {
	same, others := 0, 0
	for n := range 200 {
		again := Draw(7, n, three)
		if diff := cmp.Diff(again, Draw(7, n, three), cmpopts.IgnoreUnexported(Step{})); diff != "" {
			t.Fatal(diff)
		}
		if again.String() == Draw(8, n, three).String() {
			same++
		}
		if n > 0 && again.String() == Draw(7, n-1, three).String() {
			others++
		}
	}
	if same+others > 20 {
		t.Errorf("%d of 200 rounds are those of another seed, %d the ones before", same, others)
	}
}

func TestEverythingThatTheLabBreaksIsDrawn(t *testing.T) {
	kinds, processes := map[string]int{}, map[string]int{}
	for n := range drawn {
		for _, s := range Draw(1, n, three).Steps {
			kinds[s.Kind]++
			if s.Fault != nil {
				processes[s.Fault.Process]++
			}
		}
	}
	for _, k := range Kinds() {
		if kinds[k] == 0 {
			t.Errorf("%s is never drawn", k)
		}
	}
	for _, k := range lab.FaultKinds() {
		if kinds[string(k)] == 0 {
			t.Errorf("the fault %s of the lab is never drawn", k)
		}
	}
	for _, p := range lab.Processes() {
		if processes[p] == 0 {
			t.Errorf("nothing happens to %s", p)
		}
	}
}

func TestARoundIsOneFaultOrTwoThatMayMeet(t *testing.T) {
	singles := 0
	for n := range drawn {
		r := Draw(3, n, three)
		switch {
		case len(r.Steps) == 1:
			singles++
			if r.Hold > maxHoldAlone {
				t.Errorf("%s", r)
			}
			continue
		case len(r.Steps) != 2 || r.Hold > maxHold || r.Hold < minHold:
			t.Fatalf("%s", r)
		}
		a, b := r.Steps[0], r.Steps[1]
		if a.After != 0 || b.After < 0 || b.After > maxApart {
			t.Errorf("offsets: %s", r)
		}
		if a.String() == b.String() {
			t.Errorf("one fault twice: %s", r)
		}
		if damaged := slices.ContainsFunc(r.Steps, func(s Step) bool { return s.Kind == string(lab.FaultEtcdDamage) }); damaged && a.Host != b.Host {
			t.Errorf("one copy is lost and the other host is broken too: %s", r)
		}
		if r.Single() {
			t.Errorf("two faults pass for one: %s", r)
		}
	}
	if singles < drawn/2 || singles > drawn*3/4 {
		t.Errorf("%d of %d rounds are single faults", singles, drawn)
	}
}

func TestAFaultWithoutProofIsNoneThatTheOtherHostGoesOnWithout(t *testing.T) {
	for n := range drawn {
		if r := Draw(5, n, two); len(r.Steps) == 1 && r.Single() == (r.Steps[0].Kind == string(lab.FaultACLoss)) {
			t.Errorf("single is %t: %s", r.Single(), r)
		}
	}
}

func TestWorkersAreBrokenWhereThereAreAny(t *testing.T) {
	for _, shape := range []Shape{two, three} {
		broken := 0
		for n := range drawn {
			for _, s := range Draw(9, n, shape).Steps {
				if s.Host == "worker-1" {
					broken++
				} else if !slices.Contains(shape.ControlPlanes, s.Host) {
					t.Fatalf("host %q of %v", s.Host, shape)
				}
			}
		}
		if (broken > 0) != (len(shape.Workers) > 0) {
			t.Errorf("%v: workers were broken %d times", shape, broken)
		}
	}
}
