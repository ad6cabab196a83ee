package incident

import (
	"strings"
	"testing"
	"time"
)

// phase plays a scenario and returns what the n-th failure of its first incident says
// of a phase.
func phase(t *testing.T, text string, n int, p Phase) Moment {
	t.Helper()
	list := Assemble(scenario(t, text))
	if len(list) == 0 || len(list[0].Failures) <= n {
		t.Fatalf("%d incidents of %q", len(list), text)
	}
	return list[0].Failures[n].Moment(p)
}

const lost = paired + "1.8 cp-1 sees cp-1, ring 14\n"

// TestWhatAReportSaysOfEachPhase: a moment without a time is one that was not seen.
func TestWhatAReportSaysOfEachPhase(t *testing.T) {
	const seen, unseen = true, false
	for rule, c := range map[string]struct {
		text  string
		phase Phase
		timed bool
		want  string
	}{
		"a loss":                                  {lost + "20 cp-2 boots\n", PhaseLost, seen, "cp-1 lost contact with cp-2"},
		"a planned stop":                          {paired + "0 cp-2 wish stopped\n", PhaseLost, seen, "Pacemaker stopped etcd on cp-2 cleanly"},
		"a boot alone":                            {paired + "9 cp-2 boots\n", PhaseLost, seen, "cp-2 started; its stop was not recorded"},
		"both boot":                               {paired + "9 cp-2 boots\n10 cp-1 boots\n", PhaseLost, seen, "cp-1 and cp-2 had been off and started"},
		"etcd asks for help":                      {paired + "9 cp-2 rule equal.no-record ask-human: why\n", PhaseLost, seen, "etcd did not continue by itself, although the hosts saw each other"},
		"a cut":                                   {lost + "1.9 cp-2 sees cp-2, ring 14\n", PhaseLost, seen, "cp-1 and cp-2 lost contact with each other, and both kept running"},
		"data are lost":                           {paired + "0 cp-2 record 5 departing equal.lost-copy-yield: lost\n", PhaseLost, seen, "etcd could not run from its data directory on cp-2"},
		"a fence":                                 {lost + "3 cp-1 off cp-2\n", PhaseFenced, seen, "cp-1 switched cp-2 off, and read that back, which took 1.2s"},
		"a fence at the third":                    {lost + "3 cp-1 not-off cp-2\n4 cp-1 not-off cp-2\n5 cp-1 off cp-2\n", PhaseFenced, seen, "cp-1 switched cp-2 off, and read that back, which took 1.2s, at attempt 3"},
		"one failed attempt":                      {lost + "3 cp-1 not-off cp-2\n", PhaseFenced, unseen, "cp-2 could not be proven off: 1 attempt"},
		"two failed attempts":                     {lost + "3 cp-1 not-off cp-2\n4 cp-1 not-off cp-2\n", PhaseFenced, unseen, "cp-2 could not be proven off: 2 attempts"},
		"nobody was fenced":                       {lost, PhaseFenced, unseen, "no host was switched off"},
		"nor had to be":                           {paired + "0 cp-2 wish stopped\n", PhaseFenced, unseen, ""},
		"a person confirms":                       {lost + "9 cp-1 person ops cp-2 I see it\n", PhasePerson, seen, "ops confirmed that cp-2 is off: I see it"},
		"a person forces":                         {lost + "9 cp-1 person-forces ops cp-2 I see it\n", PhasePerson, seen, "ops forced this data directory to lead, and gave up what only cp-2 held: I see it"},
		"it goes on alone":                        {lost + "3 cp-1 record 5 taking-over take-over.announce: why\n", PhaseDecided, seen, "cp-1 recorded that it goes on alone: why"},
		"the lost one does not count":             {lost + "3 cp-2 record 5 taking-over take-over.announce: why\n", PhaseDecided, unseen, ""},
		"etcd writes alone":                       {lost + "3 cp-1 record 6 sole take-over.sole: why\n", PhaseEtcd, seen, "etcd on cp-1 took writes again, as the only voter"},
		"etcd wrote on":                           {paired + "0 cp-2 wish stopped\n2 cp-1 record 5 sole equal.peer-departs: why\n", PhaseEtcd, seen, "etcd on cp-1 was the only voter; writes went on"},
		"a pair that served before says nothing":  {paired + "0 cp-2 wish stopped\n1 cp-1 rule equal.idle idle: why\n4 cp-1 record 5 sole equal.peer-departs: why\n", PhaseEtcd, seen, "etcd on cp-1 was the only voter; writes went on"},
		"a rule shows it too":                     {lost + "3 cp-1 rule gone.sole-alone idle: why\n", PhaseEtcd, seen, "etcd on cp-1 took writes"},
		"no evidence of writes":                   {lost + "3 cp-1 rule gone.unproved wait: why\n", PhaseEtcd, unseen, "no evidence that etcd took writes"},
		"writes of the lost one say nothing":      {lost + "3 cp-2 record 6 sole take-over.sole: why\n", PhaseEtcd, unseen, "no evidence that etcd took writes"},
		"the API stayed":                          {lost, PhaseAPI, unseen, "the API server there was never seen down (checked about every second)"},
		"the API went and came":                   {lost + "2 cp-1 api not-ready\n5 cp-1 api ready\n", PhaseAPI, seen, "the API server of cp-1 was ready again, after 3s"},
		"the API went":                            {lost + "2 cp-1 api not-ready\n", PhaseAPI, unseen, "the API server of cp-1 was not seen ready again"},
		"a ready API was never down":              {lost + "2 cp-1 api ready\n", PhaseAPI, unseen, "the API server there was never seen down (checked about every second)"},
		"that of the lost host says nothing":      {lost + "2 cp-2 api not-ready\n", PhaseAPI, unseen, "the API server there was never seen down (checked about every second)"},
		"a VIP moves":                             {lost + "2 cp-1 holds 10.0.0.5 10.0.0.6\n", PhaseVIP, seen, "cp-1 took 10.0.0.5 and 10.0.0.6"},
		"it had one of them":                      {paired + "0 cp-1 holds 10.0.0.5\n1.8 cp-1 sees cp-1, ring 14\n2 cp-1 holds 10.0.0.5 10.0.0.6\n", PhaseVIP, seen, "cp-1 took 10.0.0.5 and 10.0.0.6"},
		"no VIP moves":                            {lost + "2 cp-1 holds none\n", PhaseVIP, unseen, "no virtual IP was seen to move"},
		"pods moved":                              {lost + "9 cp-1 pods cp-2\n", PhasePods, seen, "7 pods of cp-2 ran elsewhere"},
		"pods do not move yet":                    {lost + "5.4 cp-1 taints cp-2: fenced\n", PhasePods, unseen, "the API was told after 3.6s that cp-2 is off; no evidence yet that pods moved"},
		"nobody told of pods":                     {lost, PhasePods, unseen, ""},
		"the hosts met":                           {lost + "9 cp-1 sees cp-1 cp-2, ring 18\n", PhaseBack, seen, "the two hosts were in contact again"},
		"etcd is wanted again":                    {paired + "0 cp-2 wish stopped\n9 cp-2 wish started\n", PhaseBack, seen, "the two hosts were in contact again"},
		"it has not returned":                     {lost + "3 cp-1 off cp-2\n", PhaseBack, unseen, "cp-2 has not returned"},
		"a boot that met nobody":                  {paired + "9 cp-2 boots\n", PhaseBack, unseen, "the two hosts have not been in contact since"},
		"no host was away":                        {paired + "9 cp-2 rule equal.no-record ask-human: why\n", PhaseBack, unseen, ""},
		"it joins without data":                   {paired + "0 cp-2 record 5 departing equal.lost-copy-yield: lost\n4 cp-2 record 6 learner follow.accept: joins\n", PhaseBack, seen, "cp-2 began to join again"},
		"it does not join yet":                    {paired + "0 cp-2 record 5 departing equal.lost-copy-yield: lost\n", PhaseBack, unseen, "cp-2 has not begun to join again"},
		"both hold everything":                    {paired + takeOver + comesBack, PhaseVoters, seen, "both hosts were voters that hold everything"},
		"a client could write":                    {lost + "9 cp-1 wrote worker-1 7s\n", PhaseClients, seen, "worker-1 wrote through 10.0.0.5, which another host held, after 7s in which it could not"},
		"the lost host measures its own way back": {lost + "9 cp-1 wrote cp-2 7s\n", PhaseClients, unseen, ""},
	} {
		m := phase(t, c.text, 0, c.phase)
		if m.Words != c.want || m.At.IsZero() == c.timed {
			t.Errorf("%s: %q at %s, want %q", rule, m.Words, m.At, c.want)
		}
	}
}

// TestASecondFailureOfTheSurvivorDecidesNothingAnew: it went on alone already.
func TestASecondFailureOfTheSurvivorDecidesNothingAnew(t *testing.T) {
	text := paired + takeOver + "20 cp-1 sees cp-1 cp-2, ring 18\n20 cp-2 sees cp-1 cp-2, ring 18\n30 cp-1 sees cp-1, ring 1c\n"
	if m := phase(t, text, 1, PhaseDecided); m.Words != "cp-1 already went on alone" || !m.At.IsZero() {
		t.Errorf("%+v", m)
	}
	if m := phase(t, text, 1, PhaseEtcd); m.Words != "" {
		t.Errorf("nor did etcd stop: %+v", m)
	}
	if m := phase(t, text, 0, PhaseDecided); !strings.HasPrefix(m.Words, "cp-1 recorded that it goes on alone") {
		t.Errorf("the first: %+v", m)
	}
}

// TestWhyAHostWasLost: what both journals show decides, and what happened later in the
// same boot.
func TestWhyAHostWasLost(t *testing.T) {
	const met = "30 cp-1 sees cp-1 cp-2, ring 18\n"
	for rule, c := range map[string]struct {
		text string
		want Cause
	}{
		"nothing more is known":                        {lost, Gone},
		"it booted":                                    {lost + "20 cp-2 boots\n", Lost},
		"it was fenced and did not boot yet":           {lost + "3 cp-1 off cp-2\n", Gone},
		"it lost the other one too":                    {lost + "1.9 cp-2 sees cp-2, ring 14\n", Cut},
		"it noted something later, in the same boot":   {lost + "4.9 cp-2 api ready\n", Cut},
		"three seconds later may be the last it wrote": {lost + "4.8 cp-2 api ready\n", Gone},
		"they met, and nobody was fenced":              {lost + met, Cut},
		"they met after a fence":                       {lost + "3 cp-1 off cp-2\n" + met, Gone},
		"they met after a fence that failed":           {lost + "3 cp-1 not-off cp-2\n" + met, Cut},
		"it left in order, as its peer noted":          {lost + "2 cp-1 record 5 sole equal.peer-departs: leaves\n", Planned},
		"it left, and was fenced before that":          {lost + "2 cp-1 off cp-2\n3 cp-1 record 5 sole equal.peer-departs: leaves\n", Gone},
		"a record of another rule is no leave":         {lost + "3 cp-1 record 5 sole take-over.sole: alone\n", Gone},
	} {
		if got := Assemble(scenario(t, c.text))[0].Failures[0].Cause; got != c.want {
			t.Errorf("%s: %s, want %s", rule, got, c.want)
		}
	}
}

func TestHowLongAFenceTook(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "", 1: ", at once", 49 * time.Millisecond: ", at once", 50 * time.Millisecond: ", which took 0.1s", 90 * time.Second: ", which took 1m30s"} {
		if got := took(d); got != want {
			t.Errorf("%s: %q, want %q", d, got, want)
		}
	}
}

// TestWhoIsTheLostOneOfTwoThatFenceEachOther: the one that is proven off, whoever was
// thought lost before.
func TestWhoIsTheLostOneOfTwoThatFenceEachOther(t *testing.T) {
	cut := lost + "1.9 cp-2 sees cp-2, ring 14\n"
	for rule, c := range map[string]struct{ text, lost string }{
		"the first that was seen to be lost":            {cut, "cp-2"},
		"until it proves that the other one is off":     {cut + "3 cp-2 off cp-1\n", "cp-1"},
		"an attempt proves nothing":                     {cut + "3 cp-2 not-off cp-1\n", "cp-2"},
		"nor does one after which it was fenced itself": {cut + "3 cp-2 not-off cp-1\n4 cp-1 off cp-2\n", "cp-2"},
	} {
		w := walked(t, c.text)
		f := w.open.last()
		other := map[string]string{"cp-1": "cp-2", "cp-2": "cp-1"}[c.lost]
		if len(f.hosts) != 1 || f.hosts[0] != c.lost || f.by != other || !w.isLost(c.lost) || w.isLost(other) {
			t.Errorf("%s: %v, by %s, lost %v", rule, f.hosts, f.by, w.open.lost)
		}
	}
}
