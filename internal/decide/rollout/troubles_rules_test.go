package rollout_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/decide/rollout"
)

// TestWhatTheOperatorSaysOfAPoolIsRead: its conditions by their types, and how many hosts
// lack its configuration.
func TestWhatTheOperatorSaysOfAPoolIsRead(t *testing.T) {
	then := metav1.NewTime(noon)
	for _, refused := range []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown} {
		for lacking := range int32(4) {
			p := &mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}
			p.Spec.Paused = lacking == 1
			p.Spec.Configuration.Name = "rendered-gpu-2"
			p.Status.MachineCount, p.Status.UpdatedMachineCount = 3, 3-lacking
			p.Status.Conditions = []mcfgv1.MachineConfigPoolCondition{
				{Type: mcfgv1.MachineConfigPoolUpdating, Status: corev1.ConditionTrue, Message: "0 of 3", LastTransitionTime: metav1.NewTime(noon.Add(time.Hour))},
				{Type: mcfgv1.MachineConfigPoolUpdated, Status: corev1.ConditionFalse, Message: "other", LastTransitionTime: then},
				{Type: mcfgv1.MachineConfigPoolNodeDegraded, Status: corev1.ConditionTrue, Message: "w-1 failed"},
				{Type: mcfgv1.MachineConfigPoolRenderDegraded, Status: refused, Message: "two files"},
				{Type: mcfgv1.MachineConfigPoolDegraded, Status: corev1.ConditionTrue, Message: "both"},
			}
			want := rollout.PoolState{Name: "gpu", Config: "rendered-gpu-2", Paused: lacking == 1, Lacking: int(lacking), Since: noon, Progress: "0 of 3"}
			if refused == corev1.ConditionTrue {
				want.Refused = "two files"
			}
			if diff := cmp.Diff(want, rollout.PoolStateOf(p)); diff != "" {
				t.Errorf("%s, %d: %s", refused, lacking, diff)
			}
		}
	}
}

// told hosts: each stage with each state, what it has, and since when.
func troubled() []rollout.Host {
	var out []rollout.Host
	for _, stage := range []rollout.Stage{
		rollout.Untold, rollout.Settled, rollout.Applies, rollout.Drains, rollout.Held, rollout.WaitsForBoot, rollout.GoesBack, rollout.Failed, rollout.Refused, rollout.Changed,
	} {
		for _, is := range []rollout.State{"", rollout.Done, rollout.Working, rollout.Degraded, rollout.Unreconcilable} {
			for _, desired := range []string{"", "a", "b"} {
				for bits := range 16 {
					h := rollout.Host{Name: "w-1", Current: "a", Desired: desired, State: is, Stage: stage, Ready: bits&1 == 0, Unschedulable: bits&2 != 0}
					if bits&4 != 0 {
						h.Given = noon
					}
					if bits&8 != 0 {
						h.Draining, h.InTheWay = noon, "default/web"
					}
					out = append(out, h)
				}
			}
		}
	}
	return out
}

// TestWhatPeopleAreToldOfAHostGetsMorePressingWithTime: what is late stays late, and what
// is told stays told, until the host says something else.
func TestWhatPeopleAreToldOfAHostGetsMorePressingWithTime(t *testing.T) {
	kinds := make(map[rollout.TroubleKind]int)
	ages := []time.Duration{0, rollout.AnswerLimit, rollout.AnswerLimit + 1, rollout.LateAfter, rollout.LateAfter + 1, rollout.BootLateAfter, rollout.BootLateAfter + 1, rollout.PauseLateAfter}
	for _, h := range troubled() {
		var last []rollout.Trouble
		for i, age := range ages {
			got := rollout.Troubles(noon.Add(age), []rollout.Host{h}, nil)
			bad := func(rule string) {
				t.Helper()
				t.Fatalf("%+v after %s: %+v, before %+v: %s", h, age, got, last, rule)
			}
			stage := h.Stage
			if stage == rollout.Untold && h.State == rollout.Degraded {
				stage = rollout.Failed
			} else if stage == rollout.Untold && h.State == rollout.Unreconcilable {
				stage = rollout.Refused
			}
			needs := stage == rollout.Failed || stage == rollout.Refused || stage == rollout.Changed
			switch {
			case h.Desired == "" && len(got) > 0:
				bad("who was given nothing is told of nothing")
			case len(got) > 1:
				bad("one thing is told of a host")
			case i > 0 && len(got) != len(last):
				bad("what is told stays told")
			case i > 0 && len(got) == 1 && last[0].Late && !got[0].Late:
				bad("what is late stays late")
			case i > 0 && len(got) == 1 && got[0].Kind != last[0].Kind && got[0].Kind != rollout.IsSilent:
				bad("only silence is noticed later")
			case needs && h.Desired != "" && (len(got) == 0 || !got[0].Late):
				bad("who needs a person says so at once")
			case len(got) == 0 && h.Desired != "" && h.Current != h.Desired && !fails(h):
				bad("who lacks what it was given is told of")
			case len(got) == 1 && (got[0].Host != "w-1" || got[0].Config != h.Desired || got[0].Has != "a" || !got[0].Since.Equal(h.Given) || got[0].InTheWay != h.InTheWay || got[0].Pool != ""):
				bad("it says which host, what is wanted, what it has, since when, and who is in the way")
			}
			if len(got) == 1 {
				kinds[got[0].Kind]++
				silent := got[0].Kind == rollout.IsSilent
				if silent && (age <= rollout.AnswerLimit || h.Given.IsZero() || !h.Ready || h.Unschedulable || h.State == rollout.Working) {
					bad("silent is who is there, was asked, and has not answered in time")
				}
				if got[0].Kind == rollout.NeedsBoot && got[0].Late != (age > rollout.BootLateAfter && !h.Given.IsZero()) {
					bad("a person has a day to boot a host")
				}
				if got[0].Kind == rollout.IsUnderWay && got[0].Late != (age > rollout.LateAfter && (!h.Given.IsZero() || !h.Draining.IsZero())) {
					bad("work and drains have an hour")
				}
			}
			last = got
		}
	}
	if len(kinds) != 6 {
		t.Errorf("%v", kinds)
	}
}

// TestWhatPeopleAreToldOfAPool has each state of one, alone and beside a host of which they
// are told.
func TestWhatPeopleAreToldOfAPool(t *testing.T) {
	failed := rollout.Host{Name: "w-1", Ready: true, Current: "a", Desired: "b", State: rollout.Degraded}
	for bits := range 32 {
		p := rollout.PoolState{Name: "gpu", Progress: "1 of 2"}
		if bits&1 != 0 {
			p.Config = "b"
		}
		if bits&2 != 0 {
			p.Lacking = 1
		}
		p.Paused = bits&4 != 0
		if bits&8 != 0 {
			p.Refused = "two files"
		}
		told := bits&16 != 0
		for _, age := range []time.Duration{0, rollout.LateAfter, rollout.LateAfter + 1, rollout.PauseLateAfter, rollout.PauseLateAfter + 1} {
			for _, since := range []time.Time{{}, noon} {
				p.Since = since
				var list []rollout.Host
				if told {
					list = append(list, failed)
				}
				got := rollout.Troubles(noon.Add(age), list, []rollout.PoolState{p})
				if told {
					if len(got) == 0 || got[0].Host != "w-1" {
						t.Fatalf("%+v: %+v", p, got)
					}
					got = got[1:]
				}
				lacks := p.Lacking > 0 && p.Config != ""
				want := rollout.Trouble{Pool: "gpu", Config: p.Config, Why: "1 of 2", Since: since, Lacking: p.Lacking}
				late := func(limit time.Duration) bool { return !since.IsZero() && age > limit }
				switch {
				case p.Refused != "":
					want.Kind, want.Why, want.Late = rollout.PoolRefused, "two files", true
				case lacks && p.Paused:
					want.Kind, want.Late = rollout.PoolIsPaused, late(rollout.PauseLateAfter)
				case lacks && !told:
					want.Kind, want.Late = rollout.PoolThatWaits, late(rollout.LateAfter)
				}
				if want.Kind == "" && len(got) == 0 {
					continue
				}
				if len(got) != 1 || got[0] != want {
					t.Errorf("%+v beside %v after %s: %+v, want %+v", p, list, age, got, want)
				}
			}
		}
	}
}
