package standing

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/finding"
	"github.com/holdfast/holdfast/internal/decide/rollout"
)

// configurations are hosts and pools with something about their configurations, by the
// kind of what people are told. Each is late once its time is over.
var configurations = map[finding.ID]struct {
	host rollout.Host
	pool rollout.PoolState
	// late is after what time a person should look, zero for at once.
	late time.Duration
	// where is the host on which its command is typed, empty for anywhere.
	where string
}{
	ConfigUnderWay:  {host: rollout.Host{State: rollout.Working, Stage: rollout.Applies, Reason: "writes b"}, late: rollout.LateAfter},
	ConfigNeedsBoot: {host: rollout.Host{State: rollout.Working, Stage: rollout.WaitsForBoot, Reason: "needs a reboot: kernel arguments"}, late: rollout.BootLateAfter, where: "w-1"},
	ConfigFailed:    {host: rollout.Host{State: rollout.Degraded, Reason: "no space"}},
	ConfigRefused:   {host: rollout.Host{State: rollout.Unreconcilable, Reason: "no such user"}},
	ConfigChanged:   {host: rollout.Host{State: rollout.Degraded, Stage: rollout.Changed, Reason: "somebody changed /etc/a"}, where: "w-1"},
	PoolRefused:     {pool: rollout.PoolState{Refused: "one thing\nanother thing"}},
	PoolPaused:      {pool: rollout.PoolState{Paused: true, Lacking: 2, Progress: "the pool is paused"}, late: rollout.PauseLateAfter},
	PoolWaits:       {pool: rollout.PoolState{Lacking: 1, Progress: "w-2 is away: it is cordoned"}, late: rollout.LateAfter},
}

// found returns the findings of one of them at an age.
func found(id finding.ID, age time.Duration, known bool, inTheWay string) []finding.Finding {
	c := configurations[id]
	at := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	f := Facts{Now: at.Add(age)}
	if c.host.State != "" {
		h := c.host
		h.Name, h.Ready, h.Current, h.Desired, h.InTheWay = "w-1", true, "a", "b", inTheWay
		if known {
			h.Given = at
		}
		f.Hosts = []Host{{Name: "w-1", Config: Know(h, "the API", at)}}
	} else {
		p := c.pool
		p.Name, p.Config = "gpu", "b"
		if known {
			p.Since = at
		}
		f.Pools = Know([]rollout.PoolState{p}, "the API", at)
	}
	return describer{Facts: f}.ofConfigurations()
}

// TestEachTroubleOfAConfigurationHasItsFinding, at each age, with and without a known
// beginning: it keeps its identity, gets a warning when it is late, and says what to type
// and where.
func TestEachTroubleOfAConfigurationHasItsFinding(t *testing.T) {
	pages := map[finding.ID]string{}
	for _, k := range kinds {
		pages[k.ID] = k.Page
	}
	for id, c := range configurations {
		var first *finding.Finding
		for _, age := range []time.Duration{0, time.Minute, time.Hour, time.Hour + 1, 24 * time.Hour, 24*time.Hour + 1, 7 * 24 * time.Hour, 7*24*time.Hour + 1} {
			for _, known := range []bool{true, false} {
				for _, inTheWay := range []string{"", "shop/web: a budget"} {
					got := found(id, age, known, inTheWay)
					bad := func(rule string) {
						t.Helper()
						t.Fatalf("%s after %s, known %v: %+v: %s", id, age, known, got, rule)
					}
					if len(got) != 1 || got[0].ID != id {
						bad("it has one finding")
					}
					f := got[0]
					subject := map[bool]string{true: "w-1", false: "gpu"}[c.host.State != ""]
					late := c.late == 0 || known && age > c.late
					switch {
					case f.Subject != subject || !strings.Contains(f.Problem, subject):
						bad("it says whose it is")
					case f.Severity != map[bool]finding.Severity{true: finding.Warning, false: finding.Note}[late]:
						bad("a person should look at what is late")
					case first != nil && !f.Same(*first):
						bad("it is the same at each age")
					case pages[f.ID] == "":
						bad("it has a page")
					case len(f.Commands) != 1 || f.Commands[0].Host != c.where || f.Commands[0].Line == "":
						bad("it says what to type, and where")
					case strings.ContainsAny(f.Problem+f.Meaning, "\n") || strings.Contains(f.Problem+f.Meaning, "%!") || strings.Contains(f.Problem+" "+f.Meaning, "  "):
						bad("it is one line of whole words")
					case strings.HasSuffix(f.Problem, ":") || strings.HasSuffix(f.Problem, " ") || !strings.HasSuffix(f.Meaning, "."):
						bad("its sentences are whole")
					}
					why := c.host.Reason + c.pool.Refused + c.pool.Progress
					if id != PoolPaused && !strings.Contains(f.Problem, strings.ReplaceAll(why, "\n", "; ")) {
						bad("it says why")
					}
					if id != ConfigChanged && id != PoolRefused && !strings.Contains(f.Problem, " b") {
						if id != PoolWaits {
							bad("it says which configuration is wanted")
						}
					}
					inWords := strings.Contains(f.Meaning, "In the way: shop/web: a budget. ")
					if inWords != (id == ConfigUnderWay && inTheWay != "") || inWords != (f.Page == "docs/runbook/drain.md") {
						bad("who is in the way of a drain is told, with its page")
					}
					if strings.Contains(f.Meaning, "It takes longer than it should") != (id == ConfigUnderWay && late) {
						bad("a way back is told once it takes too long")
					}
					if strings.Contains(f.Meaning, "kubectl delete pod --namespace NAMESPACE POD") != (id == ConfigUnderWay && late && inTheWay != "") {
						bad("a person may delete the pod in the way once it takes too long")
					}
					first = &f
				}
			}
		}
	}
}

// TestTheFormerConfigurationIsNamed, or that there was none.
func TestTheFormerConfigurationIsNamed(t *testing.T) {
	at := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	for _, is := range []rollout.State{rollout.Degraded, rollout.Unreconcilable} {
		for has, want := range map[string]string{"a": "a", "": "no configuration"} {
			h := rollout.Host{Name: "w-1", Ready: true, Current: has, Desired: "b", State: is, Reason: "why"}
			got := describer{Facts: Facts{Now: at, Hosts: []Host{{Name: "w-1", Config: Know(h, "the API", at)}}}}.ofConfigurations()
			if len(got) != 1 || !strings.Contains(got[0].Meaning, "has "+want+" ") && !strings.Contains(got[0].Meaning, "has "+want+",") {
				t.Errorf("%s with %q: %+v", is, has, got)
			}
		}
	}
}

// TestAStageOfALaterReleaseIsToldByTheState of its host.
func TestAStageOfALaterReleaseIsToldByTheState(t *testing.T) {
	at := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		is   rollout.State
		want finding.ID
	}{{rollout.Working, ConfigUnderWay}, {rollout.Degraded, ConfigFailed}} {
		h := rollout.Host{Name: "w-1", Ready: true, Current: "a", Desired: "b", State: c.is, Stage: "of-a-later-release", Reason: "why", Given: at}
		got := describer{Facts: Facts{Now: at, Hosts: []Host{{Name: "w-1", Config: Know(h, "the API", at)}}}}.ofConfigurations()
		if len(got) != 1 || got[0].ID != c.want {
			t.Errorf("%s: %+v", c.is, got)
		}
	}
}

// TestAnAgentThatDoesNotAnswerIsLookedForOnItsHost, at any time after its limit.
func TestAnAgentThatDoesNotAnswerIsLookedForOnItsHost(t *testing.T) {
	at := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	for age, silent := range map[time.Duration]bool{rollout.AnswerLimit: false, rollout.AnswerLimit + 1: true, 48 * time.Hour: true} {
		h := rollout.Host{Name: "w-1", Ready: true, Current: "a", Desired: "b", State: rollout.Done, Given: at}
		got := describer{Facts: Facts{Now: at.Add(age), Hosts: []Host{{Name: "w-1", Config: Know(h, "the API", at)}}}}.ofConfigurations()
		if len(got) != 1 || (got[0].ID == ConfigSilent) != silent {
			t.Fatalf("after %s: %+v", age, got)
		}
		if silent && (got[0].Severity != finding.Warning || got[0].Commands[0].Host != "w-1" || got[0].Subject != "w-1" || got[0].Variant != "b" || !strings.Contains(got[0].Problem, "w-1 was given the configuration b ")) {
			t.Errorf("after %s: %+v", age, got)
		}
	}
}

// TestWhatIsNotKnownOfConfigurationsIsNotTold: a value without a source counts for
// nothing.
func TestWhatIsNotKnownOfConfigurationsIsNotTold(t *testing.T) {
	h := rollout.Host{Name: "w-1", Ready: true, Desired: "b", State: rollout.Degraded, Reason: "why"}
	f := Facts{Hosts: []Host{{Name: "w-1", Config: Seen[rollout.Host]{Value: h}}}, Pools: Seen[[]rollout.PoolState]{Value: []rollout.PoolState{{Name: "gpu", Refused: "two"}}}}
	if got := (describer{Facts: f}).ofConfigurations(); len(got) > 0 {
		t.Errorf("%+v", got)
	}
}

// TestHostsComeBeforePools, in their order, each with its own finding; a pool that waits is
// told by the host for which it does.
func TestHostsComeBeforePools(t *testing.T) {
	at := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	for set := range 8 {
		f := Facts{Now: at}
		var want []string
		for i, name := range []string{"w-2", "w-1", "w-3"} {
			h := rollout.Host{Name: name, Ready: true, Current: "b", Desired: "b", State: rollout.Done}
			if set&(1<<i) != 0 {
				h.Current, h.State, h.Reason = "a", rollout.Degraded, "why"
				want = append(want, "config-failed "+name)
			}
			f.Hosts = append(f.Hosts, Host{Name: name, Config: Know(h, "the API", at)})
		}
		f.Pools = Know([]rollout.PoolState{
			{Name: "store", Config: "b", Lacking: 1, Progress: "it waits"}, {Name: "edge", Refused: "two"}, {Name: "gpu", Config: "b", Lacking: 1, Paused: true}, {Name: "whole", Config: "b"},
		}, "the API", at)
		if set == 0 {
			want = append(want, "pool-waits store")
		}
		want = append(want, "pool-refused edge", "pool-paused gpu")
		var got []string
		for _, one := range (describer{Facts: f}).ofConfigurations() {
			got = append(got, fmt.Sprintf("%s %s", one.ID, one.Subject))
		}
		if strings.Join(got, ", ") != strings.Join(want, ", ") {
			t.Errorf("%b: %q, want %q", set, got, want)
		}
	}
}

// TestAHostWithATurnIsToldOfThat, and not of the configuration that it was given long ago.
func TestAHostWithATurnIsToldOfThat(t *testing.T) {
	at := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	for _, patch := range []bool{false, true} {
		verb := map[bool]string{false: "reboot", true: "patch"}[patch]
		for state, want := range map[rollout.State]struct { //nolint:exhaustive // a host with a turn has one of both
			id      finding.ID
			problem string
		}{
			rollout.Done:    {ConfigSilent, "w-1 was given its turn, as somebody wants, 20m00s ago, and its agent has not answered"},
			rollout.Working: {ConfigUnderWay, "w-1 has had its turn, as somebody wants, for 20m00s: it moves pods"},
		} {
			h := rollout.Host{
				Name: "w-1", Ready: true, Current: "a", Desired: "a", State: state, Reason: "moves pods", Given: at.Add(-40 * 24 * time.Hour),
				Wish: rollout.Wish{Patch: patch, Wanted: "2026-11-23T11:00:00Z", At: at.Add(-time.Hour), From: "boot-1", Given: at.Add(-20 * time.Minute)},
			}
			got := describer{Facts: Facts{Now: at, Hosts: []Host{{Name: "w-1", Config: Know(h, "the API", at)}}}}.ofConfigurations()
			if len(got) != 1 || got[0].ID != want.id || got[0].Problem != want.problem || got[0].Variant != "holdfast host "+verb+" w-1 --cancel" {
				t.Errorf("%s, %s: %+v, want %+v", verb, state, got, want)
			}
			if len(got) == 1 && (got[0].Severity == finding.Warning) != (state == rollout.Done) {
				t.Errorf("%s, %s: it is a %s", verb, state, got[0].Severity)
			}
		}
	}
}

// TestAHostThatSomebodyEmptiedIsTold at once, and is a warning after a day, with the command that has it
// take pods again.
func TestAHostThatSomebodyEmptiedIsTold(t *testing.T) {
	at := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	h := rollout.Host{Name: "w-1", Ready: true, Unschedulable: true, Waiting: rollout.Waiting{Empty: at}}
	for age, want := range map[time.Duration]finding.Severity{time.Minute: finding.Note, 25 * time.Hour: finding.Warning} {
		got := Configurations(at.Add(age), []rollout.Host{h}, nil)
		if len(got) != 1 || got[0].ID != HostEmpty || got[0].Severity != want || got[0].Commands[0].Line != "holdfast host uncordon w-1" || got[0].Page != "docs/runbook/drain.md" {
			t.Errorf("after %s: %+v", age, got)
		}
	}
}

// TestAHostWhoseWayBackDidNotEndIsNotSaidToBeBack: an agent of the release before tells it in the same
// words.
func TestAHostWhoseWayBackDidNotEndIsNotSaidToBeBack(t *testing.T) {
	at := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	for reason, back := range map[string]bool{
		"foo.service does not start":                                      true,
		"foo.service does not start; back with a: kubelet is not healthy": false,
	} {
		h := rollout.Host{Name: "w-1", Ready: true, Current: "a", Desired: "b", State: rollout.Degraded, Stage: rollout.Failed, Reason: reason}
		got := Configurations(at, []rollout.Host{h}, nil)
		if len(got) != 1 || strings.Contains(got[0].Meaning, "It has a again") != back || strings.Contains(got[0].Meaning, "holdfast host reboot w-1") == back {
			t.Errorf("%s: %+v", reason, got)
		}
	}
}
